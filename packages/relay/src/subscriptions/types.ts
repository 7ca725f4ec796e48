import type { ErrorCode, ServiceId } from "@turnpike/base";
import type { CallOutcome } from "./upstream-socket.ts";

/** One event, shared by all who listen: the JSON text of its `result`, as the supplier sent it. */
export interface SharedEvent {
  readonly raw: string;
}

/** Why a subscription ended by itself: no supplier was to be had, too many events are missing, or the relay stops. */
export type EndReason = "exhausted" | "missed" | "stopping";

/** Somebody who listens. Neither function may throw. */
export interface SubscriptionListener {
  /** May be called before `subscribe` has resolved. */
  event(event: SharedEvent): void;
  /** Called once at most; no event follows. */
  ended(reason: EndReason): void;
}

/** What is subscribed to: equal keys share one upstream subscription. */
export interface Topic {
  readonly key: string;
  /** For metrics: `newHeads`, `logs`, `newPendingTransactions`, `query` or `other`. */
  readonly kind: string;
  /** JSON text of the `params` that a supplier is sent. */
  readonly params: string;
  /** What is known of its events: heads and logs are replayed, the others are not. */
  readonly replay: "heads" | "logs" | "none";
  /** Logs: the filter, without its block range. */
  readonly filter?: Readonly<Record<string, unknown>>;
}

/** Result of a subscription. `error` is the JSON text of a supplier's error object, to be passed on. */
export type SubscribeResult =
  | { readonly ok: true; close(): void }
  | { readonly ok: false; readonly error: string }
  | { readonly ok: false; readonly code: ErrorCode };

/** A raw connection to one supplier, for one client alone. */
export interface PairedSocket {
  send(text: string): void;
  /** Bytes that were not yet written. */
  readonly bufferedBytes: number;
  /** Stops and resumes reading. */
  pause(): void;
  resume(): void;
  close(): void;
}

/** What is done with what a paired supplier sends. */
export interface PairHandlers {
  message(bytes: Buffer): void;
  /** Called once; not after `close`. */
  lost(): void;
}

/** How a service's sockets are spoken to. */
export type SocketDialect = "evm" | "comet" | "pair";

/** WebSockets of suppliers, shared between clients. */
export interface Subscriptions extends AsyncDisposable {
  /** True when a supplier of the service has a WebSocket. */
  offers(id: ServiceId): boolean;
  /** Shares or makes an upstream subscription; it is replayed and moved to another supplier by itself. */
  subscribe(id: ServiceId, topic: Topic, listener: SubscriptionListener): Promise<SubscribeResult>;
  /** One call over a supplier's WebSocket, for services whose suppliers have nothing else. */
  call(id: ServiceId, dialect: "evm" | "comet", method: string, params: string): Promise<CallOutcome>;
  /** A connection for one client; undefined when no supplier could be reached. */
  pair(id: ServiceId, handlers: PairHandlers, signal: AbortSignal): Promise<PairedSocket | undefined>;
}
