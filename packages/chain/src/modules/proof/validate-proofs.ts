import { bytesEqual } from "@turnpike/base";
import { cosmosVerify, decodeRingSignature, isClosest, type Rings, sha256, verifyClosestProof } from "@turnpike/crypto";
import { proof } from "@turnpike/proto";
import {
  type Claim,
  proofPath,
  relayHash,
  relayRequestSignBytes,
  relayResponseSignBytes,
  splitRelay,
} from "@turnpike/protocol";
import { runPart } from "../../state/block-parts.ts";
import type { Context } from "../../state/context.ts";
import { withinEventBytes } from "../../state/event-bytes.ts";
import { type FaultKind, fail, type TxFault } from "../../state/outcome.ts";
import { emit } from "../../state/typed-event.ts";
import { SessionFacts } from "../session/facts.ts";
import { protocolClaim } from "./claim-facts.ts";
import { PROOF, RELAY } from "./errors.ts";
import { holdClaim, isHeld } from "./held-claims.ts";
import { type ProvenLeaf, readLeaf } from "./leaf.ts";
import { accountKey, ringAddresses, ringKeys, ringMemberCount } from "./ring-keys.ts";
import { type claimKey, getClaim, proofs, setClaim } from "./state.ts";

/** What the end of the block checks proofs with. */
export interface ProofModules {
  /** Verifies relay requests' signatures; keeps points of keys between blocks, which changes no result. */
  readonly rings: Rings;
}

// Clients name each member once; an application without gateways twice.
const MOST_REPEATS = 2;

/** Maximum bytes of the verdicts of a block: of some 3,000 invalid proofs whose faults name the longest paths. */
export const MAX_PROOF_EVENT_BYTES = 8 * 1024 * 1024;

const faultOf = (kind: FaultKind, text?: string): TxFault => fail(kind, text).fault;
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

function requestSignatureFault(
  ctx: Context,
  claim: Claim,
  { request }: ProvenLeaf,
  bytes: Uint8Array | undefined,
  { rings }: ProofModules,
): TxFault | undefined {
  const digest = bytes === undefined ? undefined : relayRequestSignBytes(bytes);
  if (digest === undefined) return faultOf(RELAY.ringRequest, "error getting relay request signable bytes");
  const { applicationAddress } = claim.sessionHeader;
  const ring = ringAddresses(ctx, claim.sessionHeader);
  if (!ring.ok) {
    const text = `error getting ring for application address ${applicationAddress}: ${ring.fault.text}`;
    return faultOf(RELAY.ringRequest, text);
  }
  const signature = request.meta?.signature ?? new Uint8Array(0);
  const members = ringMemberCount(signature);
  // Members may repeat, and every one costs as much: the real chain checks as many as a transaction can hold.
  const most = MOST_REPEATS * ring.value.size;
  if (members > most) {
    return faultOf(
      RELAY.ringSignature,
      `${members} members in the ring signature, where at most ${most} are looked at`,
    );
  }
  const keys = ringKeys(ctx, ring.value, decodeRingSignature(signature)?.members ?? []);
  const verdict = rings.verifyWithin(digest, signature, keys);
  if (verdict.ok) return undefined;
  if (verdict.fault === "malformed") return faultOf(RELAY.ringSignature, "error deserializing ring signature");
  if (verdict.fault === "non-member") {
    const text = `ring signature in the relay request does not match the expected one for the app ${applicationAddress}`;
    return faultOf(RELAY.ringSignature, text);
  }
  return faultOf(RELAY.ringSignature, "invalid relay request signature or bytes");
}

function proofFault(ctx: Context, claim: Claim, bytes: Uint8Array, modules: ProofModules): TxFault | undefined {
  const key = accountKey(ctx, claim.supplierOperatorAddress);
  if (!key.ok) return key.fault;
  const read = readLeaf(bytes);
  if (!read.ok) return read.fault;
  const leaf = read.value;
  const parts = splitRelay(leaf.relayBytes);
  const unsigned = requestSignatureFault(ctx, claim, leaf, parts?.request, modules);
  if (unsigned !== undefined) return unsigned;
  const digest = parts === undefined ? undefined : relayResponseSignBytes(parts.response);
  const signature = leaf.response.meta?.supplierOperatorSignature ?? new Uint8Array(0);
  if (digest === undefined || !cosmosVerify(digest, signature, key.value)) {
    return faultOf(RELAY.response, "invalid signature");
  }
  const { sessionId, serviceId } = claim.sessionHeader;
  const facts = new SessionFacts(ctx, claim.sessionHeader);
  const path = proofPath(facts.proofSeedBlockHash(), sessionId);
  if (!bytesEqual(path, leaf.closest.path)) {
    const text = `the path of the proof provided (${hex(leaf.closest.path)}) does not match one expected by the onchain protocol (${hex(path)})`;
    return faultOf(PROOF.invalidProof, text);
  }
  const units = facts.computeUnitsPerRelay();
  if (leaf.weight !== units) {
    const text = `the proven relay weighs ${leaf.weight} compute units, not the ${units ?? 0n} of service ${serviceId}`;
    return faultOf(PROOF.invalidProof, text);
  }
  // The trie hashes its keys, which are the relays' hashes. The real chain does not look: there one honest relay fills any
  // number of leaves.
  if (!bytesEqual(sha256(relayHash(leaf.relayBytes)), leaf.closest.closestPath)) {
    return faultOf(PROOF.invalidProof, "the proven relay is not where its hash belongs");
  }
  if (!verifyClosestProof(leaf.closest, claim.rootHash).ok) {
    return faultOf(PROOF.invalidProof, "invalid closest merkle proof");
  }
  // The real chain lets the leaf be any: there one honest relay proves a trie of made-up ones.
  return isClosest(leaf.closest)
    ? undefined
    : faultOf(PROOF.invalidProof, "the proven relay is not the closest to the path");
}

/** Checks the proofs of this block, and in the next one those above the maximum, notes the verdict in its claim, and removes the proof. */
export function validateProofs(ctx: Context, modules: ProofModules): void {
  const waiting = [...proofs.entries(ctx)].filter(([key]) => !isHeld(ctx, key));
  for (const [key, submitted] of withinEventBytes(ctx, waiting, MAX_PROOF_EVENT_BYTES)) {
    const part = { part: "proof", item: key.join("/") } as const;
    const checked = runPart(ctx, part, (branch) => validateProof(branch, key, submitted, modules));
    // Neither paid nor slashed for a fault that is not in the proof.
    if (!checked.ok) holdClaim(ctx, key);
  }
}

function validateProof(
  ctx: Context,
  [sessionId, operator]: ReturnType<typeof claimKey>,
  submitted: proof.Proof,
  modules: ProofModules,
): void {
  proofs.remove(ctx, [sessionId, operator]);
  const stored = getClaim(ctx, sessionId, operator);
  if (stored === undefined) return;
  const claim = protocolClaim(stored);
  const fault = proofFault(ctx, claim, submitted.closestMerkleProof, modules);
  const { VALIDATED, INVALID } = proof.ClaimProofStatus;
  const status = fault === undefined ? VALIDATED : INVALID;
  setClaim(ctx, { ...stored, proofValidationStatus: status });
  emit(ctx, proof.EventProofValidityCheckedSchema, {
    blockHeight: ctx.block.heightBlocks,
    failureReason: fault?.text ?? "",
    serviceId: claim.sessionHeader.serviceId,
    applicationAddress: claim.sessionHeader.applicationAddress,
    sessionEndBlockHeight: claim.sessionHeader.sessionEndBlockHeight,
    claimProofStatusInt: status,
    supplierOperatorAddress: operator,
  });
}
