import { createMessage, tokenomics } from "@turnpike/proto";
import { messageCodec, noKey, textCodec, uint64Codec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";

/** Name of the module, of its part of the state, and of the account that mints. */
export const TOKENOMICS_MODULE = "tokenomics";

/** The parameters. */
export const tokenomicsParams = new Collection({
  module: TOKENOMICS_MODULE,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(tokenomics.ParamsSchema),
  stored: { prefixBytes: "p_tokenomics".length },
});

/** Relays by service that were settled of sessions with one end, until the last of these sessions is settled. */
export const relaysOfPart = new Collection({
  module: TOKENOMICS_MODULE,
  prefix: Uint8Array.of(1),
  key: textCodec,
  value: uint64Codec,
});

/** The parameters. */
export function getTokenomicsParams(ctx: Context): tokenomics.Params {
  return tokenomicsParams.get(ctx, undefined) ?? createMessage(tokenomics.ParamsSchema);
}
