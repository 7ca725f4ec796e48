import { join } from "node:path";
import { type Log, silentLog } from "@turnpike/base";
import type { ChainApp, ChainStart } from "@turnpike/chain";
import { type Bytes, type LmdbChainStore, openChainStore } from "@turnpike/chain-store";
import { sha256 } from "@turnpike/crypto";
import { packChunk } from "../../src/snapshots/chunk-codec.ts";
import { SNAPSHOT_FORMAT } from "../../src/snapshots/format.ts";
import { SnapshotFolder } from "../../src/snapshots/snapshot-folder.ts";
import { SnapshotRestorer } from "../../src/snapshots/snapshot-restorer.ts";
import type { KeptSnapshot, SnapshotOffer } from "../../src/snapshots/types.ts";
import { NO_VALIDATOR, sendTx, testApp, testAppState } from "../abci/chain.ts";

/** The genesis of the chains here. */
export const GENESIS: ChainStart = {
  chainId: "abci-test",
  initialHeightBlocks: 1n,
  timeNanos: 1_800_000_000_000_000_000n,
  appState: testAppState(NO_VALIDATOR),
};

/** An application on a store of its own. */
export interface TestNode extends AsyncDisposable {
  readonly store: LmdbChainStore;
  readonly application: ChainApp;
  readonly folder: SnapshotFolder;
  readonly restorer: SnapshotRestorer;
}

/** Opens a node in a folder; it has no genesis yet. */
export async function openNode(path: string, log: Log = silentLog): Promise<TestNode> {
  const store = await openChainStore({ folder: join(path, "store") });
  const application = testApp(store);
  const folder = new SnapshotFolder({ folder: join(path, "snapshots") }, { log });
  const restorer = new SnapshotRestorer({ genesis: GENESIS }, { store, application, log });
  return {
    store,
    application,
    folder,
    restorer,
    async [Symbol.asyncDispose]() {
      await restorer[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

/** Runs and writes the next block, with a transfer. */
export async function nextBlock({ application }: TestNode): Promise<Bytes> {
  const heightBlocks = application.latestHeightBlocks() + 1n;
  const block = {
    chainId: GENESIS.chainId,
    heightBlocks,
    timeNanos: GENESIS.timeNanos + heightBlocks * 1_000_000_000n,
    hash: Buffer.alloc(32, Number(heightBlocks)),
    proposer: Buffer.alloc(20, 1),
  };
  const { appHash } = application.run(block, [sendTx(heightBlocks - 1n, 10n)]);
  await application.commit([]);
  return appHash;
}

/** A node with the genesis and blocks. */
export async function startNode(path: string, blocks: number): Promise<TestNode> {
  const node = await openNode(path);
  await node.application.start(GENESIS);
  for (let made = 0; made < blocks; made++) await nextBlock(node);
  return node;
}

/** What a hostile node may offer: chunks of its own, with sums that fit. */
export interface Forged {
  readonly offer: SnapshotOffer;
  readonly packed: readonly Bytes[];
}

/** Makes a snapshot of any bytes, as chunks. */
export async function forge(heightBlocks: bigint, chunks: readonly Bytes[]): Promise<Forged> {
  const metadata = Buffer.concat(chunks.map(sha256));
  return {
    offer: { heightBlocks, format: SNAPSHOT_FORMAT, chunks: chunks.length, hash: sha256(metadata), metadata },
    packed: await Promise.all(chunks.map(packChunk)),
  };
}

/** Bytes of an entry in a chunk. @param lengths to say instead of the true ones */
export function entryBytes(key: Bytes, value: Bytes, lengths: readonly [number?, number?] = []): Buffer {
  const head = Buffer.alloc(6);
  head.writeUInt16BE(lengths[0] ?? key.length);
  head.writeUInt32BE(lengths[1] ?? value.length, 2);
  return Buffer.concat([head, key, value]);
}

/** Gives a snapshot's chunks to another node; what became of each. */
export async function applyAll(from: TestNode, snapshot: KeptSnapshot, to: TestNode): Promise<string[]> {
  const results: string[] = [];
  for (let chunk = 0; chunk < snapshot.chunks; chunk++) {
    const packed = await from.folder.load(snapshot.heightBlocks, snapshot.format, chunk);
    const { result } = await to.restorer.apply(chunk, packed ?? Buffer.alloc(0), "peer");
    results.push(result);
  }
  return results;
}
