import { cometTypes, createMessage } from "@turnpike/proto";
import type { GenesisDocument } from "../node/types.ts";

const NANOS = 1_000_000_000n;

/** The consensus parameters of a genesis, for who asks the application for them. */
export function genesisConsensusParams({ consensus: { params } }: GenesisDocument): cometTypes.ConsensusParams {
  const { block, evidence, validator, version, abci } = params;
  const age = BigInt(evidence.max_age_duration);
  return createMessage(cometTypes.ConsensusParamsSchema, {
    block: { maxBytes: BigInt(block.max_bytes), maxGas: BigInt(block.max_gas) },
    evidence: {
      maxAgeNumBlocks: BigInt(evidence.max_age_num_blocks),
      maxAgeDuration: { seconds: age / NANOS, nanos: Number(age % NANOS) },
      maxBytes: BigInt(evidence.max_bytes),
    },
    validator: { pubKeyTypes: [...validator.pub_key_types] },
    version: { app: BigInt(version.app) },
    abci: { voteExtensionsEnableHeight: BigInt(abci.vote_extensions_enable_height) },
  });
}
