import type { GasPolicy } from "./calls.ts";
import { settlementGas } from "./calls.ts";
import type { FeePolicy } from "./fees.ts";
import type { EngineNetwork, EngineOptions } from "./options.ts";

/** Fees, gas and batches of one network: its own where it has them, else those of the engine. */
export interface NetworkPolicy {
  readonly fees: FeePolicy;
  readonly gas: GasPolicy;
  readonly maxBatch: number;
  readonly batchWindowMs: number;
  readonly bumpAfterMs: number;
  readonly maxOpenBatchesPerKey: number;
}

/** Chains refuse transactions with a higher gas limit (EIP-7825: 2^24). */
const MAX_TRANSACTION_GAS = 16_777_216n;

/** The policy of a network of these options. */
export function networkPolicy(opts: EngineOptions, net: EngineNetwork): NetworkPolicy {
  const gas = {
    perTransfer: net.gasPerTransfer ?? opts.gasPerTransfer,
    perWallet: net.gasPerWallet ?? opts.gasPerWallet,
    perDeployment: net.gasPerDeployment ?? opts.gasPerDeployment,
  };
  const room = (MAX_TRANSACTION_GAS - settlementGas([], gas)) / gas.perTransfer;
  return {
    fees: {
      maxFeePerGasWei: net.maxFeePerGasWei,
      priorityFeeWei: net.priorityFeeWei,
      bumpPercent: net.bumpPercent ?? opts.bumpPercent,
    },
    gas,
    maxBatch: Math.max(1, Math.min(net.maxBatch ?? opts.maxBatch, Number(room))),
    batchWindowMs: net.batchWindowMs ?? opts.batchWindowMs,
    bumpAfterMs: net.bumpAfterMs ?? opts.bumpAfterMs,
    maxOpenBatchesPerKey: net.maxOpenBatchesPerKey ?? opts.maxOpenBatchesPerKey,
  };
}
