import { concatBytes, utf8ToBytes } from "@turnpike/base";
import { merkleRoot, sha256 } from "@turnpike/crypto";
import {
  encodeBlockId,
  encodeCommitSig,
  encodeEvidence,
  encodeHashedTxResult,
  encodeTime,
  encodeVersion,
  type HashedTxResult,
} from "./messages.ts";
import type { Commit, DuplicateVoteEvidence, Header } from "./types.ts";
import { varint, wrappedBytes, wrappedInt64 } from "./wire.ts";

/** Hash of a header (32 bytes): the block's hash. CometBFT 0.38, `types/block.go`. */
export function headerHash(header: Header): Uint8Array {
  return merkleRoot([
    encodeVersion(header.version),
    wrappedBytes(utf8ToBytes(header.chainId)),
    wrappedInt64(header.height),
    encodeTime(header.timeNs),
    encodeBlockId(header.lastBlockId),
    wrappedBytes(header.lastCommitHash),
    wrappedBytes(header.dataHash),
    wrappedBytes(header.validatorsHash),
    wrappedBytes(header.nextValidatorsHash),
    wrappedBytes(header.consensusHash),
    wrappedBytes(header.appHash),
    wrappedBytes(header.lastResultsHash),
    wrappedBytes(header.evidenceHash),
    wrappedBytes(header.proposerAddress),
  ]);
}

/** Hash of a transaction, by which it is looked up. */
export function txHash(tx: Uint8Array): Uint8Array {
  return sha256(tx);
}

/** Hash of a block's transactions. */
export function dataHash(txs: readonly Uint8Array[]): Uint8Array {
  return merkleRoot(txs.map(txHash));
}

/** Hash of a commit: its places, without height, round and block. */
export function commitHash(commit: Commit): Uint8Array {
  return merkleRoot(commit.signatures.map(encodeCommitSig));
}

/** Hash of a block's evidence. */
export function evidenceHash(evidence: readonly DuplicateVoteEvidence[]): Uint8Array {
  return merkleRoot(evidence.map(encodeEvidence));
}

/** Hash of the results of a block's transactions; the next header has it. */
export function resultsHash(results: readonly HashedTxResult[]): Uint8Array {
  return merkleRoot(results.map(encodeHashedTxResult));
}

/** Hash of the consensus parameters: of a block's most bytes and most gas (-1: any) alone. */
export function consensusHash(params: { readonly maxBytes: bigint; readonly maxGas: bigint }): Uint8Array {
  const field = (number: number, value: bigint): Uint8Array =>
    value === 0n ? new Uint8Array(0) : concatBytes(Uint8Array.of(number << 3), varint(value));
  return sha256(concatBytes(field(1, params.maxBytes), field(2, params.maxGas)));
}
