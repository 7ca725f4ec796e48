import type { proof, tokenomics } from "@turnpike/proto";
import type { Claim, DueClaim, ProofParams, RewardShares, SessionHeader, TokenomicsParams } from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import type { Parsed } from "../../state/parsed.ts";
import { protocolClaim, upoktOf } from "../proof/claim-facts.ts";
import { heldSessions, isRetryBlock } from "../proof/held-claims.ts";
import { getClaim, proofs } from "../proof/state.ts";
import { dueSessions, type UnsettledSession } from "../proof/unsettled-claims.ts";
import { SessionFacts } from "../session/facts.ts";
import { relaysOfPart } from "./state.ts";

/** Returns what a function returned for an equal key before: 2,000 claims of one block share few sessions. */
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

/** Sessions that a block settles. */
export interface DueSessions {
  /** Sessions that are settled for the first time. */
  readonly fresh: readonly SharedSessions[];
  /** True when sessions with the last end of these wait for the next block. */
  readonly isPart: boolean;
  /** Sessions with a claim that was held, whose time it is. */
  readonly retries: readonly SharedSessions[];
}

/**
 * Maximum number of claims that one block settles for the first time: half a millisecond each. The real chain settles all that
 * are due, however long the block takes.
 */
const MAX_CLAIMS_PER_BLOCK = 2_000;
/** Maximum number of claims of held sessions that one block tries again. */
const MAX_RETRIES_PER_BLOCK = 16;

const numClaims = (list: readonly SharedSessions[]): number =>
  list.flat().reduce((sum, { operators }) => sum + operators.length, 0);

/** The first items of a list that have a maximum of claims together: at least one item, and none in part. */
function upTo(list: readonly SharedSessions[], maxClaims: number): SharedSessions[] {
  const selection: SharedSessions[] = [];
  let claims = 0;
  for (const sessions of list) {
    const more = numClaims([sessions]);
    if (claims > 0 && claims + more > maxClaims) break;
    selection.push(sessions);
    claims += more;
  }
  return selection;
}

function bySharedStake(sessions: readonly UnsettledSession[]): SharedSessions[] {
  const groups = new Map<string, [UnsettledSession, ...UnsettledSession[]]>();
  for (const session of sessions) {
    const name = `${session.applicationAddress}/${session.sessionEndHeight}`;
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [session]);
    else group.push(session);
  }
  return [...groups.values()];
}

/** True when earlier blocks settled a part of the sessions of an end. */
function isUnderWay(ctx: Context): boolean {
  for (const _ of relaysOfPart.entries(ctx)) return true;
  return false;
}

/**
 * Sessions that this block settles, in their order: all that are due, or, when these are too many, those of the oldest end, as
 * far as they are not. One of which a claim is held, or has a proof that was not looked at, waits as a whole with those that
 * share its application's stake: a part of its claims would get all of its budget.
 */
export function sessionsToSettle(ctx: Context): DueSessions {
  const due = dueSessions(ctx);
  if (due.length === 0) return { fresh: [], isPart: false, retries: [] };
  const retryHeights = heldSessions(ctx);
  const unprovenSessions = new Set([...proofs.entries(ctx)].map(([[sessionId]]) => sessionId));
  const mayRetry = isRetryBlock(ctx);
  const waits = ({ sessionId }: UnsettledSession): boolean => {
    const retryHeight = retryHeights.get(sessionId);
    if (unprovenSessions.has(sessionId)) return true;
    return retryHeight !== undefined && (!mayRetry || retryHeight > ctx.block.heightBlocks);
  };
  const ready = bySharedStake(due).filter((sessions) => !sessions.some(waits));
  const wasHeld = (sessions: SharedSessions): boolean => sessions.some(({ sessionId }) => retryHeights.has(sessionId));
  const retries = upTo(ready.filter(wasHeld), MAX_RETRIES_PER_BLOCK);
  const fresh = ready.filter((sessions) => !wasHeld(sessions));
  const isOneEnd = isUnderWay(ctx) || numClaims(fresh) > MAX_CLAIMS_PER_BLOCK;
  if (!isOneEnd) return { fresh, isPart: false, retries };
  const oldest = fresh.filter(([{ sessionEndHeight }]) => sessionEndHeight === fresh[0]?.[0].sessionEndHeight);
  const selection = upTo(oldest, MAX_CLAIMS_PER_BLOCK);
  return { fresh: selection, isPart: selection.length < oldest.length, retries };
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

const settlementParams = (params: Parsed<tokenomics.Params>): TokenomicsParams => ({
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
