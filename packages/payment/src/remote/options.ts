import type { Address, Clock, FaultPoints, Log, Metrics, NetworkId } from "@turnpike/base";
import type { ChainRules } from "../engine/options.ts";
import type { EvmRpc } from "../evm/rpc.ts";
import type { Ledger } from "../ledger-types.ts";
import type { BackOff } from "../verify/back-off.ts";

/** One asset that is paid in, as the terms spell it. */
export interface RemoteAsset {
  readonly address: Address;
  /** EIP-712 domain of the token. */
  readonly name: string;
  readonly version: string;
  /** `maxTimeoutSeconds` of the terms in this asset. */
  readonly maxTimeoutSeconds: number;
}

/** Assets of the payment terms of one network. */
export interface RemoteNetwork extends ChainRules {
  readonly assets: readonly RemoteAsset[];
}

/** Where the facilitator is, and how long and often it is asked. */
export interface RemoteSettlerOptions {
  /** Base URL of an x402 facilitator; `/settle` is appended. */
  readonly facilitatorUrl: string;
  /** Key by which the facilitator knows this seller; without one none is sent. */
  readonly sellerKey?: string;
  readonly networks: readonly RemoteNetwork[];
  /** Longest time for one answer of the facilitator. */
  readonly timeoutMs: number;
  /** Slowest polling for evidence on the chain. */
  readonly pollMs: number;
  /** How often finality and closed windows are looked at. */
  readonly reconcileMs: number;
}

/** Modules of the remote settler, which owns none of them. */
export interface RemoteSettlerModules {
  readonly ledger: Ledger;
  readonly rpc: ReadonlyMap<NetworkId, EvmRpc>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
  /** Is notified of payers who took the means of a payment away; without it they are not remembered. */
  readonly backOff?: Pick<BackOff, "failed">;
}
