import type { GasPolicy } from "./calls.ts";
import { maxPayments } from "./calls.ts";
import type { FeePolicy } from "./fees.ts";
import type { EngineNetwork } from "./options.ts";

/** Fees, gas and batches of one network. */
export interface NetworkPolicy {
  readonly fees: FeePolicy;
  readonly gas: GasPolicy;
  readonly maxBatch: number;
  readonly batchWindowMs: number;
  readonly bumpAfterMs: number;
  readonly maxOpenBatches: number;
}

/** Chains refuse transactions with a higher gas limit (EIP-7825: 2^24). */
const MAX_TRANSACTION_GAS = 16_777_216n;

/** The policy of a network; a batch has no more payments than the gas limit of a transaction has room for. */
export function networkPolicy(net: EngineNetwork): NetworkPolicy {
  const gas = {
    perTransfer: net.gasPerTransfer,
    perWallet: net.gasPerWallet,
    perDeployment: net.gasPerDeployment,
  };
  return {
    fees: {
      maxFeePerGasWei: net.maxFeePerGasWei,
      priorityFeeWei: net.priorityFeeWei,
      bumpPercent: net.bumpPercent,
    },
    gas,
    maxBatch: Math.min(net.maxBatch, maxPayments(MAX_TRANSACTION_GAS, gas)),
    batchWindowMs: net.batchWindowMs,
    bumpAfterMs: net.bumpAfterMs,
    maxOpenBatches: net.maxOpenBatches,
  };
}
