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
import { endUnderWay } from "./state.ts";

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
  /** End of which sessions wait for the next block; undefined when none do. */
  readonly unfinishedEnd: bigint | undefined;
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

/** Due sessions in their order, the oldest ends first: at least as many as a block settles. */
interface ReadySessions extends Pick<DueSessions, "fresh" | "retries"> {
  /** Sessions with a proof that the next block looks at. */
  readonly unproven: readonly SharedSessions[];
}

function readySessions(ctx: Context): ReadySessions {
  const [fresh, retries, unproven]: [SharedSessions[], SharedSessions[], SharedSessions[]] = [[], [], []];
  const retryHeights = heldSessions(ctx);
  const unprovenSessions = new Set([...proofs.entries(ctx)].map(([[sessionId]]) => sessionId));
  const mayRetry = isRetryBlock(ctx);
  const isUnproven = ({ sessionId }: UnsettledSession): boolean => unprovenSessions.has(sessionId);
  const isHeld = ({ sessionId }: UnsettledSession): boolean => retryHeights.has(sessionId);
  const waits = ({ sessionId }: UnsettledSession): boolean =>
    !mayRetry || (retryHeights.get(sessionId) ?? 0n) > ctx.block.heightBlocks;
  let claims = 0;
  for (const sessions of dueSessions(ctx)) {
    for (const group of bySharedStake(sessions)) {
      if (group.some(isHeld)) {
        const isDue = !group.some((one) => isUnproven(one) || (isHeld(one) && waits(one)));
        if (isDue) retries.push(group);
      } else if (group.some(isUnproven)) {
        unproven.push(group);
      } else {
        fresh.push(group);
        claims += numClaims(group);
      }
    }
    if (claims > MAX_CLAIMS_PER_BLOCK) break;
  }
  return { fresh, retries, unproven };
}

const endOf = (group: SharedSessions | undefined): bigint | undefined => group?.[0].sessionEndHeight;

/**
 * Sessions that this block settles, in their order: all that are due, or, when these are too many, those of the oldest end, as
 * far as they are not. One of which a claim is held, or has a proof that was not looked at, waits as a whole with those that
 * share its application's stake: a part of its claims would get all of its budget. Later ends wait for an end with proofs that
 * were not looked at, so that the difficulties move once for each end.
 */
export function sessionsToSettle(ctx: Context): DueSessions {
  const { fresh, unproven, ...ready } = readySessions(ctx);
  const retries = ready.retries.length === 0 ? [] : upTo(ctx, ready.retries, MAX_RETRIES_PER_BLOCK);
  const ends = [endOf(fresh[0]), endOf(unproven[0])].filter((end) => end !== undefined);
  const underWay = endUnderWay.get(ctx, undefined);
  const [oldest] = ends.sort((a, b) => (a < b ? -1 : 1));
  // Nothing of an end under way remains but what is held: it comes to its end, and the others follow in the next block.
  const isOver = underWay !== undefined && underWay !== oldest;
  if (oldest === undefined || isOver) return { fresh: [], unfinishedEnd: undefined, retries };
  const first = upTo(ctx, fresh, MAX_CLAIMS_PER_BLOCK);
  if (first.length === fresh.length && unproven.length === 0 && underWay === undefined) {
    return { fresh, unfinishedEnd: undefined, retries };
  }
  const isOldest = (group: SharedSessions): boolean => endOf(group) === oldest;
  const selection = first.filter(isOldest);
  const isPart = selection.length < fresh.filter(isOldest).length || unproven.some(isOldest);
  return { fresh: selection, unfinishedEnd: isPart ? oldest : undefined, retries };
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
