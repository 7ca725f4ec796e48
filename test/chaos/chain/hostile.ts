import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { AppError, systemClock } from "@turnpike/base";
import { LOCAL_ROLES, pocketMachine } from "@turnpike/chain";
import { apiSurface } from "@turnpike/chain-api";
import { ChainClient } from "@turnpike/chain-client";
import { ACCOUNT_PREFIX, encodeBech32, moduleAddress } from "@turnpike/crypto";
import { eventually } from "@turnpike/testkit";
import { chanceOf } from "@turnpike/testkit/chance";
import { ENGINES, type EngineName } from "../../support/chain/nodes.ts";
import type { ChaosFigure, ChaosPart } from "../chaos.ts";
import { assertBooks, assertReplay, longestGapMs } from "./hostile-after.ts";
import type { Attacker } from "./hostile-hand.ts";
import { HonestUser } from "./hostile-honest.ts";
import { type ChainProcess, ownMemoryMb, startChainProcess } from "./hostile-node.ts";
import { queryShots } from "./hostile-queries.ts";
import { type Shot, transactionShots } from "./hostile-shots.ts";
import { HostileTxs } from "./hostile-txs.ts";
import { HostileWire, slowConnections } from "./hostile-wire.ts";

/** The shot that once found a redirect that no client could read is among these. */
const SHORT_SEED = "37500419337702";

/** Attackers at once. */
const AT_ONCE = 16;
const SLOW_CONNECTIONS = 15;
/** Blocks are 200 ms apart. Asserted in the full form alone, which has the machine for itself. */
const LONGEST_GAP_MS = 10_000;
/** The short form's bound, in work, which a busy machine does not change: so many shots over between two blocks, half of all. */
const MOST_GAP_SHOTS = 800;
const LOOK_MS = 50;
/** Time for one question of an honest client, without times of its own: beside other work only a hang takes it. */
const UNTIMED_MS = 120_000;
/** Memory that may come on top between the two halves: the collector takes its time. */
const MOST_GROWTH_MB = 150;
const ROOT = resolve(import.meta.dirname, "..", "..", "..");
const SAMPLE_MS = 250;
const WARM_UP = 0.15;
const ATTACKERS = [
  "application-1",
  "application-2",
  "gateway-1",
  "gateway-2",
  "supplier-1",
  "supplier-2",
  "supplier-2-owner",
  "delegator",
  "service-owner",
] as const;

interface Attack {
  readonly memory: Memory;
  readonly seconds: number;
  /** Most shots that were over between two blocks. */
  readonly gapShots: number;
  /** Requests that CometBFT itself ended without an answer. */
  readonly cut: number;
  /** Those that it did not answer in a minute. */
  readonly unanswered: number;
}

interface Plan {
  readonly engine: EngineName;
  readonly seed: string;
  readonly transactions: number;
  readonly queries: number;
  readonly isTimed: boolean;
  readonly progress: (text: string) => void;
}

function shotsOf(
  node: ChainProcess,
  seed: string,
  wire: HostileWire,
): { readonly tx: () => Shot; readonly query: () => Shot } {
  const chance = chanceOf(seed);
  const { modules } = pocketMachine({ gasPrices: [] });
  const { messageTypeUrls, queryPaths } = apiSurface(modules);
  const attackers = ATTACKERS.map((role): Attacker => {
    return { signer: node.signers[role], accountNumber: BigInt(LOCAL_ROLES.indexOf(role)) };
  });
  const addresses = [
    ...attackers.map(({ signer }) => signer.address),
    moduleAddress("gov"),
    moduleAddress("application"),
    "",
    "pokt1",
    "cosmos1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnrujsuw",
    "poktvaloper1qqqsyqcyq5rqwzqfpg9scrgwpugpzysn5m7s4k",
    // Valid, and as long as they can be.
    encodeBech32(ACCOUNT_PREFIX, new Uint8Array(255).fill(7)),
    encodeBech32(ACCOUNT_PREFIX, new Uint8Array(256).fill(7)),
    "x".repeat(2_000),
  ] as const;
  const world = {
    chainId: node.genesis.chain_id,
    typeUrls: messageTypeUrls as [string, ...string[]],
    queryPaths: queryPaths as [string, ...string[]],
    addresses: addresses as unknown as readonly [string, ...string[]],
    attackers: attackers as [Attacker, ...Attacker[]],
    nowNanos: () => BigInt(Date.now()) * 1_000_000n,
  };
  const txs = new HostileTxs(world, { chance });
  return {
    tx: transactionShots(node, { chance, wire, txs }),
    query: queryShots(node, world, { chance, wire }),
  };
}

/** Memory over the time of an attack. */
interface Memory {
  readonly warmMb: number;
  readonly firstMb: number;
  readonly secondMb: number;
}

class MemoryWatch {
  readonly #pid: number;
  readonly #samples: { readonly done: number; readonly mb: number }[] = [];
  readonly #done: () => number;

  constructor(pid: number, done: () => number) {
    this.#pid = pid;
    this.#done = done;
  }

  async watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#samples.push({ done: this.#done(), mb: await ownMemoryMb(this.#pid) });
      await pause(SAMPLE_MS);
    }
  }

  /** Highest memory of the beginning, of the first half after it, and of the second. */
  result(): Memory {
    const most = (from: number, to: number): number =>
      Math.max(0, ...this.#samples.filter(({ done }) => done >= from && done < to).map(({ mb }) => mb));
    const middle = (1 + WARM_UP) / 2;
    return { warmMb: most(0, WARM_UP), firstMb: most(WARM_UP, middle), secondMb: most(middle, 2) };
  }
}

const atShare = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;

/** How much attackers get done between one block and the next, give or take what they do between two looks. */
class BlockWatch {
  readonly #height: () => Promise<bigint | undefined>;
  readonly #shots: () => number;
  #newest = 0n;
  #shotsAtNewest = 0;
  #most = 0;

  constructor(height: () => Promise<bigint | undefined>, shots: () => number) {
    this.#height = height;
    this.#shots = shots;
  }

  async watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const height = (await this.#height()) ?? this.#newest;
      if (height > this.#newest) {
        this.#most = this.mostShots();
        this.#newest = height;
        this.#shotsAtNewest = this.#shots();
      }
      await pause(LOOK_MS);
    }
  }

  mostShots(): number {
    return Math.max(this.#most, this.#shots() - this.#shotsAtNewest);
  }
}

async function attack(
  node: ChainProcess,
  plan: Plan,
  honest: HonestUser,
  heightNow: () => Promise<bigint | undefined>,
): Promise<Attack> {
  using wire = new HostileWire(node, [node.home, ROOT], plan.engine === "cometbft" ? node.rpcUrl : undefined);
  using _slow = slowConnections(node, SLOW_CONNECTIONS);
  const shots = shotsOf(node, plan.seed, wire);
  const total = plan.transactions + plan.queries;
  let [txs, queries] = [plan.transactions, plan.queries];
  const share = (): number => 1 - (txs + queries) / total;
  let shotsOver = 0;
  const over = new AbortController();
  const watch = new MemoryWatch(node.pid, share);
  const blocks = new BlockWatch(heightNow, () => shotsOver);
  const began = performance.now();
  const work = async (): Promise<void> => {
    while (txs + queries > 0 && !over.signal.aborted) {
      // In turn, as far as there are some of both left.
      const isTx = queries === 0 || (txs > 0 && (txs + queries) % 2 === 0);
      if (isTx) txs--;
      else queries--;
      const left = txs + queries;
      if (left % 1_000 === 0) plan.progress(`${plan.engine}: ${total - left} of ${total} sent`);
      const shot = isTx ? shots.tx() : shots.query();
      try {
        await shot.fire();
        shotsOver++;
      } catch (cause) {
        node.assertRuns();
        throw new assert.AssertionError({
          message: `${plan.seed} ${shot.kind}: ${cause instanceof Error ? cause.message : "?"}`,
        });
      }
    }
  };
  const all = Promise.all(Array.from({ length: AT_ONCE }, work)).finally(() => over.abort());
  const beside = Promise.all([honest.live(over.signal), watch.watch(over.signal), blocks.watch(over.signal)]).catch(
    (cause: unknown) => {
      over.abort();
      throw cause;
    },
  );
  const [attacked, lived] = await Promise.allSettled([all, beside]);
  for (const one of [attacked, lived]) if (one.status === "rejected") throw one.reason;
  return {
    memory: watch.result(),
    seconds: (performance.now() - began) / 1_000,
    gapShots: blocks.mostShots(),
    cut: wire.cutByForeign,
    unanswered: wire.unansweredByForeign,
  };
}

async function underAttack(plan: Plan): Promise<ChaosFigure[]> {
  await using node = await startChainProcess(plan.engine);
  const { rpcUrl, restUrl, genesis } = node;
  const client = new ChainClient(plan.isTimed ? { url: rpcUrl } : { url: rpcUrl, timeoutMs: UNTIMED_MS }, {
    clock: systemClock,
  });
  const options = { rpcUrl, restUrl, chainId: genesis.chain_id, pauseMs: 300, mayBeCut: plan.engine === "cometbft" };
  await using honest = new HonestUser(options, { signer: node.signers.faucet, client });
  await eventually("block 2", async () => (await client.status()).latestHeightBlocks >= 2n);
  const { latestHeightBlocks: from } = await client.status();
  const heightNow = (): Promise<bigint | undefined> =>
    client.status().then(
      ({ latestHeightBlocks }) => latestHeightBlocks,
      // CometBFT may cut a connection. Without a look that succeeds no block is seen, and that fails.
      () => undefined,
    );
  const { memory, seconds, gapShots, cut, unanswered } = await attack(node, plan, honest, heightNow).catch(
    async (cause: unknown) => {
      const said = (await node.warnings()).slice(0, 5).join("\n");
      throw new AppError("INTERNAL", { message: `${String(cause)}\nThe node said: ${said}`, cause });
    },
  );
  node.assertRuns();
  assert.equal(unanswered, 0, "CometBFT did not answer: does the application still answer it?");
  const { latestHeightBlocks: to } = await client.status();
  // Else the figures below say nothing.
  assert.ok(to > from, "no block was made under attack");
  assert.ok(honest.waitedBlocks.length > 0 && honest.answersMs.length > 0, "nobody honest paid and asked meanwhile");
  assert.ok(plan.isTimed || gapShots < MOST_GAP_SHOTS, `no block while ${gapShots} shots were answered`);
  const gapMs = await longestGapMs(rpcUrl, from, to);
  assert.ok(!plan.isTimed || gapMs < LONGEST_GAP_MS, `no block for ${gapMs} ms`);
  const found = await client.searchTxs({ query: "tx.height>0", page: 1, perPage: 1, newestFirst: true });
  assert.ok(Number(found.total) > honest.waitedBlocks.length, "no hostile transaction came into a block");
  const blocks = await assertReplay(node);
  // Before it is ended: CometBFT's end may cut a connection, and that is said.
  assert.deepEqual(await node.warnings(), []);
  await node.stop();
  await assertBooks(node);
  const grownMb = memory.secondMb - memory.firstMb;
  assert.ok(grownMb < MOST_GROWTH_MB, `memory grew from ${memory.firstMb} to ${memory.secondMb} MB`);
  const answers = honest.answersMs.sort((a, b) => a - b);
  const of = (what: string, value: number, unit = ""): ChaosFigure => ({
    what: `${plan.engine}: ${what}`,
    value,
    unit,
  });
  return [
    of("hostile transactions", plan.transactions),
    of("hostile queries", plan.queries),
    of("time of the attack", seconds, "s"),
    ...(plan.engine === "cometbft"
      ? [
          of("requests that CometBFT cut", cut),
          of("requests that CometBFT did not answer", unanswered),
          of("honest requests that CometBFT cut", honest.cutByForeign),
        ]
      : []),
    of("blocks made meanwhile", Number(to - from)),
    of("transactions in blocks", Number(found.total)),
    of("longest time between blocks", gapMs, "ms"),
    of("shots answered between two blocks, at most", gapShots),
    of("honest payments", honest.waitedBlocks.length),
    of("blocks from an honest payment's check to its block, at most", Math.max(...honest.waitedBlocks), "blocks"),
    of("blocks from before it was sent, at most", Math.max(...honest.waitedInAllBlocks), "blocks"),
    of("honest answers", answers.length),
    of("time of an honest answer, median", atShare(answers, 0.5), "ms"),
    of("time of an honest answer, p99", atShare(answers, 0.99), "ms"),
    of("memory, beginning", memory.warmMb, "MB"),
    of("memory, first half, at most", memory.firstMb, "MB"),
    of("memory, second half, at most", memory.secondMb, "MB"),
    of("blocks run again with the same hashes", blocks),
  ];
}

/** Hostile transactions and queries against both engines, while somebody honest pays and asks. */
export const hostile: ChaosPart = async ({ size, progress }) => {
  const count = size === "short" ? 800 : 10_000;
  // Tests shoot the same every time; the full form looks for what nobody has thought of.
  const seed = process.env.TURNPIKE_CHAOS_SEED ?? (size === "short" ? SHORT_SEED : `${randomInt(2 ** 47)}`);
  progress(`seed ${seed} (TURNPIKE_CHAOS_SEED=${seed} gives the same shots)`);
  const figures: ChaosFigure[] = [];
  const skipped: string[] = [];
  for (const { engine, skip } of ENGINES) {
    if ((process.env.TURNPIKE_CHAOS_ENGINE ?? engine) !== engine) continue;
    if (skip === false) {
      const isTimed = size === "full";
      figures.push(...(await underAttack({ engine, seed, transactions: count, queries: count, isTimed, progress })));
    } else skipped.push(`hostile under ${engine}: ${skip}`);
  }
  return { figures, skipped };
};
