/** The two fees of a transaction (EIP-1559), in wei of gas price. */
export interface Fees {
  readonly maxFeePerGas: bigint;
  readonly maxPriorityFeePerGas: bigint;
}

/** Bounds of {@link firstFees} and {@link bumpFees}. */
export interface FeePolicy {
  /** Never offer more for one gas. */
  readonly maxFeePerGasWei: bigint;
  /** The first tip. */
  readonly priorityFeeWei: bigint;
  /** By how much a replacement raises both fees; nodes refuse less than 10 %, some less than 12.5 %. */
  readonly bumpPercent: number;
}

/**
 * Fees of a first attempt: room for the base fee to double, which takes six full blocks (EIP-1559: 12.5 % a block),
 * below the cap. Undefined when the cap is under the base fee: such a transaction would not be mined.
 */
export function firstFees(baseFee: bigint, policy: FeePolicy): Fees | undefined {
  if (baseFee >= policy.maxFeePerGasWei) return undefined;
  const wanted = baseFee * 2n + policy.priorityFeeWei;
  const maxFeePerGas = wanted < policy.maxFeePerGasWei ? wanted : policy.maxFeePerGasWei;
  const tip = policy.priorityFeeWei < maxFeePerGas ? policy.priorityFeeWei : maxFeePerGas;
  return { maxFeePerGas, maxPriorityFeePerGas: tip };
}

/**
 * Fees that replace `last`: both raised by the policy's percentage, rounded up, and at least what a first attempt
 * would offer now. Undefined when that is over the cap: then the transaction is only sent again.
 */
export function bumpFees(last: Fees, baseFee: bigint, policy: FeePolicy): Fees | undefined {
  const now = baseFee * 2n + policy.priorityFeeWei;
  const raised = raise(last.maxFeePerGas, policy.bumpPercent);
  // A tip under the fee stays so when both are raised alike.
  const tip = raise(last.maxPriorityFeePerGas, policy.bumpPercent);
  const wanted = raised > now ? raised : now;
  const maxFeePerGas = wanted <= policy.maxFeePerGasWei ? wanted : raised;
  if (maxFeePerGas > policy.maxFeePerGasWei) return undefined;
  return { maxFeePerGas, maxPriorityFeePerGas: tip };
}

function raise(fee: bigint, percent: number): bigint {
  // Percentages have places (12.5), so count in thousandths of a percent; never less than one wei more.
  const raised = (fee * BigInt(Math.ceil(100_000 + percent * 1_000)) + 99_999n) / 100_000n;
  return raised > fee ? raised : fee + 1n;
}
