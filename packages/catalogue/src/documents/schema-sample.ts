import type { JsonSchema } from "../types.ts";

const MAX_DEPTH = 12;

const asRecord = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);
const asNumber = (value: unknown, fallback: number): number => (typeof value === "number" ? value : fallback);

/** Texts that are tried against a pattern; the first that matches is taken. */
const TEXTS = [
  "text",
  "1",
  "0x1",
  "0xab",
  "2026-01-31",
  "2026-01-31T12:00:00Z",
  "US",
  "USD",
  "en",
  "abc123",
  "https://example.com/",
  "1.5",
];

function sampleText(schema: Readonly<Record<string, unknown>>): string {
  const least = Math.min(asNumber(schema.minLength, 0), 1_000);
  const most = asNumber(schema.maxLength, Number.POSITIVE_INFINITY);
  const fits = (text: string): boolean => text.length >= least && text.length <= most;
  if (typeof schema.pattern === "string") {
    const pattern = new RegExp(schema.pattern, "u");
    const digits = [64, 40, 32, 16, 8].flatMap((length) => ["1".repeat(length), `0x${"1".repeat(length)}`]);
    return [...TEXTS, ...digits].find((text) => pattern.test(text) && fits(text)) ?? "";
  }
  return (TEXTS.find(fits) ?? "x".repeat(least)).slice(0, Math.max(least, Math.min(most, 64)));
}

function sampleNumber(schema: Readonly<Record<string, unknown>>): number {
  const least = asNumber(schema.minimum, asNumber(schema.exclusiveMinimum, 0) + ("exclusiveMinimum" in schema ? 1 : 0));
  return Math.min(Math.max(least, 1), asNumber(schema.maximum, Number.POSITIVE_INFINITY));
}

function sampleObject(schema: Readonly<Record<string, unknown>>, depth: number): Readonly<Record<string, unknown>> {
  const properties = asRecord(schema.properties);
  const names = new Set([...Object.keys(properties), ...asList(schema.required).map(String)]);
  return Object.fromEntries([...names].map((name) => [name, sample(properties[name] as JsonSchema, depth + 1)]));
}

/**
 * A value for a schema, by its examples and defaults where it has them. It is a guess: patterns and combinations can be
 * missed, so check it against the schema before showing it.
 */
export function schemaSample(schema: JsonSchema): unknown {
  return sample(schema, 0);
}

function sample(schema: JsonSchema | undefined, depth: number): unknown {
  if (schema === undefined || typeof schema === "boolean" || depth > MAX_DEPTH) return {};
  const [example] = asList(schema.examples);
  if (example !== undefined) return example;
  if ("default" in schema) return schema.default;
  if ("const" in schema) return schema.const;
  const [first] = asList(schema.enum);
  if (first !== undefined) return first;
  const forms = [...asList(schema.anyOf), ...asList(schema.oneOf)].map(asRecord);
  const form = forms.find(({ type }) => type !== "null") ?? forms[0];
  if (form !== undefined && schema.type === undefined) return sample(form, depth + 1);
  const types = Array.isArray(schema.type) ? (schema.type as unknown[]) : [schema.type];
  switch (types.find((type) => type !== "null") ?? types[0]) {
    case "string":
      return sampleText(schema);
    case "integer":
    case "number":
      return sampleNumber(schema);
    case "boolean":
      return true;
    case "null":
      return null;
    case "array": {
      const fixed = asList(schema.prefixItems).map((item) => sample(item as JsonSchema, depth + 1));
      const wanted = Math.min(Math.max(asNumber(schema.minItems, 1), 1), 8);
      const more = Array.from({ length: Math.max(0, wanted - fixed.length) }, () =>
        sample(schema.items as JsonSchema | undefined, depth + 1),
      );
      return [...fixed, ...more];
    }
    default:
      return sampleObject(schema, depth);
  }
}
