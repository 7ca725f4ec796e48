import { rangeRefusal } from "../query/parse-query.ts";
import type { Plan, Statement, TableRequest } from "../types.ts";
import { bodySql } from "./body.ts";
import { MAX_ANSWER_BYTES } from "./bounds.ts";
import { nodeConditions } from "./conditions.ts";
import { denied } from "./names.ts";
import { whereSql } from "./params.ts";
import type { PlanContext } from "./plan-context.ts";
import { orderSql, pageSql, rowSql, selectList } from "./rows.ts";
import { Scope, SqlContext } from "./scope.ts";
import type { ReadNode } from "./tree.ts";

/** The page of a read: `limit=` and `offset=`, cut by `Range` and by the most rows of an answer. */
interface Page {
  readonly offset: number;
  readonly limit: number;
}

/** @throws Refusal PGRST103 when nothing is left of what was asked. */
function pageOf(root: ReadNode, range: TableRequest["range"], maxRows: number): Page {
  // as PostgREST: `limit=0` is an answer without rows, whatever the range
  if (root.limit === 0) return { offset: 0, limit: 0 };
  if (range?.to !== undefined && range.from > range.to) {
    throw rangeRefusal("The lower boundary must be lower than or equal to the upper boundary in the Range header.");
  }
  const offset = Math.max(root.offset, range?.from ?? 0);
  const ends = [
    root.limit === undefined ? Number.POSITIVE_INFINITY : root.offset + root.limit,
    range?.to === undefined ? Number.POSITIVE_INFINITY : range.to + 1,
  ];
  const rows = Math.min(...ends) - offset;
  if (rows <= 0) throw rangeRefusal("Limit should be greater than or equal to zero.");
  return { offset: Math.min(offset, Number.MAX_SAFE_INTEGER), limit: Math.min(rows, maxRows) };
}

/** The plan of GET and HEAD. */
export function planRead(plan: PlanContext): Plan {
  const { request, view, root, options, schema } = plan;
  if (!root.table.may.select) throw denied(view, root.table);
  const page = pageOf(root, request.range, options.maxRows);
  const context = new SqlContext(view, schema, options.maxRows);
  const scope = new Scope(context, root.table, context.alias());
  const rows = context.alias();
  const row = rowSql(root, scope);
  const where = whereSql(nodeConditions(root, scope));
  const tail = orderSql(root, scope) + pageSql(scope, page.limit, page.offset);
  const from = `${context.tableSql(root.table)} AS ${scope.alias}${row.joins.join("")}`;
  const body = bodySql(request, context, rows, [...row.columns.keys()]);
  const made =
    `SELECT ${body} AS body, count(*) AS page_total ` +
    `FROM (SELECT ${selectList(row.columns)} FROM ${from}${where}${tail}) AS ${rows}`;
  // Null says that there is too much of it.
  const most = options.maxAnswerBytes ?? MAX_ANSWER_BYTES;
  const text =
    `SELECT CASE WHEN octet_length(body) <= ${most} THEN body END AS body, page_total, ` +
    `NULL::bigint AS affected, NULL::bigint AS inserted FROM (${made}) AS ${context.alias()}`;
  return {
    main: { text, values: context.params.values },
    ...counts(plan),
    isWrite: false,
    offset: page.offset,
    limit: page.limit,
    keyColumns: root.table.primaryKey,
  };
}

function counts(plan: PlanContext): Pick<Plan, "count" | "countBy" | "explain"> {
  const { count } = plan.request.preferences;
  if (count === undefined) return { count: undefined, countBy: undefined };
  if (count === "exact") return { count: countStatement(plan, undefined), countBy: "rows" };
  const explain = explainStatement(plan);
  if (count === "planned") return { count: undefined, explain, countBy: "explain" };
  return { count: countStatement(plan, plan.options.maxRows + 1), explain, countBy: "both" };
}

function countStatement(plan: PlanContext, most: number | undefined): Statement {
  const { context, scope, sql } = matchingRows(plan);
  const text = `SELECT count(*) AS total FROM (${sql}${pageSql(scope, most, 0)}) AS ${context.alias()}`;
  return { text, values: context.params.values };
}

function explainStatement(plan: PlanContext): Statement {
  const { context, sql } = matchingRows(plan);
  return { text: `EXPLAIN (FORMAT JSON) ${sql}`, values: context.params.values };
}

function matchingRows(plan: PlanContext): {
  readonly context: SqlContext;
  readonly scope: Scope;
  readonly sql: string;
} {
  const { view, root, options, schema } = plan;
  const context = new SqlContext(view, schema, options.maxRows);
  const scope = new Scope(context, root.table, context.alias());
  const where = whereSql(nodeConditions(root, scope));
  return { context, scope, sql: `SELECT 1 FROM ${context.tableSql(root.table)} AS ${scope.alias}${where}` };
}
