import assert from "node:assert/strict";
import { on } from "node:events";
import { after, before, suite, test } from "node:test";
import { Worker } from "node:worker_threads";
import { StargateClient } from "@cosmjs/stargate";
import { Comet38Client, HttpBatchClient } from "@cosmjs/tendermint-rpc";
import { silentLog, systemClock } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { createSubscriptions, type Subscriptions } from "@turnpike/relay";
import { PrometheusMetrics } from "@turnpike/telemetry";
import {
  outcomeOf,
  type ReplayNode,
  readRecordedAbci,
  readRecordedCosmos,
  rpcQuestion,
  startReplayNode,
} from "../support/replay-node.ts";
import { type ReplaySocket, startReplaySocket } from "../support/replay-socket.ts";
import { type RelayRig, startRelay } from "./relay-rig.ts";

/** Has spent and received; its balance is recorded. */
const ACCOUNT = "pokt173r2dgg0jce84fq60sc7wmasvrpesfjdf93pqz";
/** Holds two kinds of coins. */
const HOLDER = "pokt1dewupvyw40trspaeqwnc5mc0df7ntdzw0vfxd6";
const UNKNOWN = "pokt1qqqsyqcyq5rqwzqfpg9scrgwpugpzysn7swwdp";
const TX = new Uint8Array(Buffer.from("SfPOFlYdntw49lNIfmdnmg4NxIS8Bvikqy0ZkVuIOrs=", "base64"));
const TX_HEX = "49F3CE16561D9EDC38F653487E67679A0E0DC484BC06F8A4AB2D19915B883ABB";

suite("cosmjs, unmodified, through the free relay against recorded answers of a real Cosmos-style node", () => {
  let node: ReplayNode;
  let socket: ReplaySocket;
  let subscriptions: Subscriptions;
  let probes: ReadonlySet<string>;
  let rig: RelayRig;

  before(async () => {
    const recorded = readRecordedCosmos();
    const query = `tx.hash='${TX_HEX}'`;
    const byHash = recorded.find(({ question }) => question === rpcQuestion("tx_search", { query }));
    assert.ok(byHash !== undefined);
    // cosmjs names the page that CometBFT takes when none is named.
    const firstPage = { ...byHash, question: rpcQuestion("tx_search", { query, page: "1" }) };
    node = await startReplayNode([...recorded, ...readRecordedAbci(), firstPage]);
    socket = await startReplaySocket(recorded);
    subscriptions = createSubscriptions(
      { suppliers: { pocket: [{ operator: "recorded", url: socket.url }] } },
      {
        catalogue: createCatalogue({}).services,
        clock: systemClock,
        log: silentLog,
        metrics: new PrometheusMetrics({ processMetrics: false }),
        random: Math.random,
      },
    );
    rig = await startRelay(
      { pocket: [{ operator: "recorded", urls: { comet_bft: node.url, rest: node.url } }] },
      { modules: { subscriptions } },
    );
    // Probes of the back-end, which come again when they want.
    probes = new Set(node.unknown);
    node.forget();
  });
  after(async () => {
    await rig?.[Symbol.asyncDispose]();
    await subscriptions?.[Symbol.asyncDispose]();
    await socket?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
  });
  const urls = (): readonly [relay: string, direct: string] => [`${rig.url}/relay/pocket`, node.url];
  const sameFromBoth = async (reads: (url: string) => Promise<unknown>): Promise<unknown> => {
    const [relay, direct] = urls();
    const got = await reads(relay);
    assert.deepEqual(got, await reads(direct));
    assert.deepEqual(
      node.unknown.filter((question) => !probes.has(question)),
      [],
    );
    return got;
  };

  test("StargateClient: chain, height, account, balances, blocks and a transaction", async () => {
    const got = await sameFromBoth(async (url) => {
      const client = await StargateClient.connect(url);
      try {
        return {
          chain: await client.getChainId(),
          height: await client.getHeight(),
          account: await client.getAccount(ACCOUNT),
          sequence: await client.getSequence(ACCOUNT),
          balance: await client.getBalance(ACCOUNT, "upokt"),
          nothing: await client.getBalance(UNKNOWN, "upokt"),
          balances: await client.getAllBalances(HOLDER),
          tx: await client.getTx(TX_HEX),
          newest: await client.getBlock(),
          block: await client.getBlock(103),
          future: await client.getBlock(102_035).catch(outcomeOf),
        };
      } finally {
        client.disconnect();
      }
    });
    const { chain, account, balance, nothing, balances, tx, block, future } = got as {
      chain: string;
      account: { address: string };
      balance: unknown;
      nothing: unknown;
      balances: readonly { denom: string }[];
      tx: { hash: string; height: number };
      block: { header: { height: number; chainId: string }; txs: readonly Uint8Array[] };
      future: { message: string };
    };
    assert.equal(chain, "pocket");
    assert.equal(account.address, ACCOUNT);
    assert.deepEqual(
      [balance, nothing],
      [
        { denom: "upokt", amount: "997998981012" },
        { denom: "upokt", amount: "0" },
      ],
    );
    assert.deepEqual(
      balances.map(({ denom }) => denom),
      ["mact", "upokt"],
    );
    assert.deepEqual([tx.hash, tx.height], [TX_HEX, 103]);
    assert.deepEqual([block.header.height, block.header.chainId, block.txs.length > 0], [103, "pocket", true]);
    assert.match(future.message, /must be less than or equal to the current blockchain height/);
  });

  test("Comet38Client: what a wallet and an indexer ask", async () => {
    const reads = async (url: string): Promise<readonly unknown[]> => {
      const client = await Comet38Client.connect(url);
      try {
        return await Promise.all([
          client.status(),
          client.abciInfo(),
          client.health(),
          client.commit(103),
          client.blockResults(103),
          client.blockchain(2, 4),
          client.validators({ height: 103, page: 1, per_page: 1 }),
          client.tx({ hash: TX }),
          client.tx({ hash: TX, prove: true }),
          client.txSearch({ query: "tx.height=103", prove: true, page: 1, per_page: 2, order_by: "desc" }),
          client.blockSearch({ query: "block.height=103" }),
          client.numUnconfirmedTxs(),
          client.tx({ hash: new Uint8Array(32).fill(1) }).catch(outcomeOf),
        ]);
      } finally {
        client.disconnect();
      }
    };
    const got = (await sameFromBoth(reads)) as readonly unknown[];
    assert.match(JSON.stringify(got.at(-1)), /tx \(0101.*\) not found/);
  });

  test("HttpBatchClient: calls that it puts into one batch", async () => {
    const got = await sameFromBoth(async (url) => {
      const client = Comet38Client.create(new HttpBatchClient(url, { batchSizeLimit: 20 }));
      try {
        return await Promise.all([
          client.status(),
          client.commit(103),
          client.blockResults(4),
          client.validators({ height: 103, page: 1, per_page: 1 }),
        ]);
      } finally {
        client.disconnect();
      }
    });
    assert.equal((got as readonly unknown[]).length, 4);
  });

  test("over WebSocket: calls, and new blocks as they come, at the path that it adds of itself", async () => {
    const workerData = `${rig.url.replace("http", "ws")}/relay/pocket`;
    const worker = new Worker(new URL("../support/comet-subscriber.ts", import.meta.url), { workerData });
    try {
      const posted = on(worker, "message");
      const next = async (): Promise<unknown> => ((await posted.next()).value as readonly unknown[])[0];
      assert.equal(await next(), 103);
      await socket.subscription;
      socket.push();
      socket.push();
      assert.deepEqual([await next(), await next()], [2229, 2230]);
      assert.deepEqual([socket.unknown, node.unknown], [[], []]);
    } finally {
      await worker.terminate();
    }
  });
});
