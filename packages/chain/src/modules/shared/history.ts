import { bytesEqual } from "@turnpike/base";
import { createMessage, encodeMessage, shared } from "@turnpike/proto";
import { nextGrid } from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import { sharedParamsFault } from "./params.ts";
import { getSharedParams, getSharedParamsAt, sharedParams, sharedParamsHistory } from "./state.ts";

/** Parameters that lay out sessions and windows: what is under way keeps those that it began with. */
const TIMING = [
  "numBlocksPerSession",
  "gracePeriodEndOffsetBlocks",
  "claimWindowOpenOffsetBlocks",
  "claimWindowCloseOffsetBlocks",
  "proofWindowOpenOffsetBlocks",
  "proofWindowCloseOffsetBlocks",
] as const;

function hasHistory(ctx: Context): boolean {
  for (const _ of sharedParamsHistory.entries(ctx)) return true;
  return false;
}

/**
 * Notes changed parameters from the start of the next session on. Unless one of them lays out sessions or windows, they
 * are also today's at once; otherwise {@link promoteParams} makes them so. The first change notes what held before.
 *
 * The chain starts from today's parameters at every change, so a change that waits is lost when another one follows
 * before it holds.
 */
export function recordParams(ctx: Context, changed: shared.Params): void {
  const today = getSharedParams(ctx);
  if (!hasHistory(ctx)) {
    sharedParams.chargeRead(ctx, undefined);
    const first = { ...today, sessionGridAnchorHeight: 1n, sessionNumberAtAnchor: 1n };
    sharedParamsHistory.set(ctx, 1n, createMessage(shared.ParamsSchema, first));
  }
  const height = ctx.block.heightBlocks;
  const { effectiveHeight, grid } = nextGrid(getSharedParamsAt(ctx, height), changed.numBlocksPerSession, height);
  const { sessionGridAnchorHeight, sessionNumberAtAnchor } = grid;
  const next = createMessage(shared.ParamsSchema, { ...changed, sessionGridAnchorHeight, sessionNumberAtAnchor });
  sharedParamsHistory.set(ctx, effectiveHeight, next);
  if (TIMING.some((name) => today[name] !== next[name])) return;
  const { sessionGridAnchorHeight: anchor, sessionNumberAtAnchor: number } = today;
  sharedParams.set(
    ctx,
    undefined,
    createMessage(shared.ParamsSchema, { ...next, sessionGridAnchorHeight: anchor, sessionNumberAtAnchor: number }),
  );
}

/** Parameters of the newest entry, once it holds; undefined while a later one waits, of which today's may have a part already. */
function newestParams(ctx: Context): shared.Params | undefined {
  for (const [effectiveHeight, params] of sharedParamsHistory.entries(ctx, { reverse: true })) {
    return effectiveHeight <= ctx.block.heightBlocks ? params : undefined;
  }
  return undefined;
}

/**
 * Makes the parameters that hold from this block on today's, and those of an earlier block that left this out. Runs after all
 * modules that read today's.
 */
export function promoteParams(ctx: Context): void {
  const due = sharedParamsHistory.get(ctx, ctx.block.heightBlocks) ?? newestParams(ctx);
  // Only a genesis can bring an entry that is not right; it must not stop the chain.
  if (due === undefined || sharedParamsFault(due) !== undefined) return;
  const bytes = (params: shared.Params): Uint8Array => encodeMessage(shared.ParamsSchema, params);
  if (!bytesEqual(bytes(due), bytes(getSharedParams(ctx)))) sharedParams.set(ctx, undefined, due);
}
