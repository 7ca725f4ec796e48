import { createMessage, shared } from "@turnpike/proto";
import { type SettlementSharedParams, sessionAt } from "@turnpike/protocol";
import { messageCodec, noKey, uint64Codec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { updateBytes } from "../../state/update-bytes.ts";

/** Name of the module, and of its part of the state. */
export const SHARED_MODULE = "shared";

const module = SHARED_MODULE;

/** The parameters as they are now. */
export const sharedParams = new Collection({
  module,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(shared.ParamsSchema),
  stored: { prefixBytes: "p_shared".length },
});
/** Parameters by the height from which they hold. */
export const sharedParamsHistory = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: uint64Codec,
  value: messageCodec(shared.ParamsSchema),
  stored: {
    prefixBytes: "shared_params_history/".length,
    valueBytes: (height, value) => updateBytes(height, value.length),
  },
});

/** The parameters as they are now. */
export function getSharedParams(ctx: Context): shared.Params {
  return sharedParams.get(ctx, undefined) ?? createMessage(shared.ParamsSchema);
}

/** The parameters that hold at a height: the newest entry of the history that is not later, else today's. */
export function getSharedParamsAt(ctx: Context, height: bigint): shared.Params {
  if (height >= 0n) {
    const to = uint64Codec.encode(height + 1n);
    for (const [, params] of sharedParamsHistory.entries(ctx, { to, reverse: true })) return params;
  }
  return getSharedParams(ctx);
}

/** Last height of the session that the block is in. */
export function sessionEnd(ctx: Context): bigint {
  return sessionAt(getSharedParams(ctx), ctx.block.heightBlocks).endHeight;
}

/** The parameters as the rules of `packages/protocol` take them. */
export function protocolParams(params: shared.Params): SettlementSharedParams {
  const { computeUnitsToTokensMultiplier, computeUnitCostGranularity, ...rest } = params;
  return { ...rest, computeUnitsToTokensMultiplier, computeUnitCostGranularity };
}
