import type { MetricSpec } from "@turnpike/base";

/**
 * Searches that were answered: `found`, `empty` (no hits), `partial` (an engine failed or was late), `failed` (no engine
 * answered), `invalid` (422), `too_large`, `overloaded`.
 */
export const searchRequestsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_search_requests_total",
  help: "Searches by outcome.",
  labels: ["outcome"],
};

/** Time of a search that was put to the engines or the cache. */
export const searchSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_search_seconds",
  help: "Time of a search, from its body to its answer.",
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
};

/** Searches that are being answered. */
export const searchInFlight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_search_in_flight",
  help: "Searches that are being answered.",
};

/** Questions to engines; `outcome` is `ok` or why there was no answer. */
export const searchEngineCallsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_search_engine_calls_total",
  help: "Questions to search engines by engine and outcome.",
  labels: ["engine", "outcome"],
};

/** Time of one question to one engine. */
export const searchEngineSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_search_engine_seconds",
  help: "Time of a question to a search engine.",
  labels: ["engine"],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
};

/** Searches without a question to the engines: `kept` from the cache, `joined` to an equal one that was under way. */
export const searchCacheHitsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_search_cache_hits_total",
  help: "Searches that were answered without asking the engines again, by kind.",
  labels: ["kind"],
};

/** Memory of kept answers. */
export const searchCacheBytes: MetricSpec = {
  kind: "gauge",
  name: "turnpike_search_cache_bytes",
  help: "Memory of kept search answers.",
};

/** Documents of the local index. */
export const searchIndexDocuments: MetricSpec = {
  kind: "gauge",
  name: "turnpike_search_index_documents",
  help: "Documents in the local index.",
  aggregator: "max",
};

/** Size of the local index on disk. */
export const searchIndexBytes: MetricSpec = {
  kind: "gauge",
  name: "turnpike_search_index_bytes",
  help: "Size of the local index on disk.",
  aggregator: "max",
};

/** Every metric of this package. */
export const SEARCH_METRICS: readonly MetricSpec[] = [
  searchRequestsTotal,
  searchSeconds,
  searchInFlight,
  searchEngineCallsTotal,
  searchEngineSeconds,
  searchCacheHitsTotal,
  searchCacheBytes,
  searchIndexDocuments,
  searchIndexBytes,
];
