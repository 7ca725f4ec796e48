import type { FileHandle } from "node:fs/promises";
import { AppError, type FaultPoints } from "@turnpike/base";
import type { RecordSink } from "./journal.ts";
import type { JournalLock } from "./journal-lock.ts";
import { encodeRecord, isRecordable, type JournalRecord } from "./journal-records.ts";

/** Place in a file from which a {@link JournalWriter} goes on. */
export interface JournalWriterOptions {
  /** Its path, for messages. */
  readonly file: string;
  /** Length of what is good in it, in bytes. */
  readonly sizeBytes: number;
  /** Number of the next line. */
  readonly nextLine: number;
}

export interface JournalWriterModules {
  readonly handle: FileHandle;
  readonly lock: Pick<JournalLock, "isHeld">;
  readonly faults: FaultPoints;
}

interface Waiting {
  readonly record: JournalRecord;
  readonly durable: boolean;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Appends records to a file it owns. Those that wait together are written, and made durable, together. */
export class JournalWriter implements RecordSink {
  readonly #file: string;
  readonly #handle: FileHandle;
  readonly #lock: JournalWriterModules["lock"];
  readonly #faults: FaultPoints;
  #sizeBytes: number;
  #nextLine: number;
  #waiting: Waiting[] = [];
  #work: Promise<void> | undefined;
  /** Why nothing more is written. */
  #stopped: string | undefined;
  #closing: Promise<void> | undefined;

  constructor(opts: JournalWriterOptions, modules: JournalWriterModules) {
    this.#file = opts.file;
    this.#sizeBytes = opts.sizeBytes;
    this.#nextLine = opts.nextLine;
    this.#handle = modules.handle;
    this.#lock = modules.lock;
    this.#faults = modules.faults;
  }

  append(record: JournalRecord, durable: boolean): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(this.#error("it is closed", undefined));
    if (!isRecordable(record)) return Promise.reject(this.#error("a record is too long", undefined));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ record, durable, resolve, reject });
      this.#work ??= this.#drain();
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#work;
    await this.#handle.close();
  }

  #error(why: string, cause: unknown): AppError {
    return new AppError("SPEND_JOURNAL", {
      message: `The spend journal ${this.#file} cannot be written (${why}); nothing was signed, or what was signed was not sent.`,
      cause,
    });
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        await this.#write(batch);
        for (const { resolve } of batch) resolve();
      } catch (cause) {
        const error = this.#error(this.#stopped ?? (cause instanceof Error ? cause.message : "unknown"), cause);
        for (const { reject } of batch) reject(error);
      }
    }
    this.#work = undefined;
  }

  async #write(batch: readonly Waiting[]): Promise<void> {
    if (!(await this.#lock.isHeld())) {
      this.#stopped = `${this.#file}.lock was taken away, so another process may have it too; start again`;
    }
    if (this.#stopped !== undefined) throw new AppError("SPEND_JOURNAL");
    const lines = batch.map(({ record }, at) => `${encodeRecord(record, this.#nextLine + at)}\n`);
    const bytes = Buffer.from(lines.join(""));
    try {
      await this.#faults.reach("journal.write");
      for (let at = 0; at < bytes.length; ) {
        const { bytesWritten } = await this.#handle.write(bytes, at, bytes.length - at, this.#sizeBytes + at);
        at += bytesWritten;
      }
      await this.#faults.reach("journal.written");
    } catch (cause) {
      await this.#undo(cause);
      throw cause;
    }
    if (batch.some(({ durable }) => durable)) await this.#sync();
    this.#sizeBytes += bytes.length;
    this.#nextLine += batch.length;
  }

  async #sync(): Promise<void> {
    try {
      await this.#faults.reach("journal.sync");
      await this.#handle.datasync();
    } catch (cause) {
      // After a failed one a second may succeed although the first one's pages are lost.
      this.#stopped = "an earlier write may be lost; open it again";
      throw cause;
    }
  }

  /** Takes half a write away, so that the next one follows a whole line. */
  async #undo(cause: unknown): Promise<void> {
    try {
      await this.#handle.truncate(this.#sizeBytes);
    } catch {
      this.#stopped = `${cause instanceof Error ? cause.message : "unknown"}; open it again`;
    }
  }
}
