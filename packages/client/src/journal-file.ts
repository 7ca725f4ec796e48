import { constants } from "node:fs";
import { type FileHandle, mkdir, open, realpath, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { AppError, type FaultPoints, isAppError, noFaults } from "@turnpike/base";
import { SpendBook, type SpendJournalModules } from "./journal.ts";
import { isJournalInUse, lockJournal } from "./journal-lock.ts";
import { decodeRecord, encodeRecord, JOURNAL_START, type JournalRecord, MAX_LINE_BYTES } from "./journal-records.ts";
import { JournalWriter } from "./journal-writer.ts";
import type { SpendJournal } from "./types.ts";

export interface SpendJournalOptions {
  /** Path of the journal; it is made, with its folder, where it is not there. */
  readonly file: string;
  /** Size from which on it is written anew when it is opened, without what has ended; 1 MiB by default. */
  readonly compactBytes?: number;
  /**
   * Other journals of the same buyer, where there are such. Before anything is signed, what one of them holds that no process has open is
   * taken over, so that an identical request presents it. It counts in this journal then, and no more in that one.
   */
  readonly siblings?: readonly string[];
  /** True: the file is removed when the journal is closed and no call can present any of its payments again. */
  readonly isRemovedWhenDone?: boolean;
}

const READ_BYTES = 256 * 1024;
const LF = 0x0a;

interface Loaded {
  /** Length of the whole lines. */
  readonly sizeBytes: number;
  readonly lines: number;
}

function refused(file: string, why: string, cause?: unknown): AppError {
  const message = `The spend journal ${file} cannot be used: ${why}; nothing was signed.`;
  return new AppError("SPEND_JOURNAL", { message, cause });
}

function damaged(file: string, line: number): AppError {
  return refused(
    file,
    `line ${line} is damaged, and what it held may be spent. Restore the file from a copy, or move it away to begin a ` +
      "new budget that counts nothing of the old one",
  );
}

/** Refuses a file that is not a journal of ours, before anything about it changes. One that is empty holds nothing of others. */
async function assertOurs(file: string): Promise<void> {
  const isLockOfOthers = ((await stat(`${file}.lock`).catch(() => undefined))?.size ?? 0) > 0;
  if (isLockOfOthers) throw refused(file, `${file}.lock is no lock of it. Name another file`);
  for (const path of [file, `${file}.new`]) {
    const entry = await stat(path).catch(() => undefined);
    if (entry === undefined) continue;
    if (!entry.isFile()) throw refused(file, path === file ? "it is no file. Name another" : `${path} is no file`);
    // One process would lock it by this name, another by that.
    if (entry.nlink > 1)
      throw refused(file, `${path} has ${entry.nlink} hard links. Leave one name, or name another file`);
    // Another process may have renamed its draft since; a file that cannot be read is refused when it is opened.
    await using handle = await open(path, "r").catch(() => undefined);
    if (handle === undefined) continue;
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(JOURNAL_START.length), 0, JOURNAL_START.length, 0);
    if (JOURNAL_START.startsWith(buffer.toString("utf8", 0, bytesRead))) continue;
    const which = path === file ? "line 1 is damaged, or it" : path;
    throw refused(file, `${which} is no spend journal, and it was left as it is. Name another file`);
  }
}

/** The file that a path means, whatever links lead to it. */
export async function realFile(file: string): Promise<string> {
  const path = resolve(file);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  try {
    return await realpath(path);
  } catch {
    return join(await realpath(dirname(path)), basename(path));
  }
}

async function syncFolder(file: string): Promise<void> {
  await using folder = await open(dirname(file), "r");
  await folder.sync();
}

/** Gives every whole line to `take`, with its number from 0, and the rest without a line end. */
async function readLines(handle: FileHandle, take: (line: string, n: number) => boolean, file: string) {
  let rest: Buffer = Buffer.alloc(0);
  let lines = 0;
  let sizeBytes = 0;
  for (let position = 0; ; ) {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(READ_BYTES), 0, READ_BYTES, position);
    if (bytesRead === 0) return { sizeBytes, lines, rest };
    position += bytesRead;
    rest = Buffer.concat([rest, buffer.subarray(0, bytesRead)]);
    for (let end = rest.indexOf(LF); end !== -1; end = rest.indexOf(LF)) {
      if (!take(rest.toString("utf8", 0, end), lines)) throw damaged(file, lines + 1);
      rest = rest.subarray(end + 1);
      lines++;
      sizeBytes += end + 1;
    }
    if (rest.length > MAX_LINE_BYTES) throw damaged(file, lines + 1);
  }
}

/** Reads a journal into a book, and takes half a last line away: what it held was never sent. */
async function load(handle: FileHandle, book: SpendBook, file: string): Promise<Loaded> {
  const take = (line: string, n: number): boolean => {
    const record = decodeRecord(line, n);
    return record !== undefined && (n === 0) === (record.t === "journal") && book.replay(record);
  };
  const { rest, ...whole } = await readLines(handle, take, file);
  if (rest.length === 0) return whole;
  const text = rest.toString("utf8");
  if (whole.lines === 0 && !JOURNAL_START.startsWith(text.slice(0, JOURNAL_START.length))) {
    throw refused(file, "it is no spend journal. Name another file");
  }
  if (take(text, whole.lines)) {
    const sizeBytes = whole.sizeBytes + rest.length;
    await handle.write("\n", sizeBytes);
    return { sizeBytes: sizeBytes + 1, lines: whole.lines + 1 };
  }
  await handle.truncate(whole.sizeBytes);
  return whole;
}

/** Writes a file that holds what still counts; a crash leaves either the old one or the new one. */
async function rewrite(file: string, records: Iterable<JournalRecord>, faults: FaultPoints) {
  const draft = `${file}.new`;
  await rm(draft, { force: true });
  const handle = await open(draft, "wx+", 0o600);
  try {
    let lines = 0;
    let text = "";
    for (const record of records) text += `${encodeRecord(record, lines++)}\n`;
    const bytes = Buffer.from(text);
    await handle.writeFile(bytes);
    await handle.sync();
    await faults.reach("journal.rewritten");
    await rename(draft, file);
    await syncFolder(file);
    return { handle, sizeBytes: bytes.length, nextLine: lines };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Removes a journal whose lock is held. The lock file goes last: who waits for it finds no journal behind it. */
async function removeFiles(file: string): Promise<void> {
  for (const path of [file, `${file}.new`, `${file}.lock`]) await rm(path, { force: true });
}

/** Time at which a journal was last written, or, where it is gone, its lock was made; undefined where there is neither. */
async function writtenAtMs(file: string): Promise<number | undefined> {
  for (const path of [file, `${file}.new`, `${file}.lock`]) {
    const entry = await stat(path).catch(() => undefined);
    if (entry !== undefined) return entry.mtimeMs;
  }
  return undefined;
}

/** Removes a journal that was last written before `beforeMs`, with its lock, unless another process has it. */
export async function removeSpendJournal(file: string, beforeMs: number): Promise<void> {
  const isOld = async (): Promise<boolean> => ((await writtenAtMs(file)) ?? beforeMs) < beforeMs;
  if (!(await isOld())) return;
  using _ = await lockJournal(file);
  // Again, as another process may have written it since.
  if (await isOld()) await removeFiles(file);
}

/** Contents of a file, as far as its times show; undefined where it is not there, or empty. */
async function stateOf(file: string): Promise<string | undefined> {
  const entry = await stat(file, { bigint: true }).catch(() => undefined);
  return entry === undefined || entry.size === 0n ? undefined : `${entry.ino} ${entry.size} ${entry.mtimeNs}`;
}

/** Takes over what the other journals of a buyer hold, each as often as another process has written it. */
export class Siblings {
  readonly #book: SpendBook;
  readonly #filesOf: () => readonly string[] | Promise<readonly string[]>;
  readonly #modules: SpendJournalModules;
  readonly #areRemovedWhenDone: boolean;
  /** State of each when it was read last. */
  readonly #seen = new Map<string, string>();
  #reading: Promise<void> = Promise.resolve();

  constructor(
    book: SpendBook,
    filesOf: () => readonly string[] | Promise<readonly string[]>,
    modules: SpendJournalModules,
    areRemovedWhenDone = false,
  ) {
    this.#book = book;
    this.#filesOf = filesOf;
    this.#modules = modules;
    this.#areRemovedWhenDone = areRemovedWhenDone;
  }

  /** One after the other: two calls at once do not lock each other out. @throws AppError SPEND_JOURNAL. */
  read(): Promise<void> {
    const reading = this.#reading.then(async () => {
      for (const file of await this.#filesOf()) await this.#readOne(file);
    });
    this.#reading = reading.catch(() => undefined);
    return reading;
  }

  async #readOne(file: string): Promise<void> {
    const state = await stateOf(file);
    if (state === undefined || state === this.#seen.get(file)) return;
    try {
      const opts = { file, isRemovedWhenDone: this.#areRemovedWhenDone };
      await using other = await openBook(await realFile(file), opts, this.#modules);
      await this.#book.takeOver(other);
    } catch (error) {
      // Its process presents what it holds.
      if (isJournalInUse(error)) return;
      throw error;
    }
    const now = await stateOf(file);
    if (now !== undefined) this.#seen.set(file, now);
  }
}

/** @throws AppError SPEND_JOURNAL. */
async function openWithSiblings(opts: SpendJournalOptions, modules: SpendJournalModules): Promise<SpendJournal> {
  const book = await openBook(await realFile(opts.file), opts, modules);
  if (opts.siblings === undefined) return book;
  const { siblings: files } = opts;
  const siblings = new Siblings(book, () => files, modules);
  try {
    await siblings.read();
  } catch (error) {
    await book[Symbol.asyncDispose]();
    throw error;
  }
  book.findOthersBy(() => siblings.read());
  return book;
}

/** Opens the file of a book: a new one, or one that may hold what is in the file already, where that file is empty. */
export async function openBook(
  file: string,
  opts: SpendJournalOptions,
  modules: SpendJournalModules,
  book: SpendBook = new SpendBook(modules),
): Promise<SpendBook> {
  const faults = modules.faults ?? noFaults;
  using owned = new DisposableStack();
  await assertOurs(file);
  const lock = owned.use(await lockJournal(file, faults));
  // Again, as another process may have made it since.
  await assertOurs(file);
  const adopt = (handle: FileHandle, at: { readonly sizeBytes: number; readonly nextLine: number }): SpendBook => {
    const writer = new JournalWriter({ file, ...at }, { handle, lock, faults });
    const locked = owned.move();
    book.writeTo({
      append: (record, durable) => writer.append(record, durable),
      async [Symbol.asyncDispose]() {
        using _ = locked;
        await writer[Symbol.asyncDispose]();
        if (opts.isRemovedWhenDone !== true || book.pendingCount() > 0 || !(await lock.isHeld())) return;
        // One that stays is no fault: it only fills the folder.
        await removeFiles(file).catch(() => undefined);
      },
    });
    return book;
  };
  const handle = await open(file, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    const { sizeBytes, lines } = await load(handle, book, file);
    if (((await handle.stat()).mode & 0o077) !== 0) await handle.chmod(0o600);
    book.replayed();
    if (lines > 0 && sizeBytes < (opts.compactBytes ?? 1_048_576)) {
      // The process before may have been killed before its last lines, or the file's name, were on the disk. What they hold is presented.
      await handle.datasync();
      await syncFolder(file);
      return adopt(handle, { sizeBytes, nextLine: lines });
    }
    const { handle: fresh, ...at } = await rewrite(file, book.records(), faults);
    await handle.close();
    return adopt(fresh, at);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * Opens a journal that outlives its process: lines of JSON that are only appended to, on the disk before a payment is
 * sent. One process at a time may have it open.
 * @throws AppError SPEND_JOURNAL, naming the file and what to do, when it cannot be read or written, is damaged other
 * than by half a last line, or is in use.
 */
export async function openSpendJournal(
  opts: SpendJournalOptions,
  modules: SpendJournalModules = {},
): Promise<SpendJournal> {
  try {
    return await openWithSiblings(opts, modules);
  } catch (cause) {
    if (isAppError(cause)) throw cause;
    throw refused(resolve(opts.file), cause instanceof Error ? cause.message : "unknown", cause);
  }
}
