/** Version of CometBFT whose protocol is spoken: clients choose by it how they read answers. */
export const COMET_VERSION = "0.38.19";

/** Header of the parts that a block's bytes are cut into. */
export interface PartSetHeader {
  readonly total: number;
  /** Merkle root of the parts; empty when there are none. */
  readonly hash: Uint8Array;
}

/** Names a block: the hash of its header, and of its bytes in parts. */
export interface BlockId {
  readonly hash: Uint8Array;
  readonly parts: PartSetHeader;
}

/** Header of a block, as CometBFT 0.38 has it. Hashes have 32 bytes, addresses 20. */
export interface Header {
  readonly version: { readonly block: bigint; readonly app: bigint };
  readonly chainId: string;
  readonly height: bigint;
  /** Nanoseconds since 1970. */
  readonly timeNs: bigint;
  readonly lastBlockId: BlockId;
  readonly lastCommitHash: Uint8Array;
  readonly dataHash: Uint8Array;
  readonly validatorsHash: Uint8Array;
  readonly nextValidatorsHash: Uint8Array;
  readonly consensusHash: Uint8Array;
  /** State after the block before; of any length. */
  readonly appHash: Uint8Array;
  readonly lastResultsHash: Uint8Array;
  readonly evidenceHash: Uint8Array;
  readonly proposerAddress: Uint8Array;
}

/** What a validator's place in a commit says, with CometBFT's numbers. */
export const BLOCK_ID_FLAG = { absent: 1, commit: 2, nil: 3 } as const;

/** A value of {@link BLOCK_ID_FLAG}. */
export type BlockIdFlag = (typeof BLOCK_ID_FLAG)[keyof typeof BLOCK_ID_FLAG];

/** One validator's place in a commit. */
export interface CommitSig {
  readonly flag: BlockIdFlag;
  /** 20 bytes; empty when absent. */
  readonly validatorAddress: Uint8Array;
  /** The vote's time in nanoseconds since 1970; {@link ZERO_TIME_NS} when absent. */
  readonly timeNs: bigint;
  /** 64 bytes; empty when absent. */
  readonly signature: Uint8Array;
}

/** Votes that made a block final, in the order of the validator set. */
export interface Commit {
  readonly height: bigint;
  readonly round: number;
  readonly blockId: BlockId;
  readonly signatures: readonly CommitSig[];
}

/** Kinds of votes, with CometBFT's numbers. */
export const VOTE_TYPE = { prevote: 1, precommit: 2 } as const;

/** A value of {@link VOTE_TYPE}. */
export type VoteType = (typeof VOTE_TYPE)[keyof typeof VOTE_TYPE];

/** What of a vote is signed. */
export interface VoteContent {
  readonly type: VoteType;
  readonly height: bigint;
  readonly round: number;
  /** {@link ZERO_BLOCK_ID}: a vote for no block. */
  readonly blockId: BlockId;
  /** Nanoseconds since 1970. */
  readonly timeNs: bigint;
}

/** One validator's vote. */
export interface Vote extends VoteContent {
  readonly validatorAddress: Uint8Array;
  readonly validatorIndex: number;
  readonly signature: Uint8Array;
  readonly extension: Uint8Array;
  readonly extensionSignature: Uint8Array;
}

/** Two votes of one validator that exclude each other: the one kind of evidence that blocks here can hold. */
export interface DuplicateVoteEvidence {
  readonly voteA: Vote;
  readonly voteB: Vote;
  readonly totalVotingPower: bigint;
  readonly validatorPower: bigint;
  /** Time of the block at the votes' height, in nanoseconds since 1970. */
  readonly timeNs: bigint;
}

/** A block. */
export interface Block {
  readonly header: Header;
  readonly txs: readonly Uint8Array[];
  readonly evidence: readonly DuplicateVoteEvidence[];
  /** Of the block before; {@link EMPTY_COMMIT} in the first one. */
  readonly lastCommit: Commit;
}

/** A validator with an ed25519 key. */
export interface Validator {
  /** 20 bytes, of the key. */
  readonly address: Uint8Array;
  /** 32 bytes. */
  readonly publicKey: Uint8Array;
  readonly votingPower: bigint;
  /** Moves with every round; the highest one proposes next. */
  readonly proposerPriority: bigint;
}

/** Validators by falling power, then by address; never empty. */
export interface ValidatorSet {
  readonly validators: readonly Validator[];
  /** Who proposes now, as it was when it was chosen. */
  readonly proposer: Validator;
}

const NONE: Uint8Array = new Uint8Array(0);

/** Go's zero time (the year 1), in nanoseconds since 1970. */
export const ZERO_TIME_NS = -62_135_596_800_000_000_000n;

/** Names no block. */
export const ZERO_BLOCK_ID: BlockId = { hash: NONE, parts: { total: 0, hash: NONE } };

/** The last commit of the first block. */
export const EMPTY_COMMIT: Commit = { height: 0n, round: 0, blockId: ZERO_BLOCK_ID, signatures: [] };

/** A validator's place in a commit when its vote is not known. */
export const ABSENT_SIG: CommitSig = {
  flag: BLOCK_ID_FLAG.absent,
  validatorAddress: NONE,
  timeNs: ZERO_TIME_NS,
  signature: NONE,
};

/** CometBFT 0.38's number of the block protocol. */
export const BLOCK_PROTOCOL = 11n;
