import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { bytesToHex } from "@turnpike/base";
import { ChainApp, type GenesisDocument, PROTOCOL_VERSION } from "@turnpike/chain";
import { CometRpc, CometSource } from "@turnpike/chain-node";
import { openChainStore } from "@turnpike/chain-store";
import { rfc3339ToNs } from "@turnpike/cometbft";
import { machineOf } from "./nodes.ts";

/** A decided block, as JSON. */
export interface DecidedBlock {
  readonly height: string;
  readonly timeNanos: string;
  readonly hash: string;
  readonly proposer: string;
  readonly txs: readonly string[];
  /** App hash after it. */
  readonly appHash: string;
  /** Results of transactions, events, changed validators: JSON text. */
  readonly results: string;
}

/** A chain from its genesis, as JSON. */
export interface DecidedChain {
  readonly genesis: GenesisDocument;
  readonly blocks: readonly DecidedBlock[];
}

/** What a run of a chain's blocks gave. */
export interface Replayed {
  readonly appHashes: readonly string[];
  readonly results: readonly string[];
  /** The process's locale and time zone. */
  readonly locale: string;
  readonly timeZone: string;
}

// One text for equal values: members in one order, bytes as hex digits, whatever kind of array holds them.
function plain(value: unknown): unknown {
  if (typeof value === "bigint") return `${value}`;
  if (value instanceof Uint8Array) return bytesToHex(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, plain(member)]));
}

const textOf = (value: unknown): string => JSON.stringify(plain(value));

/** Reads the blocks of a node over its RPC: all but the newest, whose app hash only the next header will say. */
export async function readDecided(rpcUrl: string, genesis: GenesisDocument): Promise<DecidedChain> {
  using rpc = new CometRpc({ url: rpcUrl });
  const source = new CometSource({ rpc });
  const latest = await source.latestHeightBlocks();
  const blocks: DecidedBlock[] = [];
  for (let height = 1n; height < latest; height++) {
    const [stored, next, results] = await Promise.all([
      source.block(height),
      source.block(height + 1n),
      source.results(height),
    ]);
    assert.ok(stored && next && results);
    const { header, txs } = stored.block;
    const { txResults, events, validatorUpdates } = results;
    blocks.push({
      height: `${height}`,
      timeNanos: `${header.timeNs}`,
      hash: bytesToHex(stored.id.hash),
      proposer: bytesToHex(header.proposerAddress),
      txs: txs.map((tx) => bytesToHex(tx)),
      appHash: bytesToHex(next.block.header.appHash),
      results: textOf({ txResults, events, validatorUpdates }),
    });
  }
  return { genesis, blocks };
}

const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, "hex"));

/** Runs decided blocks from the genesis on a store of their own, as the embedded engine drives the application. */
export async function replay({ genesis, blocks }: DecidedChain): Promise<Replayed> {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-replay-"));
  try {
    await using store = await openChainStore({ folder });
    const { machine } = machineOf(genesis);
    const app = new ChainApp({ version: PROTOCOL_VERSION }, { machine, store });
    const chainId = genesis.chain_id;
    const timeNanos = rfc3339ToNs(genesis.genesis_time);
    assert.ok(timeNanos !== undefined);
    await app.start({ chainId, initialHeightBlocks: 1n, timeNanos, appState: genesis.app_state });
    const appHashes: string[] = [];
    const results: string[] = [];
    for (const block of blocks) {
      const info = {
        chainId,
        heightBlocks: BigInt(block.height),
        timeNanos: BigInt(block.timeNanos),
        hash: bytes(block.hash),
        proposer: bytes(block.proposer),
      };
      const ran = app.run(info, block.txs.map(bytes));
      await app.commit([]);
      const { results: txResults, events, validatorUpdates } = ran.outcome;
      appHashes.push(bytesToHex(ran.appHash));
      results.push(textOf({ txResults, events, validatorUpdates }));
    }
    const { locale, timeZone } = new Intl.DateTimeFormat().resolvedOptions();
    return { appHashes, results, locale, timeZone };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Asserts that a run of decided blocks gave what the chain has of them. */
export function assertReplayed({ blocks }: DecidedChain, { appHashes, results }: Replayed): void {
  for (const [i, block] of blocks.entries()) {
    assert.equal(results[i], block.results, `results of block ${block.height}`);
    assert.equal(appHashes[i], block.appHash, `app hash after block ${block.height}`);
  }
  assert.equal(appHashes.length, blocks.length);
}

/** The same in a process of its own, with other variables of the environment. */
export async function replayElsewhere(chain: DecidedChain, env: Readonly<Record<string, string>>): Promise<Replayed> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "replay-child.ts")], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, ...env },
  });
  const exit = once(child, "exit");
  child.stdin.end(JSON.stringify(chain));
  const out = await text(child.stdout);
  assert.deepEqual(await exit, [0, null]);
  return JSON.parse(out) as Replayed;
}

/** A value with the members of all its objects turned about. */
export function reordered<T>(value: T): T {
  const turn = (item: unknown): unknown => {
    if (Array.isArray(item)) return item.map(turn);
    if (typeof item !== "object" || item === null) return item;
    const members = Object.entries(item).map(([name, member]) => [name, turn(member)] as const);
    const half = Math.floor(members.length / 2);
    return Object.fromEntries([...members.slice(half).reverse(), ...members.slice(0, half)]);
  };
  return turn(value) as T;
}
