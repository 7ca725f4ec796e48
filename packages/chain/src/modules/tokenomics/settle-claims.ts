import { type Claim, type Settlement, settle } from "@turnpike/protocol";
import { attemptPart, type BlockPart, runPart } from "../../state/block-parts.ts";
import type { Context } from "../../state/context.ts";
import { holdClaim, releaseClaim } from "../proof/held-claims.ts";
import { claimKey } from "../proof/state.ts";
import type { UnsettledSession } from "../proof/unsettled-claims.ts";
import { updateDifficulties } from "../service/difficulties.ts";
import { carryOut } from "./carry-out.ts";
import { claimsOf, dueClaims, type SharedSessions, sessionsToSettle } from "./due-claims.ts";
import { settlementSource } from "./settlement-input.ts";
import { endUnderWay, relaysOfPart } from "./state.ts";

const PART = "settlement";

/** Settled relays of a block, by service. */
type SettledRelays = Map<string, bigint>;

function settleClaims(ctx: Context, claims: readonly Claim[]): Settlement["settledRelays"] {
  const source = settlementSource(ctx, dueClaims(ctx, claims));
  const settlement = settle(source.input);
  carryOut(ctx, source, settlement);
  for (const claim of claims) releaseClaim(ctx, claimKey(claim));
  return settlement.settledRelays;
}

function inOrder(sessions: readonly UnsettledSession[]): UnsettledSession[] {
  return sessions.toSorted((a, b) => {
    if (a.sessionEndHeight !== b.sessionEndHeight) return a.sessionEndHeight < b.sessionEndHeight ? -1 : 1;
    return a.sessionId < b.sessionId ? -1 : 1;
  });
}

function addRelays(relays: SettledRelays, settled: Settlement["settledRelays"]): void {
  for (const { serviceId, numRelays } of settled) {
    relays.set(serviceId, BigInt.asUintN(64, (relays.get(serviceId) ?? 0n) + numRelays));
  }
}

/**
 * Settles sessions together, and when that fails each half of them alone, down to those that share one stake: every attempt
 * reads all validators, so that one fault among thousands of sessions must not cost an attempt for each.
 */
function settleSessions(ctx: Context, list: readonly SharedSessions[], relays: SettledRelays): void {
  const [first] = list;
  if (first === undefined) return;
  // In the order of the ids, whichever sessions share a stake.
  const claims = claimsOf(ctx, inOrder(list.flat()));
  if (list.length === 1) {
    const item = first.map(({ sessionId }) => sessionId).join(" ");
    const alone = runPart(ctx, { part: PART, item }, (branch) => settleClaims(branch, claims));
    if (alone.ok) addRelays(relays, alone.value);
    else for (const claim of claims) holdClaim(ctx, claimKey(claim));
    return;
  }
  const part: BlockPart = { part: PART, item: `${claims.length} claims` };
  const together = attemptPart(ctx, part, (branch) => settleClaims(branch, claims));
  if (together.ok) {
    addRelays(relays, together.value);
    return;
  }
  const middle = list.length >>> 1;
  settleSessions(ctx, list.slice(0, middle), relays);
  settleSessions(ctx, list.slice(middle), relays);
}

/**
 * Moves difficulties once for all sessions that end together: as often as they are settled, and by the sum of their relays. Until
 * the last of them is settled the sums are stored.
 */
function moveDifficulties(ctx: Context, relays: SettledRelays, unfinishedEnd: bigint | undefined): void {
  if (unfinishedEnd !== undefined) {
    endUnderWay.set(ctx, undefined, unfinishedEnd);
    for (const [serviceId, numRelays] of relays) relaysOfPart.set(ctx, serviceId, numRelays);
    return;
  }
  const stored = [...relaysOfPart.entries(ctx)];
  for (const [serviceId] of stored) relaysOfPart.remove(ctx, serviceId);
  if (endUnderWay.has(ctx, undefined)) endUnderWay.remove(ctx, undefined);
  if (relays.size === 0) return;
  runPart(ctx, { part: "difficulty", item: `${relays.size} services` }, (branch) => updateDifficulties(branch, relays));
}

/**
 * Settles the sessions that are due in this block, then those that were held and are tried again, and moves the difficulties of
 * their services once. Claims of a session that fails stay, with the stakes that they are about, and are tried again later.
 */
export function settleDueClaims(ctx: Context): void {
  const relays: SettledRelays = new Map(relaysOfPart.entries(ctx));
  const { fresh, unfinishedEnd, retries } = sessionsToSettle(ctx);
  settleSessions(ctx, fresh, relays);
  settleSessions(ctx, retries, relays);
  moveDifficulties(ctx, relays, unfinishedEnd);
}
