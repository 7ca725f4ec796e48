import { nearest } from "@turnpike/base";
import { type Refusal, refusal } from "../query/refusal.ts";
import type { ColumnView, RoleView, TableView } from "../types.ts";

/** Finds a table among those that the role sees. @throws Refusal PGRST205 (404), or 42501 (401) without a token. */
export function findTable(view: RoleView, name: string, schema: string): TableView {
  const table = view.tables.get(name);
  if (table !== undefined) return table;
  // Without a token every name gets the same answer, so that it does not say which tables exist.
  if (view.role === "anon") throw refusal(401, "42501", `permission denied for table ${name}`);
  const near = nearest(name, [...view.tables.keys()]);
  throw refusal(404, "PGRST205", `Could not find the table '${schema}.${name}' in the schema cache`, {
    hint: near === undefined ? undefined : `Perhaps you meant the table '${schema}.${near}'`,
  });
}

/** 42703: a column that the role does not see. */
export function unknownColumn(table: TableView, name: string): Refusal {
  return refusal(400, "42703", `column ${table.name}.${name} does not exist`);
}

/** 42501, as PostgreSQL says it; 401 without a token. */
export function denied(view: RoleView, table: TableView): Refusal {
  return refusal(view.role === "anon" ? 401 : 403, "42501", `permission denied for table ${table.name}`);
}

/** A column that the role may read. @throws Refusal 42703 or 42501. */
export function readableColumn(view: RoleView, table: TableView, name: string): ColumnView {
  const column = table.columns.get(name);
  if (column === undefined) throw unknownColumn(table, name);
  if (!column.may.select) throw denied(view, table);
  return column;
}
