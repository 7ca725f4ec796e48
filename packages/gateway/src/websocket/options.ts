/** Bounds of WebSockets of clients, and of the messages and subscriptions over them. */
export interface WebSocketLimits {
  /** Open WebSockets; more are 503 before the upgrade. */
  readonly max: number;
  /** Open WebSockets of one client; more are 429 before the upgrade. */
  readonly maxPerClient: number;
  /** Largest message of a client; a larger one closes with 1009. */
  readonly maxMessageBytes: number;
  /** Items of a batch. */
  readonly maxBatchItems: number;
  /** Subscriptions of one WebSocket; more are refused with an error. */
  readonly maxSubscriptionsPerSocket: number;
  /** Bytes that may wait for one client; with more it reads too slowly and is closed with 1013. */
  readonly maxQueuedBytes: number;
  /**
   * The same over all clients: the slowest are closed first. As much again may be held of messages of clients that are
   * not whole: those that hold the most are ended first.
   */
  readonly maxTotalQueuedBytes: number;
  /** Messages of one client that are processed at once; meanwhile no more are read. */
  readonly maxMessagesInFlight: number;
  /** Time between two pings; a client that answers none until the next is ended. */
  readonly pingIntervalMs: number;
  /** Time in which a message must be whole once it has begun; then its WebSocket is closed with 1008. */
  readonly messageTimeoutMs: number;
  /** Time for the closing handshake. */
  readonly closeTimeoutMs: number;
}

/** Bounds that no key of the configuration sets. */
export const webSocketBounds = {
  messageTimeoutMs: 30_000,
  closeTimeoutMs: 2_000,
} as const satisfies Partial<WebSocketLimits>;
