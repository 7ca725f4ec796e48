import type { GasPolicy } from "./calls.ts";
import { settlementGas } from "./calls.ts";
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
  const room = (MAX_TRANSACTION_GAS - settlementGas([], gas)) / gas.perTransfer;
  return {
    fees: {
      maxFeePerGasWei: net.maxFeePerGasWei,
      priorityFeeWei: net.priorityFeeWei,
      bumpPercent: net.bumpPercent,
    },
    gas,
    maxBatch: Math.max(1, Math.min(net.maxBatch, Number(room))),
    batchWindowMs: net.batchWindowMs,
    bumpAfterMs: net.bumpAfterMs,
    maxOpenBatches: net.maxOpenBatches,
  };
}
