import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { bytesToHex, systemClock } from "@turnpike/base";
import { Overlay } from "@turnpike/chain";
import { ChainClient, signTx } from "@turnpike/chain-client";
import { chainHome } from "@turnpike/chain-node";
import { openChainStore } from "@turnpike/chain-store";
import { sha256 } from "@turnpike/crypto";
import { namedKey, PORTS, type TestnetLayout, votesText } from "@turnpike/devnet";
import { bank, createMessage, packAny } from "@turnpike/proto";
import { GasMeter } from "../../../packages/chain/src/state/gas.ts";
import { assertState } from "../../../packages/chain/test/generated/invariants.ts";
import type { ChaosFigure, ChaosPart, ChaosReport } from "../chaos.ts";
import { GeneratedLoad, LOAD_ADDRESSES } from "./byzantine-load.ts";
import { gapsOf, lateBlocks, longestMs, type Outage, type TimedBlock } from "./support/block-times.ts";
import { BYZANTINE_BLOCKS } from "./support/byzantine-blocks.ts";
import { BYZANTINE_FILE, BYZANTINE_PORT, type ByzantineFile, type ProposedBlock } from "./support/byzantine-file.ts";
import { type ComparedNode, compareHeights, compareStores, findTold, patientClient } from "./validators-check.ts";
import { SteadyLoad } from "./validators-load.ts";
import { CHAIN_ID, ValidatorsNet, whyNoTestnet } from "./validators-net.ts";

const COMMAND_FILE = join(import.meta.dirname, "support/byzantine-command.ts");
const VALIDATORS = 4;
const BYZANTINE = "node3";
/** Faucet's account number: the genesis numbers the roles in their order. */
const FAUCET_NUMBER = 0n;
const QUIET_BLOCKS = 12n;
const FUNDS_UPOKT = 10_000_000_000n;
/** More than the load can bond: its validators never vote, and one killed node must not leave less than two thirds. */
const BOND_UPOKT = 900_000_000_000n;
/** Time for anything to happen: a loaded machine of two cores runs nine processes here. */
const LONG_MS = 180_000;
/** `lateMs`: maximum by which a block may come later than those before the attack, while a quorum of honest nodes runs. */
const SIZES = {
  // Other tests run beside it.
  short: { seconds: 60, pauseMs: 12_000, loadMs: 300, lateMs: 15_000 },
  full: { seconds: 1_800, pauseMs: 20_000, loadMs: 100, lateMs: 5_000 },
} as const;
// As CometBFT has it by default: blocks of 8 MB reach the others in time.
const TIMES = { commitMs: 300, proposeMs: 3_000 };

const count = (what: string, value: number): ChaosFigure => ({ what, value, unit: "" });
const ms = (what: string, value: number): ChaosFigure => ({ what, value: Math.round(value), unit: "ms" });

/** Puts the proxy between CometBFT and the application of one validator. */
async function makeByzantine(layout: TestnetLayout): Promise<void> {
  const folder = layout.nodeFolder(BYZANTINE);
  const config = join(folder, "config/config.toml");
  const text = await readFile(config, "utf8");
  const changed = text.replace(`tcp://127.0.0.1:${PORTS.abci}`, `tcp://127.0.0.1:${BYZANTINE_PORT}`);
  assert.notEqual(changed, text);
  const mempool = "\n[mempool]\nmax_tx_bytes = 21000000\nbroadcast = false\n";
  await writeFile(config, `${changed}${mempool}`);
  const { privateKey } = await namedKey(layout.keysFolder, "faucet");
  const file: ByzantineFile = {
    privateKey: bytesToHex(privateKey),
    accountNumber: `${FAUCET_NUMBER}`,
    chainId: CHAIN_ID,
    abciPort: PORTS.abci,
    log: join(folder, "proposed.jsonl"),
    fromHeight: `${QUIET_BLOCKS + 2n}`,
  };
  await writeFile(join(folder, BYZANTINE_FILE), JSON.stringify(file));
}

async function fund(net: ValidatorsNet): Promise<void> {
  const { signer } = await namedKey(net.layout.keysFolder, "faucet");
  const coins = (amount: bigint) => [{ denom: "upokt", amount: `${amount}` }];
  const total = FUNDS_UPOKT * BigInt(LOAD_ADDRESSES.length);
  const send = createMessage(bank.MsgMultiSendSchema, {
    inputs: [{ address: signer.address, coins: coins(total) }],
    outputs: LOAD_ADDRESSES.map((address) => ({ address, coins: coins(FUNDS_UPOKT) })),
  });
  await using client = new ChainClient({ url: net.urls("node0").rpc }, { clock: systemClock });
  const order = { kind: "unordered", timeoutNanos: BigInt(Date.now()) * 1_000_000n + 300_000_000_000n } as const;
  const unsigned = { messages: [packAny(bank.MsgMultiSendSchema, send)], chainId: CHAIN_ID, order };
  const fee = [{ denom: "upokt", amount: 1_000n }];
  const bytes = signTx({ ...unsigned, accountNumber: FAUCET_NUMBER, gasLimit: 5_000_000n, fee }, signer);
  const { code, log, hash } = await client.broadcast(bytes);
  assert.equal(code, 0, log);
  await net.until("the funds of the load", LONG_MS, async () => (await client.tx(hash)) !== undefined);
  assert.equal((await client.tx(hash))?.code, 0);
}

/** Kills one node after another and brings it back, until the time is over. */
async function killUntil(
  net: ValidatorsNet,
  endMs: number,
  pauseMs: number,
  progress: (text: string) => void,
): Promise<Outage[]> {
  const outages: Outage[] = [];
  while (performance.now() < endMs) {
    await delay(Math.min(pauseMs / 2 + randomInt(pauseMs), Math.max(0, endMs - performance.now())));
    if (performance.now() >= endMs) break;
    const name = `node${randomInt(VALIDATORS)}`;
    const killHeight = await net.height();
    const startMs = Date.now();
    await net.kill(name);
    await net.moreBlocks(2n, LONG_MS);
    await net.revive(name);
    await net.caughtUp(name, LONG_MS);
    // Without the byzantine node three honest ones run; without one of these, two of four.
    outages.push({ startMs, endMs: Date.now(), isQuorumUp: name === BYZANTINE });
    progress(`${name} was killed at block ${killHeight}, and follows at ${await net.height()}`);
  }
  return outages;
}

interface Block extends TimedBlock {
  readonly proposer: string;
  readonly round: number;
  /** SHA-256 of the first transaction. */
  readonly first: string;
}

interface BlockAnswer {
  readonly block: {
    readonly header: { readonly time: string; readonly proposer_address: string };
    readonly data: { readonly txs: readonly string[] | null };
    readonly last_commit: { readonly round: number };
  };
}

async function blocksOf(node: ComparedNode, latest: bigint): Promise<Block[]> {
  await using client = patientClient(node);
  const blocks: Block[] = [];
  for (let height = 1n; height <= latest; height++) {
    const answer = await client.call("block", { height: `${height}` });
    assert.ok(answer.ok);
    const { header, data, last_commit: commit } = (answer.result as unknown as BlockAnswer).block;
    const [tx] = data.txs ?? [];
    const first = tx === undefined ? "" : bytesToHex(sha256(Buffer.from(tx, "base64")));
    const timeMs = Date.parse(header.time);
    blocks.push({ heightBlocks: height, timeMs, proposer: header.proposer_address, round: commit.round, first });
  }
  return blocks;
}

async function proposedBlocks(layout: TestnetLayout): Promise<ProposedBlock[]> {
  const text = await readFile(join(layout.nodeFolder(BYZANTINE), "proposed.jsonl"), "utf8").catch(() => "");
  return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as ProposedBlock]));
}

/** Figures of what was proposed, refused and decided, and of how long blocks took; blocks that came too late are faults. */
function blockReport(
  blocks: readonly Block[],
  proposed: readonly ProposedBlock[],
  { outages, lateMs }: { readonly outages: readonly Outage[]; readonly lateMs: number },
): Required<Pick<ChaosReport, "figures" | "faults">> {
  const firstOf = new Map(blocks.map(({ heightBlocks, first }) => [`${heightBlocks}`, first]));
  const isDecided = ({ height, first }: ProposedBlock): boolean => first !== "" && firstOf.get(height) === first;
  const figures: ChaosFigure[] = [];
  for (const kind of Object.keys(BYZANTINE_BLOCKS)) {
    const ofKind = proposed.filter((block) => block.kind === kind);
    const decided = ofKind.filter(isDecided).length;
    figures.push(count(`proposed: ${kind}`, ofKind.length), count(`decided: ${kind}`, decided));
  }
  // The first block waits for the start of all nodes.
  const quietMs = longestMs(gapsOf(blocks.slice(2, Number(QUIET_BLOCKS))));
  const later = gapsOf(blocks.slice(Number(QUIET_BLOCKS) - 1), outages);
  const unexcused = later.filter(({ isExcused }) => !isExcused);
  const isLate = ({ ms }: { readonly ms: number }): boolean => ms > quietMs + lateMs;
  const sorted = later.map((gap) => gap.ms).sort((a, b) => a - b);
  const rounds = blocks.slice(1).filter(({ round }) => round > 0).length;
  figures.push(
    ms("longest time between blocks before the attack", quietMs),
    ms("longest time between blocks under it", longestMs(later)),
    ms("… while a quorum of honest nodes runs", longestMs(unexcused)),
    count(`times above ${lateMs / 1_000} s beyond that before`, later.filter(isLate).length),
    count("… while a quorum of honest nodes runs", unexcused.filter(isLate).length),
    ms("median time between blocks under it", sorted[sorted.length >> 1] ?? 0),
    count("blocks that took more than one round", rounds),
  );
  return { figures, faults: lateBlocks(later, quietMs, lateMs) };
}

async function assertSupply(layout: TestnetLayout, latest: bigint): Promise<void> {
  await using store = await openChainStore({ folder: chainHome(layout.nodeFolder("node0")).storeFolder });
  const block = {
    chainId: CHAIN_ID,
    heightBlocks: latest,
    timeNanos: 0n,
    hash: new Uint8Array(0),
    proposer: new Uint8Array(0),
  };
  const state = new Overlay(store.at(latest));
  assertState({ block, mode: "query", state, gas: new GasMeter(), events: [] });
}

/** Votes of the nodes that answer, the newest hostile blocks, and lines of the logs that say why consensus ended. */
async function whatStopped(net: ValidatorsNet): Promise<string[]> {
  const lines = (await proposedBlocks(net.layout)).slice(-3).map((block) => JSON.stringify(block));
  for (const name of net.present) {
    await using client = new ChainClient({ url: net.urls(name).rpc }, { clock: systemClock });
    const answer = await client.call("consensus_state", {}).catch(() => undefined);
    lines.push(`${name}: ${answer?.ok === true ? votesText(answer.result) : "no answer"}`);
  }
  for (const name of net.names) {
    for (const program of ["cometbft", "turnpike"] as const) {
      const text = await readFile(net.layout.logFile(name, program), "utf8").catch(() => "");
      const ended = text.split("\n").filter((line) => /CONSENSUS FAILURE|panic|abci request failed/.test(line));
      lines.push(...ended.slice(0, 2).map((line) => `${name} ${program}: ${line.slice(0, 600)}`));
    }
  }
  return lines;
}

async function caughtUp(net: ValidatorsNet): Promise<{ nodes: ComparedNode[]; latest: bigint }> {
  const latest = (await net.height()) - 1n;
  for (const name of net.names) {
    await net.until(`${name} at ${latest}`, LONG_MS, async () => ((await net.status(name))?.latest ?? 0n) >= latest);
  }
  const nodes = net.names.map((name) => ({ name, earliest: 1n, firstState: 1n, ...net.urls(name) }));
  return { nodes, latest };
}

interface Attack {
  readonly seed: string;
  readonly seconds: number;
  readonly size: (typeof SIZES)[keyof typeof SIZES];
  readonly progress: (text: string) => void;
}

async function attack(net: ValidatorsNet, { seed, seconds, size, progress }: Attack): Promise<ChaosReport> {
  await net.until("quiet blocks", LONG_MS, async () => (await net.height()) >= QUIET_BLOCKS);
  await fund(net);
  const targets = () => net.present.map((name) => net.urls(name).rpc);
  const sender = (await namedKey(net.layout.keysFolder, "delegator")).signer;
  const receiver = (await namedKey(net.layout.keysFolder, "service-owner")).signer.address;
  await using client = new ChainClient({ url: net.urls("node0").rpc }, { clock: systemClock });
  const account = await client.account(sender.address);
  assert.ok(account !== undefined);
  const { accountNumber } = account;
  const steadyOptions = { chainId: CHAIN_ID, signer: sender, accountNumber, to: receiver, everyMs: 500, targets };
  await using load = new SteadyLoad(steadyOptions);
  await using hostile = new GeneratedLoad({ chainId: CHAIN_ID, seed, everyMs: size.loadMs, targets });
  const startMs = performance.now();
  const endMs = startMs + seconds * 1_000;
  const outages = await killUntil(net, endMs, size.pauseMs, progress);
  await hostile[Symbol.asyncDispose]();
  await load.drain(20_000);
  const { nodes, latest } = await caughtUp(net);
  const [first] = nodes;
  assert.ok(first !== undefined);
  const attackMs = performance.now() - startMs;
  const { lateMs } = size;
  const ofBlocks = blockReport(await blocksOf(first, latest), await proposedBlocks(net.layout), { outages, lateMs });
  // The comparison takes minutes: the times are said before it.
  for (const { what, value, unit } of ofBlocks.figures) if (unit === "ms") progress(`${what}: ${value} ms`);
  progress(`comparing ${latest} heights`);
  const heights = await compareHeights(nodes, latest, receiver);
  await findTold(nodes, load.told);
  assert.deepEqual(net.events, [], "a process ended by itself");
  assert.ok(load.told.size > 0);
  await load[Symbol.asyncDispose]();
  await net.stopNodes();
  const stores = net.names.map((name) => ({
    name,
    folder: chainHome(net.layout.nodeFolder(name)).storeFolder,
    firstState: 1n,
  }));
  const hashes = await compareStores(stores, latest);
  await assertSupply(net.layout, latest);
  const figures = [
    count("heights", Number(latest)),
    count("heights compared, over all nodes", heights),
    count("app hashes compared in the nodes' stores", hashes),
    count("kills with SIGKILL", outages.length),
    count("transactions of the generator sent", hostile.sent),
    count("accepted by a mempool", hostile.accepted),
    count("refused by a mempool", hostile.refused),
    count("transfers sent", load.sent),
    count("transfers told committed, and found on every validator", load.told.size),
    ...ofBlocks.figures,
    ms("time of the attack", attackMs),
  ];
  return { figures, faults: ofBlocks.faults };
}

/**
 * Four validators under CometBFT, one of them byzantine: its blocks are too large, hold duplicates, bytes that are no
 * transaction, and gas sums that overflow, and it accepts every block. Meanwhile the generator's transactions and transfers come
 * in, and nodes are killed. No honest process ends, transfers are paid, all have one hash at every height, and no block comes
 * late while a quorum of honest nodes runs.
 */
export const byzantine: ChaosPart = async ({ size: sizeName, seconds, progress }) => {
  const why = await whyNoTestnet();
  if (why !== false) return { figures: [], skipped: [`a byzantine validator in a namespace: ${why}`] };
  const size = SIZES[sizeName];
  const seed = process.env.TURNPIKE_CHAOS_SEED ?? `${randomInt(2 ** 47)}`;
  progress(`seed ${seed}: four validators start, ${BYZANTINE} is byzantine`);
  await using net = await ValidatorsNet.start(VALIDATORS, {
    commandFile: COMMAND_FILE,
    times: TIMES,
    bondUpokt: BOND_UPOKT,
    prepare: makeByzantine,
  });
  try {
    const attacked = { seed, seconds: seconds ?? size.seconds, size, progress };
    return await attack(net, attacked);
  } catch (error) {
    for (const line of await whatStopped(net)) progress(line);
    throw error;
  }
};
