import type { session } from "@turnpike/proto";
import { sessionWindows } from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import type { Bytes } from "../../types.ts";
import { getSharedParamsAt } from "../shared/state.ts";
import { drawSession } from "./candidates.ts";
import { type Candidate, drawnSessions, getSessionParamsAt } from "./state.ts";

/**
 * The suppliers of a session in their order; none when the service has none. What a block draws for a session's first
 * height is kept until its proofs are due, as every claim and every proof of the session asks for it: what held at that
 * height stays until then, so that it is the same as drawn again.
 */
export function drawnSuppliers(
  ctx: Context,
  header: session.SessionHeader,
  preimage: Bytes,
  height: bigint,
): readonly Candidate[] {
  const { serviceId, sessionId, sessionStartBlockHeight: start } = header;
  const limit = getSessionParamsAt(ctx, height).numSuppliersPerSession;
  const draw = (): readonly Candidate[] => drawSession(ctx, { serviceId, preimage, height }, Number(limit));
  if (height !== start || start <= 0n) return draw();
  const kept = drawnSessions.get(ctx, [start, sessionId]);
  if (kept !== undefined && kept.limit === limit) return kept.suppliers;
  const suppliers = draw();
  if (ctx.mode !== "query" && suppliers.length > 0) drawnSessions.set(ctx, [start, sessionId], { limit, suppliers });
  return suppliers;
}

/** Forgets the sessions whose proofs were due before this block. */
export function forgetDrawnSessions(ctx: Context): void {
  const due: (readonly [height: bigint, sessionId: string])[] = [];
  for (const [key] of drawnSessions.entries(ctx)) {
    const [start] = key;
    if (sessionWindows(getSharedParamsAt(ctx, start), start).proofCloseHeight >= ctx.block.heightBlocks) break;
    due.push(key);
  }
  for (const key of due) drawnSessions.remove(ctx, key);
}
