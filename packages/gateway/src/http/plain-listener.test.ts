import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { openRaw, type RawResponse } from "@turnpike/testkit";
import { paymentHeader, startTestGateway, type TestGateway } from "../../test/stand-ins.ts";

const CALL = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}';
const JSON_TYPE = "Content-Type: application/json\r\n";
/** Changes nothing of a request but its way: with it, it is not plain. */
const NOT_PLAIN = "TE: trailers\r\n";

/** What of an answer both ways must give alike. What names the request or the time is left out, and fields have no order. */
function comparable({ status, headers, body }: RawResponse): unknown {
  const fields = [...headers].filter(([name]) => name !== "date" && name !== "x-request-id");
  const text = body.replaceAll(/"requestId":"[^"]*"/g, '"requestId":""');
  return { status, fields: fields.sort(([a], [b]) => (a < b ? -1 : 1)), text };
}

/** Of one character a byte, as raw clients write. */
function post(target: string, fields: string, text: string, way = ""): string {
  const body = Buffer.from(text).toString("latin1");
  return `POST ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\n${fields}${way}Content-Length: ${body.length}\r\n\r\n${body}`;
}

async function answerOf(to: TestGateway, request: string): Promise<RawResponse> {
  await using raw = await openRaw(to.port);
  raw.write(request);
  const [response] = await raw.next();
  return response ?? assert.fail("no answer");
}

suite("plain requests and others are answered alike", () => {
  const cases: Readonly<Record<string, readonly [target: string, fields: string, body: string]>> = {
    "a free call": ["/relay/eth", JSON_TYPE, CALL],
    "a free call by header": ["/v1", `${JSON_TYPE}Target-Service-Id: eth\r\n`, CALL],
    "a batch": ["/relay/eth", JSON_TYPE, `[${CALL},${CALL}]`],
    "a notification": ["/relay/eth", JSON_TYPE, '{"jsonrpc":"2.0","method":"eth_blockNumber"}'],
    "no JSON": ["/relay/eth", JSON_TYPE, "{"],
    "an id beyond ASCII": ["/relay/eth", JSON_TYPE, '{"jsonrpc":"2.0","id":"\u{1F40D}é","method":"eth_blockNumber"}'],
    "an empty body": ["/relay/eth", "", ""],
    "a service that is not served": ["/relay/nothing", JSON_TYPE, CALL],
    "a call that is not paid": ["/v1/eth", JSON_TYPE, CALL],
    "a paid call": ["/v1/eth", `PAYMENT-SIGNATURE: ${paymentHeader()}\r\n`, CALL],
    "a payment that is none": ["/v1/eth", "PAYMENT-SIGNATURE: ?\r\n", CALL],
    "a service that is not sold": ["/v1/nothing", JSON_TYPE, CALL],
    "a body that is too large for its service": ["/relay/nothing", JSON_TYPE, " ".repeat(65_537)],
    "a path that is none": ["/nothing", "", "{}"],
    "a verb that is not taken": ["/health", "", "{}"],
    "a query": ["/relay/eth?a=b", JSON_TYPE, CALL],
  };
  for (const [name, [target, fields, body]] of Object.entries(cases)) {
    test(name, async () => {
      await using to = await startTestGateway();
      const plain = await answerOf(to, post(target, fields, body));
      const other = await answerOf(to, post(target, fields, body, NOT_PLAIN));
      assert.deepEqual(comparable(plain), comparable(other));
      assert.notEqual(plain.headers.get("x-request-id"), undefined);
    });
  }
});

test("a plain request's own id and client are believed as others' are", async () => {
  await using to = await startTestGateway({ trustedProxies: ["127.0.0.1"], maxConcurrentPerClient: 1 });
  for (const way of ["", NOT_PLAIN]) {
    const answer = await answerOf(to, post("/relay/eth", "X-Request-Id: mine-1\r\n", CALL, way));
    assert.equal(answer.headers.get("x-request-id"), "mine-1");
    const held = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    to.relay.answer = async () => {
      reached.resolve();
      await held.promise;
      return { ok: false, code: "NO_SUPPLIERS", attempts: 0 };
    };
    const slow = answerOf(to, post("/relay/eth", "X-Forwarded-For: 192.0.2.1\r\n", CALL, way));
    await reached.promise;
    const same = await answerOf(to, post("/relay/eth", "X-Forwarded-For: 192.0.2.1\r\n", CALL, way));
    assert.equal(same.status, 429, "the same client has one under way");
    to.relay.answer = () => CALL;
    const another = await answerOf(to, post("/relay/eth", "X-Forwarded-For: 192.0.2.2\r\n", CALL, way));
    assert.equal(another.status, 200);
    held.resolve();
    assert.equal((await slow).status, 503);
  }
});

test("requests of both kinds take turns on one connection, each answered once and in order", async () => {
  await using to = await startTestGateway();
  await using raw = await openRaw(to.port);
  const ids = Array.from({ length: 8 }, (_, at) => `r-${at}`);
  const way = (at: number): string => (at < 4 ? "" : at % 2 === 0 ? NOT_PLAIN : "");
  raw.write(ids.map((id, at) => post("/relay/eth", `X-Request-Id: ${id}\r\n`, CALL, way(at))).join(""));
  const answers: RawResponse[] = [];
  while (answers.length < ids.length) answers.push(...(await raw.next()));
  assert.deepEqual(
    answers.map(({ headers }) => headers.get("x-request-id")),
    ids,
  );
});

test("a client may open as many connections as on the other way, and one that is handed over counts once", async () => {
  await using to = await startTestGateway({ maxConnectionsPerClient: 2 });
  await using first = await openRaw(to.port);
  await using second = await openRaw(to.port);
  for (const raw of [first, second]) {
    raw.write(post("/relay/eth", "", CALL, NOT_PLAIN));
    assert.equal((await raw.next())[0]?.status, 200);
  }
  await using third = await openRaw(to.port);
  third.write(post("/relay/eth", "", CALL));
  assert.deepEqual(await third.all(), []);
  for (const raw of [first, second]) {
    raw.write(post("/relay/eth", "", CALL));
    assert.equal((await raw.next())[0]?.status, 200);
  }
});

test("a request that is on its way when the gateway stops is answered, on both ways", async () => {
  for (const way of ["", NOT_PLAIN]) {
    for (const cut of [10, 60, -5]) {
      const to = await startTestGateway({ shutdownTimeoutMs: 60_000 });
      const held = Promise.withResolvers<void>();
      const reached = Promise.withResolvers<void>();
      to.relay.answer = async () => {
        // The call that holds the gateway up is the first; on the other way the one that is cut begins before the stop.
        if (to.relay.runs === 1) {
          reached.resolve();
          await held.promise;
        }
        return { ok: false, code: "NO_SUPPLIERS", attempts: 0 };
      };
      const text = post("/relay/eth", "", CALL, way);
      await using raw = await openRaw(to.port);
      raw.write(text.slice(0, cut));
      // It comes later, over a later connection: when it is in the relay, the other's beginning was read.
      await using slow = await openRaw(to.port);
      slow.write(post("/relay/eth", "", CALL, way));
      await reached.promise;
      const closed = to[Symbol.asyncDispose]();
      raw.write(text.slice(cut));
      const [answer] = await raw.next();
      assert.deepEqual([answer?.status, answer?.headers.get("connection")], [503, "close"], `${way}${cut}`);
      held.resolve();
      await closed;
    }
  }
});
