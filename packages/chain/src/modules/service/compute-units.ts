import { nextSessionStartHeight, sessionAt } from "@turnpike/protocol";
import { slashEndedTextCodec } from "../../state/codecs.ts";
import type { Context } from "../../state/context.ts";
import { getSharedParams } from "../shared/state.ts";
import { computeUnitsHistory } from "./state.ts";

/** Notes a new service's compute units from the start of the session on that it comes in. */
export function noteFirstComputeUnits(ctx: Context, serviceId: string, units: bigint): void {
  const { startHeight } = sessionAt(getSharedParams(ctx), ctx.block.heightBlocks);
  computeUnitsHistory.set(ctx, [serviceId, startHeight], units);
}

function hasHistory(ctx: Context, serviceId: string): boolean {
  for (const _ of computeUnitsHistory.entries(ctx, { within: slashEndedTextCodec.encode(serviceId) })) return true;
  return false;
}

/**
 * Notes changed compute units from the start of the next session on, so that what is under way keeps those that it began
 * with. A service of the genesis has no history before its first change; then what held before is noted for all blocks.
 */
export function noteComputeUnits(ctx: Context, serviceId: string, before: bigint, units: bigint): void {
  if (!hasHistory(ctx, serviceId)) computeUnitsHistory.set(ctx, [serviceId, 1n], before);
  const from = nextSessionStartHeight(getSharedParams(ctx), ctx.block.heightBlocks);
  computeUnitsHistory.set(ctx, [serviceId, from], units);
}
