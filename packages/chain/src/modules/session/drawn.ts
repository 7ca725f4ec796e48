import type { Bytes } from "@turnpike/chain-store";
import type { session } from "@turnpike/proto";
import { sessionWindows } from "@turnpike/protocol";
import { firstOf } from "../../state/collection.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { getSharedParamsAt } from "../shared/state.ts";
import { chargeDrawing, drawSession } from "./candidates.ts";
import { type Candidate, drawnSessions, formerDrawnSessions, getSessionParamsAt } from "./state.ts";

/** Maximum number of sessions of an earlier build that a block removes. */
const MAX_FORMER_PER_BLOCK = 1_000;

/**
 * The suppliers of a session in their order; none when the service has none. What a block draws for a session's first
 * height is kept until its proofs are due, as every claim and every proof of the session asks for it: what held at that
 * height stays until then, so that it is the same as drawn again. Gas is that of drawing it, always: what a claim costs must not
 * depend on whether another came before.
 */
export function drawnSuppliers(ctx: Context, header: session.SessionHeader, preimage: Bytes): readonly Candidate[] {
  const { serviceId, sessionId, sessionStartBlockHeight: start } = header;
  const limit = getSessionParamsAt(ctx, start).numSuppliersPerSession;
  chargeDrawing(ctx, serviceId, start);
  const free = unmetered(ctx);
  const draw = (): readonly Candidate[] => drawSession(ctx, { serviceId, preimage, height: start }, Number(limit));
  if (start <= 0n) return draw();
  const kept = drawnSessions.get(free, [start, sessionId]);
  if (kept !== undefined && kept.limit === limit) return kept.suppliers;
  const suppliers = draw();
  if (ctx.mode !== "query" && suppliers.length > 0) drawnSessions.set(free, [start, sessionId], { limit, suppliers });
  return suppliers;
}

/** Prunes the sessions whose proofs were due before this block. */
export function pruneDrawnSessions(ctx: Context): void {
  const due: (readonly [height: bigint, sessionId: string])[] = [];
  for (const [key] of drawnSessions.entries(ctx)) {
    const [start] = key;
    if (sessionWindows(getSharedParamsAt(ctx, start), start).proofCloseHeight >= ctx.block.heightBlocks) break;
    due.push(key);
  }
  for (const key of due) drawnSessions.remove(ctx, key);
  for (const [key] of firstOf(formerDrawnSessions.entries(ctx), MAX_FORMER_PER_BLOCK))
    formerDrawnSessions.remove(ctx, key);
}
