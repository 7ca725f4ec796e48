/** One operator's WebSocket of a service. */
export interface SocketEndpoint {
  /** Name for logs and metrics. */
  readonly operator: string;
  /** `ws://` or `wss://`; it may hold a key, so only its host is logged. */
  readonly url: string;
  /** Sent with the upgrade request, say an API key. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** WebSockets of suppliers by URL, and bounds that differ from the built-in ones. */
export interface SubscriptionOptions extends Partial<SubscriptionBounds> {
  /** By service id. Of a service whose set among the modules is configured, they are not used. */
  readonly suppliers: Readonly<Record<string, readonly SocketEndpoint[]>>;
  /** True: they are used also while that set is empty, or none of its suppliers can be reached. */
  readonly staticFallback?: boolean;
}

/** Times and sizes of subscriptions and their WebSockets. */
export interface SubscriptionBounds {
  /** Time for a WebSocket to a supplier to open. */
  readonly connectTimeoutMs: number;
  /** Time for a supplier to answer one call. */
  readonly callTimeoutMs: number;
  /** Largest message that is taken from a supplier. */
  readonly maxMessageBytes: number;
  /** Time between two pings; a supplier that answers none of two is given up. */
  readonly pingIntervalMs: number;
  /** Time between two checks whether a supplier has blocks that it does not send, or is behind what is known. */
  readonly stallCheckMs: number;
  /** How long another supplier is looked for before subscriptions end with `exhausted`. */
  readonly recoveryTimeoutMs: number;
  /** Time for a first subscription to be made. */
  readonly subscribeTimeoutMs: number;
  /** Most blocks that are fetched after a change of supplier; with more the subscriptions end with `missed`. */
  readonly maxReplayBlocks: number;
  /** EVM: upstream subscriptions on one WebSocket; more open another. */
  readonly maxTopicsPerSocket: number;
  /** The same for CometBFT, whose nodes allow five by default. */
  readonly maxCometTopicsPerSocket: number;
  /** Different upstream subscriptions of one service; more are OVERLOADED. */
  readonly maxTopics: number;
  /** Events of one WebSocket that may wait while a gap is filled; with more the supplier is given up. */
  readonly maxQueuedEvents: number;
  /** How long a WebSocket without subscriptions is kept. */
  readonly lingerMs: number;
}

/** Bounds that suit one process; none of them can be configured. */
export const SUBSCRIPTION_BOUNDS: SubscriptionBounds = {
  connectTimeoutMs: 3_000,
  callTimeoutMs: 5_000,
  maxMessageBytes: 16 * 1_048_576,
  pingIntervalMs: 15_000,
  stallCheckMs: 30_000,
  recoveryTimeoutMs: 30_000,
  subscribeTimeoutMs: 10_000,
  maxReplayBlocks: 1_000,
  maxTopicsPerSocket: 200,
  maxCometTopicsPerSocket: 5,
  maxTopics: 10_000,
  maxQueuedEvents: 10_000,
  lingerMs: 5_000,
};
