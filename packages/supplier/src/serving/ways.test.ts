import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { suite, test } from "node:test";
import { eventually, openRaw, type RawResponse } from "@turnpike/testkit";
import { jsonRpcPayload } from "@turnpike/testkit/chain";
import { ethService, rawRelay, type ServingRig, servingRig, startBackEnd, type Way } from "../../test/serving-rig.ts";

const BOTH: readonly Way[] = ["plain", "full"];
const ANSWER = '{"jsonrpc":"2.0","id":1,"result":"0x2a"}';

const signed = (rig: ServingRig): Uint8Array => rig.sign(jsonRpcPayload("{}"));
const portOf = (rig: ServingRig): number => Number(new URL(rig.url).port);

/** What both ways must give alike: fields have no order, and the signature is another one each time. */
function comparable({ status, headers, body }: RawResponse): unknown {
  const fields = [...headers].filter(([name]) => name !== "date").sort(([a], [b]) => (a < b ? -1 : 1));
  return { status, fields, body: status === 200 ? body.length : body };
}

/** A back-end that says when it is asked and when it is given up, and answers when it is told to. */
async function startHolding() {
  const asked: ServerResponse[] = [];
  let dropped = 0;
  const backEnd = await startBackEnd((_, response) => {
    response.on("close", () => {
      if (!response.writableEnded) dropped++;
    });
    asked.push(response);
  });
  return { ...backEnd, asked, dropped: () => dropped, [Symbol.asyncDispose]: backEnd[Symbol.asyncDispose] };
}

/** With a back-end that is waited for longer than a test waits: only a client that leaves ends what is asked of it. */
const patient = (url: string) => ({ services: ethService(url, { timeoutMs: 600_000 }) });

suite("both ways into a relay server", () => {
  test("give the same answers", async () => {
    await using backEnd = await startBackEnd((_, response) => void response.end(ANSWER));
    await using rig = await servingRig(backEnd.url, { options: { maxRequestBytes: 30_000 } });
    const cases: Readonly<Record<string, readonly [body: () => Uint8Array, fields?: string]>> = {
      "a relay": [() => signed(rig)],
      "a relay whose answer has a type": [() => signed(rig), "Accept: text/plain;q=0.5\r\n"],
      "a type of bytes beyond ASCII": [() => signed(rig), "Accept: a\xe9b\r\n"],
      "an empty type": [() => signed(rig), "Accept:\r\n"],
      "a client that keeps its connection": [() => signed(rig), "Connection: keep-alive\r\n"],
      "an empty body": [() => new Uint8Array()],
      "no relay": [() => Buffer.from("junk")],
      "a relay of a stranger": [() => rig.sign(jsonRpcPayload("{}"), { signer: "stranger" })],
      "too large a body": [() => new Uint8Array(30_001)],
    };
    for (const [name, [body, fields]] of Object.entries(cases)) {
      const answers: unknown[] = [];
      for (const way of BOTH) {
        await using raw = await openRaw(portOf(rig));
        raw.write(rawRelay(body(), way, fields));
        const [answer = assert.fail(`${name}: no answer`)] = await raw.next();
        answers.push(comparable(answer));
      }
      assert.deepEqual(answers[0], answers[1], name);
    }
  });

  test("take turns on one connection: each relay is answered once, in order, and recorded once", async () => {
    await using backEnd = await startBackEnd((_, response) => void response.end(ANSWER));
    await using rig = await servingRig(backEnd.url);
    await using raw = await openRaw(portOf(rig));
    const ways = ["plain", "plain", "full", "plain", "full", "full"] as const;
    raw.write(ways.map((way, at) => rawRelay(signed(rig), way, `Accept: t/${at}\r\n`)).join(""));
    const answers = await raw.next(ways.length);
    assert.deepEqual(
      answers.map(({ status, headers }) => [status, headers.get("content-type")]),
      ways.map((_, at) => [200, `t/${at}`]),
    );
    assert.deepEqual([rig.store.relays.length, rig.counts.handled, rig.counts.handedOver], [ways.length, 2, 1]);
  });

  test("a relay that is too large to be read at once behind another is answered as well", async () => {
    await using backEnd = await startHolding();
    await using rig = await servingRig(backEnd.url, { options: { maxRequestBytes: 1_000_000 } });
    await using raw = await openRaw(portOf(rig));
    const large = rig.sign(jsonRpcPayload(`{"x":"${"a".repeat(300_000)}"}`));
    raw.write(rawRelay(signed(rig), "plain"));
    await eventually("the first is asked", () => backEnd.asked.length === 1);
    // In two reads of the server, so that more is buffered than one read of the stream takes: then no event follows.
    // What comes over another connection afterwards shows that the server has read them.
    const text = rawRelay(large, "plain");
    for (const [at, part] of [text.slice(0, 1_000), text.slice(1_000)].entries()) {
      raw.write(part);
      await eventually("the part is sent", () => raw.socket.writableLength === 0);
      const later = rig.send(signed(rig));
      (await eventually("the later one is asked", () => backEnd.asked[at + 1])).end(ANSWER);
      assert.equal((await later).status, 200);
    }
    backEnd.asked[0]?.end(ANSWER);
    (await eventually("the second is asked", () => backEnd.asked[3])).end(ANSWER);
    const answers = await raw.next(2);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    );
  });

  test("half a request, and no more to come, is refused at once", async () => {
    await using rig = await servingRig("http://127.0.0.1:1");
    await using raw = await openRaw(portOf(rig));
    raw.write("POST / HTTP/1.1\r\nHost: x\r\n");
    raw.socket.end();
    const [answer] = await raw.all();
    assert.equal(answer?.status, 400);
  });

  test("see no relay in what could be another request's body", async () => {
    await using backEnd = await startBackEnd((_, response) => void response.end(ANSWER));
    await using rig = await servingRig(backEnd.url);
    const hidden = (): string => rawRelay(signed(rig), "plain");
    const both = "Transfer-Encoding: chunked\r\n";
    const odd: Readonly<Record<string, () => string>> = {
      "a length beside chunks": () =>
        `POST / HTTP/1.1\r\nHost: x\r\n${both}Content-Length: 5\r\n\r\n0\r\n\r\n${hidden()}`,
      "two lengths": () => `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n${hidden()}`,
      "a length with a sign": () => `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n${hidden()}`,
      "white space before the colon": () => `POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 0\r\n\r\n${hidden()}`,
      "a line that ends in a bare LF": () => `POST / HTTP/1.1\r\nHost: x\nContent-Length: 0\r\n\r\n${hidden()}`,
      "HTTP/2 behind HTTP/1.1": () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    };
    for (const [name, text] of Object.entries(odd)) {
      for (const way of BOTH) {
        const before = rig.store.relays.length;
        await using raw = await openRaw(portOf(rig));
        // What is odd comes behind a relay, so that it meets either server within a connection.
        raw.write(rawRelay(signed(rig), way));
        assert.equal((await raw.next())[0]?.status, 200);
        raw.write(text());
        const [, refused, ...more] = await raw.all();
        assert.deepEqual([refused?.status, more], [400, []], `${name}, ${way}`);
        assert.equal(rig.store.relays.length, before + 1, `${name}, ${way}`);
      }
    }
  });

  for (const way of BOTH) {
    for (const leave of ["closes", "resets"] as const) {
      test(`${way}: a client that ${leave} its connection ends its back-end's request, and pays nothing`, async () => {
        await using backEnd = await startHolding();
        await using rig = await servingRig(backEnd.url, { way, options: patient(backEnd.url) });
        const bytes = signed(rig);
        await using raw = await openRaw(portOf(rig));
        raw.write(rawRelay(bytes, way));
        await eventually("the back-end is asked", () => backEnd.asked.length === 1);
        if (leave === "closes") raw.socket.destroy();
        else raw.socket.resetAndDestroy();
        await eventually("it is given up", () => backEnd.dropped() === 1);
        await eventually("nothing is under way", () => rig.store.inFlight === 0);
        assert.equal(rig.store.relays.length, 0);
        const again = rig.send(bytes);
        (await eventually("it is asked again", () => backEnd.asked[1])).end(ANSWER);
        assert.equal((await again).status, 200);
        assert.equal(rig.store.relays.length, 1);
      });
    }

    test(`${way}: no answer leaves before its relay is recorded, and a client that leaves then changes nothing of it`, async () => {
      await using backEnd = await startHolding();
      await using rig = await servingRig(backEnd.url, { way });
      for (const isGone of [false, true]) {
        const { promise, resolve: record } = Promise.withResolvers<void>();
        let isAppending = false;
        // It is looked at when a relay is about to be recorded.
        Object.defineProperty(rig.store, "appending", {
          configurable: true,
          get: () => {
            isAppending = true;
            return promise;
          },
        });
        const bytes = signed(rig);
        await using raw = await openRaw(portOf(rig));
        raw.write(rawRelay(bytes, way));
        (await eventually("the back-end is asked", () => backEnd.asked.shift())).end(ANSWER);
        await eventually("it is about to be recorded", () => isAppending);
        assert.equal(raw.socket.bytesRead, 0);
        if (isGone) {
          raw.socket.end();
          // The server has seen it, and ends its side as well.
          await raw.closed;
          assert.equal(raw.socket.bytesRead, 0);
        }
        const before = rig.store.relays.length;
        record();
        if (!isGone) assert.equal((await raw.next())[0]?.status, 200);
        await eventually("it is recorded", () => rig.store.relays.length === before + 1);
        await eventually("nothing is under way", () => rig.store.inFlight === 0);
        assert.match((await rig.send(bytes)).text, /served before/);
      }
    });

    test(`${way}: a relay that is on its way when the supplier stops is answered`, async () => {
      for (const cut of [150, -5]) {
        await using backEnd = await startHolding();
        const rig = await servingRig(backEnd.url, { way });
        await using _ = rig;
        const text = rawRelay(signed(rig), way);
        await using slow = await openRaw(portOf(rig));
        slow.write(text.slice(0, cut));
        // Over a later connection: when its relay is at the back-end, the other's beginning was read.
        await using busy = await openRaw(portOf(rig));
        busy.write(rawRelay(signed(rig), way));
        const first = await eventually("the back-end is asked", () => backEnd.asked[0]);
        const stopping = rig[Symbol.asyncDispose]();
        slow.write(text.slice(cut));
        const second = await eventually("the other is asked for, too", () => backEnd.asked[1]);
        for (const response of [first, second]) response.end(ANSWER);
        for (const raw of [slow, busy]) assert.equal((await raw.next())[0]?.status, 200, `cut at ${cut}`);
        await stopping;
        assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [2, 0]);
      }
    });
  }
});
