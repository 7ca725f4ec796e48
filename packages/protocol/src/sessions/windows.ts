import { type SessionGridParams, sessionAt } from "./grid.ts";

/** How many blocks after a session each of its windows opens and closes. Unsigned 64-bit numbers. */
export interface SessionWindowParams extends SessionGridParams {
  readonly gracePeriodEndOffsetBlocks: bigint;
  readonly claimWindowOpenOffsetBlocks: bigint;
  readonly claimWindowCloseOffsetBlocks: bigint;
  readonly proofWindowOpenOffsetBlocks: bigint;
  readonly proofWindowCloseOffsetBlocks: bigint;
}

/** Heights of one session's windows. Every height belongs to its window. */
export interface SessionWindows {
  /** Last height at which a relay of the session is still served. */
  readonly graceEndHeight: bigint;
  readonly claimOpenHeight: bigint;
  readonly claimCloseHeight: bigint;
  /** Of every supplier; the block before it gives the seed of proof requirement and proof path. */
  readonly proofOpenHeight: bigint;
  readonly proofCloseHeight: bigint;
  /** The block at whose end the claims are settled: the last one of the proof window. */
  readonly settlementHeight: bigint;
}

/** The windows of the session that `height` belongs to. */
export function sessionWindows(params: SessionWindowParams, height: bigint): SessionWindows {
  const { endHeight } = sessionAt(params, height);
  // One block more than the offset, so that relays of the last block of the session get into the claim.
  const claimOpenHeight = endHeight + params.claimWindowOpenOffsetBlocks + 1n;
  const claimCloseHeight = claimOpenHeight + params.claimWindowCloseOffsetBlocks;
  const proofOpenHeight = claimCloseHeight + params.proofWindowOpenOffsetBlocks;
  const proofCloseHeight = proofOpenHeight + params.proofWindowCloseOffsetBlocks;
  return {
    graceEndHeight: endHeight + params.gracePeriodEndOffsetBlocks,
    claimOpenHeight,
    claimCloseHeight,
    proofOpenHeight,
    proofCloseHeight,
    settlementHeight: proofCloseHeight,
  };
}

/** True when relays of the session of `height` are no longer served at `currentHeight`. */
export function isGracePeriodOver(params: SessionWindowParams, height: bigint, currentHeight: bigint): boolean {
  return currentHeight > sessionWindows(params, height).graceEndHeight;
}

/** Sum of the four claim and proof offsets. A session settles one block later than its end plus these. */
export function settlementDelayBlocks(params: Omit<SessionWindowParams, keyof SessionGridParams>): bigint {
  return (
    params.claimWindowOpenOffsetBlocks +
    params.claimWindowCloseOffsetBlocks +
    params.proofWindowOpenOffsetBlocks +
    params.proofWindowCloseOffsetBlocks
  );
}

/**
 * How many sessions of an application can be unsettled at once, `⌈offsets / N⌉`: what its stake is divided by. Zero
 * when all four offsets are; the parameters must not be accepted then.
 */
export function numPendingSessions(params: SessionWindowParams): bigint {
  return (settlementDelayBlocks(params) + params.numBlocksPerSession - 1n) / params.numBlocksPerSession;
}
