import type { session } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { done, type FaultKind, fail, type Outcome, type TxFault } from "../../state/outcome.ts";
import { outlineSession } from "../session/hydrate.ts";
import { serviceIdFault } from "../shared/services.ts";
import { suppliers } from "../supplier/state.ts";
import { HEADER, PROOF } from "./errors.ts";

const faultOf = (kind: FaultKind, text?: string): TxFault => fail(kind, text).fault;

/** What is wrong with a session's header by itself; undefined when nothing is. */
export function headerFault(header: session.SessionHeader): TxFault | undefined {
  const address = addressFault(header.applicationAddress);
  if (address !== undefined) {
    return faultOf(HEADER.application, `${goQuoted(header.applicationAddress)}; (${address})`);
  }
  if (header.sessionId === "") return faultOf(HEADER.id, '""');
  const service = serviceIdFault(header.serviceId);
  if (service !== undefined) return service;
  if (header.sessionStartBlockHeight <= 0n) {
    return faultOf(HEADER.height, "sessions can only start at height 1 or greater");
  }
  if (header.sessionEndBlockHeight <= header.sessionStartBlockHeight) {
    return faultOf(
      HEADER.height,
      "session end block height cannot be less than or equal to session start block height",
    );
  }
  return undefined;
}

/**
 * The chain's own header of a session, when the given one says the same and the supplier is in the session. The real chain
 * lets any end pass here, so that a session can be claimed again under a later end after it was paid; and any start within
 * the session, so that a claim can choose a height at which another difficulty holds.
 */
export function sessionOfHeader(
  ctx: Context,
  header: session.SessionHeader,
  operatorAddress: string,
): Outcome<session.SessionHeader> {
  const found = outlineSession(ctx, header.applicationAddress, header.serviceId, header.sessionStartBlockHeight);
  if (!found.ok) return { ok: false, fault: found.fault };
  const { header: known, suppliers: drawn } = found.value;
  if (header.sessionId !== known.sessionId) {
    const text = `session ID does not match onchain session ID; expected ${goQuoted(known.sessionId)}, got ${goQuoted(header.sessionId)}`;
    return fail(PROOF.invalidSessionId, text);
  }
  const isDrawn = drawn.some((supplier) => supplier.operatorAddress === operatorAddress);
  if (!isDrawn || !suppliers.has(unmetered(ctx), operatorAddress)) {
    const text = `supplier operator address ${goQuoted(operatorAddress)} not found in session ID ${goQuoted(header.sessionId)}`;
    return fail(PROOF.supplierNotFound, text);
  }
  const heights = [
    [PROOF.invalidStartHeight, "start", known.sessionStartBlockHeight, header.sessionStartBlockHeight],
    [PROOF.invalidEndHeight, "end", known.sessionEndBlockHeight, header.sessionEndBlockHeight],
  ] as const;
  for (const [kind, what, expected, got] of heights) {
    if (got === expected) continue;
    return fail(kind, `session ${what} height does not match onchain session; expected ${expected}, got ${got}`);
  }
  return done(known);
}

/** A fault when a relay is of another session. */
export function relayHeaderFault(expected: session.SessionHeader, got: session.SessionHeader): TxFault | undefined {
  if (got.applicationAddress !== expected.applicationAddress) {
    const texts = `expect: ${goQuoted(expected.applicationAddress)}, got: ${goQuoted(got.applicationAddress)}`;
    return faultOf(PROOF.invalidRelay, `session headers application addresses mismatch; ${texts}`);
  }
  const rest = [
    ["service IDs", goQuoted(expected.serviceId), goQuoted(got.serviceId)],
    ["session start heights", `${expected.sessionStartBlockHeight}`, `${got.sessionStartBlockHeight}`],
    ["session end heights", `${expected.sessionEndBlockHeight}`, `${got.sessionEndBlockHeight}`],
    ["session IDs", goQuoted(expected.sessionId), goQuoted(got.sessionId)],
  ] as const;
  for (const [what, wanted, found] of rest) {
    if (wanted !== found) {
      return faultOf(PROOF.invalidRelay, `session headers ${what} mismatch; expected: ${wanted}, got: ${found}`);
    }
  }
  return undefined;
}
