import { nearest } from "@turnpike/base";
import type { ErrorObject } from "ajv";

/** The parts of a JSON Schema that messages are made of. */
export interface SchemaNode {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly patternProperties?: Readonly<Record<string, SchemaNode>>;
  readonly items?: SchemaNode;
  readonly default?: unknown;
  readonly description?: string;
  readonly "x-expected"?: string;
  readonly "x-secret"?: true | "url";
  readonly "x-map"?: string;
}

/** What a schema wants, in words: `integer 1..65535`. */
function expectation(schema: SchemaNode): string {
  if (schema["x-expected"] !== undefined) return schema["x-expected"];
  if (schema.enum !== undefined) return `one of ${schema.enum.map(String).join(", ")}`;
  switch (schema.type) {
    case "integer":
    case "number":
      return `${schema.type} ${schema.minimum ?? ""}..${schema.maximum ?? ""}`;
    case "boolean":
      return "true or false";
    case "array":
      return `a list of ${schema.minItems ?? 0}..${schema.maxItems ?? ""} items`;
    case "object":
      return "a section with keys";
    case "string":
      return schema.maxLength === undefined
        ? "text"
        : `text of ${schema.minLength ?? 0}..${schema.maxLength} characters (quote it in YAML)`;
    default:
      return "another kind of value";
  }
}

/** `gateway.port`, `payment.networks[0].asset`. */
export function pathText(parts: readonly string[]): string {
  return parts.reduce(
    (text, part) => (/^\d+$/.test(part) ? `${text}[${part}]` : text === "" ? part : `${text}.${part}`),
    "",
  );
}

/** Parts of a JSON pointer. */
function pointerParts(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The schema at a path of the configuration; undefined where the schema names nothing. */
export function schemaAt(root: SchemaNode, parts: readonly string[]): SchemaNode | undefined {
  let node: SchemaNode | undefined = root;
  for (const part of parts) {
    if (node === undefined) return undefined;
    if (node.type === "array") node = node.items;
    else if (node.properties !== undefined)
      node = Object.hasOwn(node.properties, part) ? node.properties[part] : undefined;
    else node = Object.values(node.patternProperties ?? {})[0];
  }
  return node;
}

/** True when a value of this schema is a secret or has one in it. */
function holdsSecret(schema: SchemaNode): boolean {
  const { properties = {}, patternProperties = {}, items } = schema;
  const inner = [
    ...Object.values(properties),
    ...Object.values(patternProperties),
    ...(items === undefined ? [] : [items]),
  ];
  return schema["x-secret"] !== undefined || inner.some(holdsSecret);
}

function shown(value: unknown, schema: SchemaNode): string {
  // Also where a list or a section was expected: what stands in its place is often the secret itself.
  if (holdsSecret(schema)) return "something else";
  // Strings at a URL's place hold passwords and API keys.
  if (typeof value === "string" && value.includes("://")) return "another text";
  const json = JSON.stringify(value) ?? "nothing";
  return json.length > 60 ? `${json.slice(0, 57)}...` : json;
}

/** One line for one fault of the validator: the path, what was expected, what was there. */
export function faultText(error: ErrorObject, root: SchemaNode, value: (parts: readonly string[]) => unknown): string {
  const parts = pointerParts(error.instancePath);
  const schema = schemaAt(root, parts) ?? {};
  if (error.keyword === "additionalProperties") {
    const key = String(error.params.additionalProperty);
    const path = pathText([...parts, key]);
    if (schema["x-map"] !== undefined) return `${path}: ${JSON.stringify(key)} is not ${schema["x-map"]}`;
    const known = Object.keys(schema.properties ?? {});
    const guess = nearest(key, known);
    return `${path}: unknown key; ${guess === undefined ? `known here: ${known.join(", ")}` : `did you mean ${JSON.stringify(guess)}?`}`;
  }
  if (error.keyword === "required") {
    const key = String(error.params.missingProperty);
    const wanted = schemaAt(root, [...parts, key]) ?? {};
    return `${pathText([...parts, key])}: missing; expected ${expectation(wanted)}`;
  }
  const path = pathText(parts);
  return `${path === "" ? "the configuration" : path}: expected ${expectation(schema)}, got ${shown(value(parts), schema)}`;
}
