import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import {
  type Address,
  AppError,
  type ErrorCode,
  isAppError,
  type Log,
  type Metrics,
  type NetworkId,
} from "@turnpike/base";
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
  /** False while another ledger sells for a receiver of this one: it began to while this process counted as dead. */
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
  let id = newHolderId();
  let replacing: Promise<string> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let beating: Promise<void> = Promise.resolve();
  let stopped = false;
  let isSeller = true;

  const register = async (name: string): Promise<void> => {
    await database.run(statements.register, [name, opts.ttlMs, opts.sells]);
  };

  /** Its own row comes first: of two that begin at once at least one sees the other. */
  const becomeSeller = async (name: string): Promise<boolean> => {
    if (opts.sells.length === 0) return true;
    try {
      await database.run(statements.sell, [name, opts.sells]);
      await assertSoleSeller();
      if (!isSeller) log.info({ holder: name }, "no other ledger sells for this one's receivers any more");
      return true;
    } catch (error) {
      const reason = isAppError(error, "CONFIG_INVALID") ? error.message : undefined;
      if (isSeller) log.error({ holder: name, reason }, "payments are refused: another ledger may sell for a receiver");
      await database.run(statements.sell, [name, []]);
      return false;
    }
  };

  const replace = (dead: string): Promise<string> => {
    if (dead !== id) return Promise.resolve(id);
    replacing ??= (async () => {
      const name = newHolderId();
      await register(name);
      isSeller = await becomeSeller(name);
      log.warn({ holder: name, was: dead }, "this process was late to renew: its claims and leases are lost");
      metrics.count(ledgerHolderLostTotal);
      id = name;
      return name;
    })().finally(() => {
      replacing = undefined;
    });
    return replacing;
  };

  const renew = async (): Promise<ReadonlyMap<string, bigint> | undefined> => {
    const name = id;
    const rows = await database.run<RenewRow>(statements.renew, [name, opts.ttlMs]);
    if (rows.length === 0) return undefined;
    if (!isSeller) isSeller = (await becomeSeller(name)) && name === id;
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
      const before = id;
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

  await register(id);
  try {
    if (opts.sells.length > 0) await assertSoleSeller();
  } catch (error) {
    await database.run(statements.retire, [id, "SHUTTING_DOWN" satisfies ErrorCode]);
    throw error;
  }
  schedule();

  return {
    current: () => id,
    maySell: () => isSeller,
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
      try {
        await database.run(statements.retire, [id, "SHUTTING_DOWN" satisfies ErrorCode]);
      } catch (error) {
        log.warn(
          { code: error instanceof AppError ? error.code : "INTERNAL" },
          "the ledger could not be told of the end; claims are released when this process counts as dead",
        );
      }
    },
  };
}

function newHolderId(): string {
  return `${hostname()}/${process.pid}/${randomBytes(9).toString("base64url")}`;
}
