import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { bytesToBase64, type Log, silentLog, systemClock } from "@turnpike/base";
import { readRecordedChain, readTxResult, TestNode, type TxResultJson, txResult } from "../../test/rpc/node.ts";
import { at } from "../../test/rpc/recorded-node.ts";
import { shapeDifferences } from "../../test/rpc/shape.ts";
import { TestSocket } from "../../test/rpc/socket.ts";
import { type RpcServer, type RpcServerOptions, startRpcServer } from "./rpc-server.ts";

interface Line {
  readonly dir: ">" | "<" | "close";
  readonly msg?: unknown;
}

const START = { host: "127.0.0.1", port: 0 };
const serve = (node: TestNode, options: Partial<RpcServerOptions> = {}, log: Log = silentLog): Promise<RpcServer> =>
  startRpcServer({ ...START, ...options }, { node, queries: node.application, log, clock: systemClock });

function readTranscript(name: string): readonly Line[] {
  return at(readRecordedChain(`rpc/${name}.json`), "transcript") as readonly Line[];
}

// Members of `events` have no order in a Go map.
function withoutEvents(message: unknown): unknown {
  const { events, ...result } = at(message, "result") as { readonly events?: unknown };
  assert.ok(typeof events === "object" && events !== null);
  return { ...(message as object), result };
}

async function replay(name: string, node: TestNode, produce: () => void): Promise<number> {
  await using server = await serve(node);
  await using client = await TestSocket.connect(server.url);
  let compared = 0;
  for (const { dir, msg } of readTranscript(name)) {
    if (dir === ">") client.send(msg);
    if (dir !== "<") continue;
    const id = at(msg, "id");
    const query = at(msg, "result", "query");
    const fits = (message: unknown): boolean => at(message, "id") === id && at(message, "result", "query") === query;
    if (query !== undefined && !client.has(fits)) produce();
    const got = await client.next(fits);
    compared++;
    const error = at(msg, "error");
    if (error !== undefined) assert.deepEqual(got, msg);
    else if (query === undefined) assert.deepEqual(shapeDifferences(msg, got), []);
    else {
      assert.equal(at(got, "result", "data", "type"), at(msg, "result", "data", "type"));
      assert.deepEqual(shapeDifferences(withoutEvents(msg), withoutEvents(got)), []);
      const [events, gotEvents] = [at(msg, "result", "events"), at(got, "result", "events")];
      assert.deepEqual(Object.keys(gotEvents as object).sort(), Object.keys(events as object).sort());
    }
  }
  return compared;
}

describe("recorded transcripts of a real node's WebSocket", () => {
  const plainEvents = at(
    readTranscript("websocket-blocks").find(
      ({ msg }) => at(msg, "result", "data", "type") === "tendermint/event/NewBlock",
    ),
    "msg",
    "result",
    "data",
    "value",
    "result_finalize_block",
    "events",
  ) as Parameters<TestNode["produce"]>[1];

  it("blocks and headers", async () => {
    const node = new TestNode();
    node.produce();
    assert.equal(await replay("websocket-blocks", node, () => node.produce([], plainEvents)), 12);
  });

  it("errors", async () => {
    const node = new TestNode();
    for (let i = 0; i < 5; i++) node.produce([], plainEvents);
    assert.equal(await replay("websocket-errors", node, () => node.produce([], plainEvents)), 17);
  });

  it("transactions", async () => {
    const delivered = new Map<string, TxResultJson>();
    for (const { msg } of readTranscript("websocket-tx")) {
      const found = at(msg, "result", "data", "value", "TxResult");
      const rest = { code: 0, log: "", codespace: "" };
      if (found !== undefined) {
        delivered.set(String(at(found, "tx")), { ...rest, ...(at(found, "result") as object) } as TxResultJson);
      }
    }
    const node = new TestNode();
    const produce = (): void => {
      const txs = node.mempool.txs(10).toReversed();
      node.produce(
        txs.map((bytes) => {
          const found = delivered.get(bytesToBase64(bytes));
          assert.ok(found);
          return { bytes, result: readTxResult(found) };
        }),
      );
    };
    assert.equal(await replay("websocket-tx", node, produce), 7);
  });
});

const health = { jsonrpc: "2.0", id: 99, method: "health" };

describe("WebSocket of the RPC", () => {
  it("gives every event once to each subscription that it fits, and none after its end", async () => {
    const node = new TestNode();
    await using server = await serve(node);
    await using client = await TestSocket.connect(server.url);
    for (const type of ["NewBlock", "NewBlockHeader", "NewBlockEvents", "Tx", "ValidatorSetUpdates"]) {
      assert.deepEqual(await client.ask(type, "subscribe", { query: `tm.event='${type}'` }), {
        jsonrpc: "2.0",
        id: type,
        result: {},
      });
    }
    const tx = { bytes: Uint8Array.of(1, 2), result: txResult({ code: 5, codespace: "sdk", log: "<no>" }) };
    node.produce([tx], [{ type: "a", attributes: [{ key: "b", value: "c", index: true }] }]);
    node.tell({ type: "ValidatorSetUpdates", updates: [{ publicKey: node.validatorKey, power: 0n }] });
    const got = [];
    for (let i = 0; i < 5; i++) got.push(await client.next());
    assert.deepEqual(
      got.map((message) => at(message, "result", "data", "type")),
      ["NewBlock", "NewBlockHeader", "NewBlockEvents", "Tx", "ValidatorSetUpdates"].map((t) => `tendermint/event/${t}`),
    );
    assert.deepEqual(at(got[0], "result", "events"), { "a.b": ["c"], "tm.event": ["NewBlock"] });
    assert.equal(at(got[2], "result", "data", "value", "num_txs"), "1");
    const { hash } = node.blocks.tx(await sha(tx.bytes)) ?? {};
    assert.deepEqual(at(got[3], "result", "events"), {
      "tm.event": ["Tx"],
      "tx.hash": [
        Buffer.from(hash ?? [])
          .toString("hex")
          .toUpperCase(),
      ],
      "tx.height": ["1"],
    });
    assert.deepEqual(at(got[3], "result", "data", "value", "TxResult"), {
      height: "1",
      tx: "AQI=",
      result: { code: 5, log: "<no>", codespace: "sdk" },
    });
    assert.equal(at(got[4], "result", "data", "value", "validator_updates", 0, "voting_power"), "0");
    assert.deepEqual(at(await client.ask(7, "unsubscribe_all"), "result"), {});
    assert.equal(at(await client.ask(8, "unsubscribe_all"), "error", "data"), "subscription not found");
    node.produce();
    client.send(health);
    assert.deepEqual(await client.next(), { jsonrpc: "2.0", id: 99, result: {} });
  });

  it("takes two texts of one query for one subscription", async () => {
    await using server = await serve(new TestNode());
    await using client = await TestSocket.connect(server.url);
    await client.ask(1, "subscribe", { query: "tm.event='NewBlock'" });
    const again = await client.ask(2, "subscribe", { query: " tm.event  =  'NewBlock' " });
    assert.equal(at(again, "error", "data"), "already subscribed");
    assert.deepEqual(at(await client.ask(3, "unsubscribe", { query: "tm.event = 'NewBlock'" }), "result"), {});
  });

  it("answers bad requests as the real server does", async () => {
    await using server = await serve(new TestNode());
    await using client = await TestSocket.connect(server.url);
    const few = await client.ask(-1, "subscribe");
    assert.equal(at(few, "error", "data"), "reflect: Call with too few input arguments");
    const kind = at(await client.ask(1, "block", { height: 5 }), "error");
    const data = 'error converting json params to arguments: invalid 64-bit integer encoding "5", expected string';
    assert.deepEqual(kind, { code: -32603, message: "Internal error", data });
    const long = await client.ask(2, "subscribe", { query: `tm.event='${"x".repeat(600)}'` });
    assert.equal(at(long, "error", "data"), "maximum query length exceeded");
    client.send({ jsonrpc: "2.0", method: "health" });
    client.send({ jsonrpc: "2.0", id: null, method: "health" });
    client.send("");
    assert.equal(at(await client.next(), "error", "data"), "error unmarshaling request: EOF");
    client.send('{"jsonrpc"');
    assert.equal(at(await client.next(), "error", "data"), "error unmarshaling request: unexpected EOF");
    client.send('{"jsonrpc":"2.0","id":1.9,"method":"health"} and more');
    assert.deepEqual(await client.next(), { jsonrpc: "2.0", id: 1, result: {} });
  });

  it("waits for a transaction's block while later messages keep their order", async () => {
    const node = new TestNode({ autoBlocks: true });
    await using server = await serve(node);
    await using client = await TestSocket.connect(server.url);
    client.send({ jsonrpc: "2.0", id: 1, method: "broadcast_tx_commit", params: { tx: "AQID" } });
    client.send({ jsonrpc: "2.0", id: 2, method: "health" });
    assert.equal(at(await client.next(), "result", "height"), "1");
    assert.equal(at(await client.next(), "id"), 2);
    const again = await client.ask(3, "broadcast_tx_commit", { tx: "AQID" });
    assert.equal(at(again, "error", "data"), "error on broadcastTxCommit: tx already exists in cache");
  });

  it("bounds the clients that are served", async () => {
    await using server = await serve(new TestNode(), { maxSubscriptionClients: 1 });
    await using one = await TestSocket.connect(server.url);
    await using two = await TestSocket.connect(server.url);
    await one.ask(1, "subscribe", { query: "tm.event='Tx'" });
    const refused = await two.ask(1, "subscribe", { query: "tm.event='Tx'" });
    assert.equal(at(refused, "error", "data"), "max_subscription_clients 1 reached");
    await one[Symbol.asyncDispose]();
    let answer: unknown;
    // The server learns of the end of the first one in its own time.
    do answer = await two.ask(2, "subscribe", { query: "tm.event='Tx'" });
    while (at(answer, "error") !== undefined);
    assert.deepEqual(at(answer, "result"), {});
  });

  it("drops a client that does not read", async () => {
    const node = new TestNode();
    const { promise: dropped, resolve } = Promise.withResolvers<unknown>();
    let isDropped = false;
    const log: Log = {
      ...silentLog,
      info: (fields) => {
        isDropped = true;
        resolve(fields.why);
      },
    };
    await using server = await serve(node, { maxWaitingSocketBytes: 64 * 1024 }, log);
    await using slow = await TestSocket.connect(server.url);
    await using quick = await TestSocket.connect(server.url);
    await slow.ask(1, "subscribe", { query: "tm.event='NewBlockEvents'" });
    await quick.ask(1, "subscribe", { query: "tm.event='NewBlockEvents'" });
    slow.socket.pause();
    const big = { type: "a", attributes: [{ key: "b", value: "x".repeat(1_000_000), index: true }] };
    let sent = 0;
    for (; sent < 100 && !isDropped; sent++) {
      node.produce([], [big]);
      assert.equal(at(await quick.next(), "result", "data", "value", "height"), `${sent + 1}`);
      await turn();
    }
    assert.equal(await dropped, "slow client");
    assert.ok(sent > 1, "one long message is no reason");
  });

  it("pings, and drops a client that does not answer", async () => {
    await using pinging = await serve(new TestNode(), { pingMs: 10, silentMs: 60_000 });
    await using pinged = await TestSocket.connect(pinging.url);
    await once(pinged.socket, "ping");
    await using server = await serve(new TestNode(), { pingMs: 10, silentMs: 60 });
    await using client = await TestSocket.connect(server.url);
    client.socket.pong = () => {};
    await once(client.socket, "close");
  });

  it("closes a client that sends too long a message, and serves others", async () => {
    await using server = await serve(new TestNode(), { maxBodyBytes: 1000 });
    await using client = await TestSocket.connect(server.url);
    const closed = once(client.socket, "close");
    client.send("x".repeat(1001));
    assert.equal((await closed)[0], 1009);
    await using other = await TestSocket.connect(server.url);
    assert.deepEqual(at(await other.ask(1, "health"), "result"), {});
  });

  it("tells subscribers and waiting clients that the node ends", async () => {
    const node = new TestNode();
    await using client = await (async () => {
      await using server = await serve(node);
      const opened = await TestSocket.connect(server.url);
      await opened.ask(1, "subscribe", { query: "tm.event='Tx'" });
      assert.equal(node.listenerCount, 1);
      return opened;
    })();
    const data = "subscription was canceled (reason: CometBFT exited)";
    assert.deepEqual(await client.next(), {
      jsonrpc: "2.0",
      id: 1,
      error: { code: -32000, message: "Server error", data },
    });
    assert.equal(await client.next(), undefined);
    assert.equal(node.listenerCount, 0);
  });

  it("refuses what is no upgrade to WebSocket", async () => {
    await using server = await serve(new TestNode());
    const response = await fetch(`${server.url}/websocket`);
    assert.equal(response.status, 400);
    assert.equal(await response.text(), "Bad Request\n");
  });
});

async function sha(bytes: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", Uint8Array.from(bytes)));
}
