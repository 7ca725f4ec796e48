import type { ColumnView, TableView } from "../types.ts";

/** A JSON schema, as far as the descriptions need one. */
export type Schema = Readonly<Record<string, unknown>>;

const INTEGERS: Readonly<Record<string, Schema>> = {
  smallint: { type: "integer", minimum: -32_768, maximum: 32_767 },
  integer: { type: "integer", format: "int32" },
  bigint: { type: "integer", format: "int64" },
};

/** The schema of a PostgreSQL type, with a format that JSON Schema has, never PostgreSQL's own names. */
function typeSchema(type: string, column: ColumnView): Schema {
  if (type.endsWith("[]")) return { type: "array", items: typeSchema(type.slice(0, -2), column) };
  if (column.labels !== undefined) return { type: "string", enum: [...column.labels] };
  const plain = type.endsWith(")") ? (type.split("(", 1)[0] ?? "") : type;
  const length = /\((\d+)\)$/.exec(type)?.[1];
  const integer = INTEGERS[plain];
  if (integer !== undefined) return integer;
  switch (plain) {
    case "boolean":
      return { type: "boolean" };
    case "numeric":
    case "real":
    case "double precision":
      return { type: "number" };
    case "uuid":
      return { type: "string", format: "uuid" };
    case "date":
      return { type: "string", format: "date" };
    case "json":
    case "jsonb":
      return {};
    default:
      if (type.startsWith("timestamp")) return { type: "string", format: "date-time" };
      return { type: "string", ...(length === undefined ? {} : { maxLength: Number(length) }) };
  }
}

/** The schema of a column. */
export function columnSchema(column: ColumnView): Schema {
  const schema = typeSchema(column.type, column);
  return column.comment === undefined ? schema : { ...schema, description: column.comment };
}

/** Columns of a table that are read, inserted or updated. */
export function columnsFor(table: TableView, use: "select" | "insert" | "update"): readonly ColumnView[] {
  return [...table.columns.values()].filter((column) => column.may[use]);
}

/** Columns that an insert must have: not null, and nothing else sets them. */
export function requiredColumns(table: TableView): readonly string[] {
  return columnsFor(table, "insert")
    .filter(({ isNullable, hasDefault }) => !isNullable && !hasDefault)
    .map(({ name }) => name);
}

/** Tables of which a role may do anything, by name. */
export function tablesOf(tables: ReadonlyMap<string, TableView>): readonly TableView[] {
  return [...tables.values()]
    .filter(({ may }) => may.select || may.insert || may.update || may.delete)
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
