import type { RpcType } from "@turnpike/protocol";
import type { FailureReason } from "../families/family.ts";
import type { SupplierEndpoint } from "../transport/transport.ts";

/**
 * Why a service has no supplier now: none is configured, its session has none or could not be had, or none of those that
 * there are speaks this way. All are 503.
 */
export type EmptyReason = "not_configured" | "no_session" | "no_rpc_type";

/** Why an endpoint is not to be used any more. See `TransportReason`. */
export type DropReason = "over_limit" | "bad_signature";

/** Whether an endpoint that failed for a reason is not to be used any more. */
export function isDropReason(reason: FailureReason): reason is DropReason {
  return reason === "over_limit" || reason === "bad_signature";
}

/**
 * The suppliers of one service. Who they are may change at any time, also while requests are in flight: a request that
 * was sent to an endpoint ends there, and the next attempt is made at an endpoint of then.
 */
export interface SupplierSet {
  /** All endpoints that can be used now, of every way of speaking. */
  endpoints(): readonly SupplierEndpoint[];
  /** Why there is no endpoint for a way of speaking, or for any; undefined when there is one. */
  whyEmpty(rpcType?: RpcType): EmptyReason | undefined;
  /** Calls back after each change of the endpoints, and before anything else is done. Returns what ends that. */
  onChange(listener: () => void): () => void;
  /**
   * Takes an endpoint out: `over_limit` until the next session, `bad_signature` for good. May be called for one that is
   * out. A set whose endpoints cannot fail so need not do anything.
   */
  drop(endpoint: SupplierEndpoint, reason: DropReason): void;
}

/** Why no endpoint of a list speaks a way; undefined when one does. `none` says why the list is empty. */
export function whyEmpty(
  endpoints: readonly SupplierEndpoint[],
  rpcType: RpcType | undefined,
  none: EmptyReason,
): EmptyReason | undefined {
  if (endpoints.length === 0) return none;
  return rpcType === undefined || endpoints.some((one) => one.rpcType === rpcType) ? undefined : "no_rpc_type";
}
