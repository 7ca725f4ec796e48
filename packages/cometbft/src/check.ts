import { bytesEqual, utf8ToBytes } from "@turnpike/base";
import { commitHash, dataHash, evidenceHash } from "./hashes.ts";
import {
  BLOCK_ID_FLAG,
  BLOCK_PROTOCOL,
  type Block,
  type BlockId,
  type Commit,
  type Header,
  ZERO_TIME_NS,
} from "./types.ts";
import { isZeroBlockId } from "./votes.ts";

const MAX_CHAIN_ID_BYTES = 50;
const MAX_SIGNATURE_BYTES = 64;

const isHash = ({ length }: Uint8Array): boolean => length === 0 || length === 32;
const isId = ({ hash, parts }: BlockId): boolean => isHash(hash) && isHash(parts.hash);

/** What is wrong with a header by itself; undefined: nothing. Its hashes are not computed. */
export function checkHeader(header: Header): string | undefined {
  if (header.version.block !== BLOCK_PROTOCOL) return "wrong block protocol";
  if (utf8ToBytes(header.chainId).length > MAX_CHAIN_ID_BYTES) return "too long a chain id";
  if (header.height < 1n) return "no height";
  if (header.proposerAddress.length !== 20) return "wrong length of the proposer's address";
  const { lastCommitHash, validatorsHash, nextValidatorsHash, lastResultsHash } = header;
  const hashes = [lastCommitHash, header.dataHash, validatorsHash, nextValidatorsHash, lastResultsHash];
  const wellFormed = [...hashes, header.consensusHash, header.evidenceHash].every(isHash) && isId(header.lastBlockId);
  // Without it a header has no hash.
  if (!wellFormed || validatorsHash.length === 0) return "wrong length of a hash";
  return undefined;
}

/** What is wrong with a commit by itself; undefined: nothing. Signatures are not verified. */
export function checkCommit(commit: Commit): string | undefined {
  if (commit.height < 0n || commit.round < 0) return "negative height or round of a commit";
  if (!isId(commit.blockId)) return "wrong length of a hash";
  if (commit.height === 0n) return undefined;
  if (isZeroBlockId(commit.blockId)) return "commit of no block";
  if (commit.signatures.length === 0) return "commit without signatures";
  const odd = commit.signatures.some(({ flag, validatorAddress, timeNs, signature }) => {
    if (flag === BLOCK_ID_FLAG.absent) {
      return validatorAddress.length + signature.length > 0 || timeNs !== ZERO_TIME_NS;
    }
    return validatorAddress.length !== 20 || signature.length === 0 || signature.length > MAX_SIGNATURE_BYTES;
  });
  return odd ? "malformed signature in a commit" : undefined;
}

/**
 * What is wrong with a block by itself; undefined: nothing. The header must have the hashes of what the block holds.
 * Signatures, and what follows from the block before, are not checked: see `verifyNextBlock`.
 */
export function checkBlock(block: Block): string | undefined {
  const { header, lastCommit } = block;
  const fault = checkHeader(header) ?? checkCommit(lastCommit);
  if (fault !== undefined) return fault;
  if (!bytesEqual(header.lastCommitHash, commitHash(lastCommit))) return "wrong hash of the last commit";
  if (!bytesEqual(header.dataHash, dataHash(block.txs))) return "wrong hash of the transactions";
  if (!bytesEqual(header.evidenceHash, evidenceHash(block.evidence))) return "wrong hash of the evidence";
  return undefined;
}
