import type { MetricSpec } from "@turnpike/base";

/** Answers that came from the cache. */
export const relayCacheHitsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_cache_hits_total",
  help: "Answers from the cache by service and rule",
  labels: ["service", "rule"],
};

/** Calls whose answer may be kept, and was not there. */
export const relayCacheMissesTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_cache_misses_total",
  help: "Cacheable calls whose answer was not kept, by service and rule",
  labels: ["service", "rule"],
};

/** Answers that left the cache, by why: room, expired, head, reorg, operator, replaced or cleared. */
export const relayCacheRemovalsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_cache_removals_total",
  help: "Answers that left the cache by reason",
  labels: ["reason"],
};

/** Memory of the kept answers: keys, bodies and overhead. */
export const relayCacheBytes: MetricSpec = {
  kind: "gauge",
  name: "turnpike_relay_cache_bytes",
  help: "Bytes of kept answers with keys and overhead",
};

/** Kept answers. */
export const relayCacheEntries: MetricSpec = {
  kind: "gauge",
  name: "turnpike_relay_cache_entries",
  help: "Kept answers",
};

/** All metrics of the cache. */
export const CACHE_METRICS: readonly MetricSpec[] = [
  relayCacheHitsTotal,
  relayCacheMissesTotal,
  relayCacheRemovalsTotal,
  relayCacheBytes,
  relayCacheEntries,
];
