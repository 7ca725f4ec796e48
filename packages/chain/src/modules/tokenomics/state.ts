import { createMessage, tokenomics } from "@turnpike/proto";
import { noKey, pairCodec, textCodec, uint64Codec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { type Parsed, parsedRecord, recordCodec } from "../../state/parsed.ts";

/** Name of the module, of its part of the state, and of the account that mints. */
export const TOKENOMICS_MODULE = "tokenomics";

/** The parameters. */
export const tokenomicsParams = new Collection({
  module: TOKENOMICS_MODULE,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: recordCodec(tokenomics.ParamsSchema),
  stored: { prefixBytes: "p_tokenomics".length },
});

/** Relays by service that were settled of sessions with one end, until the last of these sessions is settled. */
export const relaysOfPart = new Collection({
  module: TOKENOMICS_MODULE,
  prefix: Uint8Array.of(1),
  key: textCodec,
  value: uint64Codec,
});

/** End of the sessions of which blocks settled a part, while another part is not settled. */
export const endUnderWay = new Collection({
  module: TOKENOMICS_MODULE,
  prefix: Uint8Array.of(2),
  key: noKey,
  value: uint64Codec,
});

/** Relays by the height of the block that settled the last of an end's sessions, and service, until a block moves its difficulty. */
export const dueDifficulties = new Collection({
  module: TOKENOMICS_MODULE,
  prefix: Uint8Array.of(3),
  key: pairCodec(uint64Codec, textCodec),
  value: uint64Codec,
});

const DEFAULT_SHARES = { dao: 0.1, proposer: 0.05, supplier: 0.7, sourceOwner: 0.15, application: 0 };

/** The parameters that a chain has unless its genesis says otherwise. */
export const DEFAULT_TOKENOMICS_PARAMS: Parsed<tokenomics.Params> = parsedRecord(
  createMessage(tokenomics.ParamsSchema, {
    daoRewardAddress: "pokt1eeeksh2tvkh7wzmfrljnhw4wrhs55lcuvmekkw",
    mintAllocationPercentages: DEFAULT_SHARES,
    globalInflationPerClaim: 0.1,
    mintEqualsBurnClaimDistribution: DEFAULT_SHARES,
    mintRatio: 1,
    overservicingBonusMultiplier: 1n,
  }),
);

/** The parameters. */
export function getTokenomicsParams(ctx: Context): Parsed<tokenomics.Params> {
  return tokenomicsParams.get(ctx, undefined) ?? DEFAULT_TOKENOMICS_PARAMS;
}
