import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { suite, test } from "node:test";
import { splitRelay } from "@turnpike/protocol";
import { jsonRpcPayload } from "@turnpike/testkit/chain";
import {
  type ServingRig,
  type SignedAnswer,
  servingRig,
  signedAnswer,
  startBackEnd,
  type Way,
} from "../../test/serving-rig.ts";

const DELIMITER = Buffer.from("||POKT_STREAM||");

/** Reads a stream of signed responses part by part, as gateways do. */
async function* partsOf(answer: Response): AsyncGenerator<SignedAnswer, void, undefined> {
  let rest = Buffer.alloc(0);
  for await (const chunk of answer.body ?? assert.fail("no body")) {
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(DELIMITER); end !== -1; end = rest.indexOf(DELIMITER)) {
      yield signedAnswer(Uint8Array.from(rest.subarray(0, end)));
      rest = rest.subarray(end + DELIMITER.length);
    }
  }
  assert.equal(rest.length, 0, "bytes follow the last delimiter");
}

/** A back-end that begins a stream, and lets the test go on with it. */
async function startStreaming(contentType = "text/event-stream") {
  const opened: ServerResponse[] = [];
  let next = Promise.withResolvers<ServerResponse>();
  const backEnd = await startBackEnd((_, response) => {
    response.writeHead(200, { "content-type": contentType });
    response.flushHeaders();
    opened.push(response);
    next.resolve(response);
    next = Promise.withResolvers();
  });
  return { ...backEnd, [Symbol.asyncDispose]: backEnd[Symbol.asyncDispose], opened: () => next.promise };
}

const open = (rig: ServingRig, bytes: Uint8Array, signal?: AbortSignal): Promise<Response> =>
  rig.open(bytes, { accept: "text/event-stream" }, signal);

/** Opens a stream whose back-end has sent its first part. */
async function begin(
  backEnd: { readonly opened: () => Promise<ServerResponse> },
  rig: ServingRig,
  request = rig.sign(jsonRpcPayload("{}")),
  signal?: AbortSignal,
): Promise<{ readonly source: ServerResponse; readonly answering: Promise<Response> }> {
  const opening = backEnd.opened();
  const answering = open(rig, request, signal);
  const source = await opening;
  source.write("data: 0\n\n");
  return { source, answering };
}

for (const way of ["plain", "full"] as const satisfies Way[])
  suite(`streamed relays, the ${way} way in`, () => {
    for (const contentType of ["text/event-stream", "application/x-ndjson; charset=utf-8"]) {
      test(`each part of ${contentType} is signed and arrives when it was sent; one relay is counted`, async () => {
        await using backEnd = await startStreaming(contentType);
        await using rig = await servingRig(backEnd.url, { way });
        const request = rig.sign(jsonRpcPayload("{}"));
        const { source, answering } = await begin(backEnd, rig, request);
        const answer = await answering;
        assert.deepEqual([answer.status, answer.headers.get("content-type")], [200, "text/event-stream"]);
        const parts = partsOf(answer);
        for (let at = 0; at < 3; at++) {
          // Each part is there before the back-end sends the next one.
          const { value } = await parts.next();
          assert.deepEqual(value, { status: 200, contentType, body: `data: ${at}\n\n`, isSigned: true });
          if (at < 2) source.write(`data: ${at + 1}\n\n`);
          assert.equal(rig.store.relays.length, 1);
        }
        assert.equal(rig.store.inFlight, 1);
        source.end();
        assert.deepEqual(await parts.next(), { value: undefined, done: true });
        const mined = splitRelay(rig.store.relays[0] ?? new Uint8Array())?.request ?? new Uint8Array();
        assert.deepEqual(Buffer.from(mined), Buffer.from(request));
        assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [1, 0]);
      });
    }

    test("a stream that is empty has one signed answer; chunks of other kinds are one answer together", async () => {
      let contentType = "text/event-stream";
      await using backEnd = await startBackEnd((_, response) => {
        response.writeHead(200, { "content-type": contentType });
        response.flushHeaders();
        if (contentType !== "text/event-stream") for (const chunk of ["[1,", "2,", "3]"]) response.write(chunk);
        response.end();
      });
      await using rig = await servingRig(backEnd.url, { way });
      const empty = await open(rig, rig.sign(jsonRpcPayload("{}")));
      assert.deepEqual(signedAnswer(new Uint8Array(await empty.arrayBuffer())), {
        status: 200,
        contentType,
        body: "",
        isSigned: true,
      });
      contentType = "application/json";
      const whole = await open(rig, rig.sign(jsonRpcPayload("{}")));
      assert.equal(signedAnswer(new Uint8Array(await whole.arrayBuffer())).body, "[1,2,3]");
      assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [2, 0]);
    });

    test("a stream whose first part cannot be recorded is refused, and its back-end is released", async () => {
      await using backEnd = await startStreaming();
      await using rig = await servingRig(backEnd.url, { way });
      const cases = [
        ["full", 503, "log_failed"],
        ["sealed", 403, "session_sealed"],
        ["too-large", 413, "too_large"],
      ] as const;
      for (const [result, status, reason] of cases) {
        rig.store.answer = result;
        const { source, answering } = await begin(backEnd, rig);
        const dropped = once(source, "close");
        assert.equal((await answering).status, status);
        assert.equal(rig.refused.at(-1), reason);
        await dropped;
      }
      assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [0, 0]);
    });

    test("a stream whose first part meets a fault of the store ends with it, and so does the back-end's", async () => {
      await using backEnd = await startStreaming();
      await using rig = await servingRig(backEnd.url, { way });
      rig.store.fault = "append";
      const request = rig.sign(jsonRpcPayload("{}"));
      const { source, answering } = await begin(backEnd, rig, request);
      const dropped = once(source, "close");
      await assert.rejects(answering);
      await dropped;
      assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [0, 0]);
      rig.store.fault = undefined;
      const second = backEnd.opened();
      const again = open(rig, request);
      (await second).end("data: 0\n\n");
      assert.equal((await again).status, 200, "its request may be sent again");
    });

    test("a back-end that breaks off breaks the answer off: it does not look complete", async () => {
      await using backEnd = await startStreaming();
      await using rig = await servingRig(backEnd.url, { way });
      const { source, answering } = await begin(backEnd, rig);
      const parts = partsOf(await answering);
      assert.equal((await parts.next()).value?.body, "data: 0\n\n");
      source.destroy();
      await assert.rejects(parts.next());
      assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [1, 0]);
      // Before the first part it is no answer.
      const second = backEnd.opened();
      const failing = open(rig, rig.sign(jsonRpcPayload("{}")));
      (await second).destroy();
      assert.equal((await failing).status, 502);
      assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [1, 0]);
    });

    test("a client that goes away ends the back-end's stream", async () => {
      await using backEnd = await startStreaming();
      await using rig = await servingRig(backEnd.url, { way });
      const leaving = new AbortController();
      const { source, answering } = await begin(backEnd, rig, undefined, leaving.signal);
      const parts = partsOf(await answering);
      await parts.next();
      const dropped = once(source, "close");
      leaving.abort();
      await dropped;
      await assert.rejects(parts.next());
    });

    test("a stream that is larger than an answer may be breaks off", async () => {
      await using backEnd = await startStreaming();
      await using rig = await servingRig(backEnd.url, { way });
      const { source, answering } = await begin(backEnd, rig);
      const parts = partsOf(await answering);
      await parts.next();
      const dropped = once(source, "close");
      source.write("x".repeat(1_048_576));
      await assert.rejects(async () => {
        for await (const part of parts) assert.ok(part.body.length <= 1_048_576);
      });
      await dropped;
      assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [1, 0]);
    });
  });
