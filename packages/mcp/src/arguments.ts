import type { StandardSchemaWithJSON } from "@modelcontextprotocol/server";
import { AppError, nearest, readForeignJson, visibleLine } from "@turnpike/base";
import { type core, z } from "zod";
import { MESSAGE_LIMITS } from "./message-lines.ts";

/** A service's id, as every gateway of ours writes it. */
export const SERVICE_ID = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

const PATH = /^[A-Za-z0-9\-._~!$&'()*+,;=:@/?%]{1,2048}$/;

/**
 * Request for a service, in the client's form: the id, with an appended path and query.
 * @throws AppError BAD_PATH when the path could lead to another address than the service's; nothing was signed.
 */
export function targetOf(serviceId: string, path: string | undefined): string {
  const bad = (why: string): AppError => new AppError("BAD_PATH", { message: `The path ${why}; nothing was signed.` });
  if (path === undefined || path === "") return serviceId;
  const bare = path.startsWith("/") ? path.slice(1) : path;
  if (!PATH.test(bare)) throw bad("holds characters that a path has not, or is longer than 2048");
  const [before = "", ...query] = bare.split("?");
  if (/%(?:2e|2f|5c|00|25)/i.test(before)) throw bad("holds an encoded dot, slash or percent sign");
  if (/%(?![0-9a-f]{2})/i.test(bare)) throw bad("holds a percent sign that encodes nothing");
  const parts = before.split("/");
  if (parts.some((part) => part === "." || part === "..")) throw bad("holds a dot segment");
  if (parts.slice(0, -1).includes("")) throw bad("holds an empty segment");
  const asked = query.length === 0 ? "" : `?${query.join("?")}`;
  return before === "" ? `${serviceId}${asked}` : `${serviceId}/${before}${asked}`;
}

/** JSON with the members of each object in one order: the same request is the same bytes, and the same payment. */
export function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : Number(a > b)));
  return Object.fromEntries(entries.map(([key, inner]) => [key, canonical(inner)]));
}

/**
 * Refuses a request with a number that may not be the one that was sent: what is parsed as JSON is a double.
 * @throws AppError INVALID_PARAMS that names it.
 */
export function assertExactNumbers(value: unknown): void {
  if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) assertExactNumbers(inner);
  } else if (typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
    throw new AppError("INVALID_PARAMS", {
      message:
        `request: has a number beyond ${Number.MAX_SAFE_INTEGER}, which is ${value} as it was received, and may not be the one that ` +
        "was sent; nothing was signed. Send it as a text where the service takes one: MCP keeps no digits of larger numbers.",
    });
  }
}

/** A schema that only describes: arguments are checked in {@link readArguments}, so that the refusal is ours. */
export function describing<Schema extends z.ZodType>(schema: Schema): StandardSchemaWithJSON<unknown, unknown> {
  const { jsonSchema } = schema["~standard"];
  return {
    "~standard": { version: 1, vendor: "turnpike", validate: (value) => ({ value }), jsonSchema },
  };
}

/** Maximum size of a request that is written in a string. */
const MAX_REQUEST_BYTES = 2 * 1_048_576;

/** Models write JSON in a string, or a number for an amount, now and then: what is meant is clear. */
function fixed(given: unknown): unknown {
  if (given === undefined || given === null) return {};
  if (typeof given !== "object" || Array.isArray(given)) return given;
  const values: Record<string, unknown> = { ...given };
  const { request, max_price_usd: price } = values;
  if (typeof request === "string" && /^\s*\{/.test(request)) {
    const read = readForeignJson(Buffer.from(request), { ...MESSAGE_LIMITS, maxBytes: MAX_REQUEST_BYTES });
    // Anything else is refused below.
    if (read.ok) values.request = read.value;
  }
  if (typeof price === "number" && /^\d+(\.\d+)?$/.test(String(price))) values.max_price_usd = String(price);
  return values;
}

const EXPECTED: Readonly<Record<string, string>> = {
  array: "a list",
  boolean: "true or false",
  int: "a whole number",
  number: "a number",
  object: "an object",
  record: "an object",
  string: "a text",
};

/** A fault in words that need no knowledge of how it is checked; undefined leaves the schema's own. */
function faultText(issue: core.$ZodRawIssue): string | undefined {
  if (issue.code === "invalid_type") {
    return issue.input === undefined ? "is missing" : `must be ${EXPECTED[issue.expected] ?? issue.expected}`;
  }
  if (issue.code !== "too_small" && issue.code !== "too_big") return undefined;
  const limit = issue.code === "too_small" ? `at least ${issue.minimum}` : `at most ${issue.maximum}`;
  return issue.origin === "string" ? `must have ${limit} characters` : `must be ${limit}`;
}

/** Faults of an issue, each with the argument that it is about. */
function faultsOf(issue: core.$ZodIssue, names: readonly string[]): string[] {
  if (issue.code !== "unrecognized_keys") {
    return [`${issue.path.length === 0 ? "arguments" : issue.path.join(".")}: ${issue.message}`];
  }
  const known = names.length === 0 ? "there are none" : `the tool takes ${names.join(", ")}`;
  return issue.keys.map((key) => {
    const guess = nearest(key, names);
    const hint = guess === undefined ? "" : ` Did you mean ${guess}?`;
    return `${visibleLine(key, 60)}: is not an argument; ${known}.${hint}`;
  });
}

/**
 * Checks arguments. One that the tool does not have is refused: a misspelt cap would else be no cap.
 * @throws AppError INVALID_PARAMS that names each fault; nothing was signed.
 */
export function readArguments<Schema extends z.ZodObject>(schema: Schema, given: unknown): z.output<Schema> {
  const read = z.strictObject(schema.shape).safeParse(fixed(given), { error: faultText });
  if (read.success) return read.data as z.output<Schema>;
  const names = Object.keys(schema.shape);
  const faults = read.error.issues.flatMap((issue) => faultsOf(issue, names)).slice(0, 8);
  throw new AppError("INVALID_PARAMS", {
    message: `The arguments are not valid; nothing was signed. ${visibleLine(faults.join("; "), 800)}`,
  });
}
