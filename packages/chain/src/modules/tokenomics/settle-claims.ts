import { type Claim, settle } from "@turnpike/protocol";
import { attemptPart, type BlockPart, runPart } from "../../state/block-parts.ts";
import type { Context } from "../../state/context.ts";
import { holdClaim, releaseClaim } from "../proof/held-claims.ts";
import { claimKey } from "../proof/state.ts";
import { updateDifficulties } from "../service/difficulties.ts";
import { carryOut } from "./carry-out.ts";
import { collectClaims, dueClaims } from "./due-claims.ts";
import { settlementSource } from "./settlement-input.ts";

const PART = "settlement";

function settleClaims(ctx: Context, claims: readonly Claim[]): void {
  const source = settlementSource(ctx, dueClaims(ctx, claims));
  const settlement = settle(source.input);
  carryOut(ctx, source, settlement);
  for (const claim of claims) releaseClaim(ctx, claimKey(claim));
  updateDifficulties(ctx, new Map(settlement.settledRelays.map(({ serviceId, numRelays }) => [serviceId, numRelays])));
}

function bySession(claims: readonly Claim[]): Map<string, Claim[]> {
  const sessions = new Map<string, Claim[]>();
  for (const claim of claims) {
    const { sessionId } = claim.sessionHeader;
    const session = sessions.get(sessionId);
    if (session === undefined) sessions.set(sessionId, [claim]);
    else session.push(claim);
  }
  return sessions;
}

/**
 * Settles every claim that is due in this block, and moves the difficulties of their services. When that fails, each session
 * is settled alone, as the claims of one share a budget: those of a session that fails stay, with the stakes that they are
 * about, and are tried again later.
 */
export function settleDueClaims(ctx: Context): void {
  const claims = collectClaims(ctx);
  if (claims.length === 0) return;
  const together: BlockPart = { part: PART, item: `${claims.length} claims` };
  if (attemptPart(ctx, together, (branch) => settleClaims(branch, claims)).ok) return;
  for (const [sessionId, session] of bySession(claims)) {
    const alone = runPart(ctx, { part: PART, item: sessionId }, (branch) => settleClaims(branch, session));
    if (alone.ok) continue;
    for (const claim of session) holdClaim(ctx, claimKey(claim));
  }
}
