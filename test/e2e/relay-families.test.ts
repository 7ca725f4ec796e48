import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { createCatalogue } from "@turnpike/catalogue";
import { type RelayRig, rpc, rpcAt, send, startNode, startRelay } from "./relay-rig.ts";

test("Tron takes JSON-RPC at `/jsonrpc` too, alone and in a batch, as its own nodes do; others do not", async () => {
  await using node = await startNode({ chainIdHex: "0x2b6653dc", answer: ({ method }) => `"${method}"` });
  await using rig = await startRelay({ tron: rpcAt(node.url), eth: rpcAt(node.url) });
  const ways = [
    { host: "tron.localhost", path: "/jsonrpc" },
    { host: "localhost", path: "/relay/tron/jsonrpc" },
    { host: "tron.localhost", path: "/" },
  ];
  for (const way of ways) {
    const one = await send(rig, rpc("1.50", "eth_call"), way);
    assert.deepEqual([one.status, one.text], [200, '{"jsonrpc":"2.0","id":1.50,"result":"eth_call"}'], way.path);
    const both = await send(rig, `[${rpc("1", "eth_call")},${rpc("2", "eth_gasPrice")}]`, way);
    assert.equal(both.text.match(/"result"/g)?.length, 2, both.text);
  }
  assert.equal((await send(rig, rpc("1", "eth_call"), { host: "eth.localhost", path: "/jsonrpc" })).status, 404);
});

/** A stand-in for a node of the consensus layer: binary to those who ask for it. */
async function withBeacon(run: (rig: RelayRig, accepted: string[]) => Promise<void>, bytes: Buffer): Promise<void> {
  const accepted: string[] = [];
  const server = createServer(({ url, headers }, res) => {
    const { accept = "" } = headers;
    if (url?.startsWith("/eth/v2/") === true) accepted.push(accept);
    if (accept.startsWith("application/octet-stream")) {
      res.writeHead(200, { "content-type": "application/octet-stream", "eth-consensus-version": "electra" }).end(bytes);
    } else res.writeHead(200, { "content-type": "application/json" }).end('{"version":"electra","data":{}}');
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const { port } = server.address() as AddressInfo;
    const catalogue = createCatalogue({ overrides: { "eth-beacon": { free: true } } });
    const endpoint = { operator: "one", urls: { rest: `http://127.0.0.1:${port}` } };
    await using rig = await startRelay({ "eth-beacon": [endpoint] }, { modules: { catalogue } });
    await run(rig, accepted);
  } finally {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  }
}

test("the consensus layer's binary answers come as they are, with their type and fork, to who asks for them", async () => {
  // These beginnings are those of JSON and of a page, and none is UTF-8.
  for (const first of [0x00, 0x3c, 0x5b, 0x7b]) {
    const bytes = Buffer.from([first, 0xff, 0x00, 0xfe]);
    await withBeacon(async (rig, accepted) => {
      const base = `http://127.0.0.1:${rig.port}/relay/eth-beacon/eth/v2/beacon/blocks/5`;
      const ask = (accept: string): Promise<Response> => fetch(base, { headers: { accept } });
      const binary = await ask("application/octet-stream;q=1.0,application/json;q=0.9");
      assert.equal(binary.status, 200);
      assert.equal(binary.headers.get("content-type"), "application/octet-stream");
      assert.equal(binary.headers.get("eth-consensus-version"), "electra");
      assert.deepEqual(Buffer.from(await binary.arrayBuffer()), bytes);
      for (const accept of [
        "*/*",
        "application/json",
        "application/octet-stream;q=0.5,application/json",
        "text/html",
      ]) {
        const json = await ask(accept);
        assert.equal(json.headers.get("content-type"), "application/json", accept);
        assert.equal(await json.text(), '{"version":"electra","data":{}}');
      }
      assert.deepEqual(
        [...new Set(accepted)],
        ["application/octet-stream, application/json;q=0.9", "application/json"],
      );
    }, bytes);
  }
});
