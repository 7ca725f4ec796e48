import { AppError, utf8ToBytes } from "@turnpike/base";
import { beginText } from "../../packages/portal-db/src/database/session-settings.ts";
import { planRequest } from "../../packages/portal-db/src/sql/plan-request.ts";
import type { Caller, RoleView, TableRequest } from "../../packages/portal-db/src/types.ts";
import type { BareRun } from "./children/bare-pg.ts";

/** The account that every database has from the start. */
export const FIXTURE = "10000000-0000-0000-0000-000000000004";

/** One kind of request, and what the API sends to the database for it. */
export interface Workload {
  readonly name: string;
  readonly title: string;
  readonly role: "reader" | "admin";
  readonly method: "GET" | "POST";
  readonly target: string;
  readonly body: Readonly<Record<string, unknown>> | undefined;
  readonly status: number;
}

/** What is measured. */
export const WORKLOADS: readonly Workload[] = [
  {
    name: "read",
    title: "GET /networks: three rows",
    role: "reader",
    method: "GET",
    target: "/networks",
    body: undefined,
    status: 200,
  },
  {
    name: "filtered",
    title: "GET /portal_applications by two conditions, ordered, ten of 200 rows",
    role: "reader",
    method: "GET",
    target: `/portal_applications?portal_account_id=eq.${FIXTURE}&emoji=is.null&order=portal_application_name&limit=10`,
    body: undefined,
    status: 200,
  },
  {
    name: "insert",
    title: "POST /organizations, return=representation",
    role: "admin",
    method: "POST",
    target: "/organizations",
    body: { organization_name: "of a benchmark" },
    status: 201,
  },
];

/** The HTTP request. */
export function requestOf({ method, target, body }: Workload, token: string): Uint8Array {
  const sent = body === undefined ? "" : JSON.stringify(body);
  const more =
    body === undefined
      ? ""
      : `Content-Type: application/json\r\nPrefer: return=representation\r\nContent-Length: ${Buffer.byteLength(sent)}\r\n`;
  return utf8ToBytes(
    `${method} ${target} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nAuthorization: Bearer ${token}\r\n${more}\r\n${sent}`,
  );
}

/** The same statements, under the same role and settings, as the API makes them. */
export function statementsOf(
  { name, role, method, target, body }: Workload,
  view: RoleView,
  opts: { readonly maxRows: number; readonly statementTimeoutMs: number; readonly lockTimeoutMs: number },
): Pick<BareRun, "begin" | "text" | "values" | "name"> {
  const [table = "", query = ""] = target.slice(1).split("?");
  const request: TableRequest = {
    verb: method,
    table,
    query,
    rows: body === undefined ? undefined : { rows: [body], isList: false },
    preferences: {
      return: method === "POST" ? "representation" : undefined,
      count: undefined,
      resolution: undefined,
      missing: undefined,
      handling: undefined,
      maxAffected: undefined,
      applied: [],
    },
    range: undefined,
    media: "json",
    stripsNulls: false,
  };
  const planned = planRequest(request, view, { maxRows: opts.maxRows });
  if (!planned.ok) throw new AppError("INTERNAL", { message: planned.error.message });
  const caller: Caller = { role, accountId: undefined, tokenId: "of a benchmark", claims: { role } };
  const { statementTimeoutMs, lockTimeoutMs } = opts;
  const settings = { statementTimeoutMs, lockTimeoutMs, isWrite: method === "POST", showsDeleted: false };
  return { begin: beginText(caller, settings), ...planned.plan.main, name: `bench_${name}` };
}
