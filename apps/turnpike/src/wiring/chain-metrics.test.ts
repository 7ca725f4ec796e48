import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { CHAIN_PROFILES } from "@turnpike/chain";
import { ChainClient } from "@turnpike/chain-client";
import { consensusKeyOf } from "@turnpike/chain-node";
import { type Config, loadConfig } from "@turnpike/config";
import { builtinChainServices, initChain, namedKey } from "@turnpike/devnet";
import { bank, base, createMessage, packAny } from "@turnpike/proto";
import { eventually } from "@turnpike/testkit";
import { type RunningChain, startChain } from "./chain.ts";

const HOUR_MS = 3_600_000;
const modules = { log: silentLog };

function configOf(blockIntervalMs: number, metrics: { readonly port?: number } = { port: 0 }): Config {
  const free = { port: 0 };
  return loadConfig({ env: {}, overrides: { chain: { blockIntervalMs, rpc: free, rest: free, grpc: free, metrics } } });
}

type Samples = Readonly<Record<string, number>>;

/** What a node's metrics say, by the samples' names without their beginning. */
async function scrape({ urls }: RunningChain): Promise<Samples> {
  const response = await fetch(urls.metrics ?? "");
  assert.equal(response.status, 200);
  const lines = (await response.text()).matchAll(/^turnpike_chain_(\S+) (\S+)$/gm);
  return Object.fromEntries([...lines].map(([, name, value]) => [name, Number(value)]));
}

async function heightOf({ urls }: RunningChain): Promise<number> {
  const { result } = (await (await fetch(`${urls.rpc ?? ""}/status`)).json()) as {
    result: { sync_info: { latest_block_height: string } };
  };
  return Number(result.sync_info.latest_block_height);
}

suite("metrics of a chain's node", { timeout: 240_000 }, () => {
  let home = "";
  before(async () => {
    home = await mkdtemp(join(tmpdir(), "turnpike-chain-metrics-"));
    await initChain({
      home,
      keysFolder: join(home, "keys"),
      chainId: "metrics-1",
      profile: CHAIN_PROFILES.fast,
      genesisTime: "2026-11-22T00:00:00Z",
      services: builtinChainServices(),
      supplierUrls: ["http://127.0.0.1:8549", "http://127.0.0.1:8550"],
      consensusKey: await consensusKeyOf(home),
    });
  });
  after(() => rm(home, { recursive: true, force: true }));

  /** Sends coins of the faucet; more than it has fails in the block. @param isAwaited until it is in one */
  async function send(chain: RunningChain, amount: bigint, isAwaited: boolean): Promise<void> {
    const { signer } = await namedKey(join(home, "keys"), "faucet");
    const { signer: to } = await namedKey(join(home, "keys"), "delegator");
    await using client = new ChainClient({ url: chain.urls.rpc ?? "" }, { clock: systemClock });
    const message = createMessage(bank.MsgSendSchema, {
      fromAddress: signer.address,
      toAddress: to.address,
      amount: [createMessage(base.CoinSchema, { denom: "upokt", amount: `${amount}` })],
    });
    const bytes = await client.sign(signer, [packAny(bank.MsgSendSchema, message)], { gasLimit: 200_000n });
    const { hash, code, log } = await client.broadcast(bytes);
    assert.equal(code, 0, log);
    if (isAwaited) await client.waitForTx(hash, 120_000);
  }

  test("the height, the transactions and what blocks cost are what happened", async () => {
    await using chain = await startChain(configOf(50), home, modules);
    assert.match(chain.urls.metrics ?? "", /^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
    await send(chain, 5n, true);
    await send(chain, 10n ** 30n, true);
    const from = await heightOf(chain);
    const samples = await scrape(chain);
    const to = await heightOf(chain);
    const { height = 0 } = samples;
    assert.ok(from <= height && height <= to, `${from} ${height} ${to}`);
    assert.equal(samples['txs_total{result="ok"}'], 1);
    assert.equal(samples['txs_total{result="failed"}'], 1);
    assert.equal(samples['checks_total{kind="new",result="ok"}'], 2);
    for (const stage of ["run", "hash", "write"]) {
      // The next block may be under way.
      const more = (samples[`block_stage_seconds_count{stage="${stage}"}`] ?? 0) - height;
      assert.ok(more === 0 || more === 1, `${stage}: ${more}`);
    }
    const block = (await (await fetch(`${chain.urls.rpc ?? ""}/block?height=${height}`)).json()) as {
      result: { block: { header: { time: string } } };
    };
    const blockMs = Date.parse(block.result.block.header.time);
    assert.equal(Math.round((samples.block_timestamp_seconds ?? 0) * 1_000), blockMs);
    assert.ok((samples.store_bytes ?? 0) > 100_000 && (samples.disk_free_bytes ?? 0) > 0);
    const { engine_up, catching_up, halted, earliest_height, peers } = samples;
    assert.deepEqual(
      { engine_up, catching_up, halted, earliest_height, peers },
      {
        engine_up: 1,
        catching_up: 0,
        halted: 0,
        earliest_height: 0,
        peers: undefined,
      },
    );
  });

  test("what waits for a block is told", async () => {
    await using chain = await startChain(configOf(HOUR_MS), home, modules);
    const before = await heightOf(chain);
    // The first block comes at once, the next one in an hour.
    const began = await eventually("the first block in the metrics", async () => {
      const samples = await scrape(chain);
      return samples['block_stage_seconds_count{stage="write"}'] === 1 && samples;
    });
    assert.ok((began.height ?? 0) >= before);
    await send(chain, 6n, false);
    const waiting = await scrape(chain);
    assert.equal(waiting.mempool_txs, 1);
    assert.ok((waiting.mempool_bytes ?? 0) > 200);
    assert.equal(waiting.height, began.height);
  });

  test("without a port nothing is served; one that is taken is named by its path", async () => {
    {
      await using chain = await startChain(configOf(HOUR_MS, {}), home, modules);
      assert.equal(chain.urls.metrics, undefined);
    }
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const bound = taken.address();
    assert.ok(bound !== null && typeof bound === "object");
    try {
      await assert.rejects(startChain(configOf(HOUR_MS, { port: bound.port }), home, modules), {
        code: "PORT_IN_USE",
        message: `chain.metrics.port: ${bound.port} is in use by another program.`,
      });
    } finally {
      taken.close();
    }
  });
});
