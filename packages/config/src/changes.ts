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
  "protocol.nodeUrl",
  "protocol.gatewayKeyFile",
  "protocol.applicationKeyFiles",
  "protocol.allowPrivateSuppliers",
  "protocol.signingThreads",
  "redis",
  "relay.maxCacheBytes",
  "relay.maxHeadAgeMs",
];

/** Keys below those that a running gateway reads each time all the same. */
const READ_KEYS: readonly string[] = [
  "payment.relayer.whenUnprofitable",
  "payment.relayer.maxCostPercent",
  "payment.networks[].assetPriceUsd",
  "payment.networks[].relayer.coinPriceUsd",
  "payment.networks[].relayer.whenUnprofitable",
  "payment.networks[].relayer.maxCostPercent",
];
/** A list whose entries are compared key by key, as long as none is added or removed. Any other counts as one key. */
const COMPARED_LIST = "payment.networks";

/** What differs between two configurations. */
export interface ConfigChanges {
  /** Every key that differs, in the order of the schema. */
  readonly changed: readonly string[];
  /** Those of them that need a restart. */
  readonly fixed: readonly string[];
}

function differences(before: unknown, after: unknown, path: readonly string[], into: string[]): void {
  if (Object.is(before, after)) return;
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    if (pathText(path) === COMPARED_LIST) {
      for (const [at, item] of before.entries()) differences(item, after[at], [...path, String(at)], into);
      return;
    }
  }
  const isMap = isRecord(before) && isRecord(after);
  if (!isMap) {
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
      !isIn(path, "supplier") &&
      (path === "portalDb.gatewayUrl" || !isIn(path, "portalDb")),
  );
  const isRead = (path: string): boolean => READ_KEYS.includes(path.replaceAll(/\[\d+\]/g, "[]"));
  const fixed = kept.filter((path) => RESTART_KEYS.some((key) => isIn(path, key)) && !isRead(path));
  return { changed: kept, fixed };
}
