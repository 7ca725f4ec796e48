import { isRecord } from "@turnpike/base";
import type { SchemaNode } from "./describe.ts";
import { CONFIG_SCHEMA, type Config } from "./schema.ts";

const HIDDEN = "[hidden]";

/** Scheme and host of a URL: a user, a path or a query may be a password or a key. */
function redactUrl(text: string): string {
  try {
    const url = new URL(text);
    return `${url.protocol}//${url.host}${url.pathname.length > 1 || url.search !== "" ? "/…" : ""}`;
  } catch {
    return HIDDEN;
  }
}

function redact(value: unknown, schema: SchemaNode | undefined): unknown {
  if (schema?.["x-secret"] === true) return HIDDEN;
  // Also where the schema asks for no URL: an operator may have put one there.
  if (typeof value === "string") {
    return schema?.["x-secret"] === "url" || value.includes("://") ? redactUrl(value) : value;
  }
  if (Array.isArray(value)) return value.map((item) => redact(item, schema?.items));
  if (!isRecord(value)) return value;
  const ofMap = Object.values(schema?.patternProperties ?? {})[0];
  const { properties = {} } = schema ?? {};
  const shown = Object.entries(value).map(([key, inner]) => {
    return [key, redact(inner, Object.hasOwn(properties, key) ? properties[key] : ofMap)] as const;
  });
  return Object.fromEntries(shown);
}

/** A configuration as an operator may see it: without what the schema marks as secret, and of URLs scheme and host. */
export function redactConfig(config: Config): unknown {
  return redact(config, CONFIG_SCHEMA as SchemaNode);
}
