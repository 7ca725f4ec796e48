import type { RoleView, TableView } from "../types.ts";
import { columnSchema, columnsFor, requiredColumns, type Schema, tablesOf } from "./columns.ts";
import { API_DESCRIPTION, API_TITLE, DOCUMENT_VERSION } from "./words.ts";

const query = (name: string, type = "string"): Schema => ({ name, in: "query", required: false, type });

const PARAMETERS: Readonly<Record<string, Schema>> = {
  select: query("select"),
  order: query("order"),
  limit: query("limit", "integer"),
  offset: query("offset", "integer"),
  on_conflict: query("on_conflict"),
  prefer: { name: "Prefer", in: "header", required: false, type: "string" },
  range: { name: "Range", in: "header", required: false, type: "string" },
};

const param = (name: string): Schema => ({ $ref: `#/parameters/${name}` });

function operations(table: TableView): Schema {
  const row = { $ref: `#/definitions/${table.name}` };
  const filters = columnsFor(table, "select").map(({ name }) => param(`rowFilter.${table.name}.${name}`));
  const body = { $ref: `#/parameters/body.${table.name}` };
  const base = { tags: [table.name] };
  const found: Record<string, Schema> = {};
  if (table.may.select) {
    const read = ["select", "order", "range", "limit", "offset", "prefer"].map(param);
    const rows = { type: "array", items: row };
    found.get = {
      ...base,
      parameters: [...filters, ...read],
      responses: {
        "200": { description: "OK", schema: rows },
        "206": { description: "Partial Content", schema: rows },
      },
    };
  }
  if (table.may.insert) {
    const parameters = [body, ...["select", "on_conflict", "prefer"].map(param)];
    found.post = {
      ...base,
      parameters,
      responses: { "200": { description: "OK" }, "201": { description: "Created" } },
    };
  }
  if (table.may.insert && table.may.update) {
    const parameters = [...filters, body, param("prefer")];
    const responses = { "201": { description: "Created" }, "204": { description: "No Content" } };
    found.put = { ...base, parameters, responses };
  }
  if (table.may.update) {
    const parameters = [...filters, body, param("prefer")];
    found.patch = { ...base, parameters, responses: { "204": { description: "No Content" } } };
  }
  if (table.may.delete) {
    const parameters = [...filters, param("prefer")];
    found.delete = { ...base, parameters, responses: { "204": { description: "No Content" } } };
  }
  return found;
}

/** The description for one role as Swagger 2.0, as PostgREST's own clients and generators read it. */
export function swagger2(view: RoleView): Schema {
  const tables = tablesOf(view.tables);
  const definitions = tables.map((table) => {
    const columns = [...table.columns.values()];
    const required = requiredColumns(table);
    const properties = Object.fromEntries(columns.map((column) => [column.name, columnSchema(column)]));
    return [table.name, { type: "object", properties, ...(required.length === 0 ? {} : { required }) }] as const;
  });
  const own = tables.flatMap((table) => [
    ...columnsFor(table, "select").map(({ name }) => [`rowFilter.${table.name}.${name}`, query(name)] as const),
    [
      `body.${table.name}`,
      { name: table.name, in: "body", required: false, schema: { $ref: `#/definitions/${table.name}` } },
    ] as const,
  ]);
  const types = ["application/json", "application/vnd.pgrst.object+json", "text/csv"];
  return {
    swagger: "2.0",
    info: { title: API_TITLE, description: API_DESCRIPTION, version: DOCUMENT_VERSION },
    basePath: "/",
    schemes: ["http"],
    consumes: types,
    produces: types,
    securityDefinitions: { JWT: { type: "apiKey", in: "header", name: "Authorization" } },
    security: [{ JWT: [] }],
    paths: Object.fromEntries(tables.map((table) => [`/${table.name}`, operations(table)])),
    definitions: Object.fromEntries(definitions),
    parameters: { ...PARAMETERS, ...Object.fromEntries(own) },
  };
}
