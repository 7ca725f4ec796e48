import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { systemClock } from "@turnpike/base";
import { ChainClient } from "@turnpike/chain-client";
import { chainHome } from "@turnpike/chain-node";
import { ChainWatch, namedKey, votesText } from "@turnpike/devnet";
import type { ChaosFigure, ChaosPart } from "../chaos.ts";
import { type ComparedNode, compareHeights, compareRest, compareStores, findTold } from "./validators-check.ts";
import { SteadyLoad } from "./validators-load.ts";
import { CHAIN_ID, ValidatorsNet, whyNoTestnet } from "./validators-net.ts";

/** How long things are left as they are, by the size of the run. A halt is looked at once in the short form, for no time. */
const SIZES = {
  short: { rounds: 1, holdBlocks: 3n, haltMs: 0, restHeights: 5 },
  full: { rounds: 4, holdBlocks: 20n, haltMs: 30_000, restHeights: 40 },
} as const;
type Size = (typeof SIZES)[keyof typeof SIZES];

const VALIDATORS = 4;
const EVERY_MS = 150;
/** Time for anything to happen: a loaded machine of two cores runs nine processes here. */
const LONG_MS = 120_000;
const STAND_MS = 3_000;

interface Ground {
  readonly net: ValidatorsNet;
  readonly said: readonly string[];
  readonly size: Size;
  readonly progress: (text: string) => void;
}

const ms = (what: string, value: number): ChaosFigure => ({ what, value: Math.round(value), unit: "ms" });
const count = (what: string, value: number): ChaosFigure => ({ what, value, unit: "" });

/** More than two thirds of the votes of the round that goes on; the text is CometBFT's. */
function isDecided(votes: string): boolean {
  const [, have, all] = /precommits BA\{[^}]*\} (\d+)\/(\d+)/.exec(votes) ?? [];
  return Number(have) * 3 > Number(all) * 2;
}

async function votesAt(net: ValidatorsNet, name: string): Promise<string> {
  await using client = new ChainClient({ url: net.urls(name).rpc }, { clock: systemClock });
  const answer = await client.call("consensus_state", {});
  assert.ok(answer.ok);
  return votesText(answer.result);
}

/** One validator of four is killed, and the chain goes on with three. */
async function killOne({ net, size, progress }: Ground, name: string): Promise<ChaosFigure[]> {
  progress(`${name} is killed`);
  await net.kill(name);
  const goesOnMs = await net.moreBlocks(1n, LONG_MS);
  await net.moreBlocks(size.holdBlocks, LONG_MS);
  await net.revive(name);
  const catchUpMs = await net.caughtUp(name, LONG_MS);
  return [ms("first block after one of four was killed", goesOnMs), ms("the killed one catches up", catchUpMs)];
}

/** One validator of four is cut off, and the chain goes on with three. */
async function cutOne({ net, size, progress }: Ground, name: string): Promise<ChaosFigure[]> {
  progress(`${name} is cut off`);
  await net.cutOff(name);
  const goesOnMs = await net.moreBlocks(1n, LONG_MS);
  await net.moreBlocks(size.holdBlocks, LONG_MS);
  assert.equal(await net.status(name), undefined, `${name} is cut off`);
  await net.reconnect(name);
  const catchUpMs = await net.caughtUp(name, LONG_MS);
  return [ms("first block after one of four was cut off", goesOnMs), ms("the cut off one catches up", catchUpMs)];
}

/** Two of four are gone at once: no block, and it is said; reads go on. Then all come back. */
async function haltAll({ net, said, size, progress }: Ground, killed: string, cut: string): Promise<ChaosFigure[]> {
  progress(`${killed} is killed and ${cut} is cut off`);
  const startMs = performance.now();
  await Promise.all([net.kill(killed), net.cutOff(cut)]);
  const rest = net.present;
  assert.equal(rest.length, VALIDATORS - 2);
  // A block whose votes were given already is made yet. Behind it the chain stands still, and the watch says so.
  let height = 0n;
  await net.until("the watch to say that the chain stands still", LONG_MS, async () => {
    height = await net.height();
    const stands = new RegExp(`stands still at block ${height} for .*no answer from .*node.*precommits BA`);
    return said.some((text) => stands.test(text) && text.includes(killed) && text.includes(cut));
  });
  const endMs = performance.now() + size.haltMs;
  let looks = 0;
  do {
    for (const name of rest) {
      assert.equal((await net.status(name))?.latest, height, "a block without two thirds of the votes");
      const votes = await votesAt(net, name);
      assert.match(votes, new RegExp(`^round \\d+ of block ${height + 1n} has prevotes BA`));
      assert.ok(!isDecided(votes), votes);
      const latest = await fetch(`${net.urls(name).rest}/cosmos/base/tendermint/v1beta1/blocks/latest`);
      assert.match(await latest.text(), new RegExp(`"height":"${height}"`), "reads go on");
    }
    looks++;
    if (size.haltMs > 0) await delay(500);
  } while (performance.now() < endMs);

  progress("all come back");
  const backMs = performance.now();
  await Promise.all([net.revive(killed), net.reconnect(cut)]);
  const revivedMs = performance.now() - backMs;
  await net.until("the chain to go on", LONG_MS, async () => (await net.height()) > height);
  const nowMs = performance.now();
  await Promise.all([killed, cut].map((name) => net.caughtUp(name, LONG_MS)));
  const caughtUpMs = performance.now() - backMs;
  await net.until("the watch to say that the chain goes on", LONG_MS, async () =>
    said.some((text) => text.includes("the chain goes on with block")),
  );
  return [
    ms("halt with two of four", nowMs - startMs),
    count("looks at the halt, no block in any", looks * rest.length),
    ms("start of the killed one's processes", revivedMs),
    ms("all back to the first block", nowMs - backMs),
    ms("all back to all caught up", caughtUpMs),
  ];
}

async function compared(net: ValidatorsNet, firstStates: ReadonlyMap<string, bigint>): Promise<ComparedNode[]> {
  return Promise.all(
    net.names.map(async (name) => {
      const status = await net.status(name);
      assert.ok(status !== undefined);
      const { rpc, rest } = net.urls(name);
      return { name, rpc, rest, earliest: status.earliest, firstState: firstStates.get(name) ?? 1n };
    }),
  );
}

/** A fifth node fetches a snapshot instead of the blocks. @returns the figures, and its name and first state */
async function joinFifth({ net, progress }: Ground) {
  progress("a fifth node joins by state sync");
  const startMs = performance.now();
  const before = await net.height();
  const name = await net.addNode(LONG_MS);
  const status = await net.status(name);
  assert.ok(status !== undefined && status.earliest > 1n, "it has not run every block");
  const figures = [
    ms("a fifth node joins by state sync", performance.now() - startMs),
    count("blocks that it did not run", Number(status.earliest) - 1),
    count("height when it joined", Number(before)),
  ];
  // The first block that it keeps is the one behind the snapshot.
  return { name, firstState: status.earliest - 1n, figures };
}

/** Everything is the same everywhere. */
async function checkAll(
  { net, size, progress }: Ground,
  load: SteadyLoad,
  fifth: { name: string; firstState: bigint },
) {
  progress("waiting for every transaction that a node took");
  await load.drain(20_000);
  assert.deepEqual(load.refused, []);
  assert.ok(load.told.size > 0);
  const latest = (await net.height()) - 1n;
  for (const name of net.names) {
    await net.until(
      `${name} at block ${latest}`,
      LONG_MS,
      async () => ((await net.status(name))?.latest ?? 0n) >= latest,
    );
  }
  const firstStates = new Map([[fifth.name, fifth.firstState]]);
  const nodes = await compared(net, firstStates);
  const [first] = nodes;
  assert.ok(first !== undefined);
  progress(`comparing ${latest} heights on ${nodes.length} nodes`);
  const receiver = (await namedKey(net.layout.keysFolder, "service-owner")).signer.address;
  const heights = await compareHeights(nodes, latest, receiver);
  const newest = Array.from({ length: size.restHeights }, (_, index) => latest - BigInt(index));
  const rest = await compareRest(nodes, REST_PATHS.concat(`/cosmos/bank/v1beta1/balances/${receiver}`), newest);
  await findTold(nodes.slice(0, VALIDATORS), load.told);
  const below = { headers: { "x-cosmos-block-height": `${fifth.firstState - 1n}` } };
  const past = await fetch(`${net.urls(fifth.name).rest}/cosmos/bank/v1beta1/supply`, below);
  assert.ok(past.status >= 400, `a state from before the snapshot: ${past.status} ${await past.text()}`);
  return {
    latest,
    figures: [
      count("heights", Number(latest)),
      count("heights compared, over all nodes", heights),
      count("REST answers compared", rest),
      count("transactions sent", load.sent),
      count("transactions told committed, and found on every validator", load.told.size),
      count("transactions that went down with a node's mempool", load.pending.size),
    ],
  };
}

const REST_PATHS = [
  "/cosmos/staking/v1beta1/validators",
  "/pokt-network/poktroll/application/application",
  "/pokt-network/poktroll/supplier/supplier",
  "/cosmos/bank/v1beta1/supply",
];

/**
 * Four validators under CometBFT, each in a network namespace, under a steady load: one is killed, one is cut off, then two at
 * once, and all come back. A fifth joins by state sync. Every node has the same app hash at every height.
 */
export const validators: ChaosPart = async ({ size: sizeName, progress }) => {
  const why = await whyNoTestnet();
  if (why !== false) return { figures: [], skipped: [`four validators in namespaces: ${why}`] };
  const size = SIZES[sizeName];
  const figures: ChaosFigure[] = [];
  progress("four validators start");
  const startMs = performance.now();
  {
    await using net = await ValidatorsNet.start(VALIDATORS);
    await net.moreBlocks(2n, LONG_MS);
    figures.push(ms("four validators, from nothing to block 2", performance.now() - startMs));
    const said: string[] = [];
    const watched = () => net.names.map((name) => ({ name, rpc: net.urls(name).rpc }));
    const modules = { clock: systemClock, onEvent: (text: string) => void said.push(text) };
    await using _watch = new ChainWatch({ nodes: watched, standMs: STAND_MS, everyMs: 500 }, modules);
    const sender = (await namedKey(net.layout.keysFolder, "delegator")).signer;
    await using client = new ChainClient({ url: net.urls("node0").rpc }, { clock: systemClock });
    const account = await client.account(sender.address);
    assert.ok(account !== undefined);
    await using load = new SteadyLoad({
      chainId: CHAIN_ID,
      signer: sender,
      accountNumber: account.accountNumber,
      to: (await namedKey(net.layout.keysFolder, "service-owner")).signer.address,
      everyMs: EVERY_MS,
      targets: () => net.present.map((name) => net.urls(name).rpc),
    });
    const ground: Ground = { net, said, size, progress };
    for (let round = 0; round < size.rounds; round++) {
      // Each round takes others.
      const [a, b, c, d] = [3, 2, 1, 3].map((number) => `node${(number + round) % VALIDATORS}`) as [
        string,
        string,
        string,
        string,
      ];
      figures.push(...(await killOne(ground, a)), ...(await cutOne(ground, b)), ...(await haltAll(ground, c, d)));
    }
    const fifth = await joinFifth(ground);
    figures.push(...fifth.figures);
    const checked = await checkAll(ground, load, fifth);
    figures.push(...checked.figures);
    assert.deepEqual(net.events, [], "a process ended by itself");
    await load[Symbol.asyncDispose]();
    await net.stopNodes();
    const stores = net.names.map((name) => ({
      name,
      folder: chainHome(net.layout.nodeFolder(name)).storeFolder,
      firstState: name === fifth.name ? fifth.firstState : 1n,
    }));
    figures.push(count("app hashes compared in the nodes' stores", await compareStores(stores, checked.latest)));
  }
  figures.push(ms("all of it", performance.now() - startMs));
  return { figures };
};
