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
import { claimsToRetry, isHeld } from "../proof/held-claims.ts";
import { claimKey, claimsBySessionEnd, getClaim } from "../proof/state.ts";
import { getComputeUnitsPerRelayAt, getDifficultyAt } from "../service/state.ts";
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

/**
 * The claims that this block settles, in the order of settlement: those whose proof window ends with it, and those of earlier
 * sessions that were held and are tried again.
 */
export function collectClaims(ctx: Context): Claim[] {
  const height = ctx.block.heightBlocks;
  const shared = remembered((_, at) => protocolParams(getSharedParamsAt(ctx, at)));
  const paramsAt = (at: bigint): SettlementSharedParams => shared("", at);
  const history = [...sharedParamsHistory.entries(ctx)].map(([effectiveHeight, params]) => ({
    effectiveHeight,
    params: protocolParams(params),
  }));
  const ends = dueSessionEnds(protocolParams(getSharedParams(ctx)), history, height);
  const due = ends.flatMap((end) =>
    claimsBySessionEnd(ctx, end)
      .map(protocolClaim)
      .filter(({ sessionHeader: { sessionEndBlockHeight } }) =>
        isClaimDue(paramsAt(sessionEndBlockHeight), sessionEndBlockHeight, height),
      )
      .filter((claim) => !isHeld(ctx, claimKey(claim))),
  );
  const retried = claimsToRetry(ctx).flatMap(([sessionId, operator]) => getClaim(ctx, sessionId, operator) ?? []);
  return due.concat(retried.map(protocolClaim));
}

/** Claims, each with what was in force for it. */
export function dueClaims(ctx: Context, claims: readonly Claim[]): DueClaim[] {
  const shared = remembered((_, height) => protocolParams(getSharedParamsAt(ctx, height)));
  const paramsAt = (height: bigint): SettlementSharedParams => shared("", height);
  const target = remembered((serviceId, height) => getDifficultyAt(ctx, serviceId, height).targetHash);
  const units = remembered((serviceId, height) => getComputeUnitsPerRelayAt(ctx, serviceId, height) ?? 0n);
  const seed = remembered((_, end) => getBlockHash(ctx, sessionWindows(paramsAt(end), end).proofOpenHeight - 1n));
  return claims.map((claim) => {
    const { serviceId, sessionStartBlockHeight: start, sessionEndBlockHeight: end } = claim.sessionHeader;
    return {
      claim,
      targetHash: target(serviceId, start),
      computeUnitsPerRelay: units(serviceId, start),
      pricing: paramsAt(start),
      windows: paramsAt(end),
      proofSeedBlockHash: seed("", end),
    };
  });
}
