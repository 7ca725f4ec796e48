import type { TableRequest } from "../types.ts";
import { identifierSql } from "./params.ts";
import type { SqlContext } from "./scope.ts";

/** SQL of the column `body` over rows with these columns, in their order. */
export function bodySql(request: TableRequest, context: SqlContext, rows: string, names: readonly string[]): string {
  if (request.verb === "HEAD") return "''::text";
  if (request.media === "csv") return csvSql(context, rows, names);
  const list = `coalesce(json_agg(row_to_json(${rows}.*)), '[]')`;
  return request.stripsNulls ? `json_strip_nulls(${list})::text` : `${list}::text`;
}

/** RFC 4180 with line feeds. A null is an empty field, an empty text is `""`. */
function csvSql(context: SqlContext, rows: string, names: readonly string[]): string {
  const header = `${context.params.add(names.map(csvName).join(","))}::text`;
  if (names.length === 0) return header;
  const fields = names.map((name) => {
    const value = `(${rows}.${identifierSql(name)})::text`;
    const isQuoted = `${value} = '' OR ${value} ~ '[",\\r\\n]'`;
    return `coalesce(CASE WHEN ${isQuoted} THEN '"' || replace(${value}, '"', '""') || '"' ELSE ${value} END, '')`;
  });
  return `${header} || coalesce(E'\\n' || string_agg(${fields.join(" || ',' || ")}, E'\\n'), '')`;
}

function csvName(name: string): string {
  return /[",\r\n]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name;
}
