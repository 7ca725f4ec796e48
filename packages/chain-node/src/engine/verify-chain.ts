import { access } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { AppError, bytesEqual, type Log, silentLog } from "@turnpike/base";
import { ChainApp, chainStartOf, type GenesisDocument, type StateMachine } from "@turnpike/chain";
import { type ChainStore, openChainStore, refusedStore, STORE_FILE } from "@turnpike/chain-store";
import { consensusHash, resultsHash, rfc3339ToNs, txHash, verifyCommit, verifyNextBlock } from "@turnpike/cometbft";
import type { StoredBlock } from "../types.ts";
import { BlockStore } from "./block-store.ts";
import { engineParams } from "./engine-params.ts";
import { firstPosition, storedPosition } from "./position.ts";

export interface VerifyChainOptions {
  /** Folder of the store. */
  readonly folder: string;
  readonly genesis: GenesisDocument;
  readonly version: string;
}

export interface VerifyChainModules {
  readonly machine: StateMachine;
  readonly log?: Log;
  /** Called now and then with a line for a person: how far it is. */
  readonly progress?: (text: string) => void;
}

/** What {@link verifyChain} looked at. */
export interface VerifiedChain {
  /** Newest block; 0 before the first. */
  readonly heightBlocks: bigint;
  /** App hash after it, 32 bytes. */
  readonly appHash: Uint8Array;
  /** Blocks that were followed from the first to the newest; 0 where CometBFT keeps them. */
  readonly blocks: number;
  /** Transactions in them. */
  readonly txs: number;
}

const TURN_BLOCKS = 64n;

function damaged(what: string): AppError {
  return new AppError("CHAIN_STORE_DAMAGED", { message: `The chain's store is damaged: ${what}.` });
}

/**
 * Reads a stopped node's store whole: every page and value, the newest state against its app hash, and, where the
 * embedded engine made the blocks, each block as a full node would, with its transactions and results.
 * @throws AppError CHAIN_STORE_DAMAGED, CHAIN_STORE where there is no store, CHAIN_STORE_BUSY while a node runs there,
 * CONFIG_INVALID for another chain's genesis
 */
export async function verifyChain(opts: VerifyChainOptions, modules: VerifyChainModules): Promise<VerifiedChain> {
  const { genesis, folder, version } = opts;
  const { machine, log = silentLog, progress } = modules;
  progress?.("pages and values");
  // To open a folder without one would make an empty one there, and find it sound.
  await access(join(folder, STORE_FILE)).catch((cause: unknown) => {
    throw refusedStore(folder, `${STORE_FILE} is missing or cannot be read: restore it from a copy`, cause);
  });
  await using store = await openChainStore({ folder, check: "whole" }, { log });
  progress?.("newest state");
  await store.verify();
  const application = new ChainApp({ version }, { machine, store, log });
  if (store.latestHeightBlocks() === undefined)
    return { heightBlocks: 0n, appHash: new Uint8Array(0), blocks: 0, txs: 0 };
  const start = chainStartOf(genesis);
  const started = await application.start(start);
  const heightBlocks = application.latestHeightBlocks();
  const whole = { heightBlocks, appHash: application.latestAppHash() };
  const first = firstPosition(start.initialHeightBlocks, started);
  const blocks = new BlockStore({
    store,
    heights: { initialBlocks: start.initialHeightBlocks, latestBlocks: () => heightBlocks },
    firstValidators: (height) => (height === first.nextHeightBlocks ? first.validators : first.nextValidators),
  });
  if (heightBlocks === 0n || !hasBlocks(store, blocks, heightBlocks)) return { ...whole, blocks: 0, txs: 0 };
  let last: StoredBlock | undefined;
  let txs = 0;
  for (let height = start.initialHeightBlocks; height <= heightBlocks; height++) {
    if (height % TURN_BLOCKS === 0n) {
      progress?.(`block ${height} of ${heightBlocks}`);
      await nextTurn();
    }
    last = verifyBlock({ genesis, first, store, blocks }, height, last);
    txs += last.block.txs.length;
  }
  return { ...whole, blocks: Number(heightBlocks - start.initialHeightBlocks + 1n), txs };
}

// Under CometBFT the store has the state alone.
function hasBlocks(store: ChainStore, blocks: BlockStore, heightBlocks: bigint): boolean {
  try {
    storedPosition(store, blocks, heightBlocks);
    return true;
  } catch (cause) {
    if (cause instanceof AppError && cause.code === "CONFIG_INVALID") return false;
    throw cause;
  }
}

interface Verifying {
  readonly genesis: GenesisDocument;
  readonly first: ReturnType<typeof firstPosition>;
  readonly store: ChainStore;
  readonly blocks: BlockStore;
}

function verifyBlock({ genesis, first, store, blocks }: Verifying, height: bigint, last: StoredBlock | undefined) {
  const stored = blocks.block(height);
  const results = blocks.results(height);
  const before = last === undefined ? undefined : blocks.results(height - 1n);
  const [own, next, previous] = [0n, 1n, -1n].map((ahead) => blocks.validatorsAhead(height + ahead));
  if (stored === undefined || results === undefined) throw damaged(`block ${height} is missing`);
  if (own === undefined || next === undefined || previous === undefined)
    throw damaged(`who signs block ${height} is missing`);
  const params = engineParams(genesis);
  const appHash = last === undefined ? first.appHash : store.appHash(height - 1n);
  const verdict = verifyNextBlock(stored.block, {
    chainId: genesis.chain_id,
    appVersion: params.appVersion,
    initialHeight: first.nextHeightBlocks,
    genesisTimeNs: rfc3339ToNs(genesis.genesis_time) ?? 0n,
    last: last && { id: last.id, height: height - 1n, timeNs: last.block.header.timeNs, validators: previous },
    validators: own,
    nextValidators: next,
    consensusHash: consensusHash(params),
    appHash: appHash ?? new Uint8Array(0),
    lastResultsHash: resultsHash(before?.txResults ?? []),
  });
  if (!verdict.ok) throw damaged(`block ${height}: ${verdict.fault}`);
  const commit = blocks.commit(height)?.commit;
  const check = { chainId: genesis.chain_id, validators: own, blockId: stored.id, height };
  const signed = commit === undefined ? undefined : verifyCommit({ ...check, commit });
  if (signed?.ok !== true) throw damaged(`block ${height} is not signed (${signed?.fault ?? "no commit"})`);
  if (!bytesEqual(results.appHash, store.appHash(height) ?? new Uint8Array(0)))
    throw damaged(`block ${height} has another app hash`);
  for (const bytes of stored.block.txs) {
    if (blocks.tx(txHash(bytes)) === undefined)
      throw damaged(`a transaction of block ${height} is not found by its hash`);
  }
  return stored;
}
