import type { MetricSpec } from "@turnpike/base";

/** Open WebSockets of clients. */
export const webSocketConnections: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_websocket_connections",
  help: "Open WebSockets of clients.",
  labels: ["service"],
};

/** Subscriptions of clients; those that are equal share one at the supplier. */
export const webSocketSubscriptions: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_websocket_subscriptions",
  help: "Subscriptions of clients.",
  labels: ["service"],
};

/** JSON-RPC requests over WebSockets, by error code (`ok` without); a batch counts once. */
export const webSocketMessages: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_websocket_messages_total",
  help: "Messages of clients over WebSockets.",
  labels: ["service", "result"],
};

/** Events sent to clients. */
export const webSocketEvents: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_websocket_events_total",
  help: "Events sent to clients over WebSockets.",
  labels: ["service"],
};

/** WebSockets that ended: by the client, or dropped as slow, silent, unfinished, exhausted, missed, quota, limit, stopping, reloaded or supplier. */
export const webSocketClosed: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_websocket_closed_total",
  help: "WebSockets of clients that ended, by reason.",
  labels: ["service", "reason"],
};

/** All metrics of the WebSocket door, for the test that holds them to the dashboards. */
export const WEBSOCKET_METRICS: readonly MetricSpec[] = [
  webSocketConnections,
  webSocketSubscriptions,
  webSocketMessages,
  webSocketEvents,
  webSocketClosed,
];
