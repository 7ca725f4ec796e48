import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { openRaw } from "@turnpike/testkit";
import { startTestGateway } from "../../test/stand-ins.ts";

const CHUNKED = "Transfer-Encoding: chunked\r\n\r\n";
/** Each way that leads to the free relay, as far as its head. */
const FREE = [
  ["a relay host", "POST / HTTP/1.1\r\nHost: eth.localhost:3069\r\n"],
  ["an absolute target", "POST http://eth.localhost/ HTTP/1.1\r\nHost: x\r\n"],
  ["its path", "POST /relay/eth HTTP/1.1\r\nHost: 127.0.0.1\r\n"],
  ["its header", "POST /v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nTarget-Service-Id: eth\r\n"],
] as const;

suite("what the free relay refuses before it has a call", () => {
  test("a head with too many lines, and a body that cannot be read: JSON-RPC errors, and the connection's end", async () => {
    await using to = await startTestGateway();
    const bad: readonly (readonly [string, number, number])[] = [
      [`${"a: b\r\n".repeat(200)}\r\n`, 431, -32600],
      [`${CHUNKED}no size\r\n`, 400, -32600],
    ];
    for (const [name, head] of FREE) {
      for (const [rest, status, code] of bad) {
        await using raw = await openRaw(to.port);
        raw.write(head + rest);
        const [answer, second] = await raw.all();
        assert.equal(second, undefined);
        assert.equal(answer?.status, status, name);
        const body = JSON.parse(answer.body) as { jsonrpc: unknown; id: unknown; error: { code: unknown } };
        assert.deepEqual([body.jsonrpc, body.id, body.error?.code], ["2.0", null, code], `${name} ${answer.body}`);
        assert.equal(answer.headers.get("connection"), "close");
      }
    }
  });

  test("a fault of ours is a JSON-RPC error too", async () => {
    await using to = await startTestGateway();
    to.relay.send = () => {
      throw new TypeError("a fault");
    };
    const answer = await fetch(`${to.url}/relay/eth`, {
      method: "POST",
      body: '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}',
    });
    assert.equal(answer.status, 500);
    const body = (await answer.json()) as { jsonrpc: unknown; error: { code: unknown } };
    assert.deepEqual([body.jsonrpc, body.error?.code], ["2.0", -32603]);
  });
});
