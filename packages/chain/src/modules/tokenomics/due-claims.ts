import type { proof, session, tokenomics } from "@turnpike/proto";
import type {
  Claim,
  DueClaim,
  ProofParams,
  RevenueShare,
  RewardShares,
  SessionHeader,
  TokenomicsParams,
} from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import type { Parsed } from "../../state/parsed.ts";
import { protocolClaim, upoktOf } from "../proof/claim-facts.ts";
import { heldSessions, isRetryBlock } from "../proof/held-claims.ts";
import { getClaim, proofs } from "../proof/state.ts";
import { dueSessions, type UnsettledSession } from "../proof/unsettled-claims.ts";
import { SessionFacts } from "../session/facts.ts";
import { MAX_SETTLEMENT_BYTES, SettlementBytes } from "./settlement-bytes.ts";
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

type Header = SessionHeader | session.SessionHeader;

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

const numClaims = (sessions: SharedSessions): number =>
  sessions.reduce((sum, { operators }) => sum + operators.length, 0);

/** The first items of a list that fit into a block, by their claims and by the bytes of their events: at least one item, and none in part. */
function upTo(ctx: Context, list: readonly SharedSessions[], maxClaims: number): SharedSessions[] {
  const selection: SharedSessions[] = [];
  const bytes = new SettlementBytes(ctx, revenueSharesOf(ctx));
  let claims = 0;
  for (const sessions of list) {
    claims += numClaims(sessions);
    for (const session of sessions) bytes.add(session);
    if (selection.length > 0 && (claims > maxClaims || bytes.sum > MAX_SETTLEMENT_BYTES)) break;
    selection.push(sessions);
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

/** Due sessions that wait for nothing, in their order: at least as many of the oldest ends as a block settles. */
function readySessions(ctx: Context): Pick<DueSessions, "fresh" | "retries"> {
  const [fresh, retries]: [SharedSessions[], SharedSessions[]] = [[], []];
  const retryHeights = heldSessions(ctx);
  const unprovenSessions = new Set([...proofs.entries(ctx)].map(([[sessionId]]) => sessionId));
  const mayRetry = isRetryBlock(ctx);
  const waits = ({ sessionId }: UnsettledSession): boolean => {
    const retryHeight = retryHeights.get(sessionId);
    if (unprovenSessions.has(sessionId)) return true;
    return retryHeight !== undefined && (!mayRetry || retryHeight > ctx.block.heightBlocks);
  };
  let claims = 0;
  for (const sessions of dueSessions(ctx)) {
    for (const group of bySharedStake(sessions)) {
      if (group.some(waits)) continue;
      if (group.some(({ sessionId }) => retryHeights.has(sessionId))) {
        retries.push(group);
      } else {
        fresh.push(group);
        claims += numClaims(group);
      }
    }
    if (claims > MAX_CLAIMS_PER_BLOCK) break;
  }
  return { fresh, retries };
}

/**
 * Sessions that this block settles, in their order: all that are due, or, when these are too many, those of the oldest end, as
 * far as they are not. One of which a claim is held, or has a proof that was not looked at, waits as a whole with those that
 * share its application's stake: a part of its claims would get all of its budget.
 */
export function sessionsToSettle(ctx: Context): DueSessions {
  const ready = readySessions(ctx);
  const { fresh } = ready;
  const retries = ready.retries.length === 0 ? [] : upTo(ctx, ready.retries, MAX_RETRIES_PER_BLOCK);
  if (fresh.length === 0) return { fresh, isPart: false, retries };
  const first = upTo(ctx, fresh, MAX_CLAIMS_PER_BLOCK);
  if (first.length === fresh.length && !isUnderWay(ctx)) return { fresh, isPart: false, retries };
  const end = fresh[0]?.[0].sessionEndHeight;
  const isOldest = ([{ sessionEndHeight }]: SharedSessions): boolean => sessionEndHeight === end;
  const selection = first.filter(isOldest);
  return { fresh: selection, isPart: selection.length < fresh.filter(isOldest).length, retries };
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

/** Returns a supplier's shares in a session; those of equal sessions are read once. */
function revenueSharesOf(ctx: Context): (operator: string, header: Header) => readonly RevenueShare[] {
  const read = remembered((_: string, [operator, header]: readonly [string, Header]) =>
    new SessionFacts(ctx, header).revenueShares(operator),
  );
  return (operator, header) =>
    read(`${operator}/${header.serviceId}/${header.sessionStartBlockHeight}`, [operator, header]);
}

/** Claims, each with what was true in its session. */
export function dueClaims(ctx: Context, claims: readonly Claim[]): DueClaim[] {
  const settlement = remembered((_: string, facts: SessionFacts) => settlementParams(facts.tokenomicsParams()));
  const sessionOf = remembered((_: string, header: SessionHeader) => {
    const facts = new SessionFacts(ctx, header);
    return {
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
  const sharesOf = revenueSharesOf(ctx);
  return claims.map((claim) => {
    const session = sessionOf(claim.sessionHeader.sessionId, claim.sessionHeader);
    return { claim, ...session, revShare: sharesOf(claim.supplierOperatorAddress, claim.sessionHeader) };
  });
}
