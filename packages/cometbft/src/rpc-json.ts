import { bytesToBase64, bytesToHex } from "@turnpike/base";
import { nsToRfc3339 } from "./time.ts";
import type { Block, BlockId, Commit, DuplicateVoteEvidence, Header, Validator, Vote } from "./types.ts";

/** A JSON value that CometBFT's RPC gives. Its members stand in CometBFT's order. */
export type RpcJson = string | number | boolean | null | readonly RpcJson[] | { readonly [name: string]: RpcJson };

const hex = (bytes: Uint8Array): string => bytesToHex(bytes).toUpperCase();
// Go has no slice where there are no bytes.
const bytesOrNull = (bytes: Uint8Array): string | null => (bytes.length === 0 ? null : bytesToBase64(bytes));

/** A block id in CometBFT's JSON. */
export function blockIdToRpcJson({ hash, parts }: BlockId): RpcJson {
  return { hash: hex(hash), parts: { total: parts.total, hash: hex(parts.hash) } };
}

/** A header in CometBFT's JSON. */
export function headerToRpcJson(header: Header): RpcJson {
  const { block, app } = header.version;
  return {
    version: { block: block.toString(), ...(app === 0n ? {} : { app: app.toString() }) },
    chain_id: header.chainId,
    height: header.height.toString(),
    time: nsToRfc3339(header.timeNs),
    last_block_id: blockIdToRpcJson(header.lastBlockId),
    last_commit_hash: hex(header.lastCommitHash),
    data_hash: hex(header.dataHash),
    validators_hash: hex(header.validatorsHash),
    next_validators_hash: hex(header.nextValidatorsHash),
    consensus_hash: hex(header.consensusHash),
    app_hash: hex(header.appHash),
    last_results_hash: hex(header.lastResultsHash),
    evidence_hash: hex(header.evidenceHash),
    proposer_address: hex(header.proposerAddress),
  };
}

/** A commit in CometBFT's JSON. */
export function commitToRpcJson(commit: Commit): RpcJson {
  return {
    height: commit.height.toString(),
    round: commit.round,
    block_id: blockIdToRpcJson(commit.blockId),
    signatures: commit.signatures.map(({ flag, validatorAddress, timeNs, signature }) => ({
      block_id_flag: flag,
      validator_address: hex(validatorAddress),
      timestamp: nsToRfc3339(timeNs),
      signature: bytesOrNull(signature),
    })),
  };
}

/** A vote in CometBFT's JSON. */
function voteToRpcJson(vote: Vote): RpcJson {
  return {
    type: vote.type,
    height: vote.height.toString(),
    round: vote.round,
    block_id: blockIdToRpcJson(vote.blockId),
    timestamp: nsToRfc3339(vote.timeNs),
    validator_address: hex(vote.validatorAddress),
    validator_index: vote.validatorIndex,
    signature: bytesOrNull(vote.signature),
    extension: bytesOrNull(vote.extension),
    extension_signature: bytesOrNull(vote.extensionSignature),
  };
}

function evidenceToRpcJson(evidence: DuplicateVoteEvidence): RpcJson {
  return {
    type: "tendermint/DuplicateVoteEvidence",
    value: {
      vote_a: voteToRpcJson(evidence.voteA),
      vote_b: voteToRpcJson(evidence.voteB),
      TotalVotingPower: evidence.totalVotingPower.toString(),
      ValidatorPower: evidence.validatorPower.toString(),
      Timestamp: nsToRfc3339(evidence.timeNs),
    },
  };
}

/** A block in CometBFT's JSON. */
export function blockToRpcJson({ header, txs, evidence, lastCommit }: Block): RpcJson {
  return {
    header: headerToRpcJson(header),
    data: { txs: txs.map(bytesToBase64) },
    evidence: { evidence: evidence.map(evidenceToRpcJson) },
    last_commit: commitToRpcJson(lastCommit),
  };
}

/** A validator in CometBFT's JSON. */
export function validatorToRpcJson(validator: Validator): RpcJson {
  return {
    address: hex(validator.address),
    pub_key: { type: "tendermint/PubKeyEd25519", value: bytesToBase64(validator.publicKey) },
    voting_power: validator.votingPower.toString(),
    proposer_priority: validator.proposerPriority.toString(),
  };
}
