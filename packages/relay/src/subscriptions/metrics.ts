import type { MetricSpec } from "@turnpike/base";

/** Open WebSockets to suppliers. */
export const relayUpstreamWebsockets: MetricSpec = {
  kind: "gauge",
  name: "turnpike_relay_upstream_websockets",
  help: "Open WebSockets to suppliers",
  labels: ["service"],
};

/** Subscriptions at suppliers; each may serve many clients. */
export const relayUpstreamSubscriptions: MetricSpec = {
  kind: "gauge",
  name: "turnpike_relay_upstream_subscriptions",
  help: "Subscriptions at suppliers",
  labels: ["service"],
};

/** WebSockets to suppliers that ended while they were in use, by reason. */
export const relayUpstreamWebsocketLossesTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_upstream_websocket_losses_total",
  help: "WebSockets to suppliers that were lost or given up, by reason",
  labels: ["service", "reason"],
};

/** Events that were fetched because no supplier had sent them: after a change of supplier, or in a gap. */
export const relayReplayedEventsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_replayed_events_total",
  help: "Events that were fetched to fill a gap",
  labels: ["service", "kind"],
};

/** Events that were held back because they had been delivered. */
export const relayRepeatedEventsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_repeated_events_total",
  help: "Events that were not delivered again",
  labels: ["service", "kind"],
};

/** All metrics of the subscriptions, for the test that holds them to the dashboards. */
export const SUBSCRIPTION_METRICS: readonly MetricSpec[] = [
  relayUpstreamWebsockets,
  relayUpstreamSubscriptions,
  relayUpstreamWebsocketLossesTotal,
  relayReplayedEventsTotal,
  relayRepeatedEventsTotal,
];
