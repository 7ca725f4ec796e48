import { sessionWindows } from "@turnpike/protocol";
import { uint64Codec } from "../../state/codecs.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { getSharedParamsAt, sharedParamsHistory } from "./state.ts";

/**
 * Height of the block that settles the session of a height. Sessions are settled in their order: one that begins after the windows
 * were shortened waits for those before, which keep their own. On the real chain it is settled first, and takes the stake that the
 * earlier ones were served for.
 */
export function settlementHeightAt(ctx: Context, height: bigint): bigint {
  const free = unmetered(ctx);
  let latest = sessionWindows(getSharedParamsAt(free, height), height).settlementHeight;
  let lastHeight = height;
  const to = uint64Codec.encode(height + 1n);
  // Parameters hold from the start of a session: the last session of each entry ends before the next one holds.
  for (const [effectiveHeight, params] of sharedParamsHistory.entries(free, { to, reverse: true })) {
    const { settlementHeight } = sessionWindows(params, lastHeight);
    if (settlementHeight > latest) latest = settlementHeight;
    lastHeight = effectiveHeight - 1n;
  }
  return latest;
}
