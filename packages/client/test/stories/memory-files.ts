import { constants } from "node:fs";
import { diskError, type Inode, mountedDisk } from "./memory-disk.ts";
import { isKilled, never, step } from "./simulated-process.ts";

// The functions of `node:fs/promises` that the client's journal uses, on the disk of the simulation. A function that is
// missing here fails when the journal is loaded.

/** An operation that a process can end before, or after it. */
async function operation<Result>(name: string, run: () => Result): Promise<Result> {
  await step(`${name} begins`);
  // Another call of the process may have been its end meanwhile.
  if (isKilled()) await never();
  const result = run();
  await step(`${name} is done`);
  return result;
}

function inodeOf(path: string): Inode {
  const inode = mountedDisk().inodeOf(path);
  if (inode === undefined) throw diskError("ENOENT", path);
  return inode;
}

function statOf(inode: Inode, bigint = false) {
  const { number, isFolder, mode, bytes, writtenAtMs: mtimeMs } = inode;
  const size = bytes.length;
  const numbers = bigint ? { dev: 1n, ino: BigInt(number), size: BigInt(size) } : { dev: 1, ino: number, size };
  return { ...numbers, mode, mtimeMs, nlink: 1, isFile: () => !isFolder };
}

class MemoryHandle {
  readonly #inode: Inode;

  constructor(inode: Inode) {
    this.#inode = inode;
  }

  read(buffer: Buffer, offset: number, length: number, position: number) {
    return operation("read", () => {
      const bytesRead = this.#inode.bytes.copy(buffer, offset, position, position + length);
      return { buffer, bytesRead };
    });
  }

  async write(data: Buffer | string, ...place: number[]) {
    const isText = typeof data === "string";
    const [offset = 0, length = data.length] = isText ? [] : place;
    const position = (isText ? place[0] : place[2]) ?? 0;
    const bytes = isText ? Buffer.from(data) : data.subarray(offset, offset + length);
    const disk = mountedDisk();
    await step("write begins");
    await disk.wait();
    if (isKilled()) await never();
    // A kill in the middle leaves a part of a line.
    const part = disk.partOf(bytes.length);
    this.#put(bytes.subarray(0, part), position);
    await step("write is partial");
    if (isKilled()) await never();
    if (disk.failsNow()) throw diskError("ENOSPC", "write");
    this.#put(bytes, position);
    await step("write is done");
    return { bytesWritten: bytes.length, buffer: data };
  }

  async writeFile(bytes: Buffer): Promise<void> {
    await this.write(bytes, 0, bytes.length, 0);
  }

  async datasync(): Promise<void> {
    await step("flush begins");
    await mountedDisk().wait();
    if (isKilled()) await never();
    if (mountedDisk().failsNow()) throw diskError("EIO", "flush");
    mountedDisk().flush(this.#inode);
    await step("flush is done");
  }

  sync(): Promise<void> {
    return this.datasync();
  }

  truncate(length: number): Promise<void> {
    return operation("truncate", () => {
      if (mountedDisk().failsNow()) throw diskError("EIO", "truncate");
      mountedDisk().write(this.#inode, this.#inode.bytes.subarray(0, length));
    });
  }

  stat() {
    return operation("stat", () => statOf(this.#inode));
  }

  chmod(mode: number): Promise<void> {
    return operation("chmod", () => {
      this.#inode.mode = mode;
    });
  }

  async close(): Promise<void> {
    await step("close");
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #put(bytes: Buffer, position: number): void {
    const { bytes: content } = this.#inode;
    const gap = Buffer.alloc(Math.max(0, position - content.length));
    const end = content.subarray(position + bytes.length);
    mountedDisk().write(this.#inode, Buffer.concat([content.subarray(0, position), gap, bytes, end]));
  }
}

export function open(path: string, flags: string | number = "r", mode = 0o666): Promise<MemoryHandle> {
  return operation("open", () => {
    const isExclusive = typeof flags === "string" && flags.startsWith("wx");
    const creates = typeof flags === "string" ? flags.startsWith("w") : (flags & constants.O_CREAT) !== 0;
    const disk = mountedDisk();
    const inode = disk.inodeOf(path);
    if (inode !== undefined && isExclusive) throw diskError("EEXIST", path);
    return new MemoryHandle(inode ?? (creates ? disk.create(path, false, mode) : inodeOf(path)));
  });
}

export function stat(path: string, opts: { readonly bigint?: boolean } = {}) {
  return operation("stat", () => statOf(inodeOf(path), opts.bigint));
}

export function realpath(path: string): Promise<string> {
  return operation("realpath", () => {
    inodeOf(path);
    return path;
  });
}

export function readdir(path: string): Promise<string[]> {
  return operation("readdir", () => {
    inodeOf(path);
    return mountedDisk().namesIn(path);
  });
}

export function mkdir(path: string, opts: { readonly mode?: number } = {}): Promise<void> {
  return operation("mkdir", () => {
    if (mountedDisk().inodeOf(path) === undefined) mountedDisk().create(path, true, opts.mode ?? 0o777);
  });
}

export function rename(from: string, to: string): Promise<void> {
  return operation("rename", () => mountedDisk().rename(from, to));
}

export function rm(path: string, opts: { readonly force?: boolean } = {}): Promise<void> {
  return operation("rm", () => {
    if (!mountedDisk().remove(path) && opts.force !== true) throw diskError("ENOENT", path);
  });
}

export function chmod(path: string, mode: number): Promise<void> {
  return operation("chmod", () => {
    inodeOf(path).mode = mode;
  });
}
