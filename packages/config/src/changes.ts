import { isRecord } from "@turnpike/base";
import { pathText } from "./describe.ts";
import type { Config } from "./schema.ts";

/**
 * Keys that a running gateway cannot change: its addresses, what its money depends on, and what it is built on. A
 * section stands for all its keys. `facilitator` is none of the gateway's.
 */
export const RESTART_KEYS: readonly string[] = [
  "allowedHosts",
  "localnet",
  "admin.host",
  "admin.port",
  "tracing",
  "gateway.host",
  "gateway.port",
  "gateway.workers",
  "gateway.metrics",
  "gateway.maxHeaderBytes",
  "gateway.upstreamTimeoutMs",
  "ledger",
  "payment",
  "portalDb.gatewayUrl",
  "redis",
  "relay.maxCacheBytes",
  "relay.maxHeadAgeMs",
];

/** What differs between two configurations. */
export interface ConfigChanges {
  /** Every key that differs, in the order of the schema. */
  readonly changed: readonly string[];
  /** Those of them that need a restart. */
  readonly fixed: readonly string[];
}

function differences(before: unknown, after: unknown, path: readonly string[], into: string[]): void {
  if (Object.is(before, after)) return;
  const isMap = isRecord(before) && isRecord(after);
  if (!isMap) {
    // A list counts as one key.
    if (JSON.stringify(before) !== JSON.stringify(after)) into.push(pathText(path));
    return;
  }
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    differences(before[key], after[key], [...path, key], into);
  }
}

/** Compares two configurations. Names keys only, never values. */
export function configChanges(before: Config, after: Config): ConfigChanges {
  const changed: string[] = [];
  differences(before, after, [], changed);
  const isIn = (path: string, key: string): boolean =>
    path === key || path.startsWith(`${key}.`) || path.startsWith(`${key}[`);
  // Sections of other processes.
  const kept = changed.filter(
    (path) =>
      !isIn(path, "facilitator") &&
      !isIn(path, "search") &&
      (path === "portalDb.gatewayUrl" || !isIn(path, "portalDb")),
  );
  return { changed: kept, fixed: kept.filter((path) => RESTART_KEYS.some((key) => isIn(path, key))) };
}
