import type { Clock } from "@turnpike/base";
import type { ApplicationRow } from "./lookup.ts";
import { dayOf, type Interval } from "./periods.ts";
import { type Counter, consumeQuotas, createCounter, type Quota, type QuotaVerdict, releaseQuotas } from "./quotas.ts";
import type { Usage, UsageChange } from "./usage.ts";

/** An application that a key stands for. It changes while it is held: its limits are those that were read last. */
export interface PortalApplication {
  readonly id: string;
  readonly accountId: string;
  /** Calls in any second; undefined for no limit. */
  readonly perSecond: number | undefined;
  /** Calls in any second of all applications of the account: the lower one of account and plan. */
  readonly accountPerSecond: number | undefined;
  /** Counts calls against the quotas of application, account and plan, or against none. `served` or `refused` must follow. */
  consume(items: number): QuotaVerdict;
  /** Counts calls that were consumed. */
  served(serviceId: string, items: number): void;
  /** Counts refused calls; `isConsumed` releases what `consume` counted. */
  refused(serviceId: string, items: number, isConsumed: boolean): void;
  /** Counts those of the served calls that failed. */
  failed(serviceId: string, items: number): void;
}

/** What applications share. */
export interface ApplicationModules {
  readonly clock: Clock;
  readonly usage: Usage;
  /** Counters by their name: applications of one account have those of the account in common. */
  readonly counters: Map<string, Counter>;
}

const MAX_COUNTERS = 30_000;

function least(...limits: readonly (number | null)[]): number | undefined {
  const set = limits.filter((limit) => limit !== null);
  return set.length === 0 ? undefined : Math.min(...set);
}

/** An application with the limits and the usage of its row; {@link LiveApplication.update} replaces them by those of a newer one. */
export class LiveApplication implements PortalApplication {
  readonly id: string;
  readonly accountId: string;
  readonly #modules: ApplicationModules;
  #row: ApplicationRow;
  #quotas: readonly Quota[];

  constructor(row: ApplicationRow, modules: ApplicationModules) {
    this.id = row.id;
    this.accountId = row.accountId;
    this.#modules = modules;
    this.#row = row;
    this.#quotas = this.#quotasOf(row);
  }

  get perSecond(): number | undefined {
    return least(this.#row.ownRps);
  }

  get accountPerSecond(): number | undefined {
    return least(this.#row.accountRps, this.#row.planRps);
  }

  consume(items: number): QuotaVerdict {
    return consumeQuotas(this.#quotas, items, this.#modules.clock.nowMs());
  }

  served(serviceId: string, items: number): void {
    this.#count(serviceId, { calls: items });
  }

  refused(serviceId: string, items: number, isConsumed: boolean): void {
    if (isConsumed) releaseQuotas(this.#quotas, items);
    this.#count(serviceId, { refused: items });
  }

  failed(serviceId: string, items: number): void {
    this.#count(serviceId, { failed: items });
  }

  update(row: ApplicationRow): void {
    this.#row = row;
    this.#quotas = this.#quotasOf(row);
  }

  #count(serviceId: string, change: UsageChange): void {
    const { clock, usage } = this.#modules;
    usage.add(this, dayOf(clock.nowMs()), serviceId, change);
  }

  #quotasOf(row: ApplicationRow): readonly Quota[] {
    const quotas: Quota[] = [];
    const { ownLimit, accountLimit, planLimit } = row;
    if (ownLimit !== null) {
      quotas.push({ counter: this.#counterOf(this.id, row.ownInterval, row.ownUsed), limit: ownLimit });
    }
    if (accountLimit !== null) {
      // Of two limits over the same interval the lower one says it all.
      const limit =
        planLimit !== null && row.planInterval === row.accountInterval
          ? Math.min(accountLimit, planLimit)
          : accountLimit;
      quotas.push({ counter: this.#counterOf(this.accountId, row.accountInterval, row.accountUsed), limit });
    }
    if (planLimit !== null && (accountLimit === null || row.planInterval !== row.accountInterval)) {
      const counter = this.#counterOf(this.accountId, row.planInterval, row.planUsed);
      quotas.push({ counter, limit: planLimit });
    }
    return quotas;
  }

  /** The counter of this name, brought up to what the database says and what it cannot know yet. */
  #counterOf(owner: string, interval: Interval, inDatabase: number): Counter {
    const { clock, usage, counters } = this.#modules;
    const name = `${owner} ${interval}`;
    const nowMs = clock.nowMs();
    const used = inDatabase + usage.pending(owner);
    const known = counters.get(name);
    if (known !== undefined && nowMs < known.period.endMs) {
      known.used = used;
      return known;
    }
    const [oldest] = counters.keys();
    if (counters.size >= MAX_COUNTERS && oldest !== undefined) counters.delete(oldest);
    const counter = createCounter(interval, used, nowMs);
    counters.set(name, counter);
    return counter;
  }
}
