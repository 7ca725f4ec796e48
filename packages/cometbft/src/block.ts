import { commitHash, dataHash, evidenceHash, headerHash } from "./hashes.ts";
import { encodeBlock } from "./messages.ts";
import { type PartSet, partSetOf } from "./part-set.ts";
import {
  BLOCK_PROTOCOL,
  type Block,
  type BlockId,
  type Commit,
  type DuplicateVoteEvidence,
  type Header,
} from "./types.ts";

/** What a block is made of; the header's other hashes follow from it. */
export interface BlockContent {
  readonly header: Omit<Header, "version" | "lastCommitHash" | "dataHash" | "evidenceHash">;
  /** The application's version of the protocol, 0 by default. */
  readonly appVersion?: bigint;
  readonly txs: readonly Uint8Array[];
  readonly evidence?: readonly DuplicateVoteEvidence[];
  readonly lastCommit: Commit;
}

/** A block with all that follows from it. */
export interface BuiltBlock {
  readonly block: Block;
  readonly id: BlockId;
  /** Protobuf bytes. */
  readonly bytes: Uint8Array;
  readonly parts: PartSet;
}

/** A block's id, bytes and parts. */
export function describeBlock(block: Block): BuiltBlock {
  const bytes = encodeBlock(block);
  const parts = partSetOf(bytes);
  return { block, id: { hash: headerHash(block.header), parts: parts.header }, bytes, parts };
}

/** Builds a block as CometBFT 0.38 does. */
export function buildBlock(content: BlockContent): BuiltBlock {
  const { txs, lastCommit, evidence = [], appVersion = 0n } = content;
  const header: Header = {
    ...content.header,
    version: { block: BLOCK_PROTOCOL, app: appVersion },
    lastCommitHash: commitHash(lastCommit),
    dataHash: dataHash(txs),
    evidenceHash: evidenceHash(evidence),
  };
  return describeBlock({ header, txs, evidence, lastCommit });
}
