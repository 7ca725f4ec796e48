import { AppError } from "@turnpike/base";
import { createMessage, shared } from "@turnpike/proto";
import type { Context } from "../../state/context.ts";
import { isHeight } from "../../state/heights.ts";
import { type Module, moduleGenesis } from "../../state/module.ts";
import { promoteParams } from "./history.ts";
import { type ParamMessageOptions, sharedMessages } from "./messages.ts";
import { DEFAULT_SHARED_PARAMS, sharedParamsFault } from "./params.ts";
import { SHARED_QUERIES } from "./queries.ts";
import { getSharedParams, SHARED_MODULE, sharedParams, sharedParamsHistory } from "./state.ts";

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the shared module is not valid: ${why}.` });

function init(ctx: Context, { params = DEFAULT_SHARED_PARAMS, paramsHistory }: shared.GenesisState): undefined {
  const fault = sharedParamsFault(params);
  if (fault !== undefined) throw invalid(fault.text);
  sharedParams.set(ctx, undefined, params);
  for (const { effectiveHeight, params: noted } of paramsHistory) {
    if (noted === undefined) continue;
    const wrong = !isHeight(effectiveHeight) ? "a height that no block has" : sharedParamsFault(noted)?.text;
    if (wrong !== undefined) throw invalid(`the history at ${effectiveHeight}: ${wrong}`);
    sharedParamsHistory.set(ctx, effectiveHeight, noted);
  }
}

function exportState(ctx: Context): shared.GenesisState {
  return createMessage(shared.GenesisStateSchema, {
    params: getSharedParams(ctx),
    paramsHistory: [...sharedParamsHistory.entries(ctx)].map(([effectiveHeight, params]) =>
      createMessage(shared.ParamsUpdateSchema, { effectiveHeight, params }),
    ),
  });
}

/** The module of the parameters that sessions, windows and prices share. Its end of block comes last of all. */
export function sharedModule(opts: ParamMessageOptions): Module {
  return {
    name: SHARED_MODULE,
    messages: sharedMessages(opts),
    queries: SHARED_QUERIES,
    genesis: moduleGenesis(shared.GenesisStateSchema, { init, export: exportState }),
    endBlock(ctx): undefined {
      promoteParams(ctx);
    },
  };
}
