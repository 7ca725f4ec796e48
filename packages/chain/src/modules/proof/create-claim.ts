import { createMessage, proof } from "@turnpike/proto";
import { CLAIM_ROOT_BYTES, claimRootFault, readClaimRoot, receiversGas } from "@turnpike/protocol";
import { addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { done, fail, type Outcome, type TxFault } from "../../state/outcome.ts";
import { emit } from "../../state/typed-event.ts";
import { SessionFacts } from "../session/facts.ts";
import { claimFacts, protocolClaim } from "./claim-facts.ts";
import { PROOF } from "./errors.ts";
import { headerFault, sessionOfHeader } from "./headers.ts";
import { getClaim, setClaim } from "./state.ts";

/** What is wrong with the message by itself; undefined when nothing is. */
export function createClaimFault(message: proof.MsgCreateClaim): TxFault | undefined {
  const operator = message.supplierOperatorAddress;
  if (addressFault(operator) !== undefined) return fail(PROOF.invalidAddress, operator).fault;
  const header = message.sessionHeader;
  if (header === undefined) return fail(PROOF.invalidHeader, "session header is nil").fault;
  const wrong = headerFault(header);
  if (wrong !== undefined) return fail(PROOF.invalidHeader, `invalid session header: ${wrong.text}`).fault;
  const root = readClaimRoot(message.rootHash);
  if (root === undefined) {
    const text = `expecting root hash to be ${CLAIM_ROOT_BYTES} bytes, got ${message.rootHash.length} bytes`;
    return fail(PROOF.invalidRoot, text).fault;
  }
  const hex = Buffer.from(message.rootHash).toString("hex");
  if (root.count === 0n) return fail(PROOF.invalidRoot, `has zero count in Merkle root (hex) ${hex}`).fault;
  if (root.sum === 0n) return fail(PROOF.invalidRoot, `has zero sum in Merkle root (hex) ${hex}`).fault;
  return undefined;
}

function windowFault(ctx: Context, facts: SessionFacts): string | undefined {
  const before = ctx.gas.used;
  const { claimOpenHeight, claimCloseHeight } = facts.windows();
  // The real chain reads them twice.
  ctx.gas.consume(ctx.gas.used - before, "ReadPerByte");
  const now = ctx.block.heightBlocks;
  if (now < claimOpenHeight) {
    const text = `current block height (${now}) is less than the session's earliest claim commit height (${claimOpenHeight})`;
    return fail(PROOF.claimWindow, text).fault.text;
  }
  if (now > claimCloseHeight) {
    const text = `current block height (${now}) is greater than session claim window close height (${claimCloseHeight})`;
    return fail(PROOF.claimWindow, text).fault.text;
  }
  return undefined;
}

/** Writes a claim, or replaces the one that its supplier made for the session before. */
export function createClaim(ctx: Context, message: proof.MsgCreateClaim): Outcome<proof.MsgCreateClaimResponse> {
  const header = message.sessionHeader;
  const wrong = createClaimFault(message);
  if (wrong !== undefined || header === undefined) return failStatus("InvalidArgument", wrong?.text ?? "");
  const operator = message.supplierOperatorAddress;
  const known = sessionOfHeader(ctx, header, operator);
  if (!known.ok) return failStatus("InvalidArgument", known.fault.text);
  const session = new SessionFacts(ctx, known.value);
  const late = windowFault(ctx, session);
  if (late !== undefined) return failStatus("FailedPrecondition", late);
  const claim = createMessage(proof.ClaimSchema, {
    supplierOperatorAddress: operator,
    sessionHeader: known.value,
    rootHash: message.rootHash,
  });
  const { serviceId } = header;
  const units = session.computeUnitsPerRelay();
  if (units === undefined) {
    const inner = fail(PROOF.serviceNotFound, `service ${serviceId} not found`).fault.text;
    return failStatus("NotFound", fail(PROOF.serviceNotFound, inner).fault.text);
  }
  const root = readClaimRoot(message.rootHash);
  if (root === undefined) return failStatus("Internal", PROOF.invalidRoot.text);
  const { sum, count } = root;
  if (claimRootFault(message.rootHash, units) !== undefined) {
    const text = `claim compute units: ${sum} is not equal to number of relays ${count} * compute units per relay ${units} for service ${serviceId}`;
    return failStatus("InvalidArgument", fail(PROOF.computeUnits, text).fault.text);
  }
  ctx.gas.consume(receiversGas(session.countReceivers(operator)), "receivers");
  const replaces = getClaim(ctx, header.sessionId, operator) !== undefined;
  setClaim(ctx, claim);
  const facts = claimFacts(ctx, protocolClaim(claim));
  if (facts === undefined) return failStatus("Internal", PROOF.invalidRoot.text);
  const event = {
    numRelays: count,
    numClaimedComputeUnits: sum,
    // Not estimated at all: the chain repeats the claimed ones here (recorded claim-fabricated-no-proof).
    numEstimatedComputeUnits: sum,
    numEstimatedRelays: facts.numEstimatedRelays,
    claimedUpokt: `${facts.claimedUpokt}upokt`,
    serviceId,
    applicationAddress: header.applicationAddress,
    sessionEndBlockHeight: header.sessionEndBlockHeight,
    claimProofStatusInt: proof.ClaimProofStatus.PENDING_VALIDATION,
    supplierOperatorAddress: operator,
  };
  if (replaces) emit(ctx, proof.EventClaimUpdatedSchema, event);
  else emit(ctx, proof.EventClaimCreatedSchema, event);
  return done(createMessage(proof.MsgCreateClaimResponseSchema));
}
