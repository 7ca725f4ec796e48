import assert from "node:assert/strict";
import { once } from "node:events";
import { suite, test } from "node:test";
import { type Log, silentLog, systemClock } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { WebSocket } from "ws";
import { TestNode, type TestTx, txResult } from "../../test/rpc/node.ts";
import { type RpcServer, type RpcServerOptions, startRpcServer } from "./rpc-server.ts";

const MB = 1_000_000;

const serve = (node: TestNode, options: Partial<RpcServerOptions> = {}, log: Log = silentLog): Promise<RpcServer> =>
  startRpcServer(
    { host: "127.0.0.1", port: 0, ...options },
    { node, queries: node.application, log, clock: systemClock },
  );

/** A subscriber that reads all, and keeps only what tells messages apart. */
class Subscriber implements AsyncDisposable {
  readonly socket: WebSocket;
  readonly counts = new Map<string, number>();
  readonly #opened: Promise<unknown>;
  bytes = 0;
  last = "";

  constructor({ url }: RpcServer, localAddress = "127.0.0.1") {
    this.socket = new WebSocket(`${url.replace("http", "ws")}/websocket`, { localAddress });
    this.socket.on("error", () => {});
    this.#opened = once(this.socket, "open");
    this.socket.on("message", (data) => {
      assert.ok(Buffer.isBuffer(data));
      const type = /"type":"tendermint\/event\/(\w+)"/.exec(data.toString("latin1", 0, 400))?.[1] ?? "answer";
      this.counts.set(type, (this.counts.get(type) ?? 0) + 1);
      this.bytes += data.length;
      this.last = type === "Tx" ? data.toString() : "";
    });
  }

  async subscribe(...types: readonly string[]): Promise<void> {
    await this.#opened;
    for (const [id, type] of types.entries()) {
      const params = { query: `tm.event='${type}'` };
      this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, method: "subscribe", params }));
    }
    await eventually("the subscriptions", () => this.counts.get("answer") === types.length);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.socket.readyState === WebSocket.CLOSED) return;
    const closed = once(this.socket, "close");
    this.socket.terminate();
    await closed;
  }
}

/** Transactions of a full block whose results are long. */
const longTxs = (count: number, bytes: number): TestTx[] =>
  Array.from({ length: count }, (_, at) => ({
    bytes: Uint8Array.of(at >> 8, at),
    result: txResult({ log: "é".repeat(bytes / 2) }),
  }));

suite("subscribers that read", () => {
  test("of one address, seven at once, get each event of blocks whose results have 40 MB", async () => {
    const node = new TestNode();
    await using server = await serve(node);
    await using owned = new AsyncDisposableStack();
    const subscribers = Array.from({ length: 7 }, () => owned.use(new Subscriber(server)));
    for (const each of subscribers) await each.subscribe("NewBlock", "NewBlockEvents", "Tx");
    node.produce(longTxs(4, 8 * MB), [
      { type: "a", attributes: [{ key: "b", value: "x".repeat(8 * MB), index: true }] },
    ]);
    node.produce(longTxs(1, 1_000));
    const readAll = { answer: 3, NewBlock: 2, NewBlockEvents: 2, Tx: 5 };
    await eventually("all have read the blocks, or are dropped", () =>
      subscribers.every(({ counts, socket }) => socket.readyState !== WebSocket.OPEN || counts.get("Tx") === 5),
    );
    for (const { counts, bytes } of subscribers) {
      assert.deepEqual(Object.fromEntries(counts), readAll);
      assert.equal(bytes, subscribers[0]?.bytes);
      assert.ok(bytes > 80 * MB, `${bytes}`);
    }
  });

  test("get 3,000 events of one block, in their order, with answers among them", async () => {
    const node = new TestNode();
    await using server = await serve(node, { writeTimeoutMs: 300_000 });
    await using one = new Subscriber(server);
    await using other = new Subscriber(server);
    await one.subscribe("Tx");
    await other.subscribe("Tx", "NewBlock");
    const indexes: string[] = [];
    one.socket.on("message", (data) => {
      const index = /"index":(\d+)/.exec(Buffer.isBuffer(data) ? data.toString("latin1", 0, 400) : "")?.[1];
      if (index !== undefined) indexes.push(index);
    });
    node.produce(longTxs(3_000, 10_000));
    other.socket.send('{"jsonrpc":"2.0","id":9,"method":"genesis"}');
    await eventually(
      "all is read",
      () => one.socket.readyState !== WebSocket.OPEN || (indexes.length === 2_999 && other.counts.get("Tx") === 3_000),
    );
    assert.deepEqual(
      indexes,
      Array.from({ length: 2_999 }, (_, at) => `${at + 1}`),
    );
    assert.equal(other.counts.get("answer"), 3);
    const { result } = JSON.parse(one.last) as { readonly result: { readonly query: string } };
    assert.equal(result.query, "tm.event='Tx'");
  });
});
