import assert from "node:assert/strict";
import { test } from "node:test";
import { productSources, readText, withoutComments } from "./sources.ts";

/** Servers that any web page may call, or that speak no HTTP, and why. */
const OPEN: Readonly<Record<string, string>> = {
  "apps/turnpike/src/workers/primary.ts": "looks whether a port is free",
  "packages/base/src/connection-guard.ts": "what its embedders serve",
  "packages/chain-node/src/abci/server.ts": "speaks ABCI, no HTTP",
  "packages/gateway/src/http/server.ts": "the paid routes and the free relay, which are for every web page",
  "packages/http1/src/fast-listener.ts": "what its embedder serves: the gateway's paid routes and free relay",
  "packages/localnet/src/port-splitter.ts": "passes bytes on to servers that check",
  "packages/localnet/src/ports.ts": "looks whether a port is free",
  "packages/supplier/src/operator/operator-lock.ts": "an abstract socket of this machine, which no web page reaches",
  "packages/supplier/src/serving/http-server.ts": "relays, each signed for a session: no web page can",
};

test("every HTTP server says for which hosts it answers: DNS rebinding makes any web page its caller", () => {
  const servers = productSources().filter((path) =>
    /\b(?:createServer|createGuardedServer|fastify)\(/.test(withoutComments(readText(path))),
  );
  const unchecked = servers.filter(
    (path) => !/\bcreateHostCheck\(|\bHostCheck\b/.test(withoutComments(readText(path))),
  );
  assert.deepEqual(unchecked, Object.keys(OPEN));
});
