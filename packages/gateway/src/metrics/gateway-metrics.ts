import type { MetricSpec } from "@turnpike/base";

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Answers, by route group (label `door`: `paid`, `free`, `discovery`, `monitoring`), service, status and error code (`ok` without). */
export const gatewayRequestsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_requests_total",
  help: "Answers of the gateway.",
  labels: ["door", "service", "status", "result"],
};

/** From a request's head to the end of its answer; without the answers to unpaid requests. */
export const gatewayRequestSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_gateway_request_seconds",
  help: "Time from a request's head to its answer.",
  labels: ["door", "result"],
  buckets: SECONDS,
};

/** Runs of one stage of the paid pipeline by outcome: `ok` or an error code. */
export const gatewayStageTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_stage_total",
  help: "Runs of a stage of the paid pipeline.",
  labels: ["stage", "outcome"],
};

/** Time in one stage of the paid pipeline. */
export const gatewayStageSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_gateway_stage_seconds",
  help: "Time in a stage of the paid pipeline.",
  labels: ["stage"],
  buckets: SECONDS,
};

/** Requests that are in one stage of the paid pipeline now. */
export const gatewayStageInFlight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_stage_in_flight",
  help: "Requests in a stage of the paid pipeline.",
  labels: ["stage"],
};

/** Requests with work in progress. */
export const gatewayInFlight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_in_flight",
  help: "Requests with work in progress.",
  labels: ["door"],
};

/** Size of a sold answer, with its envelope. */
export const gatewaySoldBytes: MetricSpec = {
  kind: "histogram",
  name: "turnpike_gateway_sold_bytes",
  help: "Size of a sold answer.",
  buckets: [256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304],
};

/** 1 while `/ready` says that the gateway is ready. */
export const gatewayReady: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_ready",
  help: "1 while at least one service can answer and, where something is sold, payments can be taken.",
  aggregator: "min",
};

/** 1 while a service has a healthy supplier. */
export const gatewayServiceReady: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_service_ready",
  help: "1 while a service can answer.",
  labels: ["service"],
  aggregator: "min",
};

/**
 * Requests that a limit refused: of the free relay `client`, `endpoint`, `application`, `account`, `quota`, `guesses` or
 * `unread`, the room for large answers that their clients do not read; of the paid routes `unpaid`.
 */
export const gatewayLimitedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_limited_total",
  help: "Requests refused by a limit of the gateway.",
  labels: ["limit"],
};

/** Requests with an application's key, by outcome: `ok` or the code that refused them before they were relayed. */
export const gatewayKeyedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_keyed_total",
  help: "Requests with the key of a portal application.",
  labels: ["outcome"],
};

/** Failures of the store that limits are shared through, by cause. */
export const gatewayLimitStoreFailuresTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_limit_store_failures_total",
  help: "Failed requests to the shared store of the limits.",
  labels: ["cause"],
};

/** 1 while the store that limits are shared through is in use. */
export const gatewayLimitStoreUp: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_limit_store_up",
  help: "1 while limits are shared through the store.",
  aggregator: "min",
};

/** Configurations that requests still use although others are in effect. */
export const gatewayConfigOld: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_config_old",
  help: "Replaced configurations that requests in flight still use.",
};

/** Answers of the admin API, by status. */
export const gatewayAdminRequestsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_admin_requests_total",
  help: "Answers of the admin API.",
  labels: ["status"],
};

/** Messages between processes: `sent`, `received`, or `dropped` because the bus was away or full, or the message too large. */
export const gatewayBusMessagesTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_bus_messages_total",
  help: "Messages to and from other processes of the deployment.",
  labels: ["outcome"],
};

/** 1 while this process hears the others through Redis. */
export const gatewayBusUp: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_bus_up",
  help: "1 while processes share what they know through Redis.",
  aggregator: "min",
};

/** Open WebSockets of clients. */
export const gatewayWebsocketConnections: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_websocket_connections",
  help: "Open WebSockets of clients.",
  labels: ["service"],
};

/** Subscriptions of clients; those that are equal share one at the supplier. */
export const gatewayWebsocketSubscriptions: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_websocket_subscriptions",
  help: "Subscriptions of clients.",
  labels: ["service"],
};

/** JSON-RPC requests over WebSockets, by error code (`ok` without); a batch counts once. */
export const gatewayWebsocketMessagesTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_websocket_messages_total",
  help: "Messages of clients over WebSockets.",
  labels: ["service", "result"],
};

/** Events sent to clients. */
export const gatewayWebsocketEventsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_websocket_events_total",
  help: "Events sent to clients over WebSockets.",
  labels: ["service"],
};

/** WebSockets that ended: by the client, or dropped as slow, silent, unfinished, exhausted, missed, quota, limit, stopping, reloaded or supplier. */
export const gatewayWebsocketClosedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_websocket_closed_total",
  help: "WebSockets of clients that ended, by reason.",
  labels: ["service", "reason"],
};

/** All metrics of this package, for the test that holds them to the dashboards. */
export const GATEWAY_METRICS: readonly MetricSpec[] = [
  gatewayRequestsTotal,
  gatewayRequestSeconds,
  gatewayStageTotal,
  gatewayStageSeconds,
  gatewayStageInFlight,
  gatewayInFlight,
  gatewaySoldBytes,
  gatewayReady,
  gatewayServiceReady,
  gatewayLimitedTotal,
  gatewayKeyedTotal,
  gatewayLimitStoreFailuresTotal,
  gatewayLimitStoreUp,
  gatewayConfigOld,
  gatewayAdminRequestsTotal,
  gatewayBusMessagesTotal,
  gatewayBusUp,
  gatewayWebsocketConnections,
  gatewayWebsocketSubscriptions,
  gatewayWebsocketMessagesTotal,
  gatewayWebsocketEventsTotal,
  gatewayWebsocketClosedTotal,
];
