import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { untilServed } from "./write-up-file.ts";

async function gatewayWhere(
  serves: (id: string, asked: number) => boolean,
): Promise<AsyncDisposable & { url: string }> {
  const asked = new Map<string, number>();
  const server = createServer((request, response) => {
    const id = request.url?.replace("/ready/", "") ?? "";
    asked.set(id, (asked.get(id) ?? 0) + 1);
    response.writeHead(serves(id, asked.get(id) ?? 0) ? 200 : 503).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

test("up waits for a service whose probe takes longer than the others'", async () => {
  let late = 0;
  await using gateway = await gatewayWhere((id, asked) => {
    if (id === "eth") late = asked;
    return id !== "eth" || asked >= 3;
  });
  await untilServed(gateway.url, ["eth", "search"], { signal: new AbortController().signal, timeoutMs: 60_000 });
  assert.equal(late, 3);
});

test("up goes on without a service that never serves", async (context) => {
  const late = new AbortController();
  context.mock.method(AbortSignal, "timeout", () => late.signal);
  const askedOf = new Set<string>();
  await using gateway = await gatewayWhere((id, asked) => {
    askedOf.add(id);
    // The time passes once the other service is served, and this has been asked again.
    if (id === "eth" && asked > 1 && askedOf.has("search")) late.abort();
    return id !== "eth";
  });
  await untilServed(gateway.url, ["eth", "search"], { signal: new AbortController().signal, timeoutMs: 60_000 });
  assert.deepEqual(askedOf, new Set(["eth", "search"]));
});

test("a stop ends the waiting", async () => {
  const stop = new AbortController();
  await using gateway = await gatewayWhere(() => {
    stop.abort();
    return false;
  });
  await assert.rejects(untilServed(gateway.url, ["eth"], { signal: stop.signal, timeoutMs: 60_000 }), {
    name: "AbortError",
  });
});
