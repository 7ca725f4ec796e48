import { AppError } from "@turnpike/base";
import { createMessage, tokenomics } from "@turnpike/proto";
import type { Context } from "../../state/context.ts";
import { type Module, moduleGenesis, queryHandler } from "../../state/module.ts";
import { parsedRecord } from "../../state/parsed.ts";
import { tokenomicsMessages, tokenomicsParamsFault } from "./params.ts";
import { settleDueClaims } from "./settle-claims.ts";
import { DEFAULT_TOKENOMICS_PARAMS, getTokenomicsParams, TOKENOMICS_MODULE, tokenomicsParams } from "./state.ts";

/** What the module of settlement needs to know of the chain. */
export interface TokenomicsOptions {
  /** Address whose messages change parameters. */
  readonly authority: string;
}

function init(ctx: Context, { params = DEFAULT_TOKENOMICS_PARAMS }: tokenomics.GenesisState): undefined {
  const fault = tokenomicsParamsFault(params);
  if (fault !== undefined) {
    throw new AppError("CONFIG_INVALID", { message: `The genesis of settlement is not valid: ${fault.text}.` });
  }
  tokenomicsParams.set(ctx, undefined, parsedRecord(params));
}

/** The module of settlement: money moves at the end of blocks alone. */
export function tokenomicsModule({ authority }: TokenomicsOptions): Module {
  return {
    name: TOKENOMICS_MODULE,
    messages: tokenomicsMessages(authority),
    queries: {
      "/pocket.tokenomics.Query/Params": queryHandler(
        tokenomics.QueryParamsRequestSchema,
        tokenomics.QueryParamsResponseSchema,
        (ctx) => ({
          ok: true,
          value: createMessage(tokenomics.QueryParamsResponseSchema, { params: getTokenomicsParams(ctx) }),
        }),
      ),
    },
    genesis: moduleGenesis(tokenomics.GenesisStateSchema, {
      init,
      export: (ctx) => createMessage(tokenomics.GenesisStateSchema, { params: getTokenomicsParams(ctx) }),
    }),
    endBlock(ctx) {
      settleDueClaims(ctx);
      return undefined;
    },
  };
}
