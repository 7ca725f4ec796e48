import { createHash, randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { AppError, isAppError } from "@turnpike/base";
import { SpendBook, type SpendJournalModules } from "./journal.ts";
import { openBook, realFile, Siblings } from "./journal-file.ts";

/** Buyer of a default journal, and its place. */
export interface DefaultJournalOptions {
  readonly gateway: string;
  readonly address: string;
  /** Folder of the journals; `turnpike/client` in the user's state by default. */
  readonly folder?: string | undefined;
}

/** Each has a default. */
export interface DefaultJournalModules extends SpendJournalModules {
  /** Called once where no file can be kept, with the reason. */
  readonly onMemoryOnly?: (reason: string) => void;
}

/** Faults of a place where nothing can be kept: a read-only container, a user without a home. */
const NO_PLACE: ReadonlySet<unknown> = new Set(["EROFS", "EACCES", "EPERM", "ENOENT", "ENOTDIR", "ERR_SYSTEM_ERROR"]);

function refused(name: string, cause: unknown): unknown {
  if (isAppError(cause)) return cause;
  const why = cause instanceof Error ? cause.message : "unknown";
  const message = `The spend journal ${name} cannot be used: ${why}; nothing was signed.`;
  return new AppError("SPEND_JOURNAL", { message, cause });
}

/** Journals whose files are open: also one that its owner never disposes keeps its lock, and its file handle from being collected. */
const OPEN = new Set<DefaultJournal>();

/**
 * Journal of a client that names none. Its file exists while a call is under way or a payment may be presented again, so that a crash
 * loses none, and has a name of its own, so that processes of one buyer do not exclude each other. What a process that has ended
 * left open is taken over by the next call of its buyer. Sums are those of this client, and of what it took over.
 */
export class DefaultJournal extends SpendBook {
  readonly #opts: DefaultJournalOptions;
  readonly #modules: DefaultJournalModules;
  readonly #prefix: string;
  readonly #name: string;
  #users = 0;
  #isOpen = false;
  #isWarned = false;
  /** Opening or closing of the file, one after the other. */
  #changing: Promise<void> = Promise.resolve();
  #siblings: Siblings | undefined;

  constructor(opts: DefaultJournalOptions, modules: DefaultJournalModules = {}) {
    super(modules);
    this.#opts = opts;
    this.#modules = modules;
    const identity = JSON.stringify([opts.gateway, opts.address.toLowerCase()]);
    this.#prefix = createHash("sha256").update(identity).digest("hex").slice(0, 32);
    this.#name = `${this.#prefix}-${randomBytes(8).toString("hex")}.jsonl`;
  }

  override async lock(requestHash: string, signal: AbortSignal | undefined): Promise<Disposable> {
    using locked = new DisposableStack();
    locked.use(await super.lock(requestHash, signal));
    this.#use(locked);
    await this.#change(() => this.#open());
    await this.#siblings?.read();
    return locked.move();
  }

  override tryLock(requestHash: string): Disposable | undefined {
    const lock = super.tryLock(requestHash);
    if (lock === undefined) return undefined;
    using locked = new DisposableStack();
    locked.use(lock);
    this.#use(locked);
    return locked.move();
  }

  override async acknowledge(resultId: string): Promise<void> {
    await super.acknowledge(resultId);
    this.#closeWhenDone();
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await this.#change(() => this.#close());
  }

  #use(locked: DisposableStack): void {
    this.#users++;
    locked.defer(() => {
      this.#users--;
      this.#closeWhenDone();
    });
  }

  #change(step: () => Promise<void>): Promise<void> {
    const change = this.#changing.then(step);
    this.#changing = change.catch(() => undefined);
    return change;
  }

  #closeWhenDone(): void {
    void this.#change(async () => {
      if (this.#users === 0 && this.pendingCount() === 0) await this.#close();
    });
  }

  async #open(): Promise<void> {
    if (this.#isOpen) return;
    try {
      const folder = this.#opts.folder ?? join(homedir(), ".local", "state", "turnpike", "client");
      const file = await realFile(join(folder, this.#name));
      await openBook(file, { file, isRemovedWhenDone: true }, this.#modules, this);
      this.#siblings ??= new Siblings(this, () => this.#othersIn(folder), this.#modules, true);
      this.#isOpen = true;
      OPEN.add(this);
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      // SQLite's own code for a file that cannot be made.
      if (!NO_PLACE.has(code) && code !== "ERR_SQLITE_ERROR") throw refused(this.#name, error);
      if (this.#isWarned) return;
      this.#isWarned = true;
      this.#modules.onMemoryOnly?.(error instanceof Error ? error.message : String(code));
    }
  }

  async #close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    OPEN.delete(this);
    await super[Symbol.asyncDispose]();
    this.writeTo(undefined);
  }

  async #othersIn(folder: string): Promise<string[]> {
    const names = await readdir(folder).catch((): string[] => []);
    return names
      .filter((name) => name.startsWith(`${this.#prefix}-`) && name.endsWith(".jsonl") && name !== this.#name)
      .map((name) => join(folder, name));
  }
}
