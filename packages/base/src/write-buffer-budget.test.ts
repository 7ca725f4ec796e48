import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { test } from "node:test";
import { openRaw } from "@turnpike/testkit";
import { WriteBufferBudget } from "./write-buffer-budget.ts";

const askAs = (client: string): string => `GET /${client} HTTP/1.1\r\nHost: a\r\n\r\n`;

test("what a connection holds is given back once, however it ends, also for answers that wait behind another", async () => {
  const budget = new WriteBufferBudget(() => 800);
  const taken: boolean[] = [];
  const waiting: ServerResponse[] = [];
  let arrived = Promise.withResolvers<void>();
  let wanted = 3;
  const server = createServer(({ url = "" }, res) => {
    taken.push(budget.acquire(res, 100, url, false));
    waiting.push(res);
    if (waiting.length === wanted) arrived.resolve();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  await using owned = new AsyncDisposableStack();
  owned.defer(() => server.closeAllConnections());
  owned.defer(() => void server.close());
  const { port } = server.address() as AddressInfo;
  for (const end of ["answered", "reset", "destroyed", "half", "reset", "answered"] as const) {
    arrived = Promise.withResolvers();
    const connected = once(server, "connection");
    await using raw = await openRaw(port);
    const [socket] = (await connected) as [Socket];
    const closed = new Promise((resolve) => socket.once("close", resolve));
    raw.write(askAs("one").repeat(wanted));
    await arrived.promise;
    // A quarter is for one client: what a round before did not give back, or gave back twice, would show here.
    assert.deepEqual(taken.splice(0), [true, true, false], end);
    const responses = waiting.splice(0);
    if (end === "answered") for (const res of responses) res.end("x");
    if (end === "half") responses[0]?.end("x");
    // It is whole, and waits behind the first.
    if (end === "reset" || end === "destroyed") responses[1]?.end("x");
    if (end === "answered" || end === "half") await raw.next(end === "half" ? 1 : 3);
    if (end === "destroyed") socket.destroy();
    else if (end === "answered") raw.socket.end();
    else raw.socket.resetAndDestroy();
    await closed;
  }
  // All of it is there again, and no more.
  wanted = 9;
  arrived = Promise.withResolvers();
  await using raw = await openRaw(port);
  raw.write(Array.from({ length: wanted }, (_, at) => askAs(`client${at}`)).join(""));
  await arrived.promise;
  assert.deepEqual(taken, [...Array.from({ length: 8 }, () => true), false]);
});
