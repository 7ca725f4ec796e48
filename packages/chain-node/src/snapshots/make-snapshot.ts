import { setImmediate as nextTurn } from "node:timers/promises";
import { AppError } from "@turnpike/base";
import type { ChainStore } from "@turnpike/chain-store";
import { CHUNK_BYTES, ChunkCutter, MAX_CHUNKS } from "./format.ts";
import type { SnapshotFolder } from "./snapshot-folder.ts";
import type { KeptSnapshot } from "./types.ts";

export interface MakeSnapshotOptions {
  /** A height that the store has; at least 1, as in CometBFT. */
  readonly heightBlocks: bigint;
  /** Bytes of a chunk; by default, and at most, {@link CHUNK_BYTES}. */
  readonly chunkBytes?: number | undefined;
  readonly signal?: AbortSignal;
  /** Called now and then with how far it is. */
  readonly onProgress?: (entries: number, stateBytes: number) => void;
}

export interface MakeSnapshotModules {
  readonly store: Pick<ChainStore, "at" | "appHash">;
  readonly folder: SnapshotFolder;
}

/** Most that is read before the event loop runs other work. */
const SLICE_ENTRIES = 256;
const SLICE_BYTES = 262_144;

/**
 * Writes the state after a block into the folder, in slices that do not hold the thread. Blocks may be committed meanwhile.
 * @throws AppError HEIGHT_UNAVAILABLE when it is not kept, or was pruned meanwhile; CHAIN_STORE when it is too large; those
 * of the store and of a disk that is full.
 */
export async function makeSnapshot(opts: MakeSnapshotOptions, modules: MakeSnapshotModules): Promise<KeptSnapshot> {
  const { heightBlocks, signal, onProgress } = opts;
  const { store, folder } = modules;
  const reader = store.at(heightBlocks);
  const appHash = store.appHash(heightBlocks);
  if (appHash === undefined || heightBlocks < 1n) {
    throw new AppError("HEIGHT_UNAVAILABLE", { message: `There is no state after block ${heightBlocks}.` });
  }
  await using draft = await folder.draft(heightBlocks);
  const cutter = new ChunkCutter({ chunkBytes: opts.chunkBytes ?? CHUNK_BYTES });
  let [chunks, entries, stateBytes, sliceEntries, sliceBytes] = [0, 0, 0, 0, 0];
  const add = async (chunk: Uint8Array): Promise<void> => {
    if (++chunks > MAX_CHUNKS) throw new AppError("CHAIN_STORE", { message: "The state is too large for a snapshot." });
    await draft.add(chunk);
  };
  for (const [key, value] of reader.range({ prefix: Buffer.alloc(0) })) {
    for (const chunk of cutter.add(key, value)) await add(chunk);
    entries++;
    stateBytes += key.length + value.length;
    sliceBytes += key.length + value.length;
    if (++sliceEntries < SLICE_ENTRIES && sliceBytes < SLICE_BYTES) continue;
    onProgress?.(entries, stateBytes);
    [sliceEntries, sliceBytes] = [0, 0];
    await nextTurn();
    signal?.throwIfAborted();
  }
  const last = cutter.end();
  if (last !== undefined) await add(last);
  return await draft.finish({ appHash, entries });
}
