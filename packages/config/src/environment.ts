import { isRecord, nearest } from "@turnpike/base";
import { parse } from "yaml";
import { pathText, type SchemaNode, schemaAt } from "./describe.ts";

/** A set of environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Prefix of variables that set one key: `TURNPIKE__GATEWAY__PORT=3070`. */
const PREFIX = "TURNPIKE__";

const clean = (text: string): string => text.toLowerCase().replaceAll(/[-_]/g, "");

/** Finds the schema's spelling of each segment: `MAX_BODY_BYTES` and `MAXBODYBYTES` are `maxBodyBytes`. */
function spelled(root: SchemaNode, segments: readonly string[]): string[] | string {
  const parts: string[] = [];
  for (const segment of segments) {
    const node = schemaAt(root, parts);
    if (node === undefined || segment === "") return pathText([...parts, segment.toLowerCase()]);
    if (node.type === "array") {
      if (!/^\d{1,3}$/.test(segment)) return `${pathText(parts)}: ${segment} is not a place in a list`;
      parts.push(segment);
    } else if (node.properties !== undefined) {
      const known = Object.keys(node.properties);
      const found = known.find((key) => clean(key) === clean(segment));
      if (found === undefined) {
        const guess = nearest(segment, known);
        return `${pathText([...parts, segment.toLowerCase()])}: unknown key; ${guess === undefined ? `known here: ${known.join(", ")}` : `did you mean ${guess.toUpperCase()}?`}`;
      }
      parts.push(found);
    } else {
      parts.push(segment.toLowerCase().replaceAll("_", "-"));
    }
  }
  return parts;
}

function readValue(text: string, schema: SchemaNode): unknown {
  if (schema.type === "string" || schema.enum !== undefined) return text;
  try {
    return parse(text, { maxAliasCount: 0 }) as unknown;
  } catch {
    return text;
  }
}

/** Sets one value in a tree, making sections and lists on its way. False when something else stands in the way. */
function place(tree: Record<string, unknown>, parts: readonly string[], value: unknown): boolean {
  let node: unknown = tree;
  for (const [at, part] of parts.entries()) {
    if (!isRecord(node) && !Array.isArray(node)) return false;
    const box = node as Record<string, unknown>;
    if (at === parts.length - 1) {
      Object.defineProperty(box, part, { value, enumerable: true, configurable: true, writable: true });
      return true;
    }
    if (Array.isArray(node) && Number(part) > node.length) return false;
    if (!Object.hasOwn(box, part) || box[part] === null) {
      box[part] = /^\d+$/.test(parts[at + 1] ?? "") ? [] : {};
    }
    node = box[part];
  }
  return false;
}

/** Writes the environment's settings into a tree; returns what is wrong with them. */
export function applyEnvironment(tree: Record<string, unknown>, env: Environment, root: SchemaNode): string[] {
  const faults: string[] = [];
  const short: readonly (readonly [string, readonly string[]])[] = [
    ["DATABASE_URL", ["ledger", "url"]],
    ["REDIS_URL", ["redis", "url"]],
    ["PORTAL_DATABASE_URL", ["portalDb", "url"]],
    ["PORTAL_OWNER_DATABASE_URL", ["portalDb", "ownerUrl"]],
    ["PORTAL_GATEWAY_DATABASE_URL", ["portalDb", "gatewayUrl"]],
    ["PORTAL_JWT_SECRET", ["portalDb", "jwt", "secret"]],
    ["TURNPIKE_ADMIN_TOKEN", ["admin", "token"]],
    ["TURNPIKE_SELLER_KEY", ["payment", "sellerKey"]],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", ["tracing", "endpoint"]],
  ];
  for (const [name, parts] of short) {
    const value = env[name];
    if (value !== undefined && value !== "") place(tree, parts, value);
  }
  for (const name of Object.keys(env).sort()) {
    const value = env[name];
    if (!name.startsWith(PREFIX) || value === undefined) continue;
    const parts = spelled(root, name.slice(PREFIX.length).split("__"));
    if (typeof parts === "string") {
      faults.push(`${name}: ${parts}`);
      continue;
    }
    const schema = schemaAt(root, parts);
    if (schema === undefined) faults.push(`${name}: ${pathText(parts)}: unknown key`);
    else if (!place(tree, parts, readValue(value, schema)))
      faults.push(`${name}: ${pathText(parts)} cannot be set by itself`);
  }
  return faults;
}

/** Puts variables in the place of `${NAME}` in every text of a tree; returns the paths whose variable is not set. */
export function expandVariables(tree: unknown, env: Environment, parts: readonly string[] = []): string[] {
  if (typeof tree !== "object" || tree === null) return [];
  const box = tree as Record<string, unknown>;
  const faults: string[] = [];
  for (const key of Object.keys(box)) {
    const value = box[key];
    const path = [...parts, key];
    if (typeof value !== "string") {
      faults.push(...expandVariables(value, env, path));
      continue;
    }
    const text = value.replaceAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (_, name: string) => {
      const found = env[name];
      if (found === undefined) faults.push(`${pathText(path)}: the environment variable ${name} is not set`);
      return found ?? "";
    });
    if (text !== value)
      Object.defineProperty(box, key, { value: text, enumerable: true, configurable: true, writable: true });
  }
  return faults;
}
