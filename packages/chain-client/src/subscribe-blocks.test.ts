import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { suite, test } from "node:test";
import { isRecord, silentLog, systemClock } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { WebSocketServer } from "ws";
import { ChainHead } from "./chain-head.ts";

const PING_MS = 10_000;

/** A fake node whose subscriptions name only the blocks that a test has them name. */
async function startFakeNode() {
  const node = { heightBlocks: 5, asked: 0, pings: 0, subscriptions: 0 };
  const metaOf = (height: number) => ({
    block_id: { hash: `HASH${height}` },
    header: { height: `${height}`, time: "2026-11-21T14:49:03Z", last_block_id: { hash: `HASH${height - 1}` } },
  });
  const resultOf = (method: unknown, params: unknown) => {
    if (method === "abci_info") {
      node.asked++;
      return { response: { last_block_height: `${node.heightBlocks}` } };
    }
    const [first, last] = isRecord(params) ? [Number(params["minHeight"]), Number(params["maxHeight"])] : [0, -1];
    return { block_metas: Array.from({ length: last - first + 1 }, (_, i) => metaOf(last - i)) };
  };
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      assert.ok(isRecord(body));
      const result = resultOf(body["method"], body["params"]);
      response.end(JSON.stringify({ jsonrpc: "2.0", id: body["id"], result }));
    });
  });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket) => {
    socket.on("ping", () => node.pings++);
    socket.on("message", () => {
      node.subscriptions++;
      socket.send('{"jsonrpc":"2.0","id":1,"result":{}}');
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    node,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Resolves when so many pings have come and their pongs are with the client. */
    async pinged(count: number) {
      await eventually("a ping", () => node.pings === count);
      for (const socket of sockets.clients) {
        socket.ping();
        await once(socket, "pong");
      }
    },
    /** Names the newest block over every subscription. */
    name() {
      const value = { header: { height: `${node.heightBlocks}` } };
      const message = JSON.stringify({ jsonrpc: "2.0", id: 1, result: { data: { value } } });
      for (const socket of sockets.clients) socket.send(message);
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets.clients) socket.terminate();
      sockets.close();
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

suite("a subscription to blocks", () => {
  test("that is open but names no block hides none, and is opened again", async ({ mock }) => {
    mock.timers.enable({ apis: ["setInterval"] });
    await using fake = await startFakeNode();
    const { node } = fake;
    const reasons: unknown[] = [];
    const log = { ...silentLog, warn: ({ reason }: Readonly<Record<string, unknown>>) => void reasons.push(reason) };
    await using head = new ChainHead({ url: fake.url, pingMs: PING_MS, retryMs: 1 }, { clock: systemClock, log });
    await head.waitFor(5n);
    node.heightBlocks = 6;
    mock.timers.tick(PING_MS);
    assert.equal((await head.waitFor(6n))?.hash, "HASH6");
    assert.equal(node.subscriptions, 1, "what the node just committed may be named yet");
    mock.timers.tick(PING_MS);
    await eventually("another subscription", () => node.subscriptions === 2);
    assert.deepEqual(reasons, ["it has not named block 6"]);
    node.heightBlocks = 7;
    fake.name();
    await head.waitFor(7n);
  });

  test("that names many blocks between two questions ends with none; a node that lost them ends it", async ({
    mock,
  }) => {
    mock.timers.enable({ apis: ["setInterval"] });
    await using fake = await startFakeNode();
    const { node } = fake;
    const messages: string[] = [];
    const log = {
      ...silentLog,
      error: ({ cause }: Readonly<Record<string, unknown>>) =>
        void messages.push(cause instanceof Error ? cause.message : ""),
    };
    await using head = new ChainHead({ url: fake.url, pingMs: PING_MS, retryMs: 1 }, { clock: systemClock, log });
    await head.waitFor(5n);
    node.heightBlocks = 60;
    fake.name();
    assert.equal((await head.waitFor(60n))?.hash, "HASH60");
    assert.deepEqual(messages, []);
    node.heightBlocks = 20;
    mock.timers.tick(PING_MS);
    await eventually("the node's fall", () => messages.length > 0);
    assert.equal(messages[0], "The node is at height 20; before it was at 60.");
  });

  test("stays open as long as it names what the node has, however seldom a block comes", async ({ mock }) => {
    mock.timers.enable({ apis: ["setInterval"] });
    await using fake = await startFakeNode();
    const { node } = fake;
    await using head = new ChainHead({ url: fake.url, pingMs: PING_MS, retryMs: 1 }, { clock: systemClock });
    await head.waitFor(5n);
    for (let interval = 1; interval <= 12; interval++) {
      if (interval % 4 === 0) {
        node.heightBlocks++;
        fake.name();
        await head.waitFor(BigInt(node.heightBlocks));
      }
      mock.timers.tick(PING_MS);
      await fake.pinged(interval);
    }
    assert.ok(node.asked >= 4, `it was asked ${node.asked} times`);
    assert.deepEqual([node.heightBlocks, node.subscriptions], [8, 1]);
  });
});
