import { type Claim, type Settlement, settle } from "@turnpike/protocol";
import { attemptPart, type BlockPart, runPart } from "../../state/block-parts.ts";
import type { Context } from "../../state/context.ts";
import { holdClaim, releaseClaim } from "../proof/held-claims.ts";
import { claimKey } from "../proof/state.ts";
import type { UnsettledSession } from "../proof/unsettled-claims.ts";
import { carryOut } from "./carry-out.ts";
import { claimsOf, dueClaims, type SharedSessions, sessionsToSettle } from "./due-claims.ts";
import { addRelays, moveDifficulties, type SettledRelays } from "./move-difficulties.ts";
import { settlementSource } from "./settlement-input.ts";

const PART = "settlement";

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
 * Settles the sessions that are due in this block, then those that were held and are tried again, and moves the difficulties of
 * their services once. Claims of a session that fails stay, with the stakes that they are about, and are tried again later.
 */
export function settleDueClaims(ctx: Context): void {
  const relays: SettledRelays = new Map<string, bigint>();
  const { fresh, unfinishedEnd, retries } = sessionsToSettle(ctx);
  settleSessions(ctx, fresh, relays);
  settleSessions(ctx, retries, relays);
  moveDifficulties(ctx, relays, unfinishedEnd);
}
