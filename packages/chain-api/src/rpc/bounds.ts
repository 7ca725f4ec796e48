/** Bounds of the RPC server; the defaults are CometBFT 0.38's own where it has one. */
export interface RpcBounds {
  /** Longest body of a request and longest WebSocket message: 1,000,000. */
  readonly maxBodyBytes: number;
  /** Longest head of a request: 262,144 (CometBFT: 1 MiB; it bounds transactions that are sent by GET). */
  readonly maxHeadBytes: number;
  /** All request bodies that are being received at a moment: 64 MiB. Beyond it requests are answered with 503. */
  readonly maxBufferedBodyBytes: number;
  /** Most requests in one batch: 10. */
  readonly maxBatch: number;
  /** Deepest nesting of a request's JSON: 10,000, as in Go. */
  readonly maxJsonDepth: number;
  /** Most open connections, WebSockets among them: 900. Further ones are closed. */
  readonly maxConnections: number;
  /** Open connections of one address, or one /64 of IPv6: 250. Further ones are closed. */
  readonly maxConnectionsPerClient: number;
  /** Proxies, which connect for many clients: these have no such bound. None. */
  readonly trustedProxies: readonly string[];
  /** Most clients that have a subscription or wait for `broadcast_tx_commit`: 100. */
  readonly maxSubscriptionClients: number;
  /** Most subscriptions of one WebSocket: 5. */
  readonly maxSubscriptionsPerClient: number;
  /** Maximum bytes that wait for one WebSocket client while its next request is answered: 8 MiB. */
  readonly maxWaitingSocketBytes: number;
  /** Messages of one WebSocket client that may wait for their turn before no more are read: 100. */
  readonly maxWaitingMessages: number;
  /** Time in which a request must have arrived, and for which an idle connection is kept: 10,000. */
  readonly readTimeoutMs: number;
  /** Time in which an answer must have been taken, or over a WebSocket 8 MiB of what is unread: 11,000. */
  readonly writeTimeoutMs: number;
  /** How long `broadcast_tx_commit` waits for a block: 10,000. */
  readonly commitTimeoutMs: number;
  /** Time between pings to a WebSocket client: 27,000. */
  readonly pingMs: number;
  /** Time after which a WebSocket client that sends nothing, not even a pong, is dropped: 30,000. */
  readonly silentMs: number;
  /** Size of the pieces of `genesis_chunked`: 16 MiB. */
  readonly genesisChunkBytes: number;
}

/** {@link RpcBounds} that are used where none are given. */
export const RPC_BOUNDS: RpcBounds = {
  maxBodyBytes: 1_000_000,
  maxHeadBytes: 256 * 1024,
  maxBufferedBodyBytes: 64 * 1024 * 1024,
  maxBatch: 10,
  maxJsonDepth: 10_000,
  maxConnections: 900,
  maxConnectionsPerClient: 250,
  trustedProxies: [],
  maxSubscriptionClients: 100,
  maxSubscriptionsPerClient: 5,
  maxWaitingSocketBytes: 8 * 1024 * 1024,
  maxWaitingMessages: 100,
  readTimeoutMs: 10_000,
  writeTimeoutMs: 11_000,
  commitTimeoutMs: 10_000,
  pingMs: 27_000,
  silentMs: 30_000,
  genesisChunkBytes: 16 * 1024 * 1024,
};
