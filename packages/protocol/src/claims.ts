import { concatBytes, utf8ToBytes } from "@turnpike/base";
import { seededFloat64, sha256 } from "@turnpike/crypto";
import { difficultyMultiplier } from "./difficulty.ts";
import { floorRational } from "./rational.ts";
import { headerSize, type SessionHeader, writeHeader } from "./session-header.ts";
import { bytesSize, fieldSize, uint32Size, WireWriter } from "./wire.ts";

/** What the chain knows of a claim's proof. The numbers are those of the wire. */
export const CLAIM_STATUS = { pending: 0, validated: 1, invalid: 2 } as const;

/** Why a claim needs a proof. The numbers are those of the wire. */
export const PROOF_REQUIREMENT = { notRequired: 0, probabilistic: 1, threshold: 2 } as const;

/** One of {@link PROOF_REQUIREMENT}. */
export type ProofRequirement = (typeof PROOF_REQUIREMENT)[keyof typeof PROOF_REQUIREMENT];

/** A claim as it is stored. */
export interface Claim {
  readonly supplierOperatorAddress: string;
  readonly sessionHeader: SessionHeader;
  readonly rootHash: Uint8Array;
  /** One of {@link CLAIM_STATUS}. */
  readonly proofValidationStatus: number;
}

/** What a trie's root says. */
export interface ClaimRoot {
  readonly hash: Uint8Array;
  /** Compute units, unsigned 64-bit. */
  readonly sum: bigint;
  /** Relays, unsigned 64-bit. */
  readonly count: bigint;
}

/** The parameters that turn work into money, as they were at the session's start. */
export interface PricingParams {
  readonly computeUnitsToTokensMultiplier: bigint;
  readonly computeUnitCostGranularity: bigint;
}

/** Bytes of a root: hash, sum and count. */
export const CLAIM_ROOT_BYTES = 48;

/** Reads a root; undefined when it has another length than {@link CLAIM_ROOT_BYTES}. */
export function readClaimRoot(rootHash: Uint8Array): ClaimRoot | undefined {
  if (rootHash.length !== CLAIM_ROOT_BYTES) return undefined;
  const view = new DataView(rootHash.buffer, rootHash.byteOffset, rootHash.byteLength);
  return { hash: rootHash.slice(0, 32), sum: view.getBigUint64(32), count: view.getBigUint64(40) };
}

/** Receivers of a supplier's rewards that cost no gas: real suppliers have one to three, and the real chain charges for none. */
const FREE_RECEIVERS = 10;
/**
 * Gas for each further receiver of a supplier's rewards: settlement takes 0.12 ms and 1.9 KB of events for it without a meter, and the
 * claims of a full block shall be settled in one or two.
 */
export const GAS_PER_RECEIVER = 30_000n;

/** Gas that a claim costs on this chain for the receivers of its supplier's rewards. */
export function receiversGas(receivers: number): bigint {
  return receivers > FREE_RECEIVERS ? BigInt(receivers - FREE_RECEIVERS) * GAS_PER_RECEIVER : 0n;
}

/** What is wrong with a claim's root. */
export type ClaimRootFault = "malformed" | "empty" | "compute_units_mismatch";

/**
 * Checks a claim's root: 48 bytes, some work in it, and as many compute units as relays times those of one relay at the
 * session's start. The real chain multiplies in 64 bits: there a cheap claim can name so many relays that the product
 * wraps, needs no proof, and makes the service's difficulty such that no relay counts. Undefined when nothing is wrong.
 */
export function claimRootFault(rootHash: Uint8Array, computeUnitsPerRelay: bigint): ClaimRootFault | undefined {
  const root = readClaimRoot(rootHash);
  if (root === undefined) return "malformed";
  if (root.sum === 0n || root.count === 0n) return "empty";
  return root.sum === root.count * computeUnitsPerRelay ? undefined : "compute_units_mismatch";
}

/** Compute units that the claimed ones stand for: times the difficulty's multiplier, one floor, low 64 bits. */
export function estimatedComputeUnits(sum: bigint, targetHash: Uint8Array): bigint {
  const { num, den } = difficultyMultiplier(targetHash);
  return BigInt.asUintN(64, (sum * num) / den);
}

/** Relays that the mined ones stand for; 0 for a claim without relays. */
export function estimatedRelays(root: ClaimRoot, targetHash: Uint8Array): bigint {
  if (root.count === 0n) return 0n;
  const each = root.sum / root.count;
  return each === 0n ? 0n : estimatedComputeUnits(root.sum, targetHash) / each;
}

/** What a claim is worth in upokt: compute units × multiplier of the difficulty × price, one floor at the end. */
export function claimedUpokt(sum: bigint, targetHash: Uint8Array, params: PricingParams): bigint {
  const { num, den } = difficultyMultiplier(targetHash);
  const { computeUnitsToTokensMultiplier: multiplier, computeUnitCostGranularity: granularity } = params;
  return floorRational({ num: sum * num * multiplier, den: den * granularity });
}

/** A claim's bytes as the chain stores and hashes them: `pocket.proof.Claim`, its status included. */
export function claimBytes(claim: Claim): Uint8Array {
  const { supplierOperatorAddress, sessionHeader, rootHash, proofValidationStatus } = claim;
  const header = headerSize(sessionHeader);
  const writer = new WireWriter(
    bytesSize(supplierOperatorAddress) + fieldSize(header) + bytesSize(rootHash) + uint32Size(proofValidationStatus),
  );
  writer.bytes(1, supplierOperatorAddress);
  writer.open(2, header);
  writeHeader(writer, sessionHeader);
  writer.bytes(3, rootHash);
  writer.uint32(4, proofValidationStatus);
  return writer.finish();
}

/** What decides whether a claim needs a proof. */
export interface ProofRequirementInput {
  readonly claim: Claim;
  /** What {@link claimedUpokt} gave. */
  readonly claimedUpokt: bigint;
  readonly thresholdUpokt: bigint;
  /** A float64 on the wire, compared as one. */
  readonly requestProbability: number;
  /** Hash of the block before the proof window opens. */
  readonly seedBlockHash: Uint8Array;
}

/**
 * Whether a claim needs a proof, and why. The sample comes from the claim as it is stored *now*, status included: so a
 * claim whose proof was found invalid is sampled anew at settlement, and may come out as one that needs none.
 */
export function proofRequirement(input: ProofRequirementInput): ProofRequirement {
  if (input.claimedUpokt >= input.thresholdUpokt) return PROOF_REQUIREMENT.threshold;
  // A sample is below 1, and costs more than all the rest of a claim.
  if (input.requestProbability >= 1) return PROOF_REQUIREMENT.probabilistic;
  const sample = seededFloat64(sha256(claimBytes(input.claim)), input.seedBlockHash);
  return sample <= input.requestProbability ? PROOF_REQUIREMENT.probabilistic : PROOF_REQUIREMENT.notRequired;
}

/** The path that a proof has to be closest to: SHA-256 of a block hash and the session id as hex text. */
export function proofPath(seedBlockHash: Uint8Array, sessionId: string): Uint8Array {
  return sha256(concatBytes(seedBlockHash, utf8ToBytes(sessionId)));
}
