import { type Claim, type Settlement, settle } from "@turnpike/protocol";
import { attemptPart, type BlockPart, runPart } from "../../state/block-parts.ts";
import type { Context } from "../../state/context.ts";
import { holdClaim, releaseClaim } from "../proof/held-claims.ts";
import { claimKey } from "../proof/state.ts";
import { updateDifficulties } from "../service/difficulties.ts";
import { carryOut } from "./carry-out.ts";
import { collectClaims, collectRetries, dueClaims } from "./due-claims.ts";
import { settlementSource } from "./settlement-input.ts";

const PART = "settlement";

/** Settled relays of a block, by service. */
type SettledRelays = Map<string, bigint>;

/** Claims of one session: they share a budget, so that they are settled together or not at all. */
type SessionClaims = readonly [sessionId: string, claims: readonly Claim[]];

function settleClaims(ctx: Context, claims: readonly Claim[]): Settlement["settledRelays"] {
  const source = settlementSource(ctx, dueClaims(ctx, claims));
  const settlement = settle(source.input);
  carryOut(ctx, source, settlement);
  for (const claim of claims) releaseClaim(ctx, claimKey(claim));
  return settlement.settledRelays;
}

function bySession(claims: readonly Claim[]): SessionClaims[] {
  const sessions = new Map<string, Claim[]>();
  for (const claim of claims) {
    const { sessionId } = claim.sessionHeader;
    const session = sessions.get(sessionId);
    if (session === undefined) sessions.set(sessionId, [claim]);
    else session.push(claim);
  }
  return [...sessions];
}

function addRelays(relays: SettledRelays, settled: Settlement["settledRelays"]): void {
  for (const { serviceId, numRelays } of settled) {
    relays.set(serviceId, BigInt.asUintN(64, (relays.get(serviceId) ?? 0n) + numRelays));
  }
}

/**
 * Settles sessions together, and when that fails each half of them alone, down to one: every attempt reads all validators, so
 * that one fault among thousands of sessions must not cost an attempt for each.
 */
function settleSessions(ctx: Context, sessions: readonly SessionClaims[], relays: SettledRelays): void {
  const [first] = sessions;
  if (first === undefined) return;
  if (sessions.length === 1) {
    const [sessionId, claims] = first;
    const alone = runPart(ctx, { part: PART, item: sessionId }, (branch) => settleClaims(branch, claims));
    if (alone.ok) addRelays(relays, alone.value);
    else for (const claim of claims) holdClaim(ctx, claimKey(claim));
    return;
  }
  const claims = sessions.flatMap(([, ofSession]) => ofSession);
  const part: BlockPart = { part: PART, item: `${claims.length} claims` };
  const together = attemptPart(ctx, part, (branch) => settleClaims(branch, claims));
  if (together.ok) {
    addRelays(relays, together.value);
    return;
  }
  const middle = sessions.length >>> 1;
  settleSessions(ctx, sessions.slice(0, middle), relays);
  settleSessions(ctx, sessions.slice(middle), relays);
}

/**
 * Settles every claim that is due in this block, then those that were held and are tried again, and moves the difficulties of
 * their services once. Claims of a session that fails stay, with the stakes that they are about, and are tried again later.
 */
export function settleDueClaims(ctx: Context): void {
  const relays: SettledRelays = new Map();
  settleSessions(ctx, bySession(collectClaims(ctx)), relays);
  settleSessions(ctx, bySession(collectRetries(ctx)), relays);
  if (relays.size === 0) return;
  runPart(ctx, { part: "difficulty", item: `${relays.size} services` }, (branch) => updateDifficulties(branch, relays));
}
