/** The last height that is taken from outside: sums with what parameters may be stay far below 2^63. */
const MOST_HEIGHT: bigint = 1n << 61n;

/** True for a height that a block may have, and for 0, which says none. */
export function isHeight(height: bigint): boolean {
  return height >= 0n && height <= MOST_HEIGHT;
}
