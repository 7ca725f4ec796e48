import type pg from "pg";
import type { Interval } from "./periods.ts";

/** A live application of a live account, with the limits of both and of the plan, and what it has used. */
export interface ApplicationRow {
  readonly hash: string;
  readonly id: string;
  readonly accountId: string;
  /** Calls in a second; null for no limit. */
  readonly ownRps: number | null;
  readonly accountRps: number | null;
  readonly planRps: number | null;
  /** Calls in an interval; null for no limit. */
  readonly ownLimit: number | null;
  readonly ownInterval: Interval;
  readonly ownUsed: number;
  readonly accountLimit: number | null;
  readonly accountInterval: Interval;
  readonly accountUsed: number;
  readonly planLimit: number | null;
  readonly planInterval: Interval;
  /** Of the account, in the plan's interval. */
  readonly planUsed: number;
}

/** Most hashes of one {@link findApplications}. */
export const MAX_HASHES = 500;

/** Calls of an account since the start of an interval, from sums that outlive applications. */
const ofAccount = (interval: string): string => `(
    select coalesce(sum(u.calls), 0) from portal_private.account_usage u
    where u.portal_account_id = c.portal_account_id
      and u.day >= date_trunc(${interval}, t.today::timestamp)::date and u.day <= t.today
  )::float8`;

const FIND = `
  select a.secret_key_hash as "hash", a.portal_application_id as "id", a.portal_account_id as "accountId",
    a.portal_application_user_limit_rps as "ownRps", c.portal_account_user_limit_rps as "accountRps",
    p.plan_rate_limit_rps as "planRps",
    a.portal_application_user_limit as "ownLimit", i.own as "ownInterval",
    case when a.portal_application_user_limit is null then 0 else (
      select coalesce(sum(u.calls), 0) from portal.portal_application_usage u
      where u.portal_application_id = a.portal_application_id
        and u.day >= date_trunc(i.own, t.today::timestamp)::date and u.day <= t.today
    ) end::float8 as "ownUsed",
    c.portal_account_user_limit::float8 as "accountLimit", i.account as "accountInterval",
    case when c.portal_account_user_limit is null then 0 else ${ofAccount("i.account")} end as "accountUsed",
    p.plan_usage_limit as "planLimit", i.plan as "planInterval",
    case when p.plan_usage_limit is null then 0 else ${ofAccount("i.plan")} end as "planUsed"
  from portal.portal_applications a
  join portal.portal_accounts c using (portal_account_id)
  join portal.portal_plans p using (portal_plan_type)
  cross join lateral (
    select coalesce(a.portal_application_user_limit_interval::text, 'month') as own,
      coalesce(c.portal_account_user_limit_interval::text, 'month') as account,
      coalesce(p.plan_usage_limit_interval::text, 'month') as plan
  ) i
  cross join (select (now() at time zone 'utc')::date as today) t
  where a.secret_key_hash = any ($1) and a.deleted_at is null and c.deleted_at is null
  order by a.created_at desc, a.portal_application_id desc`;

/**
 * Applications by the hashes of their keys. Of several with one hash it is the oldest, so that no application can take
 * another's place. Throws the driver's errors.
 */
export async function findApplications(
  pool: pg.Pool,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, ApplicationRow>> {
  const { rows } = await pool.query<ApplicationRow>({ name: "portal_keys", text: FIND, values: [hashes] });
  return new Map(rows.map((row) => [row.hash, row]));
}
