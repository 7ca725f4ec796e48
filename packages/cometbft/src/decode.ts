import { AppError, bytesEqual, isAppError } from "@turnpike/base";
import { cometTypes, type Decoded, decodeMessage, type Timestamp } from "@turnpike/proto";
import { checkBlock } from "./check.ts";
import { encodeBlock, encodeCommit } from "./messages.ts";
import { MAX_BLOCK_BYTES } from "./part-set.ts";
import { timestampToNs } from "./time.ts";
import type { Block, BlockId, Commit, CommitSig, DuplicateVoteEvidence, Header, Vote } from "./types.ts";

// Thrown and caught in this file alone.
const lacks = (what: string): AppError => new AppError("MALFORMED_REQUEST", { message: `lacks ${what}` });

function must<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw lacks(what);
  return value;
}

function oneOf<T extends number>(value: number, allowed: readonly T[], what: string): T {
  return must(
    allowed.find((item) => item === value),
    what,
  );
}

const timeOf = (time: Timestamp | undefined): bigint => must(time && timestampToNs(time), "a time");

function blockIdOf(message: cometTypes.BlockID | undefined): BlockId {
  const { hash, partSetHeader } = must(message, "a block id");
  const parts = must(partSetHeader, "a part set header");
  return { hash, parts: { total: parts.total, hash: parts.hash } };
}

function headerOf(message: cometTypes.Header | undefined): Header {
  const header = must(message, "a header");
  const { block, app } = must(header.version, "a version");
  return {
    version: { block, app },
    chainId: header.chainId,
    height: header.height,
    timeNs: timeOf(header.time),
    lastBlockId: blockIdOf(header.lastBlockId),
    lastCommitHash: header.lastCommitHash,
    dataHash: header.dataHash,
    validatorsHash: header.validatorsHash,
    nextValidatorsHash: header.nextValidatorsHash,
    consensusHash: header.consensusHash,
    appHash: header.appHash,
    lastResultsHash: header.lastResultsHash,
    evidenceHash: header.evidenceHash,
    proposerAddress: header.proposerAddress,
  };
}

function sigOf({ blockIdFlag, validatorAddress, timestamp, signature }: cometTypes.CommitSig): CommitSig {
  const flag = oneOf(blockIdFlag, [1, 2, 3], "a flag");
  return { flag, validatorAddress, timeNs: timeOf(timestamp), signature };
}

function commitOf(message: cometTypes.Commit | undefined): Commit {
  const { height, round, blockId, signatures } = must(message, "a commit");
  return { height, round, blockId: blockIdOf(blockId), signatures: signatures.map(sigOf) };
}

function voteOf(message: cometTypes.Vote | undefined): Vote {
  const vote = must(message, "a vote");
  return {
    type: oneOf(vote.type, [1, 2], "a vote's type"),
    height: vote.height,
    round: vote.round,
    blockId: blockIdOf(vote.blockId),
    timeNs: timeOf(vote.timestamp),
    validatorAddress: vote.validatorAddress,
    validatorIndex: vote.validatorIndex,
    signature: vote.signature,
    extension: vote.extension,
    extensionSignature: vote.extensionSignature,
  };
}

function evidenceOf({ sum }: cometTypes.Evidence): DuplicateVoteEvidence {
  if (sum.case !== "duplicateVoteEvidence") throw lacks("evidence of two votes");
  const { voteA, voteB, totalVotingPower, validatorPower, timestamp } = sum.value;
  return { voteA: voteOf(voteA), voteB: voteOf(voteB), totalVotingPower, validatorPower, timeNs: timeOf(timestamp) };
}

function read<T>(bytes: Uint8Array, reading: () => T, encode: (value: T) => Uint8Array): Decoded<T> {
  try {
    const message = reading();
    // A block id covers the bytes: those that are written in another way are another block.
    return bytesEqual(encode(message), bytes) ? { ok: true, message } : { ok: false, fault: "not CometBFT's encoding" };
  } catch (cause) {
    if (isAppError(cause)) return { ok: false, fault: cause.message };
    throw cause;
  }
}

/**
 * Reads a commit's protobuf bytes. Only CometBFT's own encoding is taken. The signatures are not checked: see
 * `verifyCommit`.
 */
export function decodeCommit(bytes: Uint8Array): Decoded<Commit> {
  const decoded = decodeMessage(cometTypes.CommitSchema, bytes);
  return decoded.ok ? read(bytes, () => commitOf(decoded.message), encodeCommit) : decoded;
}

/**
 * Reads a block's protobuf bytes, at most {@link MAX_BLOCK_BYTES}, and checks it by itself as {@link checkBlock} does.
 * Only CometBFT's own encoding is taken, and no evidence but of two votes.
 */
export function decodeBlock(bytes: Uint8Array): Decoded<Block> {
  if (bytes.length > MAX_BLOCK_BYTES) return { ok: false, fault: "too many bytes" };
  const decoded = decodeMessage(cometTypes.BlockSchema, bytes);
  if (!decoded.ok) return decoded;
  const { header, data, evidence, lastCommit } = decoded.message;
  const block = read(
    bytes,
    (): Block => ({
      header: headerOf(header),
      txs: must(data, "data").txs,
      evidence: must(evidence, "evidence").evidence.map(evidenceOf),
      lastCommit: commitOf(lastCommit),
    }),
    encodeBlock,
  );
  if (!block.ok) return block;
  const fault = checkBlock(block.message);
  return fault === undefined ? block : { ok: false, fault };
}
