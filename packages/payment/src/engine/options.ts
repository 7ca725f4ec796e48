import type { Address, Clock, FaultPoints, Log, Metrics, NetworkId } from "@turnpike/base";
import type { EvmRpc } from "../evm/rpc.ts";
import type { Ledger } from "../ledger-types.ts";
import type { BackOff } from "../verify/back-off.ts";
import type { ProfitRule } from "./profit.ts";

/** Where payments in an asset go. */
export interface AssetReceiver {
  readonly asset: Address;
  readonly payTo: Address;
}

/** What judging payments on one chain takes. */
export interface ChainRules {
  readonly network: NetworkId;
  /** Blocks, the transaction's own included, before a payment is said to be settled; at least 1. */
  readonly confirmations: number;
  /** Depth in blocks below which no re-organisation is expected; settled payments are looked at again until then. */
  readonly finalityBlocks: number;
  /** Usual time between blocks: it paces polling, and says with `finalityBlocks` how long an unused window may come back. */
  readonly blockTimeSeconds: number;
  /**
   * Maximum seconds by which the time of a block that ends a payment is ahead of the machine's clock; no maximum by default, as for
   * development chains, whose time is moved.
   */
  readonly maxLeadSeconds?: number;
  /** Most blocks in one `eth_getLogs`; 1,000 by default. */
  readonly maxLogBlocks?: number;
  /** Where this ledger's sales are paid to; payments to them that it does not know are reported. None by default. */
  readonly receivers?: readonly AssetReceiver[];
  /** Time between two scans for such payments; 60,000 by default. */
  readonly foreignScanMs?: number;
}

/** Bounds of a network's transactions. */
export interface TransactionBounds {
  /** How long the first payment of a batch waits for others. */
  readonly batchWindowMs: number;
  /** Most payments in one transaction. */
  readonly maxBatch: number;
  /** Gas limit of one transfer of an EOA's payment. */
  readonly gasPerTransfer: bigint;
  /** Gas limit of a transaction for a deployed contract wallet. */
  readonly gasPerWallet: bigint;
  /** Gas limit of a transaction that first deploys the payer's wallet. */
  readonly gasPerDeployment: bigint;
  /** Age of the oldest open transaction of a key at which it is sent again with higher fees. */
  readonly bumpAfterMs: number;
  /** By how much; at least 12.5. */
  readonly bumpPercent: number;
  /** Most transactions of one key that are not mined; contract wallets may take half of them. */
  readonly maxOpenBatches: number;
}

/** Relayer keys, fees, profit rule and bounds of one network. */
export interface EngineNetwork extends ChainRules, TransactionBounds {
  readonly multicall3: Address;
  /** Private keys that send settlements; 32 bytes each. Several gateways may be given the same ones. */
  readonly relayerKeys: readonly Uint8Array[];
  /** Never offer more for one gas, in wei. */
  readonly maxFeePerGasWei: bigint;
  /** First tip for one gas, in wei. */
  readonly priorityFeeWei: bigint;
  /** Below this a relayer counts as out of gas and settles nothing new; in wei. */
  readonly minRelayerBalanceWei: bigint;
  /** What is done with sales that cost more than they bring, read each time; undefined: they are settled. */
  readonly profit?: () => ProfitRule | undefined;
  /** Longest time that a payment is held for a fuller transaction, where the rule says `wait`. */
  readonly holdMs: number;
  /** Time at the end of a payment's window in which it is not held any more. */
  readonly holdReserveMs: number;
}

/** Networks and intervals of the settlement engine. */
export interface EngineOptions {
  readonly networks: readonly EngineNetwork[];
  /** Most payments that wait for a batch on one network; more are refused. 10,000 by default. */
  readonly maxQueue?: number;
  /** Longest wait for a batch when no key can take it; then the payment is refused. 10,000 by default. */
  readonly maxQueueMs?: number;
  /** How long nodes may refuse a key's oldest transaction until it is cancelled by an empty one: what is behind it waits. 500 by default. */
  readonly cancelAfterMs?: number;
  /** Slowest polling for receipts. */
  readonly pollMs: number;
  /** How often leases are renewed; a fraction of the ledger's lease time. */
  readonly leaseRenewMs: number;
  /** How often finality, closed windows, orphans and free keys are looked at. */
  readonly reconcileMs: number;
  /** Longest wait for one answer of the chain that a payment waits for. 5,000 by default. */
  readonly chainTimeoutMs?: number;
  /** How long what is under way is waited for after its caller's time is up, and at the end. 2,000 by default. */
  readonly graceMs?: number;
}

/** Modules of the settlement engine, which owns none of them. */
export interface EngineModules {
  readonly ledger: Ledger;
  readonly rpc: ReadonlyMap<NetworkId, EvmRpc>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
  /** Is notified of payers whose settlements fail; the verifier refuses them. */
  readonly backOff?: Pick<BackOff, "failed">;
}
