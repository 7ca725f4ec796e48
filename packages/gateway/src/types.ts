import type { Clock, Log, Random, Tracer } from "@turnpike/base";
import type { Catalogue, Service } from "@turnpike/catalogue";
import type { PaymentOption, PaymentStage, SharedTokens, UnpaidRule } from "@turnpike/payment";
import type { Relay, Subscriptions } from "@turnpike/relay";
import type { MetricsRegistry } from "@turnpike/telemetry";
import type { AccessLogOptions } from "./http/access-log.ts";
import type { Applications } from "./keys/types.ts";
import type { RateLimits } from "./limits/types.ts";
import type { ReadinessCheck } from "./monitoring/readiness.ts";
import type { WebSocketLimits } from "./websocket/options.ts";

/**
 * Addresses, bounds and times of the gateway, by the names of the keys of `gateway` where they have one. While the gateway
 * runs, another configuration may replace all but those of its listeners: addresses, ports, `reusePort`, `allowedHosts` and
 * `maxHeaderBytes`.
 */
export interface GatewayOptions {
  /** Address that the gateway listens on. */
  readonly host: string;
  /** Address that the metrics server listens on; the gateway's by default. */
  readonly metricsHost?: string;
  /** Further names that requests for metrics may be for. */
  readonly allowedHosts?: readonly string[];
  /** Port of the paid routes, the relay and monitoring; 0 takes a free one. */
  readonly port: number;
  /** Port of `GET /metrics`; 0 takes a free one. Undefined: another process shows the metrics, see {@link Gateway.flush}. */
  readonly metricsPort: number | undefined;
  /** True: other processes listen on the same address, and the system spreads connections over them. */
  readonly reusePort?: boolean;
  /** Address that clients use, without a trailing slash. Undefined: the one that is listened on. */
  readonly publicUrl: string | undefined;
  /** Relay hosts are `{service_id}.<relayDomain>`; without a port. */
  readonly relayDomain: string;
  /** Version of the product, as the documents show it. */
  readonly version: string;
  /** Most bytes of a request's head; more is 431. */
  readonly maxHeaderBytes: number;
  /** Most header lines of a request; more is 431. */
  readonly maxHeaders: number;
  /** Time for a request's head to arrive. */
  readonly headersTimeoutMs: number;
  /** Time for a request's body to arrive. */
  readonly requestTimeoutMs: number;
  /** How long an idle connection is kept. */
  readonly keepAliveTimeoutMs: number;
  /** Most open connections; more are closed at once. */
  readonly maxConnections: number;
  /** Open connections of one client, by IPv4 address or IPv6 /64; more are closed at once. Trusted proxies have no such bound. */
  readonly maxConnectionsPerClient: number;
  /** Most running requests of each route group (paid, free, discovery); more are 503 OVERLOADED. The answer to an unpaid request is not work. */
  readonly maxConcurrentRequests: number;
  /** Most free calls of one client that are under way at once, over HTTP and WebSockets; more are 429 RATE_LIMITED. */
  readonly maxConcurrentPerClient: number;
  /** Most bytes of request bodies that are held at once, over all requests; those of free calls may be half of them. */
  readonly maxBufferedBytes: number;
  /**
   * Most bytes of checked answers that wait for their settlement at once, over all requests. Half as many besides may be
   * written and not read by their clients yet; beyond that, large free answers are 503 OVERLOADED.
   */
  readonly maxHeldAnswerBytes: number;
  /** How long a connection may show no sign of life while something is due on it, such as a client that does not read. */
  readonly stallTimeoutMs: number;
  /** Deadline of a free call, over all attempts. */
  readonly upstreamTimeoutMs: number;
  /** Most calls of one batch on the free relay; more are 413. */
  readonly maxBatchItems: number;
  /** How long requests in flight may go on after the gateway was told to stop. */
  readonly shutdownTimeoutMs: number;
  /** Payments of one client that may be presented without paying, or be under way; more are 429 PAYMENT_RATE_LIMITED. */
  readonly unpaidPerClient: UnpaidRule;
  /** Addresses and CIDR blocks of proxies whose X-Forwarded-For is believed. */
  readonly trustedProxies: readonly string[];
  /** Bounds of the free relay's WebSockets. Their number must be below `maxConnections`. */
  readonly webSockets: WebSocketLimits;
  /** Which requests are logged. */
  readonly accessLog: AccessLogOptions;
}

/** Ways to pay: the same on every route, or by service. */
export type OfferedOptions = readonly PaymentOption[] | ((service: Service) => readonly PaymentOption[]);

/** Parts that another configuration replaces while the gateway runs. */
export interface GatewayParts {
  readonly catalogue: Catalogue;
  readonly relay: Relay;
  /** Ways to pay, in order of preference; a function where they depend on the service, as prices may. */
  readonly options: OfferedOptions;
  /** WebSockets of suppliers, for the free relay. Undefined: it has no WebSockets. */
  readonly subscriptions?: Subscriptions;
  /** Limits of the free relay. Undefined: none. */
  readonly limits?: RateLimits;
}

/** What all configurations of one gateway share, and the parts of the first one. */
export interface GatewayModules extends GatewayParts {
  readonly payment: PaymentStage;
  /** Where spans of requests go. Undefined: nothing is traced. */
  readonly tracer?: Tracer;
  readonly readiness: readonly ReadinessCheck[];
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: MetricsRegistry;
  readonly random: Random;
  /** Tokens of clients that other machines have too; without it each counts for itself. */
  readonly clientTokens?: SharedTokens;
  /** Portal applications, whose keys calls of the free relay may carry. Undefined: keys mean nothing. */
  readonly applications?: Applications;
}

/** The running gateway. Disposing it drains requests in flight, within a limit, and closes both servers. */
export interface Gateway extends AsyncDisposable {
  /**
   * Starts both servers. A metrics port of 0 means that there is none.
   * @throws AppError PORT_IN_USE
   */
  listen(): Promise<{ readonly gatewayPort: number; readonly metricsPort: number }>;
  /** Sets the metrics that are set only when they are read. */
  flush(): Promise<void>;
  /**
   * Serves every request from now on by other options and parts; requests that are here already go on with the old
   * ones. `released` resolves when nothing uses the old ones any more, so that their owner may dispose of them.
   * WebSockets stay open while catalogue, subscriptions and their limits are the same objects; else they are closed with
   * 1012. Addresses, ports, `reusePort`, `allowedHosts` and `maxHeaderBytes` stay as they were.
   * @throws AppError CONFIG_INVALID, or SHUTTING_DOWN, with nothing changed.
   */
  replace(opts: GatewayOptions, parts: GatewayParts): { readonly released: Promise<void> };
}

/** Bounds that no key of the configuration sets. */
export const gatewayBounds = {
  maxHeaders: 100,
  keepAliveTimeoutMs: 65_000,
  maxHeldAnswerBytes: 512 * 1_048_576,
  stallTimeoutMs: 120_000,
} as const satisfies Partial<GatewayOptions>;
