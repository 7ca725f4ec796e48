import {
  type Claim,
  type DueClaim,
  dueSessionEnds,
  isClaimDue,
  type SettlementSharedParams,
  sessionWindows,
} from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import { protocolClaim } from "../proof/claim-facts.ts";
import { claimsBySessionEnd } from "../proof/state.ts";
import { getComputeUnitsPerRelayAt, getDifficultyAt } from "../service/state.ts";
import { spendLimitOfSession } from "../session/facts.ts";
import { getBlockHash } from "../session/state.ts";
import { getSharedParams, getSharedParamsAt, protocolParams, sharedParamsHistory } from "../shared/state.ts";

/** Gives what a function gave for an equal key before: 6,000 claims of one block share few sessions and services. */
function remembered<V>(find: (...parts: readonly [string, bigint]) => V): (text: string, height: bigint) => V {
  const known = new Map<string, { readonly value: V }>();
  return (text, height) => {
    const key = `${height}/${text}`;
    const before = known.get(key);
    if (before !== undefined) return before.value;
    const value = find(text, height);
    known.set(key, { value });
    return value;
  };
}

/** The claims whose proof window ends with this block, in the order of settlement. */
function collect(ctx: Context, paramsAt: (height: bigint) => SettlementSharedParams): Claim[] {
  const height = ctx.block.heightBlocks;
  const history = [...sharedParamsHistory.entries(ctx)].map(([effectiveHeight, params]) => ({
    effectiveHeight,
    params: protocolParams(params),
  }));
  const ends = dueSessionEnds(protocolParams(getSharedParams(ctx)), history, height);
  return ends.flatMap((end) =>
    claimsBySessionEnd(ctx, end)
      .map(protocolClaim)
      .filter(({ sessionHeader: { sessionEndBlockHeight } }) =>
        isClaimDue(paramsAt(sessionEndBlockHeight), sessionEndBlockHeight, height),
      ),
  );
}

/** The claims that this block settles, each with what was in force for it. */
export function dueClaims(ctx: Context): DueClaim[] {
  const shared = remembered((_, height) => protocolParams(getSharedParamsAt(ctx, height)));
  const paramsAt = (height: bigint): SettlementSharedParams => shared("", height);
  const target = remembered((serviceId, height) => getDifficultyAt(ctx, serviceId, height).targetHash);
  const units = remembered((serviceId, height) => getComputeUnitsPerRelayAt(ctx, serviceId, height) ?? 0n);
  const seed = remembered((_, end) => getBlockHash(ctx, sessionWindows(paramsAt(end), end).proofOpenHeight - 1n));
  const limits = new Map<string, bigint | undefined>();
  return collect(ctx, paramsAt).map((claim) => {
    const { sessionId } = claim.sessionHeader;
    if (!limits.has(sessionId)) limits.set(sessionId, spendLimitOfSession(ctx, claim.sessionHeader));
    const { serviceId, sessionStartBlockHeight: start, sessionEndBlockHeight: end } = claim.sessionHeader;
    return {
      claim,
      targetHash: target(serviceId, start),
      computeUnitsPerRelay: units(serviceId, start),
      pricing: paramsAt(start),
      windows: paramsAt(end),
      spendLimitUpokt: limits.get(sessionId),
      proofSeedBlockHash: seed("", end),
    };
  });
}
