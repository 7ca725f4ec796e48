import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { type Address, type ErrorCode, isAppError, type Log, type Metrics, type NetworkId } from "@turnpike/base";
import type { Database } from "./database.ts";
import { ledgerHolderLostTotal } from "./metrics.ts";
import type { LedgerStatements } from "./statements.ts";

interface HolderOptions {
  /** Time without a renewal after which this process counts as dead. */
  readonly ttlMs: number;
  readonly heartbeatMs: number;
  /** How long a statement whose outcome is unknown may still be running. */
  readonly statementTimeoutMs: number;
  /** Names of what this process sells for. */
  readonly sells: readonly string[];
}

interface HolderModules {
  /** Connections of its own: a busy pool must not make this process look dead. */
  readonly database: Database;
  readonly statements: LedgerStatements;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Looks for another ledger that sells for a receiver of this one. @throws AppError CONFIG_INVALID when there is one. */
  readonly assertSoleSeller: () => Promise<void>;
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
 * This process as the ledger sees it: registered, renewed on a timer, and registered anew once it was late. It may claim
 * only while its row names the receivers that it sells for, and no other ledger sells for one of them.
 */
export class Holder implements AsyncDisposable {
  readonly #opts: HolderOptions;
  readonly #modules: HolderModules;
  readonly #abandoned = new Map<string, Abandoned>();
  #own = newRegistration();
  #replacing: Promise<string> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #beating: Promise<void> = Promise.resolve();
  #isStopped = false;
  #isRefused = false;

  private constructor(opts: HolderOptions, modules: HolderModules) {
    this.#opts = opts;
    this.#modules = modules;
  }

  /**
   * Registers this process and keeps it alive. Throws as {@link Database.run} does, and AppError CONFIG_INVALID when another
   * ledger sells for a receiver of this one.
   */
  static async open(opts: HolderOptions, modules: HolderModules): Promise<Holder> {
    const holder = new Holder(opts, modules);
    await holder.#register();
    holder.#schedule();
    return holder;
  }

  /** What writes name now. */
  current(): string {
    return this.#own.id;
  }

  /**
   * True while this process's row names its receivers and no other ledger sold for one of them when that was written.
   * Another may have begun while this process counted as dead.
   */
  maySell(): boolean {
    return this.#sellsNothing || this.#own.isSeller;
  }

  /** Registers anew after `dead` was refused; many callers at once make one registration. */
  replace(dead: string): Promise<string> {
    if (dead !== this.#own.id) return Promise.resolve(this.#own.id);
    this.#replacing ??= this.#replace(dead).finally(() => {
      this.#replacing = undefined;
    });
    return this.#replacing;
  }

  /** Renews now. Returns the leases that the ledger still grants; undefined when this holder is dead. */
  async renew(): Promise<ReadonlyMap<string, bigint> | undefined> {
    const { database, statements } = this.#modules;
    const { ttlMs, sells } = this.#opts;
    const registration = this.#own;
    const sold = registration.isSeller;
    const rows = await database.run<RenewRow>(statements.renew, [registration.id, ttlMs, sells]);
    const [row] = rows;
    if (row === undefined) return undefined;
    // What the row said before this process became a seller is no news.
    if (sold && !row.sells && !this.#sellsNothing) registration.isSeller = false;
    // A write whose answer was lost may come late.
    if (!sold && row.sells) registration.isNamed = true;
    if (!this.#sellsNothing && !registration.isSeller) await this.#becomeSeller(registration);
    const leases = new Map<string, bigint>();
    for (const { network, relayer, epoch } of rows) {
      if (network !== null && relayer !== null && epoch !== null) leases.set(`${network} ${relayer}`, BigInt(epoch));
    }
    return leases;
  }

  /** Keeps trying to release a claim that may or may not have been committed, or whose release failed. */
  abandon(claim: string, holder: string, reason: ErrorCode): void {
    if (this.#abandoned.size >= ABANDONED_LIMIT && !this.#abandoned.has(claim)) {
      const { log } = this.#modules;
      log.error({ claim }, "too many claims wait for their release; this one waits for the end of the process");
      return;
    }
    const { statementTimeoutMs, heartbeatMs } = this.#opts;
    this.#abandoned.set(claim, {
      holder,
      reason,
      untilMs: performance.now() + 2 * statementTimeoutMs + heartbeatMs,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#beating;
    await this.#retire();
  }

  get #sellsNothing(): boolean {
    return this.#opts.sells.length === 0;
  }

  // As in #tryToSell.
  async #register(): Promise<void> {
    const { assertSoleSeller } = this.#modules;
    const own = this.#own;
    if (!this.#sellsNothing) await assertSoleSeller();
    await this.#insert(own, this.#opts.sells);
    try {
      if (!this.#sellsNothing) await assertSoleSeller();
    } catch (error) {
      await this.#retire();
      throw error;
    }
    own.isSeller = true;
    own.isNamed = true;
  }

  async #insert({ id }: Registration, sells: readonly string[]): Promise<void> {
    const { database, statements } = this.#modules;
    await database.run(statements.register, [id, this.#opts.ttlMs, sells]);
  }

  async #replace(dead: string): Promise<string> {
    const next = newRegistration();
    await this.#insert(next, []);
    await this.#becomeSeller(next);
    const { log, metrics } = this.#modules;
    log.warn({ holder: next.id, was: dead }, "this process was late to renew: its claims and leases are lost");
    metrics.count(ledgerHolderLostTotal);
    this.#own = next;
    return next.id;
  }

  #becomeSeller(registration: Registration): Promise<void> {
    if (this.#sellsNothing) return Promise.resolve();
    registration.becoming ??= this.#tryToSell(registration).finally(() => {
      registration.becoming = undefined;
    });
    return registration.becoming;
  }

  // Look, write the row, look again. The first look keeps one that is refused from being seen: for as long as its row named
  // the receivers, new processes of the ledger that sells would be refused. The second one decides. Two that begin at once
  // cannot both sell: each commits its row before its second look begins, so the one that commits last looks when both rows
  // are there. It finds the other one's row, unless that was cleared, has ended or is dead; and then the other does not sell.
  // It never sells under that row again without a look that begins after another write. Both may refuse and try again.
  async #tryToSell(registration: Registration): Promise<void> {
    const { database, statements, log, assertSoleSeller } = this.#modules;
    const { id } = registration;
    try {
      await assertSoleSeller();
      registration.isNamed = true;
      const written = await database.run(statements.sell, [id, this.#opts.sells]);
      // Dead: it is replaced by the next call that is refused.
      if (written.length === 0) return;
      await assertSoleSeller();
      registration.isSeller = true;
      if (this.#isRefused) log.info({ holder: id }, "no other ledger sells for this one's receivers any more");
      this.#isRefused = false;
    } catch (error) {
      const reason = isAppError(error, "CONFIG_INVALID") ? error.message : undefined;
      if (!this.#isRefused) {
        log.error({ holder: id, reason }, "payments are refused: another ledger may sell for a receiver");
      }
      this.#isRefused = true;
      if (!registration.isNamed) return;
      await database.run(statements.sell, [id, []]);
      registration.isNamed = false;
    }
  }

  #schedule(): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat().finally(() => this.#schedule());
    }, this.#opts.heartbeatMs);
    this.#timer.unref();
  }

  async #beat(): Promise<void> {
    try {
      const before = this.#own.id;
      if ((await this.renew()) === undefined) await this.replace(before);
      if (this.#abandoned.size > 0) await this.#releaseAbandoned();
    } catch (error) {
      this.#modules.log.warn({ code: codeOf(error) }, "the ledger could not be renewed");
    }
  }

  async #releaseAbandoned(): Promise<void> {
    const { database, statements } = this.#modules;
    const nowMs = performance.now();
    for (const holder of new Set([...this.#abandoned.values()].map((entry) => entry.holder))) {
      const mine = [...this.#abandoned].filter(([, entry]) => entry.holder === holder);
      await database.run(statements.release, [
        holder,
        mine.map(([claim]) => claim),
        mine.map(([, { reason }]) => reason),
      ]);
    }
    // Kept until a statement that was under way cannot commit any more.
    for (const [claim, { untilMs }] of this.#abandoned) if (untilMs < nowMs) this.#abandoned.delete(claim);
  }

  async #retire(): Promise<void> {
    const { database, statements, log } = this.#modules;
    try {
      await database.run(statements.retire, [this.#own.id, "SHUTTING_DOWN" satisfies ErrorCode]);
    } catch (error) {
      log.warn(
        { code: codeOf(error) },
        "the holder could not be deleted; its claims are released when it counts as dead",
      );
    }
  }
}

function codeOf(error: unknown): ErrorCode {
  return isAppError(error) ? error.code : "INTERNAL";
}

function newRegistration(): Registration {
  const id = `${hostname()}/${process.pid}/${randomBytes(9).toString("base64url")}`;
  return { id, isSeller: false, isNamed: false, becoming: undefined };
}
