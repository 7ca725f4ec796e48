import type { JsonSchema } from "./types.ts";

/** Small makers for JSON Schemas, so that a method's schema fits on a line or two. */

type Members = Readonly<Record<string, JsonSchema>>;

/** An object with these members; members whose name ends in `?` may be absent. Others are allowed. */
export function object(members: Members): JsonSchema {
  const properties: Record<string, JsonSchema> = {};
  const required: string[] = [];
  for (const [key, schema] of Object.entries(members)) {
    const optional = key.endsWith("?");
    const name = optional ? key.slice(0, -1) : key;
    properties[name] = schema;
    if (!optional) required.push(name);
  }
  return required.length === 0 ? { type: "object", properties } : { type: "object", properties, required };
}

/** Like {@link object}, and no other members are allowed. */
export function closedObject(members: Members): JsonSchema {
  return { ...(object(members) as Readonly<Record<string, unknown>>), additionalProperties: false };
}

/** A list of these. */
export function list(items: JsonSchema): JsonSchema {
  return { type: "array", items };
}

/** One of these. */
export function either(...schemas: readonly JsonSchema[]): JsonSchema {
  return { anyOf: schemas };
}

/** This, or null. */
export function orNull(schema: JsonSchema): JsonSchema {
  return { anyOf: [{ type: "null" }, schema] };
}

/** A string that matches. */
export function text(pattern: string): JsonSchema {
  return { type: "string", pattern };
}

/** One of these strings. */
export function oneOf(...values: readonly string[]): JsonSchema {
  return { type: "string", enum: values };
}

/** Positional parameters: the first `required` must be there; more than are listed are left to the node. */
export function positional(required: number, ...items: readonly JsonSchema[]): JsonSchema {
  if (items.length === 0) return { type: "array" };
  return required === 0
    ? { type: "array", prefixItems: items }
    : { type: "array", prefixItems: items, minItems: required };
}

export const STRING: JsonSchema = { type: "string" };
export const BOOLEAN: JsonSchema = { type: "boolean" };
export const INTEGER: JsonSchema = { type: "integer" };
export const COUNT: JsonSchema = { type: "integer", minimum: 0 };
export const NUMBER: JsonSchema = { type: "number" };
export const OBJECT: JsonSchema = { type: "object" };
/** Decimal integer as a string, as protobuf JSON writes 64-bit integers. */
export const INT_STRING: JsonSchema = text("^-?(0|[1-9][0-9]*)$");
/** Decimal fraction as a string. */
export const DECIMAL_STRING: JsonSchema = text("^-?[0-9]+(\\.[0-9]+)?$");
/** Standard base64. */
export const BASE64: JsonSchema = text("^[A-Za-z0-9+/]*={0,2}$");
/** RFC 3339 time. */
export const TIME: JsonSchema = text(
  "^[0-9]{4,5}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$",
);
