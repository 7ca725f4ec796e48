import type { Log, Metrics } from "@turnpike/base";
import type pg from "pg";
import { portalUsageLostTotal, portalUsagePending, portalUsageWritesTotal } from "./metrics.ts";

/** Calls of an application on a day to a service. */
interface UsageRow {
  readonly applicationId: string;
  readonly accountId: string;
  readonly day: string;
  readonly serviceId: string;
  calls: number;
  failed: number;
  refused: number;
}

/** What is added to a row. */
export interface UsageChange {
  readonly calls?: number;
  readonly failed?: number;
  readonly refused?: number;
}

interface UsageOptions {
  /** Most rows that wait to be written; calls that would need another are not counted. */
  readonly maxRows: number;
}

const MAX_BATCH = 5_000;

// In one order everywhere, so that gateways that write at once do not wait for each other in a ring: rows by account and
// application, then the sums by account. An application that is gone meanwhile has no row, and its calls still count for
// its account: else deleting it in time would give them back.
const WRITE = `
  with r as materialized (
    select * from unnest($1::text[], $2::text[], $3::date[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
      r (id, account_id, day, service_id, calls, failed, refused)
  ), written as (
    insert into portal.portal_application_usage as u
      (portal_application_id, day, service_id, calls, failed_calls, refused_calls)
    select r.id, r.day, r.service_id, r.calls, r.failed, r.refused
    from r join portal.portal_applications a on a.portal_application_id = r.id
    order by r.account_id, r.id, r.day, r.service_id
    on conflict (portal_application_id, day, service_id) do update set
      calls = u.calls + excluded.calls,
      failed_calls = u.failed_calls + excluded.failed_calls,
      refused_calls = u.refused_calls + excluded.refused_calls
    returning 1
  )
  insert into portal_private.account_usage as u (portal_account_id, day, calls)
  select r.account_id, r.day, sum(r.calls) from r
  where (select count(*) from written) >= 0
  group by r.account_id, r.day having sum(r.calls) > 0
  order by r.account_id, r.day
  on conflict (portal_account_id, day) do update set calls = u.calls + excluded.calls`;

/** Keeps usage until it is written. */
export class Usage {
  readonly #maxRows: number;
  readonly #pool: pg.Pool;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #rows = new Map<string, UsageRow>();
  readonly #pending = new Map<string, number>();
  #isFailing = false;

  constructor(
    { maxRows }: UsageOptions,
    modules: { readonly pool: pg.Pool; readonly log: Log; readonly metrics: Metrics },
  ) {
    this.#maxRows = maxRows;
    this.#pool = modules.pool;
    this.#log = modules.log;
    this.#metrics = modules.metrics;
  }

  add(
    { id, accountId }: { readonly id: string; readonly accountId: string },
    day: string,
    serviceId: string,
    { calls = 0, failed = 0, refused = 0 }: UsageChange,
  ): void {
    const key = `${id}\n${day}\n${serviceId}`;
    let row = this.#rows.get(key);
    if (row === undefined) {
      if (this.#rows.size >= this.#maxRows) {
        this.#metrics.count(portalUsageLostTotal, undefined, calls + refused);
        return;
      }
      row = { applicationId: id, accountId, day, serviceId, calls: 0, failed: 0, refused: 0 };
      this.#rows.set(key, row);
    }
    row.calls += calls;
    row.failed += failed;
    row.refused += refused;
    if (calls === 0) return;
    this.#addPending(id, calls);
    this.#addPending(accountId, calls);
  }

  /** Calls of an application or of an account that the database may not have yet. */
  pending(id: string): number {
    return this.#pending.get(id) ?? 0;
  }

  /** Writes all that waits; true when it was written. Never throws. */
  async flush(): Promise<boolean> {
    const all = [...this.#rows].map(([key, row]) => [key, { ...row }] as const);
    try {
      for (let at = 0; at < all.length; at += MAX_BATCH) {
        const batch = all.slice(at, at + MAX_BATCH);
        await this.#write(batch.map(([, row]) => row));
        this.#subtract(batch);
        this.#metrics.count(portalUsageWritesTotal, { outcome: "ok" });
      }
      if (this.#isFailing) this.#log.info({}, "usage of applications is written again");
      this.#isFailing = false;
      return true;
    } catch (error) {
      this.#metrics.count(portalUsageWritesTotal, { outcome: "failed" });
      const fields = { error: error instanceof Error ? error.message : typeof error, rows: this.#rows.size };
      if (!this.#isFailing) {
        this.#log.warn(fields, "usage of applications could not be written; it is kept and tried again");
      }
      this.#isFailing = true;
      return false;
    } finally {
      this.#metrics.set(portalUsagePending, this.#rows.size);
    }
  }

  #addPending(id: string, calls: number): void {
    const sum = this.pending(id) + calls;
    if (sum === 0) this.#pending.delete(id);
    else this.#pending.set(id, sum);
  }

  /** What was written is taken off its rows: calls that came meanwhile stay. */
  #subtract(batch: readonly (readonly [string, UsageRow])[]): void {
    for (const [key, { applicationId, accountId, calls, failed, refused }] of batch) {
      this.#addPending(applicationId, -calls);
      this.#addPending(accountId, -calls);
      const row = this.#rows.get(key);
      if (row === undefined) continue;
      row.calls -= calls;
      row.failed -= failed;
      row.refused -= refused;
      if (row.calls === 0 && row.failed === 0 && row.refused === 0) this.#rows.delete(key);
    }
  }

  async #write(batch: readonly UsageRow[]): Promise<void> {
    const column = <T>(read: (row: UsageRow) => T): readonly T[] => batch.map(read);
    await this.#pool.query({
      name: "portal_usage",
      text: WRITE,
      values: [
        column((row) => row.applicationId),
        column((row) => row.accountId),
        column((row) => row.day),
        column((row) => row.serviceId),
        column((row) => row.calls),
        column((row) => row.failed),
        column((row) => row.refused),
      ],
    });
  }
}
