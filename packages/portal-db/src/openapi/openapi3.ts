import type { ColumnView, RoleView, TableView } from "../types.ts";
import { columnSchema, columnsFor, requiredColumns, type Schema, tablesOf } from "./columns.ts";
import { API_DESCRIPTION, API_TITLE, DOCUMENT_VERSION } from "./words.ts";

const ref = (kind: string, name: string): Schema => ({ $ref: `#/components/${kind}/${name}` });
const upper = (name: string): string =>
  name.replaceAll(/(?:^|_)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
const json = (schema: Schema): Schema => ({ "application/json": { schema } });

function nullable(schema: Schema, version: "3.0" | "3.1"): Schema {
  if (schema.type === undefined) return schema;
  if (version === "3.0") {
    return { ...schema, nullable: true, ...(Array.isArray(schema.enum) ? { enum: [...schema.enum, null] } : {}) };
  }
  return {
    ...schema,
    type: [schema.type, "null"],
    ...(Array.isArray(schema.enum) ? { enum: [...schema.enum, null] } : {}),
  };
}

function shape(
  columns: readonly ColumnView[],
  required: readonly string[],
  version: "3.0" | "3.1",
  isRow: boolean,
): Schema {
  const properties = Object.fromEntries(
    columns.map((column) => {
      const schema = columnSchema(column);
      return [column.name, column.isNullable ? nullable(schema, version) : schema];
    }),
  );
  return {
    type: "object",
    properties,
    ...(required.length === 0 ? {} : { required: [...required] }),
    ...(isRow ? {} : { additionalProperties: false }),
  };
}

const header = (description: string, schema: Schema = { type: "string" }): Schema => ({ description, schema });

const PARAMETERS: Readonly<Record<string, Schema>> = {
  select: {
    name: "select",
    in: "query",
    description: "Columns, with `alias:column`, `column::type`, and related tables in parentheses.",
    schema: { type: "string" },
  },
  order: {
    name: "order",
    in: "query",
    description: "Columns with `.asc` or `.desc`, and `.nullsfirst` or `.nullslast`.",
    schema: { type: "string" },
  },
  limit: { name: "limit", in: "query", description: "Most rows.", schema: { type: "integer", minimum: 0 } },
  offset: { name: "offset", in: "query", description: "Rows to leave out.", schema: { type: "integer", minimum: 0 } },
  columns: { name: "columns", in: "query", description: "Columns of the body that count.", schema: { type: "string" } },
  on_conflict: {
    name: "on_conflict",
    in: "query",
    description: "Columns whose repetition makes an upsert an update.",
    schema: { type: "string" },
  },
  range: { name: "Range", in: "header", description: "Rows, such as `0-9`.", schema: { type: "string" } },
  prefer_read: {
    name: "Prefer",
    in: "header",
    description: "`count=exact|planned|estimated`, `handling=strict|lenient`.",
    schema: { type: "string" },
  },
  prefer_write: {
    name: "Prefer",
    in: "header",
    description:
      "`return=representation|minimal|headers-only`, `count=exact`, `resolution=merge-duplicates|ignore-duplicates`, `missing=default|null`, `handling=strict|lenient`, `max-affected=…`.",
    schema: { type: "string" },
  },
};

function filters(table: TableView): Schema[] {
  return columnsFor(table, "select").map(({ name }) => ({
    name,
    in: "query",
    description: "A filter: `eq.1`, `not.is.null`, `in.(1,2)`, …",
    schema: { type: "string" },
  }));
}

/** Filters that name one row by its whole primary key. */
function keyFilters(table: TableView): Schema[] {
  return table.primaryKey.map((name) => ({
    name,
    in: "query",
    required: true,
    description: "The row's own value: `eq.1`.",
    schema: { type: "string", pattern: "^eq\\." },
  }));
}

const param = (name: string): Schema => ref("parameters", name);
const FAILED = ref("responses", "Failed");
const security = [{ bearer: [] }];
/** Answers to POST have a body, and then a type, only when one was asked for: a form that must be there would be wrong. */
const WRITE_HEADERS = {
  "Content-Range": header("How many rows were written, with `Prefer: count=exact`: `*/2`."),
  Location: header("The row's address, with `Prefer: return=headers-only`."),
  "Preference-Applied": header("The preferences that were followed."),
};
const RANGE_HEADER = { "Content-Range": header("Rows of the answer and how many there are: `0-14/*`.") };

function operations(table: TableView): Schema {
  const name = upper(table.name);
  const rows = { type: "array", items: ref("schemas", `${name}Row`) };
  const base = { tags: [table.name], security };
  const shown = table.may.select ? { content: json(rows) } : {};
  const found: Record<string, Schema> = {};
  if (table.may.select) {
    const read = ["select", "order", "limit", "offset", "range", "prefer_read"].map(param);
    found.get = {
      ...base,
      operationId: `read_${table.name}`,
      summary: `Reads ${table.name}`,
      parameters: [...filters(table), ...read],
      responses: {
        "200": { description: "Rows.", headers: RANGE_HEADER, content: json(rows) },
        "206": { description: "A part of the rows.", headers: RANGE_HEADER, content: json(rows) },
        default: FAILED,
      },
    };
  }
  if (table.may.insert) {
    const one = ref("schemas", `${name}Insert`);
    found.post = {
      ...base,
      operationId: `insert_${table.name}`,
      summary: `Adds to ${table.name}`,
      parameters: ["select", "columns", "on_conflict", "prefer_write"].map(param),
      requestBody: { required: true, content: json({ oneOf: [one, { type: "array", items: one }] }) },
      responses: {
        "200": {
          description: "No row was made: each was there, and was changed by the upsert.",
          headers: WRITE_HEADERS,
        },
        "201": {
          description: "Made. Without a body, but for `Prefer: return=representation`: then the rows.",
          headers: WRITE_HEADERS,
        },
        default: FAILED,
      },
    };
  }
  if (table.may.insert && table.may.update) {
    found.put = {
      ...base,
      operationId: `put_${table.name}`,
      summary: `Makes or replaces the one row of ${table.name} whose whole primary key is filtered by`,
      parameters: [...keyFilters(table), ...["select", "prefer_write"].map(param)],
      requestBody: { required: true, content: json(ref("schemas", `${name}Insert`)) },
      responses: {
        "200": { description: "The row that was replaced, with `Prefer: return=representation`.", ...shown },
        "201": {
          description: "Made. Without a body, but for `Prefer: return=representation`.",
          headers: WRITE_HEADERS,
        },
        "204": { description: "Replaced." },
        default: FAILED,
      },
    };
  }
  if (table.may.update) {
    found.patch = {
      ...base,
      operationId: `update_${table.name}`,
      summary: `Changes rows of ${table.name}; a filter is required`,
      parameters: [...filters(table), ...["select", "columns", "prefer_write"].map(param)],
      requestBody: { required: true, content: json(ref("schemas", `${name}Update`)) },
      responses: {
        "200": { description: "Changed rows.", ...shown },
        "204": { description: "Changed." },
        default: FAILED,
      },
    };
  }
  if (table.may.delete) {
    found.delete = {
      ...base,
      operationId: `delete_${table.name}`,
      summary: `Removes rows of ${table.name}; a filter is required`,
      parameters: [...filters(table), ...["select", "prefer_write"].map(param)],
      responses: {
        "200": { description: "Removed rows.", ...shown },
        "204": { description: "Removed." },
        default: FAILED,
      },
    };
  }
  return found;
}

function schemasOf(table: TableView, version: "3.0" | "3.1"): readonly (readonly [string, Schema])[] {
  const name = upper(table.name);
  const found: [string, Schema][] = [];
  const selected = columnsFor(table, "select");
  if (table.may.select) {
    const always = selected.filter((column) => !column.isNullable).map((column) => column.name);
    const row = shape(selected, always, version, true);
    found.push([`${name}Row`, table.comment === undefined ? row : { ...row, description: table.comment }]);
  }
  if (table.may.insert) {
    found.push([`${name}Insert`, shape(columnsFor(table, "insert"), requiredColumns(table), version, false)]);
  }
  if (table.may.update) found.push([`${name}Update`, shape(columnsFor(table, "update"), [], version, false)]);
  return found;
}

/** The description for one role, OpenAPI 3.0.3 or 3.1.0, with row, insert and update shapes apart. */
export function openapi3(view: RoleView, version: "3.0" | "3.1", serverUrl: string): Schema {
  const tables = tablesOf(view.tables);
  const text = { type: "string" };
  const error = {
    type: "object",
    required: ["code", "message", "details", "hint"],
    properties: { code: text, message: text, details: nullable(text, version), hint: nullable(text, version) },
  };
  return {
    openapi: version === "3.0" ? "3.0.3" : "3.1.0",
    info: { title: API_TITLE, description: API_DESCRIPTION, version: DOCUMENT_VERSION },
    servers: [{ url: serverUrl }],
    tags: tables.map(({ name, comment }) => ({ name, ...(comment === undefined ? {} : { description: comment }) })),
    paths: Object.fromEntries(tables.map((table) => [`/${table.name}`, operations(table)])),
    components: {
      securitySchemes: { bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT" } },
      parameters: PARAMETERS,
      responses: { Failed: { description: "What went wrong.", content: json(ref("schemas", "Error")) } },
      schemas: { Error: error, ...Object.fromEntries(tables.flatMap((table) => schemasOf(table, version))) },
    },
    security,
  };
}
