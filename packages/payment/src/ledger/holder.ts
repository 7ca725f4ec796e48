import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { type Address, type ErrorCode, isAppError, type Log, type Metrics, type NetworkId } from "@turnpike/base";
import type { RelayerLease } from "../ledger-types.ts";
import type { Database } from "./database.ts";
import { ledgerHolderLostTotal } from "./metrics.ts";
import type { LedgerStatements } from "./statements.ts";

/** Options of {@link createHolder}. */
export interface HolderOptions {
  /** Time without a renewal after which this process counts as dead. */
  readonly ttlMs: number;
  readonly heartbeatMs: number;
  /** How long a statement whose outcome is unknown may still be running. */
  readonly statementTimeoutMs: number;
  /** Names of what this process sells for. */
  readonly sells: readonly string[];
}

/** What {@link createHolder} works with. */
export interface HolderModules {
  /** Connections of its own: a busy pool must not make this process look dead. */
  readonly database: Database;
  readonly statements: LedgerStatements;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Looks for another ledger that sells for a receiver of this one. @throws AppError CONFIG_INVALID when there is one. */
  readonly assertSoleSeller: () => Promise<void>;
}

/** A relayer that this process has leased. */
export type LeasedRelayer = Pick<RelayerLease, "network" | "relayer" | "epoch">;

/** This process as the ledger sees it: renewed on a timer, and somebody else once it was late. */
export interface Holder extends AsyncDisposable {
  /** What writes name now. */
  current(): string;
  /**
   * True while this process's row names its receivers and no other ledger sold for one of them when that was written.
   * Another may have begun while this process counted as dead.
   */
  maySell(): boolean;
  /** Registers anew after `dead` was refused; many callers at once make one registration. */
  replace(dead: string): Promise<string>;
  /** Renews now. Returns the leases that the ledger still grants; undefined when this holder is dead. */
  renew(): Promise<ReadonlyMap<string, bigint> | undefined>;
  /** Keeps trying to release a claim that may or may not have been committed, or whose release failed. */
  abandon(id: string, holder: string, reason: ErrorCode): void;
}

/** Names a lease in {@link Holder.renew}. */
export function leaseName(network: NetworkId, relayer: Address): string {
  return `${network} ${relayer.toLowerCase()}`;
}

// More than a process can have claimed within one time to live.
const ABANDONED_LIMIT = 10_000;

interface Abandoned {
  readonly holder: string;
  readonly reason: ErrorCode;
  readonly untilMs: number;
}

interface RenewRow {
  readonly network: string | null;
  readonly relayer: string | null;
  readonly epoch: string | null;
  /** Whether the holder's row names all receivers. */
  readonly sells: boolean;
}

/** This process under one id. It never sells again under one that counted as dead. */
interface Registration {
  readonly id: string;
  isSeller: boolean;
  /** Whether its row may name the receivers. */
  isNamed: boolean;
  /** One at a time: of two, one could clear the row after the other's look. */
  becoming: Promise<void> | undefined;
}

/**
 * Registers this process and keeps it alive. Throws as {@link Database.run} does, and AppError CONFIG_INVALID when another
 * ledger sells for a receiver of this one.
 */
export async function createHolder(
  opts: HolderOptions,
  { database, statements, log, metrics, assertSoleSeller }: HolderModules,
): Promise<Holder> {
  const abandoned = new Map<string, Abandoned>();
  let own = newRegistration();
  let replacing: Promise<string> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let beating: Promise<void> = Promise.resolve();
  let stopped = false;
  let refused = false;
  const sellsNothing = opts.sells.length === 0;

  const register = async ({ id }: Registration, sells: readonly string[]): Promise<void> => {
    await database.run(statements.register, [id, opts.ttlMs, sells]);
  };

  // Look, write the row, look again. The first look keeps one that is refused from being seen: for as long as its row named
  // the receivers, new processes of the ledger that sells would be refused. The second one decides. Two that begin at once
  // cannot both sell: each commits its row before its second look begins, so the one that commits last looks when both rows
  // are there. It finds the other one's row, unless that was cleared, has ended or is dead; and then the other does not sell.
  // It never sells under that row again without a look that begins after another write. Both may refuse and try again.
  const tryToSell = async (registration: Registration): Promise<void> => {
    const { id } = registration;
    try {
      await assertSoleSeller();
      registration.isNamed = true;
      const written = await database.run(statements.sell, [id, opts.sells]);
      // Dead: it is replaced by the next call that is refused.
      if (written.length === 0) return;
      await assertSoleSeller();
      registration.isSeller = true;
      if (refused) log.info({ holder: id }, "no other ledger sells for this one's receivers any more");
      refused = false;
    } catch (error) {
      const reason = isAppError(error, "CONFIG_INVALID") ? error.message : undefined;
      if (!refused) log.error({ holder: id, reason }, "payments are refused: another ledger may sell for a receiver");
      refused = true;
      if (!registration.isNamed) return;
      await database.run(statements.sell, [id, []]);
      registration.isNamed = false;
    }
  };

  const becomeSeller = (registration: Registration): Promise<void> => {
    if (sellsNothing) return Promise.resolve();
    registration.becoming ??= tryToSell(registration).finally(() => {
      registration.becoming = undefined;
    });
    return registration.becoming;
  };

  const replace = (dead: string): Promise<string> => {
    if (dead !== own.id) return Promise.resolve(own.id);
    replacing ??= (async () => {
      const next = newRegistration();
      await register(next, []);
      await becomeSeller(next);
      log.warn({ holder: next.id, was: dead }, "this process was late to renew: its claims and leases are lost");
      metrics.count(ledgerHolderLostTotal);
      own = next;
      return next.id;
    })().finally(() => {
      replacing = undefined;
    });
    return replacing;
  };

  const renew = async (): Promise<ReadonlyMap<string, bigint> | undefined> => {
    const registration = own;
    const sold = registration.isSeller;
    const rows = await database.run<RenewRow>(statements.renew, [registration.id, opts.ttlMs, opts.sells]);
    const [row] = rows;
    if (row === undefined) return undefined;
    // What the row said before this process became a seller is no news.
    if (sold && !row.sells && !sellsNothing) registration.isSeller = false;
    // A write whose answer was lost may come late.
    if (!sold && row.sells) registration.isNamed = true;
    if (!sellsNothing && !registration.isSeller) await becomeSeller(registration);
    const leases = new Map<string, bigint>();
    for (const { network, relayer, epoch } of rows) {
      if (network !== null && relayer !== null && epoch !== null) leases.set(`${network} ${relayer}`, BigInt(epoch));
    }
    return leases;
  };

  const releaseAbandoned = async (): Promise<void> => {
    const nowMs = performance.now();
    for (const holder of new Set([...abandoned.values()].map((entry) => entry.holder))) {
      const mine = [...abandoned].filter(([, entry]) => entry.holder === holder);
      await database.run(statements.release, [
        holder,
        mine.map(([claim]) => claim),
        mine.map(([, { reason }]) => reason),
      ]);
    }
    // Kept until a statement that was under way cannot commit any more.
    for (const [claim, { untilMs }] of abandoned) if (untilMs < nowMs) abandoned.delete(claim);
  };

  const beat = async (): Promise<void> => {
    try {
      const before = own.id;
      if ((await renew()) === undefined) await replace(before);
      if (abandoned.size > 0) await releaseAbandoned();
    } catch (error) {
      log.warn({ code: isAppError(error) ? error.code : "INTERNAL" }, "the ledger could not be renewed");
    }
  };

  const schedule = (): void => {
    if (stopped) return;
    timer = setTimeout(() => {
      beating = beat().finally(schedule);
    }, opts.heartbeatMs);
    timer.unref();
  };

  const retire = async (): Promise<void> => {
    try {
      await database.run(statements.retire, [own.id, "SHUTTING_DOWN" satisfies ErrorCode]);
    } catch (error) {
      log.warn(
        { code: isAppError(error) ? error.code : "INTERNAL" },
        "the holder could not be deleted; its claims are released when it counts as dead",
      );
    }
  };

  // As in tryToSell.
  if (!sellsNothing) await assertSoleSeller();
  await register(own, opts.sells);
  try {
    if (!sellsNothing) await assertSoleSeller();
  } catch (error) {
    await retire();
    throw error;
  }
  own.isSeller = true;
  own.isNamed = true;
  schedule();

  return {
    current: () => own.id,
    maySell: () => sellsNothing || own.isSeller,
    replace,
    renew,
    abandon(claim, holder, reason) {
      if (abandoned.size >= ABANDONED_LIMIT && !abandoned.has(claim)) {
        log.error({ claim }, "too many claims wait for their release; this one waits for the end of the process");
        return;
      }
      abandoned.set(claim, {
        holder,
        reason,
        untilMs: performance.now() + 2 * opts.statementTimeoutMs + opts.heartbeatMs,
      });
    },
    async [Symbol.asyncDispose]() {
      stopped = true;
      clearTimeout(timer);
      await beating;
      await retire();
    },
  };
}

function newRegistration(): Registration {
  const id = `${hostname()}/${process.pid}/${randomBytes(9).toString("base64url")}`;
  return { id, isSeller: false, isNamed: false, becoming: undefined };
}
