import { AppError, thrownCode } from "@turnpike/base";
import type pg from "pg";
import type { Caller, Statement } from "../types.ts";
import { Batch, type BatchResult } from "./batch.ts";
import { checkOut, type RolePool } from "./pool.ts";
import { beginText, type Frame, frameOf } from "./session-settings.ts";
import { sever } from "./sever.ts";

// The server ends a statement first; this is for a server that does not answer at all.
const SILENCE_MARGIN_MS = 2_000;

export interface SessionOptions {
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  /** False makes the transaction read only. */
  readonly isWrite: boolean;
  /** Soft-deleted rows are in sight: the request names `deleted_at` in a filter, or writes it. False by default. */
  readonly showsDeleted?: boolean;
  /** Ends the statement on the server, and the connection. */
  readonly signal?: AbortSignal | undefined;
}

type Timing = Pick<SessionOptions, "statementTimeoutMs" | "signal">;

/** One transaction under the caller's role. */
export interface RoleSession {
  /**
   * Runs a statement; gives its rows. Statements may be started without waiting for earlier ones. Throws the driver's
   * DatabaseError for what the database refuses, its other errors for a lost connection, and the signal's reason.
   */
  run<Row extends object>(statement: Statement): Promise<readonly Row[]>;
  /** Takes everything back at the end instead of committing it. */
  rollback(): void;
}

// The connection and the driver disagree on what is prepared (26000, 42P05), or a prepared statement's result has
// changed with the tables (0A000): both end with the connection.
const STALE = new Set(["26000", "42P05", "0A000"]);

/** A connection for the time of one transaction. It ends in the pool only when it is known to be clean. */
class Lease {
  readonly #client: pg.PoolClient;
  readonly #pool: RolePool;
  readonly #role: string;
  readonly #signal: AbortSignal | undefined;
  readonly #ended = Promise.withResolvers<never>();
  readonly #silence: NodeJS.Timeout;
  #broken: Error | undefined;
  #isSevered = false;

  constructor(client: pg.PoolClient, pool: RolePool, { role }: Caller, opts: Timing) {
    this.#client = client;
    this.#pool = pool;
    this.#role = role;
    this.#signal = opts.signal;
    this.#ended.promise.catch(() => undefined);
    // A connection that fails while it is checked out says so here as well; unheard it would end the process.
    client.on("error", this.#onError);
    this.#signal?.addEventListener("abort", this.#onAbort, { once: true });
    this.#silence = setTimeout(this.#onSilence, opts.statementTimeoutMs + SILENCE_MARGIN_MS);
  }

  readonly #onError = (error: Error): void => {
    this.#broken ??= error;
  };

  readonly #onAbort = (): void => this.#sever(this.#signal?.reason);

  readonly #onSilence = (): void =>
    this.#sever(new AppError("PORTAL_DB_UNAVAILABLE", { detail: { reason: "silence" } }));

  /** True when the connection was given up, and the reason thrown. */
  get isSevered(): boolean {
    return this.#isSevered;
  }

  #sever(reason: unknown): void {
    this.#isSevered = true;
    this.#broken ??= reason instanceof Error ? reason : new AppError("PORTAL_DB_UNAVAILABLE", { cause: reason });
    this.#ended.reject(reason);
    sever(this.#client);
  }

  /** Sends one of our own statements, behind what was sent before. Its end is waited for by {@link settle}. */
  control(text: string): Promise<pg.QueryResult<object>> {
    return this.#send(this.#client.query<object>(text));
  }

  /** The same for a request's statement. */
  run<Row extends object>({ text, values }: Statement): Promise<pg.QueryResult<Row>> {
    const name = this.#pool.names.nameOf(this.#client, this.#role, text);
    return this.#send(this.#client.query<Row>({ text, values: [...values], ...(name === undefined ? {} : { name }) }));
  }

  /** A whole transaction at once. */
  batch({ before, after }: Frame, statements: readonly Statement[]): Promise<readonly BatchResult[]> {
    const { names } = this.#pool;
    const named = statements.map(({ text, values }) => {
      return { text, values, name: names.nameOf(this.#client, this.#role, text) };
    });
    const batch = new Batch([...before, ...named, ...after], names.columnsOf(this.#client));
    (this.#client as unknown as { query(batch: Batch): void }).query(batch);
    const results = batch.done.then((gave) => {
      if (after.length > 0 && gave.at(-1)?.tag !== "COMMIT") {
        throw new AppError("INTERNAL", { message: "The transaction was taken back." });
      }
      return gave.slice(before.length, before.length + statements.length);
    });
    return this.#send(results);
  }

  #send<T>(sent: Promise<T>): Promise<T> {
    sent.then(
      () => this.#silence.refresh(),
      (error: unknown) => {
        this.#silence.refresh();
        if (STALE.has(`${thrownCode(error)}`)) this.#broken ??= error instanceof Error ? error : undefined;
      },
    );
    return sent;
  }

  /** Waits for what was sent, unless the connection is given up before. */
  settle<T>(sent: Promise<T>): Promise<T> {
    return Promise.race([sent, this.#ended.promise]);
  }

  release(): void {
    clearTimeout(this.#silence);
    this.#signal?.removeEventListener("abort", this.#onAbort);
    const isClean = this.#broken === undefined && this.#client.getTransactionStatus() === "I";
    // One that is not clean keeps its listener: it may still emit the error that ends it.
    if (isClean) this.#client.off("error", this.#onError);
    else if (this.#broken === undefined) sever(this.#client);
    this.#client.release(!isClean || this.#pool.names.isFull(this.#client));
  }
}

async function borrow(pool: RolePool, caller: Caller, opts: Timing): Promise<Lease> {
  const lease = new Lease(await checkOut(pool, opts.signal), pool, caller, opts);
  if (opts.signal?.aborted !== true) return lease;
  lease.release();
  throw opts.signal.reason;
}

/**
 * Runs `work` in one transaction under the caller's role; commits when it resolves, unless it called `rollback`, and
 * takes everything back when it throws. Throws what `work` throws; AppError PORTAL_DB_UNAVAILABLE when too many wait
 * for a connection or the server is silent; the signal's reason; and the driver's errors. After an error of the commit
 * itself, whether a write was stored is not known.
 */
export async function withRole<T>(
  pool: RolePool,
  caller: Caller,
  opts: SessionOptions,
  work: (session: RoleSession) => Promise<T>,
): Promise<T> {
  const begin = beginText(caller, { ...opts, showsDeleted: opts.showsDeleted ?? false });
  const lease = await borrow(pool, caller, opts);
  let isOpen = true;
  let takesBack = false;
  let failed: { readonly error: unknown } | undefined;
  // Not waited for: what follows it fails where it fails, since the transaction is then aborted or was never begun,
  // and outside of one the connection's own role may do nothing.
  const begun = lease.control(begin);
  let refused: { readonly error: unknown } | undefined;
  begun.catch((error: unknown) => {
    refused = { error };
  });
  const session: RoleSession = {
    async run<Row extends object>(statement: Statement) {
      if (!isOpen) throw new AppError("INTERNAL", { message: "The transaction is over." });
      try {
        return (await lease.settle(lease.run<Row>(statement))).rows;
      } catch (error) {
        failed ??= { error };
        throw error;
      }
    },
    rollback() {
      takesBack = true;
    },
  };
  try {
    const result = await work(session);
    isOpen = false;
    if (takesBack) {
      await lease.settle(lease.control("rollback"));
      return result;
    }
    const ended = await lease.settle(lease.control("commit"));
    await begun;
    if (ended.command !== "COMMIT") {
      throw failed?.error ?? new AppError("INTERNAL", { message: "The transaction was taken back." });
    }
    return result;
  } catch (error) {
    if (isOpen) {
      isOpen = false;
      await lease.settle(lease.control("rollback")).catch(() => undefined);
    }
    // A failed beginning explains every failure that follows it.
    throw refused === undefined || lease.isSevered ? error : refused.error;
  } finally {
    lease.release();
  }
}

/**
 * The same where all statements are known and nothing but an error takes them back: everything is sent at once and
 * costs one round trip. Gives each statement's rows. The first error is thrown.
 */
export async function runWithRole(
  pool: RolePool,
  caller: Caller,
  opts: SessionOptions,
  statements: readonly Statement[],
): Promise<readonly (readonly object[])[]> {
  const frame = frameOf(caller, { ...opts, showsDeleted: opts.showsDeleted ?? false });
  const lease = await borrow(pool, caller, opts);
  try {
    const results = await lease.settle(lease.batch(frame, statements));
    return results.map(({ rows }) => rows);
  } catch (error) {
    // What failed is taken back by the server, but where it had been begun by a statement that must be ended by one.
    if (!lease.isSevered) await lease.settle(lease.control("rollback")).catch(() => undefined);
    throw error;
  } finally {
    lease.release();
  }
}

/** {@link runWithRole} in a transaction that cannot write. */
export async function readWithRole(
  pool: RolePool,
  caller: Caller,
  opts: Omit<SessionOptions, "isWrite">,
  statements: readonly Statement[],
): Promise<readonly (readonly object[])[]> {
  return runWithRole(pool, caller, { ...opts, isWrite: false }, statements);
}
