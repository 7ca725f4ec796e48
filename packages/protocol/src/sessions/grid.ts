/**
 * The parameters that lay sessions over blocks, as they were in force at the height that is asked about. All three are
 * unsigned 64-bit numbers; an anchor of 0 means unset.
 */
export interface SessionGridParams {
  /** N, at least 1. */
  readonly numBlocksPerSession: bigint;
  /** First block of the first session of this grid. */
  readonly sessionGridAnchorHeight: bigint;
  /** Number of the session that starts at the anchor. */
  readonly sessionNumberAtAnchor: bigint;
}

/** One session's place on the chain. Both heights belong to it. */
export interface SessionSpan {
  readonly startHeight: bigint;
  readonly endHeight: bigint;
  readonly number: bigint;
}

const NO_SESSION: SessionSpan = { startHeight: 0n, endHeight: 0n, number: 0n };

// Parameters of a later grid than the height's own say nothing about it; then, as without an anchor, the first grid holds.
function anchorOf(params: SessionGridParams, height: bigint): { anchor: bigint; number: bigint } {
  const anchor = params.sessionGridAnchorHeight;
  if (anchor <= 0n || anchor > height) return { anchor: 1n, number: 1n };
  return { anchor, number: params.sessionNumberAtAnchor > 0n ? params.sessionNumberAtAnchor : 1n };
}

/** The session that `height` belongs to. All zero for heights below 1. */
export function sessionAt(params: SessionGridParams, height: bigint): SessionSpan {
  if (height <= 0n) return NO_SESSION;
  const { anchor, number } = anchorOf(params, height);
  const blocks = params.numBlocksPerSession;
  const index = (height - anchor) / blocks;
  const startHeight = anchor + index * blocks;
  return { startHeight, endHeight: startHeight + blocks - 1n, number: number + index };
}

/** First block of the session after the one of `height`. */
export function nextSessionStartHeight(params: SessionGridParams, height: bigint): bigint {
  return sessionAt(params, height).endHeight + 1n;
}

/** True at the first block of a session. */
export function isSessionStart(params: SessionGridParams, height: bigint): boolean {
  return height > 0n && sessionAt(params, height).startHeight === height;
}

/** True at the last block of a session. */
export function isSessionEnd(params: SessionGridParams, height: bigint): boolean {
  return height > 0n && sessionAt(params, height).endHeight === height;
}

/**
 * The anchor that changed parameters carry, and the height from which they hold: the start of the session after the one
 * of `height`. The anchor moves there only when N changes, so that session numbers go on without a gap.
 */
export function nextGrid(
  current: SessionGridParams,
  numBlocksPerSession: bigint,
  height: bigint,
): { readonly effectiveHeight: bigint; readonly grid: SessionGridParams } {
  const span = sessionAt(current, height);
  const effectiveHeight = span.endHeight + 1n;
  if (numBlocksPerSession === current.numBlocksPerSession) return { effectiveHeight, grid: current };
  return {
    effectiveHeight,
    grid: {
      numBlocksPerSession,
      sessionGridAnchorHeight: effectiveHeight,
      sessionNumberAtAnchor: span.number + 1n,
    },
  };
}
