import type { MetricSpec } from "@turnpike/base";

/** Sessions that can be used now, one an application. */
export const relaySessions: MetricSpec = {
  kind: "gauge",
  name: "turnpike_relay_sessions",
  help: "Sessions of the relay protocol that are in use, by service",
  labels: ["service"],
};

/** Services that are left out, of those that only the chain has: there is room for so many alone. */
export const relayServicesLeftOut: MetricSpec = {
  kind: "gauge",
  name: "turnpike_relay_services_left_out",
  help: "Registered services with an application of this gateway that are not served, for lack of room",
};

/** Questions for a session: ok, refused, unreachable, busy or not-ours. */
export const relaySessionLoadsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_session_loads_total",
  help: "Sessions asked of the chain, by service and result",
  labels: ["service", "result"],
};

/** How many blocks of a session had passed when it came into use. */
export const relaySessionAgeBlocks: MetricSpec = {
  kind: "histogram",
  name: "turnpike_relay_session_age_blocks",
  help: "Blocks of a session that had passed when it came into use",
  buckets: [0, 1, 2, 3, 5, 10, 20, 60],
};

/** Relays that were signed and sent, by what for. Each is paid for by the application when it is answered. */
export const relaySignedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_signed_total",
  help: "Signed relays by service, purpose and result",
  labels: ["service", "purpose", "result"],
};

/** Metrics of sessions. */
export const SESSION_METRICS: readonly MetricSpec[] = [
  relaySessions,
  relayServicesLeftOut,
  relaySessionLoadsTotal,
  relaySessionAgeBlocks,
  relaySignedTotal,
];
