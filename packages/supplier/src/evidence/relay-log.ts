import { writev } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { type Log, silentLog } from "@turnpike/base";
import { preamble, RECORD, type RecordKind, recordHeader } from "./records.ts";
import { type LogScan, scanLog } from "./scan-log.ts";

/** Writes buffers one after the other at a place of a file, all of them, or rejects. */
export type WriteAll = (file: FileHandle, parts: readonly Uint8Array[], at: number) => Promise<void>;

/** One write(2) for all parts, unless the system writes only some of the bytes. */
export const writeAll: WriteAll = async (file, parts, at) => {
  let rest: readonly Uint8Array[] = parts;
  let position = at;
  while (rest.length > 0) {
    const chunk = rest.slice(0, MOST_PARTS);
    const written = await new Promise<number>((resolve, reject) => {
      writev(file.fd, chunk, position, (error, bytes) => (error === null ? resolve(bytes) : reject(error)));
    });
    position += written;
    let left = written;
    const unwritten = chunk.flatMap((part) => {
      const skipped = Math.min(left, part.length);
      left -= skipped;
      return skipped === part.length ? [] : [part.subarray(skipped)];
    });
    rest = [...unwritten, ...rest.slice(chunk.length)];
  }
};

/** IOV_MAX of Linux and macOS. */
const MOST_PARTS = 1024;

interface RelayLogModules {
  readonly log?: Log;
  /** Only tests give another one. */
  readonly writeAll?: WriteAll;
}

interface Waiting {
  readonly kind: RecordKind;
  readonly payload: Uint8Array;
  readonly written: (at: number | undefined) => void;
}

/**
 * An append-only file of records with checksums. All records of one turn of the event loop are one write; while it is under
 * way the next ones wait for theirs. A record that was appended is with the kernel: it survives the process, and after
 * {@link sync} also the machine.
 */
export class RelayLog implements AsyncDisposable {
  readonly #file: FileHandle;
  readonly #log: Log;
  readonly #writeAll: WriteAll;
  readonly #salt: number;
  #endBytes: number;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  /** Bytes at the end that may not survive the machine. */
  #syncedBytes: number;
  #isBroken = false;
  #isSyncLost = false;
  #isClosed = false;

  private constructor(file: FileHandle, salt: number, endBytes: number, { log, writeAll: write }: RelayLogModules) {
    this.#file = file;
    this.#salt = salt;
    this.#endBytes = endBytes;
    this.#syncedBytes = endBytes;
    this.#log = log ?? silentLog;
    this.#writeAll = write ?? writeAll;
  }

  /** Begins a new log with its head. The file must not exist. */
  static async create(path: string, head: Uint8Array, salt: number, modules: RelayLogModules = {}): Promise<RelayLog> {
    const file = await open(path, "wx+", 0o600);
    try {
      const parts = [preamble(salt), recordHeader(RECORD.head, head, salt), head];
      await (modules.writeAll ?? writeAll)(file, parts, 0);
      await file.sync();
      return new RelayLog(
        file,
        salt,
        parts.reduce((sum, part) => sum + part.length, 0),
        modules,
      );
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /**
   * Opens a log that is there: reads its records and cuts a torn end. Undefined when the file is no log.
   */
  static async reopen(
    path: string,
    record: Parameters<typeof scanLog>[1],
    modules: RelayLogModules = {},
  ): Promise<{ readonly log: RelayLog; readonly scan: LogScan } | undefined> {
    const file = await open(path, "r+");
    try {
      const scan = await scanLog(file, record);
      if (scan === undefined) {
        await file.close();
        return undefined;
      }
      if (scan.tornBytes > 0) await file.truncate(scan.endBytes);
      return { log: new RelayLog(file, scan.salt, scan.endBytes, modules), scan };
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Bytes of the file. */
  get sizeBytes(): number {
    return this.#endBytes;
  }

  /** True when there are records that {@link sync} has not made safe from a loss of power, and may make safe. */
  get isDirty(): boolean {
    return !this.#isSyncLost && this.#syncedBytes < this.#endBytes;
  }

  /** True when nothing more can be appended: the file could not be brought back to its last whole record. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** Where the record is, once it is with the kernel; undefined when it could not be written, and is not in the file. */
  append(kind: RecordKind, payload: Uint8Array): Promise<number | undefined> {
    if (this.#isBroken || this.#isClosed) return Promise.resolve(undefined);
    return new Promise((written) => {
      this.#waiting.push({ kind, payload, written });
      this.#writing ??= this.#write();
    });
  }

  /** Makes everything that was appended safe from a loss of power. False when the disk fails, or has failed before. */
  async sync(): Promise<boolean> {
    await this.#writing;
    if (!this.isDirty || this.#isClosed) return !this.#isBroken;
    const end = this.#endBytes;
    try {
      await this.#file.datasync();
      this.#syncedBytes = Math.max(this.#syncedBytes, end);
      return true;
    } catch (cause) {
      // After a failed fsync the kernel may have dropped the pages: nothing more is entrusted to this file.
      this.#isBroken = true;
      this.#isSyncLost = true;
      this.#log.error({ cause }, "a relay log cannot be made safe on its disk");
      return false;
    }
  }

  /** To read records where {@link append} placed them, without waiting. */
  get fd(): number {
    return this.#file.fd;
  }

  async #write(): Promise<void> {
    // The turn's other relays come along.
    await new Promise(setImmediate);
    while (this.#waiting.length > 0) {
      const group = this.#waiting;
      this.#waiting = [];
      await this.#writeGroup(group);
    }
    this.#writing = undefined;
  }

  async #writeGroup(group: readonly Waiting[]): Promise<void> {
    const parts: Uint8Array[] = [];
    const places: number[] = [];
    const start = this.#endBytes;
    let at = start;
    for (const { kind, payload } of group) {
      const header = recordHeader(kind, payload, this.#salt);
      parts.push(header, payload);
      places.push(at);
      at += header.length + payload.length;
    }
    try {
      if (this.#isBroken) throw new TypeError("the log is broken");
      await this.#writeAll(this.#file, parts, start);
      this.#endBytes = at;
    } catch (cause) {
      this.#log.error({ cause, records: group.length }, "relays could not be written down; they are refused");
      await this.#cutTo(start);
      for (const { written } of group) written(undefined);
      return;
    }
    for (const [i, { written }] of group.entries()) written(places[i]);
  }

  /** Removes what a failed write left. Making a file shorter needs no room. */
  async #cutTo(endBytes: number): Promise<void> {
    if (this.#isBroken) return;
    try {
      await this.#file.truncate(endBytes);
    } catch (cause) {
      this.#isBroken = true;
      this.#log.error({ cause }, "a relay log cannot be cut to its last whole record; nothing more is appended to it");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return;
    await this.sync();
    this.#isClosed = true;
    await this.#file.close();
  }
}
