import { cometTypes, consensus, createMessage } from "@turnpike/proto";
import type { GenesisConsensusParams } from "../../genesis/genesis-file.ts";
import { messageCodec, noKey } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { type Module, moduleGenesis, queryHandler } from "../../state/module.ts";

/** Name of the module, and of its part of the state. */
const CONSENSUS_MODULE = "consensus";

const NANOS_PER_SECOND = 1_000_000_000n;

/** Plain values of the module. */
export interface ConsensusOptions {
  /** What the engine began with, where `app_state.consensus` does not say. */
  readonly params?: cometTypes.ConsensusParams;
}

/** The parameters of consensus. The engine has its own; these are what queries answer. */
const consensusParams = new Collection({
  module: CONSENSUS_MODULE,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(cometTypes.ConsensusParamsSchema),
});

/** The parameters; empty where none are known. */
export function getConsensusParams(ctx: Context): cometTypes.ConsensusParams {
  return consensusParams.get(ctx, undefined) ?? createMessage(cometTypes.ConsensusParamsSchema);
}

/** The parameters of a genesis document. Its numbers must be decimal texts. */
export function consensusParamsOfGenesis(params: GenesisConsensusParams): cometTypes.ConsensusParams {
  const age = BigInt(params.evidence.max_age_duration);
  return createMessage(cometTypes.ConsensusParamsSchema, {
    block: { maxBytes: BigInt(params.block.max_bytes), maxGas: BigInt(params.block.max_gas) },
    evidence: {
      maxAgeNumBlocks: BigInt(params.evidence.max_age_num_blocks),
      maxAgeDuration: { seconds: age / NANOS_PER_SECOND, nanos: Number(age % NANOS_PER_SECOND) },
      maxBytes: BigInt(params.evidence.max_bytes),
    },
    validator: { pubKeyTypes: [...params.validator.pub_key_types] },
    version: { app: BigInt(params.version.app) },
    abci: { voteExtensionsEnableHeight: BigInt(params.abci.vote_extensions_enable_height) },
  });
}

/** The module that answers what the parameters of consensus are. They do not change: engines take no updates from here. */
export function consensusModule({ params: begun }: ConsensusOptions = {}): Module {
  return {
    name: CONSENSUS_MODULE,
    queries: {
      "/cosmos.consensus.v1.Query/Params": queryHandler(
        consensus.QueryParamsRequestSchema,
        consensus.QueryParamsResponseSchema,
        (ctx) => ({
          ok: true,
          value: createMessage(consensus.QueryParamsResponseSchema, { params: getConsensusParams(ctx) }),
        }),
      ),
    },
    genesis: moduleGenesis(consensus.QueryParamsResponseSchema, {
      init(ctx, { params = begun }) {
        if (params !== undefined) consensusParams.set(ctx, undefined, params);
        return undefined;
      },
      export: (ctx) => createMessage(consensus.QueryParamsResponseSchema, { params: getConsensusParams(ctx) }),
    }),
  };
}
