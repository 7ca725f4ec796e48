import { basename, dirname } from "node:path";
import type { Chance } from "@turnpike/testkit/chance";
import type { SimulatedProcess } from "./simulated-process.ts";
import type { SimulatedTime } from "./simulated-time.ts";

/** A file or a folder, whatever its names are. */
export interface Inode {
  readonly number: number;
  readonly isFolder: boolean;
  bytes: Buffer;
  /** Content that a loss of power leaves. */
  durableBytes: Buffer;
  mode: number;
  writtenAtMs: number;
}

export interface MemoryDiskModules {
  readonly chance: Chance;
  readonly time: SimulatedTime;
}

/** Disk of a simulated machine. A killed process leaves on it all that it wrote; a loss of power only what was flushed, and parts of the rest. */
export class MemoryDisk {
  readonly #chance: Chance;
  readonly #time: SimulatedTime;
  readonly #names = new Map<string, Inode>();
  readonly #durableNames = new Map<string, Inode>();
  readonly #locks = new Map<Inode, SimulatedProcess | undefined>();
  #inodes = 0;
  /** Share of writes and flushes that fail. */
  faultShare = 0;
  /** Writes and flushes that failed so far. */
  faultCount = 0;

  constructor({ chance, time }: MemoryDiskModules) {
    this.#chance = chance;
    this.#time = time;
  }

  inodeOf(path: string): Inode | undefined {
    return this.#names.get(path);
  }

  /** Names of the entries of a folder. */
  namesIn(folder: string): string[] {
    return [...this.#names.keys()].filter((path) => dirname(path) === folder).map((path) => basename(path));
  }

  create(path: string, isFolder: boolean, mode: number): Inode {
    const empty = Buffer.alloc(0);
    const inode = {
      number: ++this.#inodes,
      isFolder,
      bytes: empty,
      durableBytes: empty,
      mode,
      writtenAtMs: this.#time.nowMs,
    };
    this.#names.set(path, inode);
    if (isFolder) this.#durableNames.set(path, inode);
    return inode;
  }

  rename(from: string, to: string): void {
    const inode = this.#names.get(from);
    if (inode === undefined) throw diskError("ENOENT", from);
    this.#names.delete(from);
    this.#names.set(to, inode);
  }

  remove(path: string): boolean {
    return this.#names.delete(path);
  }

  write(inode: Inode, bytes: Buffer): void {
    inode.bytes = bytes;
    inode.writtenAtMs = this.#time.nowMs;
  }

  /** Makes a file's content durable, or a folder's names. */
  flush(inode: Inode): void {
    if (!inode.isFolder) {
      inode.durableBytes = inode.bytes;
      return;
    }
    this.#durableNames.clear();
    for (const [path, entry] of this.#names) this.#durableNames.set(path, entry);
  }

  /** Time that a write or a flush takes. */
  async wait(): Promise<void> {
    if (this.#chance.often(0.3)) await this.#time.delay(this.#chance.below(20));
  }

  /** A part of a write, from nothing to all of it. */
  partOf(length: number): number {
    return this.#chance.often(0.7) ? length : this.#chance.below(length + 1);
  }

  failsNow(): boolean {
    if (this.faultShare === 0 || !this.#chance.often(this.faultShare)) return false;
    this.faultCount += 1;
    return true;
  }

  /** Locks a file for a process; false where another lock is held. */
  lock(inode: Inode, process: SimulatedProcess | undefined): boolean {
    if (this.#locks.has(inode)) return false;
    this.#locks.set(inode, process);
    return true;
  }

  unlock(inode: Inode): void {
    this.#locks.delete(inode);
  }

  /** Releases the locks of a process that has ended. */
  unlockAll(process: SimulatedProcess): void {
    for (const [inode, holder] of this.#locks) if (holder === process) this.#locks.delete(inode);
  }

  /** Loses what was not flushed: each file keeps some of it, and each change of a name is kept or not. */
  losePower(): void {
    const paths = new Set([...this.#names.keys(), ...this.#durableNames.keys()]);
    for (const path of paths) {
      const durable = this.#durableNames.get(path);
      if (durable === this.#names.get(path) || this.#chance.often(0.5)) continue;
      if (durable === undefined) this.#names.delete(path);
      else this.#names.set(path, durable);
    }
    for (const inode of this.#names.values()) {
      const { bytes, durableBytes } = inode;
      if (bytes === durableBytes) continue;
      const isAppended =
        bytes.length >= durableBytes.length && bytes.subarray(0, durableBytes.length).equals(durableBytes);
      const lost = isAppended ? this.#chance.below(bytes.length - durableBytes.length + 1) : 0;
      if (isAppended) inode.bytes = bytes.subarray(0, bytes.length - lost);
      else if (this.#chance.often(0.5)) inode.bytes = durableBytes;
      inode.durableBytes = inode.bytes;
    }
    this.#durableNames.clear();
    for (const [path, inode] of this.#names) this.#durableNames.set(path, inode);
  }
}

/** An error of the file system. */
export function diskError(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}

let mounted: MemoryDisk | undefined;

/** The disk that the redirected functions use. */
export function mountedDisk(): MemoryDisk {
  if (mounted === undefined) throw diskError("ENODEV", "/");
  return mounted;
}

export function mountDisk(disk: MemoryDisk): void {
  mounted = disk;
}
