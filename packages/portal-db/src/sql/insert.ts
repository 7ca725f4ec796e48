import type { Filter } from "../query/ast.ts";
import { refusal } from "../query/refusal.ts";
import type { ColumnView, Plan, RowsInput } from "../types.ts";
import { denied, unknownColumn } from "./names.ts";
import { identifierSql } from "./params.ts";
import type { PlanContext } from "./plan-context.ts";
import {
  badBody,
  bodyRows,
  planWrite,
  recordSql,
  refuseLimit,
  rowJson,
  UPDATED_SETTING,
  type WriteTarget,
  writeTarget,
  writtenColumns,
} from "./write.ts";

/** Cells of rows that leave some to their defaults: each of them is an expression of its own. */
const MAX_DEFAULTED_CELLS = 20_000;

/** The plan of POST and PUT. */
export function planInsert(plan: PlanContext): Plan {
  const { request, root, view } = plan;
  if (!root.table.may.insert) throw denied(view, root.table);
  const isPut = request.verb === "PUT";
  if (isPut) checkPut(plan);
  const columns = writtenColumns(plan, "insert");
  const target = writeTarget(plan);
  const conflict = conflictSql(plan, target, columns);
  const list = columns.map((column) => identifierSql(column.name)).join(", ");
  const into = `INSERT INTO ${target.context.tableSql(root.table)} AS ${target.scope.alias}`;
  const names = columns.length === 0 ? "" : ` (${list})`;
  const statement = `${into}${names} ${sourceSql(plan, target, columns)}${conflict?.sql ?? ""}`;
  return planWrite(plan, target, (returned) => `${statement} RETURNING ${returned}`, conflict?.isMerge ?? false);
}

function sourceSql(plan: PlanContext, target: WriteTarget, columns: readonly ColumnView[]): string {
  const { params } = target.context;
  const { rows } = bodyRows(plan);
  if (columns.length === 0) return `SELECT FROM generate_series(1, ${params.add(rows.length)}::int)`;
  const isWhole = rows.every((row) => columns.every((column) => Object.hasOwn(row, column.name)));
  if (plan.request.preferences.missing === "default" && !isWhole) return defaultedSql(rows, target, columns);
  const alias = target.context.alias();
  const json = `[${rows.map((row) => rowJson(row, columns)).join(",")}]`;
  const selected = columns.map((column) => `${alias}.${identifierSql(column.name)}`).join(", ");
  return `SELECT ${selected} FROM json_to_recordset(${params.add(json)}::json) AS ${alias}(${recordSql(columns)})`;
}

/** Rows whose missing members become the columns' defaults: only VALUES has the word for it. */
function defaultedSql(rows: RowsInput["rows"], target: WriteTarget, columns: readonly ColumnView[]): string {
  const { params } = target.context;
  if (rows.length * columns.length > MAX_DEFAULTED_CELLS) {
    throw badBody(`At most ${MAX_DEFAULTED_CELLS} values are taken with missing=default`);
  }
  const tuples = rows.map((row) => {
    const cells = columns.map((column) => {
      if (!Object.hasOwn(row, column.name)) return "DEFAULT";
      const alias = target.context.alias();
      const value = `${alias}.${identifierSql(column.name)}`;
      const record = `json_to_record(${params.add(rowJson(row, [column]))}::json) AS ${alias}(${recordSql([column])})`;
      return `(SELECT ${value} FROM ${record})`;
    });
    return `(${cells.join(", ")})`;
  });
  return `VALUES ${tuples.join(", ")}`;
}

/** `ON CONFLICT …`; undefined when conflicts are errors. */
function conflictSql(
  plan: PlanContext,
  target: WriteTarget,
  columns: readonly ColumnView[],
): { readonly sql: string; readonly isMerge: boolean } | undefined {
  const { request, root, query, view } = plan;
  const { table } = root;
  const resolution = request.verb === "PUT" ? "merge-duplicates" : request.preferences.resolution;
  if (resolution === undefined) return undefined;
  const keys = (request.verb === "PUT" ? undefined : query.onConflict) ?? table.primaryKey;
  if (keys.length === 0) return undefined;
  for (const key of keys) if (!table.columns.has(key)) throw unknownColumn(table, key);
  const on = ` ON CONFLICT (${keys.map(identifierSql).join(", ")})`;
  if (resolution === "ignore-duplicates") return { sql: `${on} DO NOTHING`, isMerge: false };
  if (!table.may.update) throw denied(view, table);
  // the key itself is the same on both sides; setting it makes a row that has nothing else to set come back
  const others = columns.filter((column) => !keys.includes(column.name));
  const own = columns.filter((column) => keys.includes(column.name) && column.may.update);
  const set = others.length > 0 ? others : own;
  if (set.length === 0) return { sql: `${on} DO NOTHING`, isMerge: true };
  if (set.some((column) => !column.may.update)) throw denied(view, table);
  const keyColumns = columns.filter((column) => keys.includes(column.name));
  if (keyColumns.length < keys.length && set.some((column) => !column.may.select)) throw denied(view, table);
  const sets = set.map((column) => {
    const value = column.may.select
      ? `EXCLUDED.${identifierSql(column.name)}`
      : sentValueSql(plan, target, column, keyColumns);
    return `${identifierSql(column.name)} = ${value}`;
  });
  // counts the rows that were there before; local to the transaction
  const next = `coalesce(nullif(current_setting('${UPDATED_SETTING}', true), ''), '0')::bigint + 1`;
  const counted = `set_config('${UPDATED_SETTING}', (${next})::text, true) IS NOT NULL`;
  return { sql: `${on} DO UPDATE SET ${sets.join(", ")} WHERE ${counted}`, isMerge: true };
}

/**
 * The value that was sent for the row in conflict, of a column that the role writes and does not read: `EXCLUDED` would
 * be reading it. Found by the key in the body itself.
 */
function sentValueSql(
  plan: PlanContext,
  { context }: WriteTarget,
  column: ColumnView,
  keys: readonly ColumnView[],
): string {
  const sent = [...keys, column];
  const json = `[${bodyRows(plan)
    .rows.map((row) => rowJson(row, sent))
    .join(",")}]`;
  const alias = context.alias();
  const record = `json_to_recordset(${context.params.add(json)}::json) AS ${alias}(${recordSql(sent)})`;
  const same = keys.map(({ name }) => `${alias}.${identifierSql(name)} = EXCLUDED.${identifierSql(name)}`);
  return `(SELECT ${alias}.${identifierSql(column.name)} FROM ${record} WHERE ${same.join(" AND ")} LIMIT 1)`;
}

/** A PUT names one row by its whole key, and its body is that row. */
function checkPut(plan: PlanContext): void {
  refuseLimit(plan);
  const { table, conditions } = plan.root;
  const filters = conditions.filter((condition): condition is Filter => condition.kind === "filter");
  const key = new Map<string, string>();
  for (const { field, isNegated, operation } of filters) {
    const isEqual = operation.kind === "compare" && operation.operator === "eq" && operation.quantifier === undefined;
    if (isEqual && !isNegated && field.json.length === 0) key.set(field.name, operation.value);
  }
  const isKey = table.primaryKey.length > 0 && table.primaryKey.every((name) => key.has(name));
  if (!isKey || key.size !== table.primaryKey.length || conditions.length !== key.size) {
    const message = "Filters must include all and only primary key columns with 'eq' operators";
    throw refusal(405, "PGRST105", message);
  }
  const { rows } = bodyRows(plan);
  const [row] = rows;
  const matches = [...key].every(
    ([name, value]) => row !== undefined && Object.hasOwn(row, name) && String(row[name]) === value,
  );
  if (rows.length !== 1 || !matches) {
    throw refusal(400, "PGRST115", "Payload values do not match URL in primary key column(s)");
  }
}
