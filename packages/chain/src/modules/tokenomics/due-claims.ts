import type { proof, tokenomics } from "@turnpike/proto";
import type { Claim, DueClaim, ProofParams, RewardShares, SessionHeader, TokenomicsParams } from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import { protocolClaim, upoktOf } from "../proof/claim-facts.ts";
import { heldSessions, isRetryBlock } from "../proof/held-claims.ts";
import { getClaim, proofs } from "../proof/state.ts";
import { dueSessions, type UnsettledSession } from "../proof/unsettled-claims.ts";
import { SessionFacts } from "../session/facts.ts";

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

/**
 * Sessions of an application that end together. They share its stake, and each of them has a budget, so that they are settled
 * together or not at all.
 */
export type SharedSessions = readonly [UnsettledSession, ...UnsettledSession[]];

/** What a block settles. */
export interface DueSessions {
  /** Sessions that are settled for the first time. */
  readonly fresh: readonly SharedSessions[];
  /** Sessions with a claim that was held, whose time it is. */
  readonly retried: readonly SharedSessions[];
}

/** Maximum number of claims of held sessions that one block tries again, and the sessions of the last one. */
const MAX_RETRIES_PER_BLOCK = 16;

const numClaims = (sessions: SharedSessions): number =>
  sessions.reduce((sum, { operators }) => sum + operators.length, 0);

/** The first sessions of a list that have a maximum of claims together: at least one item, and none in part. */
function upTo(list: readonly SharedSessions[], maxClaims: number): SharedSessions[] {
  const chosen: SharedSessions[] = [];
  let claims = 0;
  for (const sessions of list) {
    if (claims > 0 && claims + numClaims(sessions) > maxClaims) break;
    chosen.push(sessions);
    claims += numClaims(sessions);
  }
  return chosen;
}

/**
 * Sessions that this block settles, in their order. One of which a claim is held, or has a proof that was not looked at, waits
 * as a whole with those that share its application's stake: a part of its claims would get all of its budget.
 */
export function sessionsToSettle(ctx: Context): DueSessions {
  const shared = new Map<string, [UnsettledSession, ...UnsettledSession[]]>();
  for (const session of dueSessions(ctx)) {
    const name = `${session.applicationAddress}/${session.sessionEndHeight}`;
    const sessions = shared.get(name);
    if (sessions === undefined) shared.set(name, [session]);
    else sessions.push(session);
  }
  if (shared.size === 0) return { fresh: [], retried: [] };
  const held = heldSessions(ctx);
  const unproven = new Set([...proofs.entries(ctx)].map(([[sessionId]]) => sessionId));
  const isRetried = isRetryBlock(ctx);
  const waits = ({ sessionId }: UnsettledSession): boolean => {
    const retryHeight = held.get(sessionId);
    if (unproven.has(sessionId)) return true;
    return retryHeight !== undefined && (!isRetried || retryHeight > ctx.block.heightBlocks);
  };
  const ready = [...shared.values()].filter((sessions) => !sessions.some(waits));
  const wasHeld = (sessions: SharedSessions): boolean => sessions.some(({ sessionId }) => held.has(sessionId));
  return {
    fresh: ready.filter((sessions) => !wasHeld(sessions)),
    retried: upTo(ready.filter(wasHeld), MAX_RETRIES_PER_BLOCK),
  };
}

/** Claims of sessions, in the order of their settlement. */
export function claimsOf(ctx: Context, sessions: readonly UnsettledSession[]): Claim[] {
  return sessions.flatMap(({ sessionId, operators }) =>
    operators.flatMap((operator) => getClaim(ctx, sessionId, operator) ?? []).map(protocolClaim),
  );
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
