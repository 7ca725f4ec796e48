import type { JsonSchema } from "../types.ts";

/** A schema object of OpenAPI 3.0.3. */
export type OpenApiSchema = Readonly<Record<string, unknown>>;

const COPIED = [
  "title",
  "description",
  "format",
  "pattern",
  "enum",
  "default",
  "minimum",
  "maximum",
  "multipleOf",
  "minLength",
  "maxLength",
  "minItems",
  "maxItems",
  "uniqueItems",
  "minProperties",
  "maxProperties",
  "required",
  "readOnly",
  "writeOnly",
  "deprecated",
] as const;

function isNull(schema: unknown): boolean {
  return typeof schema === "object" && schema !== null && (schema as Record<string, unknown>).type === "null";
}

function convertList(value: unknown): OpenApiSchema[] {
  return Array.isArray(value) ? value.map((item) => toOpenApiSchema(item as JsonSchema)) : [];
}

function typed(schema: Readonly<Record<string, unknown>>, out: Record<string, unknown>): void {
  const { type } = schema;
  const types = Array.isArray(type) ? type.map(String) : typeof type === "string" ? [type] : [];
  const named = types.filter((name) => name !== "null");
  if (types.length > named.length) out.nullable = true;
  if (named.length === 1) out.type = named[0];
  else if (named.length > 1) {
    out.anyOf = named.map((name) => (name === "array" ? { type: name, items: {} } : { type: name }));
  }
}

function composed(schema: Readonly<Record<string, unknown>>, out: Record<string, unknown>): void {
  for (const key of ["anyOf", "oneOf", "allOf"] as const) {
    const branches: unknown = schema[key];
    if (!Array.isArray(branches)) continue;
    const rest = branches.filter((branch) => !isNull(branch));
    if (rest.length < branches.length) out.nullable = true;
    const converted = convertList(rest);
    const [only] = converted;
    if (converted.length === 1 && only !== undefined && key !== "allOf") {
      for (const [name, value] of Object.entries(only)) out[name] ??= value;
    } else if (converted.length > 0) out[key] = converted;
  }
  if (schema.not !== undefined) out.not = toOpenApiSchema(schema.not as JsonSchema);
}

/**
 * A JSON Schema of draft 2020-12 in the dialect of OpenAPI 3.0.3. What that dialect cannot say is left out, so that
 * the result never refuses more than the original: tuples become lists of any of their items, null becomes `nullable`,
 * `const` becomes a one-value `enum`; conditions, references and pattern properties are dropped.
 */
export function toOpenApiSchema(schema: JsonSchema): OpenApiSchema {
  if (schema === true) return {};
  if (schema === false) return { not: {} };
  const out: Record<string, unknown> = {};
  for (const key of COPIED) if (schema[key] !== undefined) out[key] = schema[key];
  typed(schema, out);
  composed(schema, out);
  if ("const" in schema) out.enum = [schema.const];
  for (const [bound, plain] of [
    ["exclusiveMinimum", "minimum"],
    ["exclusiveMaximum", "maximum"],
  ] as const) {
    if (typeof schema[bound] === "number") Object.assign(out, { [plain]: schema[bound], [bound]: true });
  }
  const { properties, additionalProperties, items, prefixItems, examples } = schema;
  if (typeof properties === "object" && properties !== null) {
    const entries = Object.entries(properties as Record<string, JsonSchema>);
    out.properties = Object.fromEntries(entries.map(([name, member]) => [name, toOpenApiSchema(member)]));
  }
  if (typeof additionalProperties === "boolean") out.additionalProperties = additionalProperties;
  else if (additionalProperties !== undefined) {
    out.additionalProperties = toOpenApiSchema(additionalProperties as JsonSchema);
  }
  if (items !== undefined && prefixItems === undefined) out.items = toOpenApiSchema(items as JsonSchema);
  if (out.type === "array") out.items ??= {};
  if (Array.isArray(examples) && examples.length > 0) out.example = examples[0] as unknown;
  return out;
}
