import type { Clock } from "@turnpike/base";
import type { ApplicationRow } from "./lookup.ts";
import { dayOf, type Interval } from "./periods.ts";
import { type Counter, consumeQuotas, createCounter, type Quota, type QuotaVerdict, releaseQuotas } from "./quotas.ts";
import type { Usage } from "./usage.ts";

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

/** A {@link PortalApplication} whose limits and counts a newer row replaces. */
export interface LiveApplication extends PortalApplication {
  update(row: ApplicationRow): void;
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

/** An application with the limits and the usage of its row. */
export function createApplication(first: ApplicationRow, modules: ApplicationModules): LiveApplication {
  const { clock, usage, counters } = modules;
  const { id, accountId } = first;
  let row = first;
  let quotas: readonly Quota[] = [];

  /** The counter of this name, brought up to what the database says and what it cannot know yet. */
  const counterOf = (owner: string, interval: Interval, inDatabase: number): Counter => {
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
  };

  const update = (next: ApplicationRow): void => {
    row = next;
    const of: Quota[] = [];
    const { ownLimit, accountLimit, planLimit } = next;
    if (ownLimit !== null) of.push({ counter: counterOf(id, next.ownInterval, next.ownUsed), limit: ownLimit });
    if (accountLimit !== null) {
      // Of two limits over the same interval the lower one says it all.
      const limit =
        planLimit !== null && next.planInterval === next.accountInterval
          ? Math.min(accountLimit, planLimit)
          : accountLimit;
      of.push({ counter: counterOf(accountId, next.accountInterval, next.accountUsed), limit });
    }
    if (planLimit !== null && (accountLimit === null || next.planInterval !== next.accountInterval)) {
      of.push({ counter: counterOf(accountId, next.planInterval, next.planUsed), limit: planLimit });
    }
    quotas = of;
  };
  update(first);

  const today = (): string => dayOf(clock.nowMs());
  const owner = { id, accountId };
  return {
    id,
    accountId,
    get perSecond() {
      return least(row.ownRps);
    },
    get accountPerSecond() {
      return least(row.accountRps, row.planRps);
    },
    consume: (items) => consumeQuotas(quotas, items, clock.nowMs()),
    served: (serviceId, items) => usage.add(owner, today(), serviceId, { calls: items }),
    refused(serviceId, items, isConsumed) {
      if (isConsumed) releaseQuotas(quotas, items);
      usage.add(owner, today(), serviceId, { refused: items });
    },
    failed: (serviceId, items) => usage.add(owner, today(), serviceId, { failed: items }),
    update,
  };
}
