import assert from "node:assert/strict";
import { once } from "node:events";
import { Readable } from "node:stream";
import { suite, test } from "node:test";
import { eventually, openRaw } from "@turnpike/testkit";
import { startTestGateway, type TestGateway } from "../../test/stand-ins.ts";
import { leaveBody } from "./stream-body.ts";

const CALL = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}';
const PART = Buffer.from('{"jsonrpc":"2.0","id":1,');

function streams(to: TestGateway, make: () => AsyncGenerator<Uint8Array>): void {
  const send = to.relay.send.bind(to.relay);
  to.relay.send = async (...call) => {
    const result = await send(...call);
    return result.ok ? { ...result, stream: make() } : result;
  };
}

async function counted(to: TestGateway): Promise<readonly string[]> {
  const text = await (await fetch(`${to.metricsUrl}/metrics`)).text();
  const lines = text.split("\n").filter((line) => line.startsWith('turnpike_gateway_requests_total{door="free"'));
  return lines.map((line) => line.replace(/.*status="(\d+)",result="(\w+)"\} (\d+)/, "$1 $2 $3"));
}

suite("answers that are passed on while they arrive", () => {
  test("one that its supplier breaks off ends the connection, and does not count as good", async () => {
    await using to = await startTestGateway();
    const isHere = Promise.withResolvers<void>();
    streams(to, async function* () {
      yield PART;
      await isHere.promise;
      throw new Error("cut");
    });
    const answer = await fetch(`${to.url}/relay/eth`, { method: "POST", body: CALL });
    assert.equal(answer.status, 200);
    isHere.resolve();
    await assert.rejects(answer.text());
    assert.deepEqual(await counted(to), ["200 SUPPLIERS_FAILED 1"]);
  });

  test("one whose client leaves lets its supplier go, and counts as left", async () => {
    await using to = await startTestGateway();
    const left = Promise.withResolvers<void>();
    streams(to, async function* () {
      try {
        for (;;) yield Buffer.alloc(1_048_576);
      } finally {
        left.resolve();
      }
    });
    const raw = await openRaw(to.port);
    raw.write(`POST /relay/eth HTTP/1.1\r\nHost: x\r\nContent-Length: ${CALL.length}\r\n\r\n${CALL}`);
    await once(raw.socket, "data");
    raw.socket.destroy();
    await left.promise;
    await eventually("it is counted", async () => (await counted(to)).length > 0);
    assert.deepEqual(await counted(to), ["200 gone 1"]);
  });

  test("one that is never read releases its supplier at once, before it was begun", async () => {
    const gone = new Readable({ read() {} });
    leaveBody(gone);
    await once(gone, "close");
    let isLeft = false;
    leaveBody({
      [Symbol.asyncIterator]: () => ({
        next: () => Promise.resolve({ done: true, value: undefined }),
        async return() {
          isLeft = true;
          return { done: true, value: undefined };
        },
      }),
    });
    assert.ok(isLeft);
  });
});
