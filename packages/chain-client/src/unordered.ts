const NANOS_PER_MS = 1_000_000n;
const USUAL_MS = 120_000;
/** The chain takes ten minutes; the rest is for the blocks until the transaction is in one. */
const LONGEST_MS = 590_000;

/**
 * Last block time at which an unordered transaction is taken, in nanoseconds since 1970.
 * @param mark 0 to 999,999,999: nanoseconds that are added. The chain distinguishes an account's unordered transactions
 * by this time alone, and refuses a second one with the same.
 */
export function unorderedUntil(blockTimeNanos: bigint, timeoutMs: number = USUAL_MS, mark = 0): bigint {
  const ms = Math.min(Math.max(Math.floor(timeoutMs), 1), LONGEST_MS);
  return blockTimeNanos + BigInt(ms) * NANOS_PER_MS + BigInt(mark);
}
