import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { suite, test } from "node:test";
import { isAppError, systemClock } from "@turnpike/base";
import { startTestChain } from "@turnpike/testkit/chain";
import { ChainClient } from "./chain-client.ts";

async function refusalOf(url: string, text: string): Promise<readonly [unknown, string]> {
  await using client = new ChainClient({ url }, { clock: systemClock });
  try {
    await client.call("abci_query", { path: text });
  } catch (error) {
    assert.ok(isAppError(error, "CHAIN_UNREACHABLE"));
    return [error.detail?.status, error.message];
  }
  return assert.fail("the node answers");
}

suite("a request that a node does not read", () => {
  test("has the node's status and words: that of a node's RPC, which reads 1,000,000 bytes", async () => {
    await using chain = await startTestChain();
    const [status, message] = await refusalOf(chain.rpcUrl, "x".repeat(1_000_000));
    assert.equal(status, 400);
    assert.match(message, / answers 400 \(error reading request body: http: request body too large\), but /);
  });

  test("attack: has the status and a short line of any other server's words", async () => {
    const server = createServer((request, response) => {
      request.resume();
      response
        .writeHead(413, { "content-type": "text/html" })
        .end(`<h1>Too\u001b[31m\nLarge</h1>${"x".repeat(100_000)}`);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const [status, message] = await refusalOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, "x");
    server.close();
    assert.equal(status, 413);
    assert.match(message, / answers 413 \(<h1>Too \[31m Large<\/h1>x{10,}\), but /);
    assert.ok(message.length < 500);
  });
});
