import { AppError, type Clock, type FaultPoints, type Log, type Metrics, systemClock } from "@turnpike/base";
import type { Ledger } from "../ledger-types.ts";
import { Claims } from "./claims.ts";
import { type Database, openDatabase } from "./database.ts";
import { Holder } from "./holder.ts";
import { Journal } from "./journal.ts";
import { Leases } from "./leases.ts";
import { Lookups } from "./lookups.ts";
import { checkSchema } from "./migrate.ts";
import { OpenResults } from "./open-results.ts";
import { Outcomes } from "./outcomes.ts";
import type { LedgerParts } from "./parts.ts";
import { assertSoleSeller, type Receiver, receiverName } from "./receivers.ts";
import { ReconciliationLists } from "./reconciliation.ts";
import { type PaymentRow, rowToRecord, type SumsRow, sumsOf } from "./rows.ts";
import { SchemaWatch } from "./schema-watch.ts";
import { SettlementBudgets } from "./settlement-budgets.ts";
import { ledgerStatements } from "./statements.ts";
import { WalletRisks } from "./wallet-risks.ts";

/** Where the ledger is, how long it keeps what, and how long it waits for its database. */
export interface LedgerOptions {
  /** `postgres://…` of a direct connection or a session pool. */
  readonly url: string;
  /** Schema of the tables. */
  readonly schema: string;
  /** Most connections for calls; two more are kept for renewals and for sums. */
  readonly poolSize: number;
  /** How long a sold answer is kept after its settlement. */
  readonly answerRetentionSeconds: number;
  /** How long a released claim is kept after it was found unused and its window closed. */
  readonly releasedRetentionSeconds: number;
  /** Time without a renewal after which this process counts as dead. */
  readonly holderTtlMs: number;
  /** Time between renewals; at most a third of `holderTtlMs` lets two of them fail. */
  readonly heartbeatMs: number;
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

/** The ledger owns none of these. */
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
 * and CONFIG_INVALID when its URL switches durable commits off, or another ledger of the database sells for a receiver.
 */
export async function createLedger(opts: LedgerOptions, modules: LedgerModules): Promise<Ledger> {
  const { log, metrics, faults } = modules;
  const clock = modules.clock ?? systemClock;
  const { schema, heartbeatMs } = opts;
  const statements = ledgerStatements(schema);
  const statementTimeoutMs = opts.statementTimeoutMs ?? 5_000;
  const queueLimit = opts.queueLimit ?? 4_000;
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
  const database = owned.use(open("calls", opts.poolSize, statementTimeoutMs, queueLimit));
  if (asynchronousCommit) {
    const [row] = await database.run<{ sync: string }>(statements.commits, []);
    if (row?.sync === "off") {
      throw new AppError("CONFIG_INVALID", { message: "ledger.url: its `options` turn synchronous_commit off." });
    }
  }
  const slow = owned.use(open("sums", 1, SUM_TIMEOUT_MS, 16));
  const renewals = owned.use(open("renewals", 1, Math.min(statementTimeoutMs, Math.max(heartbeatMs, 500)), 16));
  const sells = (opts.receivers ?? []).map(receiverName);
  const holder = owned.use(
    await Holder.open(
      { ttlMs: opts.holderTtlMs, heartbeatMs, statementTimeoutMs, sells },
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

  const retention = {
    answerRetentionMs: opts.answerRetentionSeconds * 1_000,
    releasedRetentionMs: opts.releasedRetentionSeconds * 1_000,
  };
  const parts = { database, statements, holder, sells, ...retention, queueLimit, log, metrics, faults };
  return ledgerOf(parts, slow, new SchemaWatch(schema, { database, clock, log }), owned.move());
}

/** The ledger, over the parts that are named by what they do. `slow` is for what reads every payment. */
function ledgerOf(
  parts: LedgerParts,
  slow: Database,
  schemaWatch: SchemaWatch,
  resources: AsyncDisposableStack,
): Ledger {
  const { database, statements, holder } = parts;
  const claims = new Claims(parts);
  const lookups = new Lookups(parts);
  const leases = new Leases(parts);
  const journal = new Journal(parts);
  const outcomes = new Outcomes(parts);
  const lists = new ReconciliationLists(parts);
  const results = resources.use(new OpenResults(parts));
  const budgets = new SettlementBudgets(parts);
  const wallets = new WalletRisks(parts);
  return {
    claim: (claim) => claims.claim(claim),
    release: (id, reason) => claims.release(id, reason),
    releaseOrphans: () => claims.releaseOrphans(),
    find: (key) => lookups.find(key),
    findByIdentifier: (network, from, identifier) => lookups.findByIdentifier(network, from, identifier),
    get: (id) => lookups.get(id),
    newest: (id) => lookups.newest(id),
    inFlight: (network, asset, from, limit) => lookups.inFlight(network, asset, from, limit),
    answer: (id, settledWithinMs) => lookups.answer(id, settledWithinMs),
    hasAnswer: (id, settledWithinMs) => lookups.hasAnswer(id, settledWithinMs),
    leaseRelayer: (network, relayer, chainNonce) => leases.leaseRelayer(network, relayer, chainNonce),
    returnRelayer: (lease) => leases.returnRelayer(lease),
    livingHolders: () => leases.livingHolders(),
    renewLeases: () => leases.renewLeases(),
    journal: (batch) => journal.journal(batch),
    journalReplacement: (lease, batchId, transaction) => journal.journalReplacement(lease, batchId, transaction),
    journalSubmission: (id, answer) => journal.journalSubmission(id, answer),
    closeBatch: (batchId, hash) => journal.closeBatch(batchId, hash),
    openBatches: (network, relayer) => journal.openBatches(network, relayer),
    orphanBatches: (network, limit) => journal.orphanBatches(network, limit),
    settled: (id, evidence) => outcomes.settled(id, evidence),
    settledAll: (items) => outcomes.settledAll(items),
    failed: (id, reason) => outcomes.failed(id, reason),
    disputed: (id, reason) => outcomes.disputed(id, reason),
    owed: (id, evidence) => outcomes.owed(id, evidence),
    reorganised: (id) => outcomes.reorganised(id),
    expireAnswers: () => outcomes.expireAnswers(),
    pruneReleased: () => outcomes.pruneReleased(),
    submitted: (network, limit) => lists.submitted(network, limit),
    unresolved: (query) => lists.unresolved(query),
    unfinalBlocks: (network, limit, before) => lists.unfinalBlocks(network, limit, before),
    unfinalIn: (network, block, limit) => lists.unfinalIn(network, block, limit),
    newestFinal: (network) => lists.newestFinal(network),
    finalise: (network, blocks) => lists.finalise(network, blocks),
    unswept: (network, chainTimeSeconds, limit) => lists.unswept(network, chainTimeSeconds, limit),
    swept: (ids, isKept) => lists.swept(ids, isKept),
    unknownTransfers: (network, places) => lists.unknownTransfers(network, places),
    beginScan: (scan, pauseMs) => lists.beginScan(scan, pauseMs),
    moveCursor: (scan, was, cursor) => lists.moveCursor(scan, was, cursor),
    openResult: (id) => results.openResult(id),
    leaseResult: (id) => results.leaseResult(id),
    closeResult: (id) => results.closeResult(id),
    holdsResult: (id) => results.holdsResult(id),
    isResultOpen: (id) => results.isResultOpen(id),
    takeResult: (id, isFirst) => results.takeResult(id, isFirst),
    takeBudgets: (wanted, units = 1) => budgets.take(wanted, units),
    returnBudgets: (names, units = 1) => budgets.giveBack(names, units),
    usedUpBudget: (wanted, units = 1) => budgets.usedUp(wanted, units),
    admitWallet: (id, network, wallet) => wallets.admitWallet(id, network, wallet),
    walletBound: (network, wallet) => wallets.walletBound(network, wallet),
    endWallet: (id, network, wallet, run) => wallets.endWallet(id, network, wallet, run),
    admitPlain: (network, payer, ids) => wallets.admitPlain(network, payer, ids),
    failPlain: (payment, failure) => wallets.failPlain(payment, failure),
    failingPayers: (network, payers) => wallets.failingPayers(network, payers),
    walletPauseSeconds: (network, wallet) => wallets.walletPauseSeconds(network, wallet),
    sums: async () => sumsOf(await slow.run<SumsRow>(statements.sums, [])),
    list: async (states, limit) => (await slow.run<PaymentRow>(statements.list, [states, limit])).map(rowToRecord),
    async ready() {
      try {
        await database.run(statements.ready, []);
        return (await schemaWatch.isComplete()) && holder.maySell();
      } catch {
        return false;
      }
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}
