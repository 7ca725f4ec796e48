import type { session } from "@turnpike/proto";
import { endedTextCodec, uint64Codec } from "../../state/codecs.ts";
import type { Context } from "../../state/context.ts";
import { settlementHeightAt } from "../shared/settlement-heights.ts";
import { claimsByEnd, claimsBySupplier, getClaim } from "./state.ts";

/** A session with claims that are not settled yet. */
export interface UnsettledSession {
  readonly sessionId: string;
  readonly sessionEndHeight: bigint;
  readonly applicationAddress: string;
  /** Header of its claims; undefined when the claim is damaged. */
  readonly header: session.SessionHeader | undefined;
  /** Operator addresses of its claims, in their order. */
  readonly operators: readonly string[];
}

function nextSessionEnd(ctx: Context, from: bigint): bigint | undefined {
  for (const [[end]] of claimsByEnd.entries(ctx, { from: uint64Codec.encode(from) })) return end;
  return undefined;
}

function sessionsOfEnd(ctx: Context, sessionEndHeight: bigint): UnsettledSession[] {
  const operatorsBySession = new Map<string, [string, ...string[]]>();
  for (const [[, [sessionId, operator]]] of claimsByEnd.entries(ctx, {
    within: uint64Codec.encode(sessionEndHeight),
  })) {
    const operators = operatorsBySession.get(sessionId);
    if (operators === undefined) operatorsBySession.set(sessionId, [operator]);
    else operators.push(operator);
  }
  return [...operatorsBySession].map(([sessionId, operators]) => {
    // Claims of one session name one application: its address is part of the session's id.
    const header = getClaim(ctx, sessionId, operators[0])?.sessionHeader;
    return { sessionId, sessionEndHeight, applicationAddress: header?.applicationAddress ?? "", header, operators };
  });
}

/**
 * Sessions whose claims are due at this block or were due before, one list for each end, the oldest first, then by id. They are
 * read from what is stored and not by one height, so that claims that a block left out are due in the next one. A caller that
 * stops early reads no claims of later ends.
 */
export function* dueSessions(ctx: Context): Generator<readonly UnsettledSession[]> {
  for (let end = nextSessionEnd(ctx, 0n); end !== undefined; end = nextSessionEnd(ctx, end + 1n)) {
    // Later ends are due later: sessions are settled in their order.
    if (settlementHeightAt(ctx, end) > ctx.block.heightBlocks) return;
    yield sessionsOfEnd(ctx, end);
  }
}

/** Applications with a claim that was due and is not settled: their stakes stay until then. */
export function applicationsWithDueClaims(ctx: Context): ReadonlySet<string> {
  const addresses = new Set<string>();
  for (const sessions of dueSessions(ctx)) {
    for (const { applicationAddress } of sessions) addresses.add(applicationAddress);
  }
  return addresses;
}

/** True while a supplier has a claim: its stake stays until then. */
export function hasClaim(ctx: Context, operatorAddress: string): boolean {
  for (const _ of claimsBySupplier.entries(ctx, { within: endedTextCodec.encode(operatorAddress) })) return true;
  return false;
}

/** First height of the oldest session that has a claim; undefined without one. What was true in it stays until it is settled. */
export function oldestClaimedStart(ctx: Context): bigint | undefined {
  for (const [[, [sessionId, operator]]] of claimsByEnd.entries(ctx)) {
    return getClaim(ctx, sessionId, operator)?.sessionHeader?.sessionStartBlockHeight;
  }
  return undefined;
}
