export { type BuiltBlock, buildBlock } from "./block.ts";
export { decodeBlock, decodeCommit } from "./decode.ts";
export { consensusHash, dataHash, headerHash, resultsHash, txHash } from "./hashes.ts";
export { encodeBlock, encodeBlockId, encodeCommit } from "./messages.ts";
export { MAX_BLOCK_BYTES } from "./part-set.ts";
export {
  blockIdToRpcJson,
  blockToRpcJson,
  commitToRpcJson,
  headerToRpcJson,
  type RpcJson,
  validatorToRpcJson,
} from "./rpc-json.ts";
export { nsToRfc3339, nsToTimestamp, rfc3339ToNs, timestampToNs } from "./time.ts";
export {
  BLOCK_ID_FLAG,
  BLOCK_PROTOCOL,
  type Block,
  type BlockId,
  COMET_VERSION,
  type Commit,
  type DuplicateVoteEvidence,
  EMPTY_COMMIT,
  type Header,
  type Validator,
  type ValidatorSet,
  VOTE_TYPE,
  type Vote,
  ZERO_BLOCK_ID,
  ZERO_TIME_NS,
} from "./types.ts";
export {
  createValidatorSet,
  rotateProposer,
  totalPower,
  updateValidatorSet,
  validatorAt,
  validatorsHash,
} from "./validator-set.ts";
export { type BlockExpectation, type LightBlock, verifyNextBlock, verifyNextHeader } from "./verify.ts";
export { commitSigOf, medianTimeNs, signVote, verifyCommit, voteTimeNs } from "./votes.ts";
export { varint } from "./wire.ts";
