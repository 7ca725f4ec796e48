import type { AccountAddress } from "@turnpike/base";
import { createMessage, proof, type session } from "@turnpike/proto";
import { difficultyMultiplier, isRelayApplicable, PROOF_REQUIREMENT, relayHash } from "@turnpike/protocol";
import { accountBytes, addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { done, fail, type Outcome, SDK, type TxFault } from "../../state/outcome.ts";
import type { Parsed } from "../../state/parsed.ts";
import { emit } from "../../state/typed-event.ts";
import { spendableUpokt } from "../bank/balances.ts";
import { sendCoinsToModule } from "../bank/transfers.ts";
import { SessionFacts } from "../session/facts.ts";
import { claimFacts, protocolClaim, requirementOf, upoktOf } from "./claim-facts.ts";
import { PROOF, RELAY } from "./errors.ts";
import { headerFault, relayHeaderFault, sessionOfHeader } from "./headers.ts";
import { type ProvenLeaf, readLeaf } from "./leaf.ts";
import { ringMemberCount } from "./ring-keys.ts";
import { getClaim, getProof, getProofParams, PROOF_MODULE, setProof } from "./state.ts";

/** Members of the rings that the real chain's clients make, and gas for each: its charge, which has none for members, differs by 2 %. */
const USUAL_RING_MEMBERS = 4;
const GAS_PER_USUAL_RING_MEMBER = 1_000n;
/** Gas for each further member: the 0.3 ms that the block's end takes for it without a meter, at twice the time of a send for its gas. */
export const GAS_PER_RING_MEMBER = 18_000n;

/** Gas of verifying the ring that signed a relay, at the end of the block. */
function ringGas(members: number): bigint {
  const usual = Math.min(members, USUAL_RING_MEMBERS);
  return BigInt(usual) * GAS_PER_USUAL_RING_MEMBER + BigInt(members - usual) * GAS_PER_RING_MEMBER;
}

/** What is wrong with the message by itself; undefined when nothing is. */
export function submitProofFault(message: proof.MsgSubmitProof): TxFault | undefined {
  const operator = message.supplierOperatorAddress;
  const address = addressFault(operator);
  if (address !== undefined) {
    return fail(SDK.invalidAddress, `supplier operator address ${goQuoted(operator)}, error: ${address}`).fault;
  }
  const header = message.sessionHeader;
  if (header === undefined) return fail(PROOF.invalidHeader, "session header is nil").fault;
  const wrong = headerFault(header);
  if (wrong !== undefined) return fail(PROOF.invalidHeader, wrong.text).fault;
  return message.proof.length === 0 ? fail(PROOF.invalidProof, "proof cannot be empty").fault : undefined;
}

function windowFault(ctx: Context, facts: SessionFacts): TxFault | undefined {
  const before = ctx.gas.used;
  const { proofOpenHeight, proofCloseHeight } = facts.windows();
  // The real chain reads them twice.
  ctx.gas.consume(ctx.gas.used - before, "ReadPerByte");
  const now = ctx.block.heightBlocks;
  if (now < proofOpenHeight) {
    const text = `current block height (${now}) is less than session's earliest proof commit height (${proofOpenHeight})`;
    return fail(PROOF.proofWindow, text).fault;
  }
  if (now > proofCloseHeight) {
    const text = `current block height (${now}) is greater than session proof window close height (${proofCloseHeight})`;
    return fail(PROOF.proofWindow, text).fault;
  }
  return undefined;
}

function requestFault({ request: { meta } }: ProvenLeaf, operator: string): TxFault | undefined {
  const header = meta?.sessionHeader;
  if (header === undefined) return fail(RELAY.request, "missing session header").fault;
  const wrong = headerFault(header);
  if (wrong !== undefined) return fail(RELAY.request, `invalid session header: ${wrong.text}`).fault;
  if (meta?.signature.length === 0) return fail(RELAY.request, "missing application signature").fault;
  if (meta?.supplierOperatorAddress === "") {
    return fail(RELAY.request, "relay metadata missing supplier operator address").fault;
  }
  return meta?.supplierOperatorAddress === operator
    ? undefined
    : fail(PROOF.supplierMismatch, "supplier type mismatch").fault;
}

function responseFault({ response: { meta } }: ProvenLeaf): TxFault | undefined {
  const header = meta?.sessionHeader;
  if (header === undefined) return fail(RELAY.response, "missing meta").fault;
  const wrong = headerFault(header);
  if (wrong !== undefined) return fail(RELAY.response, `invalid session header: ${wrong.text}`).fault;
  return meta?.supplierOperatorSignature.length === 0
    ? fail(RELAY.response, "missing supplier operator signature").fault
    : undefined;
}

// Go prints a fraction in lowest terms.
function multiplierText(hash: Uint8Array): string {
  const { num, den } = difficultyMultiplier(hash);
  let [a, b] = [num, den];
  while (b !== 0n) [a, b] = [b, a % b];
  return `${num / a}/${den / a}`;
}

function difficultyFault({ relayBytes }: ProvenLeaf, serviceId: string, facts: SessionFacts): TxFault | undefined {
  const targetHash = facts.targetHash();
  const hash = relayHash(relayBytes);
  if (isRelayApplicable(hash, targetHash)) return undefined;
  const text = `the difficulty relay being proven is (${multiplierText(hash)}), and is smaller than the target difficulty (${multiplierText(targetHash)})`;
  const inner = fail(PROOF.invalidRelay, text).fault.text;
  const outer = `failed to validate relay difficulty for service ${serviceId} due to: ${inner}`;
  return fail(PROOF.difficulty, outer).fault;
}

function claimFault(
  claim: proof.Claim | undefined,
  header: session.SessionHeader,
  operator: string,
): TxFault | undefined {
  if (claim === undefined) {
    const text = `no claim found for session ID ${goQuoted(header.sessionId)} and supplier ${goQuoted(operator)}`;
    return fail(PROOF.claimNotFound, text).fault;
  }
  const of = claim.sessionHeader;
  const compared = [
    [PROOF.invalidStartHeight, "session start height", of?.sessionStartBlockHeight, header.sessionStartBlockHeight],
    [PROOF.invalidEndHeight, "session end height", of?.sessionEndBlockHeight, header.sessionEndBlockHeight],
    [PROOF.invalidAddress, "application address", of?.applicationAddress, header.applicationAddress],
    [PROOF.invalidService, "service ID", of?.serviceId, header.serviceId],
  ] as const;
  for (const [kind, what, claimed, proven] of compared) {
    if (claimed === proven) continue;
    const print = (value: bigint | string | undefined) =>
      typeof value === "string" ? goQuoted(value) : `${value ?? 0n}`;
    return fail(kind, `claim ${what} ${print(claimed)} does not match proof ${what} ${print(proven)}`).fault;
  }
  return undefined;
}

/** All checks of a proof that need no curve: what fails here fails the transaction. */
function wellFormedFault(ctx: Context, message: proof.MsgSubmitProof): TxFault | undefined {
  const { supplierOperatorAddress: operator, sessionHeader } = message;
  if (sessionHeader === undefined) return fail(PROOF.invalidHeader, "session header is nil").fault;
  const known = sessionOfHeader(ctx, sessionHeader, operator);
  if (!known.ok) return known.fault;
  const header = known.value;
  const facts = new SessionFacts(ctx, header);
  const late = windowFault(ctx, facts);
  if (late !== undefined) return late;
  const read = readLeaf(message.proof);
  if (!read.ok) return read.fault;
  const leaf = read.value;
  const wrong = requestFault(leaf, operator) ?? responseFault(leaf);
  if (wrong !== undefined) return wrong;
  for (const meta of [leaf.request.meta, leaf.response.meta]) {
    const got = meta?.sessionHeader;
    const foreign = got === undefined ? PROOF.invalidRelay : relayHeaderFault(header, got);
    if (foreign !== undefined) return foreign;
  }
  const light = difficultyFault(leaf, header.serviceId, facts);
  if (light !== undefined) return light;
  const fault = claimFault(getClaim(ctx, header.sessionId, operator), header, operator);
  if (fault !== undefined) return fault;
  const members = ringMemberCount(leaf.request.meta?.signature ?? new Uint8Array(0));
  ctx.gas.consume(ringGas(members), "RingMembers");
  return undefined;
}

function payFee(ctx: Context, operator: AccountAddress): Outcome<undefined> {
  const payer = accountBytes(operator);
  const fee = upoktOf(getProofParams(ctx).proofSubmissionFee);
  const balance = spendableUpokt(ctx, payer);
  if (balance === undefined) return fail(PROOF.funds, "account has no spendable coins");
  if (balance <= fee) {
    return fail(PROOF.funds, `account has ${balance}, but the proof submission fee is ${fee}upokt`);
  }
  const coins = fee === 0n ? [] : [{ denom: "upokt", amount: fee }];
  const sent = sendCoinsToModule(ctx, payer, PROOF_MODULE, coins);
  return sent.ok ? sent : fail(PROOF.fee, `account has ${balance}, failed to deduct ${fee}upokt`);
}

/** Takes the fee and keeps a proof until the end of the block, which looks at signatures and trie. */
export function submitProof(
  ctx: Context,
  message: Parsed<proof.MsgSubmitProof>,
): Outcome<proof.MsgSubmitProofResponse> {
  const header = message.sessionHeader;
  const wrong = submitProofFault(message);
  if (wrong !== undefined || header === undefined) return failStatus("InvalidArgument", wrong?.text ?? "");
  const malformed = wellFormedFault(ctx, message);
  if (malformed !== undefined) return failStatus("FailedPrecondition", malformed.text);
  const operator = message.supplierOperatorAddress;
  const stored = getClaim(ctx, header.sessionId, operator);
  if (stored === undefined) return failStatus("FailedPrecondition", PROOF.claimNotFound.text);
  const paid = payFee(ctx, operator);
  if (!paid.ok) return failStatus("FailedPrecondition", paid.fault.text);
  const claim = protocolClaim(stored);
  const facts = claimFacts(ctx, claim);
  if (facts === undefined) return failStatus("Internal", PROOF.invalidRoot.text);
  if (requirementOf(ctx, claim, facts) === PROOF_REQUIREMENT.notRequired) {
    return failStatus("FailedPrecondition", PROOF.notRequired.text);
  }
  const replaces = getProof(ctx, header.sessionId, operator) !== undefined;
  setProof(
    ctx,
    createMessage(proof.ProofSchema, {
      supplierOperatorAddress: operator,
      sessionHeader: header,
      closestMerkleProof: message.proof,
    }),
  );
  const event = {
    numRelays: facts.root.count,
    numClaimedComputeUnits: facts.root.sum,
    numEstimatedComputeUnits: facts.numEstimatedComputeUnits,
    numEstimatedRelays: facts.numEstimatedRelays,
    claimedUpokt: `${facts.claimedUpokt}upokt`,
    serviceId: claim.sessionHeader.serviceId,
    applicationAddress: claim.sessionHeader.applicationAddress,
    sessionEndBlockHeight: claim.sessionHeader.sessionEndBlockHeight,
    claimProofStatusInt: proof.ClaimProofStatus.PENDING_VALIDATION,
    supplierOperatorAddress: operator,
  };
  if (replaces) emit(ctx, proof.EventProofUpdatedSchema, event);
  else emit(ctx, proof.EventProofSubmittedSchema, event);
  return done(createMessage(proof.MsgSubmitProofResponseSchema));
}
