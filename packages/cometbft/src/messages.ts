import { cometAbci, cometTypes, cometVersion, createMessage, encodeMessage, TimestampSchema } from "@turnpike/proto";
import { nsToTimestamp } from "./time.ts";
import type { Block, BlockId, Commit, CommitSig, DuplicateVoteEvidence, Header, Validator, Vote } from "./types.ts";

const toBlockId = ({ hash, parts }: BlockId): cometTypes.BlockID =>
  createMessage(cometTypes.BlockIDSchema, { hash, partSetHeader: { total: parts.total, hash: parts.hash } });

const toHeader = (header: Header): cometTypes.Header => {
  const { timeNs, lastBlockId, version, ...rest } = header;
  return createMessage(cometTypes.HeaderSchema, {
    ...rest,
    version: { block: version.block, app: version.app },
    time: nsToTimestamp(timeNs),
    lastBlockId: toBlockId(lastBlockId),
  });
};

const toCommitSig = ({ flag, validatorAddress, timeNs, signature }: CommitSig): cometTypes.CommitSig =>
  createMessage(cometTypes.CommitSigSchema, {
    blockIdFlag: flag,
    validatorAddress,
    timestamp: nsToTimestamp(timeNs),
    signature,
  });

const toCommit = ({ height, round, blockId, signatures }: Commit): cometTypes.Commit =>
  createMessage(cometTypes.CommitSchema, {
    height,
    round,
    blockId: toBlockId(blockId),
    signatures: signatures.map(toCommitSig),
  });

const toVote = ({ blockId, timeNs, ...rest }: Vote): cometTypes.Vote =>
  createMessage(cometTypes.VoteSchema, { ...rest, blockId: toBlockId(blockId), timestamp: nsToTimestamp(timeNs) });

const toEvidence = (evidence: DuplicateVoteEvidence): cometTypes.DuplicateVoteEvidence =>
  createMessage(cometTypes.DuplicateVoteEvidenceSchema, {
    voteA: toVote(evidence.voteA),
    voteB: toVote(evidence.voteB),
    totalVotingPower: evidence.totalVotingPower,
    validatorPower: evidence.validatorPower,
    timestamp: nsToTimestamp(evidence.timeNs),
  });

/** Protobuf bytes of a block id, as the header hash takes them. */
export const encodeBlockId = (id: BlockId): Uint8Array => encodeMessage(cometTypes.BlockIDSchema, toBlockId(id));

/** Protobuf bytes of the versions in a header. */
export const encodeVersion = ({ block, app }: Header["version"]): Uint8Array =>
  encodeMessage(cometVersion.ConsensusSchema, createMessage(cometVersion.ConsensusSchema, { block, app }));

/** Protobuf bytes of a time. */
export const encodeTime = (timeNs: bigint): Uint8Array => encodeMessage(TimestampSchema, nsToTimestamp(timeNs));

/** Protobuf bytes of one place in a commit. */
export const encodeCommitSig = (sig: CommitSig): Uint8Array =>
  encodeMessage(cometTypes.CommitSigSchema, toCommitSig(sig));

/** Protobuf bytes of a commit. */
export const encodeCommit = (commit: Commit): Uint8Array => encodeMessage(cometTypes.CommitSchema, toCommit(commit));

/** Protobuf bytes of evidence, without the wrapper that a block has around it. */
export const encodeEvidence = (evidence: DuplicateVoteEvidence): Uint8Array =>
  encodeMessage(cometTypes.DuplicateVoteEvidenceSchema, toEvidence(evidence));

/** Protobuf bytes of what a validator set's hash takes of a validator: key and power. */
export const encodeSimpleValidator = ({ publicKey, votingPower }: Validator): Uint8Array =>
  encodeMessage(
    cometTypes.SimpleValidatorSchema,
    createMessage(cometTypes.SimpleValidatorSchema, {
      pubKey: { sum: { case: "ed25519", value: publicKey } },
      votingPower,
    }),
  );

/** What of a transaction's result is hashed: the rest may differ between nodes. */
export interface HashedTxResult {
  readonly code: number;
  readonly data: Uint8Array;
  readonly gasWanted: bigint;
  readonly gasUsed: bigint;
}

/** Protobuf bytes of a transaction's result as the results hash takes them. */
export const encodeHashedTxResult = ({ code, data, gasWanted, gasUsed }: HashedTxResult): Uint8Array =>
  encodeMessage(
    cometAbci.ExecTxResultSchema,
    createMessage(cometAbci.ExecTxResultSchema, { code, data, gasWanted, gasUsed }),
  );

/** Protobuf bytes of a block: what its parts are cut from. */
export function encodeBlock(block: Block): Uint8Array {
  const message = createMessage(cometTypes.BlockSchema, {
    header: toHeader(block.header),
    data: { txs: [...block.txs] },
    evidence: {
      evidence: block.evidence.map((item) => ({
        sum: { case: "duplicateVoteEvidence" as const, value: toEvidence(item) },
      })),
    },
    lastCommit: toCommit(block.lastCommit),
  });
  return encodeMessage(cometTypes.BlockSchema, message);
}
