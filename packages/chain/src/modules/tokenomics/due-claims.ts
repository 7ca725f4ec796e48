import type { proof, tokenomics } from "@turnpike/proto";
import {
  type Claim,
  type DueClaim,
  dueSessionEnds,
  isClaimDue,
  type ProofParams,
  type RewardShares,
  type SessionHeader,
  type SettlementSharedParams,
  type TokenomicsParams,
} from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import { protocolClaim, upoktOf } from "../proof/claim-facts.ts";
import { claimsToRetry, isHeld } from "../proof/held-claims.ts";
import { claimKey, claimsBySessionEnd, getClaim } from "../proof/state.ts";
import { SessionFacts } from "../session/facts.ts";
import { getSharedParams, getSharedParamsAt, protocolParams, sharedParamsHistory } from "../shared/state.ts";

/** Returns what a function returned for an equal key before: 6,000 claims of one block share few sessions. */
function remembered<K extends string | bigint, Source, V>(
  read: (key: K, source: Source) => V,
): (key: K, source: Source) => V {
  const values = new Map<K, { readonly value: V }>();
  return (key, source) => {
    const entry = values.get(key);
    if (entry !== undefined) return entry.value;
    const value = read(key, source);
    values.set(key, { value });
    return value;
  };
}

/** The claims whose proof window ends with this block, in the order of settlement. */
export function collectClaims(ctx: Context): Claim[] {
  const height = ctx.block.heightBlocks;
  const windowsAt = remembered((at: bigint) => protocolParams(getSharedParamsAt(ctx, at)));
  const paramsAt = (at: bigint): SettlementSharedParams => windowsAt(at, undefined);
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
      )
      .filter((claim) => !isHeld(ctx, claimKey(claim))),
  );
}

/** Claims of earlier sessions that were held, and are tried again in this block. */
export function collectRetries(ctx: Context): Claim[] {
  const retried = claimsToRetry(ctx).flatMap(([sessionId, operator]) => getClaim(ctx, sessionId, operator) ?? []);
  return retried.map(protocolClaim);
}

const NO_SHARES: RewardShares = { dao: 0, proposer: 0, supplier: 0, sourceOwner: 0, application: 0 };

const proofParams = (params: proof.Params): ProofParams => ({
  proofRequestProbability: params.proofRequestProbability,
  proofRequirementThresholdUpokt: upoktOf(params.proofRequirementThreshold),
  proofMissingPenaltyUpokt: upoktOf(params.proofMissingPenalty),
});

function rewardShares(
  shares: tokenomics.MintAllocationPercentages | tokenomics.MintEqualsBurnClaimDistribution | undefined,
): RewardShares {
  if (shares === undefined) return NO_SHARES;
  const { dao, proposer, supplier, sourceOwner, application } = shares;
  return { dao, proposer, supplier, sourceOwner, application };
}

const settlementParams = (params: tokenomics.Params): TokenomicsParams => ({
  daoRewardAddress: params.daoRewardAddress,
  mintAllocationPercentages: rewardShares(params.mintAllocationPercentages),
  mintEqualsBurnClaimDistribution: rewardShares(params.mintEqualsBurnClaimDistribution),
  globalInflationPerClaim: params.globalInflationPerClaim,
  mintRatio: params.mintRatio,
  overservicingBonusMultiplier: params.overservicingBonusMultiplier,
});

/** Claims, each with what was true in its session. */
export function dueClaims(ctx: Context, claims: readonly Claim[]): DueClaim[] {
  const settlement = remembered((_: string, facts: SessionFacts) => settlementParams(facts.tokenomicsParams()));
  const sessionOf = remembered((_: string, header: SessionHeader) => {
    const facts = new SessionFacts(ctx, header);
    return {
      facts,
      targetHash: facts.targetHash(),
      computeUnitsPerRelay: facts.computeUnitsPerRelay() ?? 0n,
      pricing: facts.pricing(),
      windows: facts.windowParams(),
      spendLimitUpokt: facts.spendLimitUpokt(),
      numServices: facts.numServices(),
      serviceOwnerAddress: facts.serviceOwner(),
      // One object for all sessions of a start, as its floats are read by their decimal texts.
      tokenomics: settlement(`${header.sessionStartBlockHeight}`, facts),
      proof: proofParams(facts.proofParams()),
      proofSeedBlockHash: facts.proofSeedBlockHash(),
    };
  });
  return claims.map((claim) => {
    const { facts, ...session } = sessionOf(claim.sessionHeader.sessionId, claim.sessionHeader);
    return { claim, ...session, revShare: facts.revenueShares(claim.supplierOperatorAddress) };
  });
}
