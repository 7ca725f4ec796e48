import { AppError, type Clock, type FaultPoints, type Log, type Metrics, systemClock } from "@turnpike/base";
import type { Ledger } from "../ledger-types.ts";
import { createClaims } from "./claims.ts";
import { type Database, openDatabase } from "./database.ts";
import { createHolder, type Holder } from "./holder.ts";
import { createJournal } from "./journal.ts";
import { checkSchema } from "./migrate.ts";
import { createOutcomes } from "./outcomes.ts";
import { assertSoleSeller, type Receiver, receiverName } from "./receivers.ts";
import { type PaymentRow, rowToRecord, type SumsRow, sumsOf } from "./rows.ts";
import { ledgerStatements } from "./statements.ts";

/** Options of {@link createLedger}. */
export interface LedgerOptions {
  /** `postgres://…` of a direct connection or a session pool. */
  readonly url: string;
  /** Schema of the tables; `ledger` by default. */
  readonly schema?: string;
  /** Most connections for calls; two more are kept for renewals and for sums. 10 by default. */
  readonly poolSize?: number;
  /** How long a sold answer is kept after its settlement. 3,600 by default. */
  readonly answerRetentionSeconds?: number;
  /** How long a released claim is kept after it was found unused and its window closed. 86,400 by default. */
  readonly releasedRetentionSeconds?: number;
  /** Time without a renewal after which this process counts as dead. 5,000 by default. */
  readonly holderTtlMs?: number;
  /** Time between renewals; at most a third of `holderTtlMs` lets two of them fail. 1,500 by default. */
  readonly heartbeatMs?: number;
  /** Longest time of one call in the database. 5,000 by default. */
  readonly statementTimeoutMs?: number;
  /** How much longer a call waits for a database that does not answer at all. 500 by default. */
  readonly silenceMarginMs?: number;
  /** Longest wait for a connection to the database, free or new. 2,000 by default, and 5,000 for the first one. */
  readonly connectTimeoutMs?: number;
  /** Calls that may wait for a connection; more are refused. 4,000 by default. */
  readonly queueLimit?: number;
  /** Where the payments that this process sells for go; none by default. No other ledger of the database may have them. */
  readonly receivers?: readonly Receiver[];
}

/** What {@link createLedger} works with. */
export interface LedgerModules {
  readonly clock?: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
}

const CONNECT_TIMEOUT_MS = 2_000;
const SUM_TIMEOUT_MS = 120_000;

/**
 * Opens the ledger and registers this process in it. The tables must be there: see `migrate`. Throws AppError
 * LEDGER_UNAVAILABLE when the database cannot be reached, LEDGER_SCHEMA when its tables are not those of this version,
 * and CONFIG_INVALID when its URL turns durable commits off, or another ledger of the database sells for a receiver.
 */
export async function createLedger(opts: LedgerOptions, modules: LedgerModules): Promise<Ledger> {
  const { log, metrics, faults } = modules;
  const clock = modules.clock ?? systemClock;
  const schema = opts.schema ?? "ledger";
  const statements = ledgerStatements(schema);
  const statementTimeoutMs = opts.statementTimeoutMs ?? 5_000;
  const queueLimit = opts.queueLimit ?? 4_000;
  const heartbeatMs = opts.heartbeatMs ?? 1_500;
  const { asynchronousCommit } = await checkSchema(opts.url, schema, opts.connectTimeoutMs);
  if (asynchronousCommit) log.warn({}, "the database commits before it is on disk by default; the ledger does not");

  const open = (
    pool: "calls" | "sums" | "renewals",
    poolSize: number,
    timeoutMs: number,
    queueLimit: number,
  ): Database =>
    openDatabase(
      {
        pool,
        url: opts.url,
        poolSize,
        queueLimit,
        connectTimeoutMs: opts.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
        statementTimeoutMs: timeoutMs,
        silenceMarginMs: opts.silenceMarginMs ?? 500,
        forceSync: asynchronousCommit,
      },
      { clock, log, metrics },
    );

  await using owned = new AsyncDisposableStack();
  const database = owned.use(open("calls", opts.poolSize ?? 10, statementTimeoutMs, queueLimit));
  if (asynchronousCommit) {
    const [row] = await database.run<{ sync: string }>(statements.commits, []);
    if (row?.sync === "off") {
      throw new AppError("CONFIG_INVALID", { message: "ledger.url: its `options` turn synchronous_commit off." });
    }
  }
  const slow = owned.use(open("sums", 1, SUM_TIMEOUT_MS, 16));
  const renewals = owned.use(open("renewals", 1, Math.min(statementTimeoutMs, Math.max(heartbeatMs, 500)), 16));
  const sells = (opts.receivers ?? []).map(receiverName);
  const holder: Holder = owned.use(
    await createHolder(
      { ttlMs: opts.holderTtlMs ?? 5_000, heartbeatMs, statementTimeoutMs, sells },
      {
        database: renewals,
        statements,
        log,
        metrics,
        assertSoleSeller: () =>
          assertSoleSeller(
            { url: opts.url, schema, connectTimeoutMs: opts.connectTimeoutMs, queryTimeoutMs: statementTimeoutMs },
            sells,
          ),
      },
    ),
  );

  const answerRetentionMs = (opts.answerRetentionSeconds ?? 3_600) * 1_000;
  const releasedRetentionMs = (opts.releasedRetentionSeconds ?? 86_400) * 1_000;
  const retention = { answerRetentionMs, releasedRetentionMs };
  const parts = { database, statements, holder, sells, ...retention, queueLimit, log, metrics, faults };
  const resources = owned.move();
  return {
    ...createClaims(parts),
    ...createJournal(parts),
    ...createOutcomes(parts),
    async sums() {
      return sumsOf(await slow.run<SumsRow>(statements.sums, []));
    },
    async list(states, limit) {
      return (await slow.run<PaymentRow>(statements.list, [states, limit])).map(rowToRecord);
    },
    async ready() {
      try {
        await database.run(statements.ready, []);
        return holder.maySell();
      } catch {
        return false;
      }
    },
    async [Symbol.asyncDispose]() {
      await resources.disposeAsync();
    },
  };
}
