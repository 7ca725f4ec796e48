import type { FastifyRequest } from "fastify";
import type { ErrorBody } from "../errors.ts";
import { planRequest } from "../sql/plan-request.ts";
import type { Caller, Plan, RoleView, TableRequest } from "../types.ts";
import { withSafeCount } from "./exact-counts.ts";
import { headerOf, tableRequestOf } from "./table-request.ts";

/** A request on a table, read and planned. */
export interface PlannedRequest {
  readonly request: TableRequest;
  readonly contentType: string;
  readonly plan: Plan;
  /** Soft-deleted rows are in sight. */
  readonly showsDeleted: boolean;
}

/** A planned request, or why it is none. */
export type PlannedResult =
  | ({ readonly ok: true } & PlannedRequest)
  | { readonly ok: false; readonly error: ErrorBody };

/** Plans requests of callers. */
export type RequestPlanner = (
  request: FastifyRequest,
  target: { readonly table: string; readonly query: string },
  caller: Caller,
  view: RoleView,
) => PlannedResult;

/** Parameters that hold no condition. */
const NO_FILTERS = new Set(["select", "order", "limit", "offset", "columns", "on_conflict"]);
const DELETED = "deleted_at";

/** True when a request names `deleted_at` in a condition, or writes it: then deleted rows are in sight. */
export function namesDeleted(request: TableRequest): boolean {
  for (const [name, value] of new URLSearchParams(request.query)) {
    if (NO_FILTERS.has(name)) continue;
    if (name === DELETED || name.endsWith(`.${DELETED}`)) return true;
    if (/(^|\.)(and|or)$/.test(name) && value.includes(DELETED)) return true;
  }
  return request.rows?.rows.some((row) => Object.hasOwn(row, DELETED)) ?? false;
}

/** Headers that a read is made of; every one that `tableRequestOf` looks at for GET and HEAD. */
const READ_HEADERS = ["accept", "accept-profile", "prefer", "range", "range-unit"] as const;
/** No header and no URL of a request that was parsed has it. */
const SEPARATOR = "\n";
const MAX_KEY_CHARS = 4_096;
const MAX_STATEMENT_CHARS = 16_384;

/** Everything that the plan of a read is made of, beside the view of the role. */
function keyOf(request: FastifyRequest, { accountId }: Caller): string {
  // Whether a caller is bound to an account decides how rows are counted; to which does not.
  let key = `${request.method} ${accountId === undefined ? "all" : "own"} ${request.raw.url ?? ""}`;
  for (const name of READ_HEADERS) {
    const value = headerOf(request, name);
    key += value === undefined ? SEPARATOR : `${SEPARATOR}=${value}`;
  }
  return key;
}

/**
 * Reads and plans requests. Plans of reads are kept, so many for each view: what comes again is not parsed again. A plan
 * holds what the client asked and names of the view, nothing of a caller; another view, as after a change of the tables
 * or of rights, has plans of its own.
 */
export function createRequestPlanner(opts: { readonly maxRows: number; readonly maxKept: number }): RequestPlanner {
  const { maxRows, maxKept } = opts;
  const byView = new WeakMap<RoleView, Map<string, PlannedResult & { readonly ok: true }>>();

  const make: RequestPlanner = (request, { table, query }, caller, view) => {
    const read = tableRequestOf(request, request.method as TableRequest["verb"], table, query);
    if (!read.ok) return read;
    const planned = planRequest(withSafeCount(read.request, caller), view, { maxRows });
    if (!planned.ok) return planned;
    const { contentType } = read;
    return {
      ok: true,
      request: read.request,
      contentType,
      plan: planned.plan,
      showsDeleted: namesDeleted(read.request),
    };
  };

  return (request, target, caller, view) => {
    if (request.method !== "GET" && request.method !== "HEAD") return make(request, target, caller, view);
    const key = keyOf(request, caller);
    const kept = byView.get(view);
    const known = kept?.get(key);
    if (known !== undefined) return known;
    const made = make(request, target, caller, view);
    if (!made.ok || key.length > MAX_KEY_CHARS || made.plan.main.text.length > MAX_STATEMENT_CHARS) return made;
    const plans = kept ?? new Map<string, typeof made>();
    if (kept === undefined) byView.set(view, plans);
    if (plans.size >= maxKept) {
      const [oldest] = plans.keys();
      if (oldest !== undefined) plans.delete(oldest);
    }
    plans.set(key, made);
    return made;
  };
}
