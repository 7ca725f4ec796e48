import { type Refusal, refusal } from "../query/refusal.ts";
import type { ColumnView, Plan, RowsInput, TableView } from "../types.ts";
import { bodySql } from "./body.ts";
import { MAX_ANSWER_BYTES, TOO_LARGE_SETTING } from "./bounds.ts";
import { conditionSql } from "./conditions.ts";
import { denied } from "./names.ts";
import { identifierSql } from "./params.ts";
import type { PlanContext } from "./plan-context.ts";
import { orderSql, rowSql, selectList } from "./rows.ts";
import { Scope, SqlContext } from "./scope.ts";
import type { ReadNode } from "./tree.ts";

const WRITTEN = "written";

/** A write under way: the statement's context and the table that is written. */
export interface WriteTarget {
  readonly context: SqlContext;
  /** The written table under its alias. */
  readonly scope: Scope;
}

/** Begins the SQL of a write. */
export function writeTarget(plan: PlanContext): WriteTarget {
  const context = new SqlContext(plan.view, plan.schema, plan.options.maxRows);
  return { context, scope: new Scope(context, plan.root.table, context.alias()) };
}

/** Transaction-local setting that counts the rows which a merging upsert found. */
export const UPDATED_SETTING = "turnpike.updated";

/**
 * The plan around a write: one statement whose first part writes and whose second makes the answer of what was
 * written. `statement` makes the write from the columns that it must return.
 */
export function planWrite(
  plan: PlanContext,
  target: WriteTarget,
  statement: (returned: string) => string,
  isMerge = false,
): Plan {
  const { root } = plan;
  const { context } = target;
  const answer = answerSql(plan, context);
  const returned =
    answer.columns.map((name) => `${target.scope.alias}.${identifierSql(name)}`).join(", ") || "1 AS one";
  const updated = `coalesce(nullif(current_setting('${UPDATED_SETTING}', true), ''), '0')::bigint`;
  const affected = `(SELECT count(*) FROM ${WRITTEN})`;
  const inserted = isMerge ? `${affected} - ${updated}` : "NULL::bigint";
  const made =
    `SELECT ${answer.body} AS body, count(*) AS page_total, ${affected} AS affected, ${inserted} AS inserted ` +
    `FROM ${answer.from}`;
  const most = plan.options.maxAnswerBytes ?? MAX_ANSWER_BYTES;
  // A setting that is not there is an error, so that the database itself takes the write back.
  const answered = answer.isBounded
    ? `SELECT CASE WHEN octet_length(body) <= ${most} THEN body ELSE current_setting('${TOO_LARGE_SETTING}') END ` +
      `AS body, page_total, affected, inserted FROM (${made}) AS ${context.alias()}`
    : made;
  const text = `WITH ${WRITTEN} AS (${statement(returned)}) ${answered}`;
  return {
    main: { text, values: context.params.values },
    count: undefined,
    countBy: undefined,
    isWrite: true,
    offset: 0,
    limit: undefined,
    keyColumns: root.table.primaryKey,
  };
}

interface AnswerSql {
  readonly body: string;
  readonly from: string;
  /** The body is made of rows, and must not be too large. */
  readonly isBounded: boolean;
  /** What the write must return. */
  readonly columns: readonly string[];
}

function answerSql(plan: PlanContext, context: SqlContext): AnswerSql {
  const { request, root } = plan;
  const kind = request.preferences.return ?? "minimal";
  const node = kind === "representation" ? root : kind === "headers-only" ? keyNode(root) : undefined;
  if (node === undefined) return { body: "''::text", from: WRITTEN, isBounded: false, columns: [] };
  const scope = new Scope(context, node.table, context.alias());
  const rows = context.alias();
  const row = rowSql(node, scope);
  const order = orderSql(node, scope);
  const body = bodySql(kind === "headers-only" ? { ...request, media: "json" } : request, context, rows, [
    ...row.columns.keys(),
  ]);
  const from = `(SELECT ${selectList(row.columns)} FROM ${WRITTEN} AS ${scope.alias}${row.joins.join("")}${order}) AS ${rows}`;
  return { body, from, isBounded: true, columns: [...scope.used] };
}

/** The row's key alone, for `Location`; undefined for a table without a readable one. */
function keyNode(root: ReadNode): ReadNode | undefined {
  const { primaryKey, columns } = root.table;
  if (primaryKey.length === 0 || !primaryKey.every((name) => columns.get(name)?.may.select)) return undefined;
  const outputs = primaryKey.map((name) => {
    return { kind: "field", name, field: { name, json: [] }, cast: undefined } as const;
  });
  return { ...root, outputs, embeds: [], conditions: [], order: [] };
}

/** The conditions of the root on the written table. @throws Refusal FILTER_REQUIRED (400) when there are none. */
export function requiredConditions(plan: PlanContext, target: WriteTarget): readonly string[] {
  const { root, request } = plan;
  if (root.conditions.length === 0) {
    throw refusal(400, "FILTER_REQUIRED", `${request.verb === "DELETE" ? "DELETE" : "UPDATE"} requires a filter`, {
      details: "Without one, every row of the table would be written.",
      hint: "Add a condition on a column, as ?id=eq.1.",
    });
  }
  return root.conditions.map((condition) => conditionSql(condition, root, target.scope));
}

/** Refuses `limit=` and `offset=`: rows beyond them would be written all the same (PGRST114). */
export function refuseLimit(plan: PlanContext): void {
  if (plan.root.limit === undefined && plan.root.offset === 0) return;
  const message = `limit/offset querystring parameters are not allowed for ${plan.request.verb}`;
  throw refusal(400, "PGRST114", message);
}

/** 400 PGRST102. */
export function badBody(message: string): Refusal {
  return refusal(400, "PGRST102", message);
}

/** The rows of a body. @throws Refusal PGRST102 without one. */
export function bodyRows(plan: PlanContext): RowsInput {
  const { rows } = plan.request;
  if (rows === undefined) throw badBody("Empty or invalid json");
  return rows;
}

/**
 * The columns that a write sets: those of `columns=`, or the keys of the rows, which then must all be the same.
 * @throws Refusal PGRST102 for mixed keys, PGRST204 for an unknown column, 42501 for one that is not the role's.
 */
export function writtenColumns(plan: PlanContext, may: "insert" | "update"): readonly ColumnView[] {
  const { rows } = bodyRows(plan);
  const names = (plan.request.verb === "PUT" ? undefined : plan.query.columns) ?? commonKeys(rows);
  const { table } = plan.root;
  return names.map((name) => {
    const column = table.columns.get(name);
    if (column === undefined) throw unknownKey(table, name);
    if (!column.may[may]) throw denied(plan.view, table);
    return column;
  });
}

function commonKeys(rows: RowsInput["rows"]): readonly string[] {
  const keys = Object.keys(rows[0] ?? {});
  const known = new Set(keys);
  for (const row of rows) {
    const own = Object.keys(row);
    if (own.length !== keys.length || !own.every((key) => known.has(key))) throw badBody("All object keys must match");
  }
  return keys;
}

function unknownKey(table: TableView, name: string): Refusal {
  return refusal(400, "PGRST204", `Could not find the '${name}' column of '${table.name}' in the schema cache`);
}

/** `"a" integer, "b" text`: types are the catalogue's own words. */
export function recordSql(columns: readonly ColumnView[]): string {
  return columns.map((column) => `${identifierSql(column.name)} ${column.type}`).join(", ");
}

const TEXT = /^(?:text|character|citext)\b/;

/** The members of a row that are written, as JSON. @throws Refusal 22P02 for what is no text where a column wants one. */
export function rowJson(row: Readonly<Record<string, unknown>>, columns: readonly ColumnView[]): string {
  const members = columns.filter((column) => Object.hasOwn(row, column.name));
  for (const { name, type } of members) checkText(name, type, row[name]);
  return `{${members.map((column) => `${JSON.stringify(column.name)}:${valueJson(row[column.name])}`).join(",")}}`;
}

/** The database would write 5 and {"a":1} as texts: what is described as a text is one. */
function checkText(name: string, type: string, value: unknown): void {
  if (!TEXT.test(type) || type.endsWith("[]") || typeof value === "string" || value === null || value === undefined)
    return;
  throw refusal(400, "22P02", `The column "${name}" takes a text or null`, { hint: "Send it in quotes" });
}

function valueJson(value: unknown): string {
  return JSON.stringify(value) ?? "null";
}
