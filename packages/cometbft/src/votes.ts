import { bytesEqual } from "@turnpike/base";
import { type Ed25519Signer, validatorKeyAddress, verifyEd25519 } from "@turnpike/crypto";
import { cometTypes, createMessage, encodeMessage } from "@turnpike/proto";
import { nsToTimestamp } from "./time.ts";
import {
  ABSENT_SIG,
  BLOCK_ID_FLAG,
  type BlockId,
  type Commit,
  type CommitSig,
  type ValidatorSet,
  VOTE_TYPE,
  type Vote,
  type VoteContent,
  ZERO_BLOCK_ID,
} from "./types.ts";
import { totalPower, validatorAt } from "./validator-set.ts";
import { delimited } from "./wire.ts";

const NS_PER_MS = 1_000_000n;

/** True when an id names no block. */
export function isZeroBlockId({ hash, parts }: BlockId): boolean {
  return hash.length === 0 && parts.total === 0 && parts.hash.length === 0;
}

/** True when an id names a block in full. */
function isCompleteBlockId({ hash, parts }: BlockId): boolean {
  return hash.length === 32 && parts.total > 0 && parts.hash.length === 32;
}

/** True when two ids are the same. */
export function sameBlockId(a: BlockId, b: BlockId): boolean {
  return bytesEqual(a.hash, b.hash) && a.parts.total === b.parts.total && bytesEqual(a.parts.hash, b.parts.hash);
}

/** What a validator signs of a vote: the canonical vote behind its length (CometBFT 0.38, `types/canonical.go`). */
export function voteSignBytes(chainId: string, vote: VoteContent): Uint8Array {
  const { type, height, round, blockId, timeNs } = vote;
  const id = { hash: blockId.hash, partSetHeader: { total: blockId.parts.total, hash: blockId.parts.hash } };
  const message = createMessage(cometTypes.CanonicalVoteSchema, {
    type,
    height,
    round: BigInt(round),
    ...(isZeroBlockId(blockId) ? {} : { blockId: createMessage(cometTypes.CanonicalBlockIDSchema, id) }),
    timestamp: nsToTimestamp(timeNs),
    chainId,
  });
  return delimited(encodeMessage(cometTypes.CanonicalVoteSchema, message));
}

/** A vote with its signature. */
export function signVote(chainId: string, vote: VoteContent, validatorIndex: number, signer: Ed25519Signer): Vote {
  const { type, height, round, blockId, timeNs } = vote;
  const none = new Uint8Array(0);
  return {
    type,
    height,
    round,
    blockId,
    timeNs,
    validatorAddress: validatorKeyAddress(signer.publicKey),
    validatorIndex,
    signature: signer.sign(voteSignBytes(chainId, vote)),
    extension: none,
    extensionSignature: none,
  };
}

/** True when a vote is signed by this key (32 bytes), and its address is the key's. */
export function verifyVote(chainId: string, vote: Vote, publicKey: Uint8Array): boolean {
  if (!bytesEqual(vote.validatorAddress, validatorKeyAddress(publicKey))) return false;
  return verifyEd25519(voteSignBytes(chainId, vote), vote.signature, publicKey);
}

/** Time that a validator votes at: now, but always a millisecond after the block (CometBFT's BFT time). */
export function voteTimeNs(nowNs: bigint, blockTimeNs: bigint): bigint {
  const earliest = blockTimeNs + NS_PER_MS;
  return nowNs > earliest ? nowNs : earliest;
}

/** A vote's place in a commit; undefined (its validator did not vote): absent. */
export function commitSigOf(vote: Vote | undefined): CommitSig {
  if (vote === undefined) return ABSENT_SIG;
  const { blockId, validatorAddress, timeNs, signature } = vote;
  const flag = isZeroBlockId(blockId) ? BLOCK_ID_FLAG.nil : BLOCK_ID_FLAG.commit;
  return { flag, validatorAddress, timeNs, signature };
}

/** What the validator at a place of a commit signed; undefined when it is absent or there is no such place. */
function signedContent(commit: Commit, index: number): VoteContent | undefined {
  const sig = commit.signatures[index];
  if (sig === undefined || sig.flag === BLOCK_ID_FLAG.absent) return undefined;
  const { height, round } = commit;
  const blockId = sig.flag === BLOCK_ID_FLAG.commit ? commit.blockId : ZERO_BLOCK_ID;
  return { type: VOTE_TYPE.precommit, height, round, blockId, timeNs: sig.timeNs };
}

/** Why a commit does not make a block final. */
export type CommitFault =
  | "wrong_height"
  | "wrong_block"
  | "wrong_size"
  | "wrong_address"
  | "malformed_signature"
  | "wrong_signature"
  | "too_little_power";

/** Whether a commit makes a block final. */
export type CommitVerdict =
  | { readonly ok: true; readonly signedPower: bigint }
  | { readonly ok: false; readonly fault: CommitFault };

/** What {@link verifyCommit} checks. */
export interface CommitCheck {
  readonly chainId: string;
  readonly validators: ValidatorSet;
  readonly blockId: BlockId;
  readonly height: bigint;
  readonly commit: Commit;
}

/**
 * True when more than two thirds of the power signed for the block, and every signature there is is right. The address
 * beside a signature must be the validator's, though it is not signed: the block's time is weighed by it.
 */
export function verifyCommit(check: CommitCheck): CommitVerdict {
  const { chainId, validators, blockId, height, commit } = check;
  const fail = (fault: CommitFault): CommitVerdict => ({ ok: false, fault });
  if (commit.height !== height || commit.round < 0) return fail("wrong_height");
  if (!isCompleteBlockId(blockId) || !sameBlockId(commit.blockId, blockId)) return fail("wrong_block");
  if (commit.signatures.length !== validators.validators.length) return fail("wrong_size");
  let signedPower = 0n;
  for (const [i, validator] of validators.validators.entries()) {
    const content = signedContent(commit, i);
    const { flag, signature, validatorAddress, timeNs } = commit.signatures[i] ?? ABSENT_SIG;
    if (content === undefined) {
      const empty = signature.length === 0 && validatorAddress.length === 0 && timeNs === ABSENT_SIG.timeNs;
      if (!empty) return fail("malformed_signature");
      continue;
    }
    if (!bytesEqual(validatorAddress, validator.address)) return fail("wrong_address");
    if (signature.length !== 64) return fail("malformed_signature");
    if (!verifyEd25519(voteSignBytes(chainId, content), signature, validator.publicKey)) return fail("wrong_signature");
    if (flag === BLOCK_ID_FLAG.commit) signedPower += validator.votingPower;
  }
  const needed = (totalPower(validators.validators) * 2n) / 3n;
  return signedPower > needed ? { ok: true, signedPower } : fail("too_little_power");
}

/**
 * Time of the block after a commit: the median of its votes' times by voting power (CometBFT's BFT time). Undefined when
 * no vote is a known validator's.
 */
export function medianTimeNs(commit: Commit, validators: ValidatorSet): bigint | undefined {
  const times = commit.signatures.flatMap(({ flag, timeNs, validatorAddress }) => {
    const power = validatorAt(validators, validatorAddress)?.votingPower;
    return flag === BLOCK_ID_FLAG.absent || power === undefined ? [] : [{ timeNs, power }];
  });
  times.sort((a, b) => (a.timeNs < b.timeNs ? -1 : a.timeNs > b.timeNs ? 1 : 0));
  let median = times.reduce((sum, { power }) => sum + power, 0n) / 2n;
  for (const { timeNs, power } of times) {
    if (median <= power) return timeNs;
    median -= power;
  }
  return undefined;
}
