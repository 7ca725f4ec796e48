import type { ErrorBody } from "../errors.ts";
import { failure, TOO_LARGE } from "../failures.ts";
import type { Plan, TableRequest } from "../types.ts";
import { contentRange, rangeStatus } from "./range.ts";

/** What the statements of a plan gave. */
export interface PlanRows {
  /** The JSON array, or CSV; undefined for a read that is too large. */
  readonly body: string | undefined;
  /** Rows of the answer. */
  readonly pageTotal: number;
  /** Rows written. */
  readonly affected: number;
  /** Rows that an upsert made; undefined when it was none. */
  readonly inserted: number | undefined;
  /** Rows in all; undefined when the client did not ask for the count. */
  readonly total: number | undefined;
}

/** An answer before it is sent. */
export interface TableAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined: none, and no `Content-Type`. */
  readonly body: string | undefined;
}

/** An answer, or why what was done must be taken back. */
export type AnswerResult =
  | { readonly ok: true; readonly answer: TableAnswer }
  | { readonly ok: false; readonly error: ErrorBody; readonly headers: Readonly<Record<string, string>> };

const refuse = (error: ErrorBody, headers: Readonly<Record<string, string>> = {}): AnswerResult => ({
  ok: false,
  error,
  headers,
});

/** The one object of a JSON array's text. */
function objectOf(body: string): string {
  const text = body.trim();
  return text.slice(1, -1).trim();
}

/** `Location` of a row that was made: its primary key as filters. */
function locationOf(table: string, keyColumns: readonly string[], body: string): string | undefined {
  if (keyColumns.length === 0) return undefined;
  const rows = JSON.parse(body) as readonly Readonly<Record<string, unknown>>[];
  const [row] = rows;
  if (row === undefined || rows.length !== 1) return undefined;
  const parts = keyColumns.map((column) => {
    const value = Object.hasOwn(row, column) ? row[column] : undefined;
    if (typeof value !== "string" && typeof value !== "number") return undefined;
    return `${encodeURIComponent(column)}=eq.${encodeURIComponent(value)}`;
  });
  return parts.includes(undefined) ? undefined : `/${encodeURIComponent(table)}?${parts.join("&")}`;
}

function read(plan: Plan, rows: PlanRows, body: string): AnswerResult {
  const last = plan.offset + rows.pageTotal - 1;
  const status = rangeStatus(plan.offset, last, rows.total);
  if (status === 416) {
    const details = `An offset of ${plan.offset} was requested, but there are only ${rows.total} rows.`;
    return refuse(failure(416, "PGRST103", "Requested range not satisfiable", details), {
      "content-range": contentRange(1, 0, rows.total),
    });
  }
  const headers = { "content-range": contentRange(plan.offset, last, rows.total) };
  return { ok: true, answer: { status, headers, body } };
}

function written(request: TableRequest, plan: Plan, rows: PlanRows, body: string): AnswerResult {
  const { verb, preferences, table } = request;
  const isShown = preferences.return === "representation";
  const known = preferences.count === undefined ? undefined : rows.affected;
  const shown = isShown ? body : undefined;
  if (verb === "POST") {
    const location =
      preferences.return === "headers-only" ? locationOf(table, plan.keyColumns, rows.body ?? "[]") : undefined;
    const madeNone = preferences.resolution === "merge-duplicates" && (rows.inserted ?? rows.affected) <= 0;
    return {
      ok: true,
      answer: {
        status: madeNone ? 200 : 201,
        headers: { "content-range": contentRange(1, 0, known), ...(location === undefined ? {} : { location }) },
        body: shown,
      },
    };
  }
  if (verb === "PUT") {
    const isNew = (rows.inserted ?? 0) > 0;
    return { ok: true, answer: { status: isNew ? 201 : isShown ? 200 : 204, headers: {}, body: shown } };
  }
  const range = verb === "PATCH" ? contentRange(0, rows.affected - 1, known) : contentRange(1, 0, known);
  return { ok: true, answer: { status: isShown ? 200 : 204, headers: { "content-range": range }, body: shown } };
}

/**
 * The answer to a request whose statements have run. A refusal (406 for not one row, 400 for too many, 416) means that a
 * write must be rolled back.
 */
export function answerOf(request: TableRequest, plan: Plan, rows: PlanRows): AnswerResult {
  const { verb, preferences, media } = request;
  const { pageTotal, affected } = rows;
  if (rows.body === undefined) {
    return refuse(TOO_LARGE);
  }
  const isUpdate = verb === "PATCH" || verb === "DELETE";
  if (isUpdate && preferences.maxAffected !== undefined && affected > preferences.maxAffected) {
    const details = `The query affects ${affected} rows`;
    return refuse(failure(400, "PGRST124", "Query result exceeds max-affected preference constraint", details));
  }
  if (verb === "PUT" && affected !== 1) {
    return refuse(failure(400, "PGRST115", "Payload values do not match URL in primary key column(s)"));
  }
  const shown = plan.isWrite && preferences.return !== "representation" ? affected : pageTotal;
  if (media === "object" && shown !== 1) {
    const details = `The result contains ${shown} rows`;
    return refuse(failure(406, "PGRST116", "Cannot coerce the result to a single JSON object", details));
  }
  const body = media === "object" && rows.body !== "" ? objectOf(rows.body) : rows.body;
  return plan.isWrite ? written(request, plan, rows, body) : read(plan, rows, body);
}
