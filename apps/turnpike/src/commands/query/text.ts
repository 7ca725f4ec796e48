import type { createMessage } from "@turnpike/proto";

type Schema = Parameters<typeof createMessage>[0];
type Field = Schema["fields"][number];

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** True for what protobuf does not send: a field without presence that has its default. */
function isEmpty(field: Field, value: unknown): boolean {
  if (value === null || value === undefined) return true;
  if (field.fieldKind === "list") return Array.isArray(value) && value.length === 0;
  if (field.fieldKind === "map") return isRecord(value) && Object.keys(value).length === 0;
  if (field.fieldKind === "message") return false;
  if (field.fieldKind === "enum") return value === field.enum.values[0]?.name;
  const isText = field.scalar === 9;
  return value === "" || value === false || (!isText && (value === 0 || value === "0"));
}

function trimmed(field: Field, value: unknown): unknown {
  if (field.fieldKind === "message") return withoutEmpty(field.message, value);
  if (field.fieldKind === "list" && field.listKind === "message" && Array.isArray(value)) {
    return value.map((item: unknown) => withoutEmpty(field.message, item));
  }
  if (field.fieldKind === "map" && field.mapKind === "message" && isRecord(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withoutEmpty(field.message, item)]));
  }
  return value;
}

/** The JSON of a message without the fields that are empty. */
export function withoutEmpty(schema: Schema, json: unknown): unknown {
  if (!isRecord(json)) return json;
  const entries = Object.entries(json).flatMap(([name, value]) => {
    const field = schema.fields.find((one) => one.name === name || one.jsonName === name);
    if (field === undefined) return [[name, value] as const];
    return isEmpty(field, value) ? [] : [[name, trimmed(field, value)] as const];
  });
  return Object.fromEntries(entries);
}
