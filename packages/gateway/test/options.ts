import { loadConfig, SUPPLIER_DEFAULTS } from "@turnpike/config";
import { relayEngineBounds } from "@turnpike/relay";
import { type GatewayOptions, gatewayBounds } from "../src/types.ts";
import { type WebSocketLimits, webSocketBounds } from "../src/websocket/options.ts";

const { gateway, limits, relay } = loadConfig({ env: {} });

/** Limits of WebSockets, as without a configuration file. */
export const webSocketOptions: WebSocketLimits = {
  ...webSocketBounds,
  ...gateway.webSockets,
  maxBatchItems: gateway.maxBatchItems,
};

/** The options of a gateway without a configuration file, on free ports and without an access log. */
export const gatewayOptions: GatewayOptions = {
  ...gatewayBounds,
  ...gateway,
  port: 0,
  metricsPort: 0,
  publicUrl: undefined,
  version: "0.1.0",
  headersTimeoutMs: gateway.requestTimeoutMs,
  maxConnectionsPerClient: 5_000,
  unpaidPerClient: limits.unpaid.perClient,
  webSockets: webSocketOptions,
  accessLog: { sample: 0, errors: false },
};

/** The options of a relay engine without a configuration file. */
export const relayOptions = {
  ...relayEngineBounds,
  ...relay,
  maxAnswerBytes: gateway.maxAnswerBytes,
  defaultRules: SUPPLIER_DEFAULTS,
};
