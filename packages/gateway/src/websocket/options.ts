/** Bounds of WebSockets of clients, and of the messages and subscriptions over them. */
export interface WebSocketLimits {
  /** Open WebSockets; more are 503 before the upgrade. */
  readonly maxWebSockets: number;
  /** Open WebSockets of one client; more are 429 before the upgrade. */
  readonly maxWebSocketsPerClient: number;
  /** Largest message of a client; a larger one closes with 1009. */
  readonly maxMessageBytes: number;
  /** Items of a batch. */
  readonly maxBatchItems: number;
  /** Subscriptions of one WebSocket; more are refused with an error. */
  readonly maxSubscriptionsPerClient: number;
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

/** Bounds that suit one process. */
export const webSocketDefaults: WebSocketLimits = {
  maxWebSockets: 10_000,
  maxWebSocketsPerClient: 1_000,
  maxMessageBytes: 1_048_576,
  maxBatchItems: 1_000,
  maxSubscriptionsPerClient: 100,
  maxQueuedBytes: 4 * 1_048_576,
  maxTotalQueuedBytes: 256 * 1_048_576,
  maxMessagesInFlight: 32,
  pingIntervalMs: 30_000,
  messageTimeoutMs: 30_000,
  closeTimeoutMs: 2_000,
};
