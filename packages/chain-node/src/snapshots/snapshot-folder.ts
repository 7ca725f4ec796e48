import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { AppError, isRecord, type Log } from "@turnpike/base";
import { type Bytes, freeBytesOf, storeError } from "@turnpike/chain-store";
import { sha256 } from "@turnpike/crypto";
import { chunkHash, MAX_PACKED_BYTES, packChunk, sealFile, unsealFile } from "./chunk-codec.ts";
import { HASH_BYTES, MAX_CHUNKS, SNAPSHOT_FORMAT } from "./format.ts";
import type { KeptSnapshot } from "./types.ts";

export interface SnapshotFolderOptions {
  /** Folder of snapshots and of nothing else; it is made where it is not there. */
  readonly folder: string;
}

export interface SnapshotFolderModules {
  readonly log: Log;
  /** Room on a folder's disk, in bytes; undefined where it is not known. By default the system reports it. */
  readonly freeBytes?: (folder: string) => number | undefined;
}

/** A snapshot that is being written. Disposed of before it is finished, nothing of it is left. */
export interface SnapshotDraft extends AsyncDisposable {
  /** Writes the next chunk. */
  add(chunk: Bytes): Promise<void>;
  /** Makes it one of the kept ones: whole, or not at all. */
  finish(state: { readonly appHash: Bytes; readonly entries: number }): Promise<KeptSnapshot>;
}

const HEIGHT = /^[1-9]\d{0,18}$/;
const DRAFT = ".new";
const INFO = "info.json";
const METADATA = "metadata";
const MAX_INFO_BYTES = 4_096;
/** A snapshot leaves so much of the disk to blocks: without it one grows older, without them the chain stands. */
const LEFT_BYTES = 268_435_456;
const SUM_BYTES = 4;

const chunkFile = (chunk: number): string => `chunk-${chunk}`;
const hex = (bytes: Bytes): string => Buffer.from(bytes).toString("hex");

/** The snapshots of a node, a folder for each height. What is read of the disk is checked, and what is damaged not given. */
export class SnapshotFolder {
  readonly folder: string;
  readonly #log: Log;
  readonly #freeBytes: (folder: string) => number | undefined;
  // They never change once they have their name.
  readonly #known = new Map<string, KeptSnapshot>();
  readonly #damaged = new Set<string>();

  constructor(opts: SnapshotFolderOptions, { log, freeBytes }: SnapshotFolderModules) {
    this.folder = opts.folder;
    this.#log = log;
    this.#freeBytes = freeBytes ?? freeBytesOf;
  }

  /** Those that are whole, newest first. */
  async list(most = Number.POSITIVE_INFINITY): Promise<readonly KeptSnapshot[]> {
    const found: KeptSnapshot[] = [];
    for (const name of await this.#names()) {
      if (found.length >= most) break;
      const snapshot = await this.#read(name);
      if (snapshot !== undefined) found.push(snapshot);
    }
    return found;
  }

  /** The snapshot of a height. */
  async find(heightBlocks: bigint): Promise<KeptSnapshot | undefined> {
    const name = `${heightBlocks}`;
    return (await this.#names()).includes(name) ? this.#read(name) : undefined;
  }

  /** A chunk as it is sent; undefined when it is not here, or damaged. */
  async load(heightBlocks: bigint, format: number, chunk: number): Promise<Bytes | undefined> {
    if (format !== SNAPSHOT_FORMAT || heightBlocks < 1n) return undefined;
    const snapshot = await this.find(heightBlocks);
    if (snapshot === undefined || chunk >= snapshot.chunks) return undefined;
    const name = `${heightBlocks}`;
    const content = await readBounded(join(this.folder, name, chunkFile(chunk)), MAX_PACKED_BYTES + SUM_BYTES);
    const packed = content === undefined ? undefined : unsealFile(content);
    if (packed === undefined) await this.#setAside(name, chunkFile(chunk));
    return packed;
  }

  /** Begins a snapshot. One at a time. @throws AppError CHAIN_STORE, CHAIN_STORE_FULL */
  async draft(heightBlocks: bigint): Promise<SnapshotDraft> {
    const name = `${heightBlocks}`;
    const draft = join(this.folder, `${name}${DRAFT}`);
    await this.#guarded(async () => {
      await rm(draft, { recursive: true, force: true });
      await mkdir(draft, { recursive: true, mode: 0o700 });
    });
    const hashes: Bytes[] = [];
    let [stateBytes, fileBytes] = [0, 0];
    let isWhole = false;
    const write = async (file: string, content: Bytes): Promise<void> => {
      this.#checkRoom(content.length);
      fileBytes += content.length;
      await using handle = await open(join(draft, file), "wx", 0o600);
      await handle.writeFile(content);
      await handle.sync();
    };
    return {
      add: (chunk) =>
        this.#guarded(async () => {
          const [hash, packed] = await Promise.all([chunkHash(chunk), packChunk(chunk)]);
          await write(chunkFile(hashes.length), sealFile(packed));
          hashes.push(hash);
          stateBytes += chunk.length;
        }),
      finish: ({ appHash, entries }) =>
        this.#guarded(async () => {
          const metadata = Buffer.concat(hashes);
          await write(METADATA, metadata);
          const hash = sha256(metadata);
          const info = { format: SNAPSHOT_FORMAT, chunks: hashes.length, entries, stateBytes, fileBytes };
          await write(INFO, Buffer.from(JSON.stringify({ ...info, hash: hex(hash), appHash: hex(appHash) })));
          await syncFolder(draft);
          const replaced = join(this.folder, `${name}.old${DRAFT}`);
          await rm(replaced, { recursive: true, force: true });
          // Renamed, not removed in its place: half removed it would be offered after a crash.
          await rename(join(this.folder, name), replaced).catch(unlessMissing);
          await rename(draft, join(this.folder, name));
          isWhole = true;
          await syncFolder(this.folder);
          this.#damaged.delete(name);
          const kept: KeptSnapshot = { heightBlocks, ...info, hash, appHash: Uint8Array.from(appHash), metadata };
          this.#known.set(name, kept);
          await rm(replaced, { recursive: true, force: true });
          return kept;
        }),
      [Symbol.asyncDispose]: async () => {
        if (!isWhole) await rm(draft, { recursive: true, force: true });
      },
    };
  }

  /**
   * Removes all but the newest whole ones: older ones, and what is damaged.
   * @param ofHeightBlocks no block is later: snapshots above are of a chain that was in this folder before, and go
   */
  async keepNewest(count: number, ofHeightBlocks?: bigint): Promise<void> {
    const own = (await this.list()).filter(({ heightBlocks }) => heightBlocks <= (ofHeightBlocks ?? heightBlocks));
    const kept = new Set(own.slice(0, count).map(({ heightBlocks }) => `${heightBlocks}`));
    for (const name of await this.#entries()) if (HEIGHT.test(name) && !kept.has(name)) await this.#remove(name);
  }

  /** Removes what a crash left. No snapshot may be under way. */
  async removeLeftovers(): Promise<void> {
    for (const name of await this.#entries()) {
      if (name.endsWith(DRAFT)) await rm(join(this.folder, name), { recursive: true, force: true });
    }
  }

  async #remove(name: string): Promise<void> {
    this.#known.delete(name);
    // Renamed first: half removed it would be offered.
    const gone = join(this.folder, `${name}${DRAFT}`);
    await rm(gone, { recursive: true, force: true });
    await rename(join(this.folder, name), gone);
    await rm(gone, { recursive: true, force: true });
    this.#damaged.delete(name);
  }

  #checkRoom(bytes: number): void {
    const free = this.#freeBytes(this.folder);
    if (free === undefined || free - bytes >= LEFT_BYTES) return;
    throw new AppError("CHAIN_STORE_FULL", {
      message: `There is no room for a snapshot in ${this.folder}: ${LEFT_BYTES / 1_048_576} MiB of the disk are left to blocks. Make room on it.`,
    });
  }

  async #setAside(name: string, what: string): Promise<void> {
    this.#known.delete(name);
    // Removed while it was read: older ones go whenever there is a newer one.
    if (!(await this.#names()).includes(name)) return;
    this.#damaged.add(name);
    this.#log.error(
      { folder: join(this.folder, name), what },
      "a snapshot is damaged and offered no more; it goes when the next one is made",
    );
  }

  async #entries(): Promise<string[]> {
    return readdir(this.folder).catch(() => []);
  }

  async #names(): Promise<string[]> {
    const names = (await this.#entries()).filter((name) => HEIGHT.test(name) && !this.#damaged.has(name));
    return names.sort((a, b) => (BigInt(a) > BigInt(b) ? -1 : 1));
  }

  async #read(name: string): Promise<KeptSnapshot | undefined> {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const folder = join(this.folder, name);
    const info = await readBounded(join(folder, INFO), MAX_INFO_BYTES);
    const metadata = await readBounded(join(folder, METADATA), MAX_CHUNKS * HASH_BYTES);
    const read = info === undefined || metadata === undefined ? undefined : readInfo(BigInt(name), info, metadata);
    if (read === undefined) {
      await this.#setAside(name, INFO);
      return undefined;
    }
    for (let chunk = 0; chunk < read.chunks; chunk++) {
      const found = await stat(join(folder, chunkFile(chunk))).catch(() => undefined);
      if (found?.isFile() === true && found.size > SUM_BYTES) continue;
      await this.#setAside(name, chunkFile(chunk));
      return undefined;
    }
    this.#known.set(name, read);
    return read;
  }

  async #guarded<T>(action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (cause) {
      throw storeError(this.folder, cause);
    }
  }
}

function unlessMissing(cause: unknown): void {
  if (!isRecord(cause) || cause.code !== "ENOENT") throw cause;
}

async function readBounded(file: string, maxBytes: number): Promise<Buffer | undefined> {
  try {
    const found = await stat(file);
    return !found.isFile() || found.size > maxBytes ? undefined : await readFile(file);
  } catch {
    return undefined;
  }
}

function readInfo(heightBlocks: bigint, text: Buffer, metadata: Buffer): KeptSnapshot | undefined {
  let info: unknown;
  try {
    info = JSON.parse(text.toString("utf8"));
  } catch {
    return undefined;
  }
  if (!isRecord(info) || info.format !== SNAPSHOT_FORMAT) return undefined;
  const hash = sha256(metadata);
  const { chunks, entries, stateBytes, fileBytes, appHash } = info;
  if (info.hash !== hex(hash) || typeof appHash !== "string" || !/^[0-9a-f]{64}$/.test(appHash)) return undefined;
  const numbers = [chunks, entries, stateBytes, fileBytes].filter((value) => Number.isSafeInteger(value)) as number[];
  const [chunkCount = 0, entryCount = 0, state = 0, files = 0] = numbers;
  if (numbers.length !== 4 || chunkCount < 1 || chunkCount * HASH_BYTES !== metadata.length) return undefined;
  return {
    heightBlocks,
    format: SNAPSHOT_FORMAT,
    chunks: chunkCount,
    hash,
    metadata,
    appHash: Buffer.from(appHash, "hex"),
    entries: entryCount,
    stateBytes: state,
    fileBytes: files,
  };
}

async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, "r");
  await handle.sync();
}
