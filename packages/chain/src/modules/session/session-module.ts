import { AppError } from "@turnpike/base";
import { createMessage, session } from "@turnpike/proto";
import type { Context } from "../../state/context.ts";
import { type Module, moduleGenesis } from "../../state/module.ts";
import type { ParamMessageOptions } from "../shared/messages.ts";
import { forgetDrawnSessions } from "./drawn.ts";
import { sessionMessages } from "./messages.ts";
import { DEFAULT_SESSION_PARAMS, sessionParamsFault } from "./params.ts";
import { SESSION_QUERIES } from "./queries.ts";
import { getSessionParams, keepBlockHash, SESSION_MODULE, sessionParams, sessionParamsHistory } from "./state.ts";

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the session module is not valid: ${why}.` });

function init(ctx: Context, { params = DEFAULT_SESSION_PARAMS, paramsHistory }: session.GenesisState): undefined {
  const fault = sessionParamsFault(params);
  if (fault !== undefined) throw invalid(fault.text);
  sessionParams.set(ctx, undefined, params);
  for (const { effectiveHeight, params: noted } of paramsHistory) {
    if (noted === undefined) continue;
    const wrong = effectiveHeight < 0n ? "a height below zero" : sessionParamsFault(noted)?.text;
    if (wrong !== undefined) throw invalid(`the history at ${effectiveHeight}: ${wrong}`);
    sessionParamsHistory.set(ctx, effectiveHeight, noted);
  }
}

function exportState(ctx: Context): session.GenesisState {
  return createMessage(session.GenesisStateSchema, {
    params: getSessionParams(ctx),
    paramsHistory: [...sessionParamsHistory.entries(ctx)].map(([effectiveHeight, params]) =>
      createMessage(session.ParamsUpdateSchema, { effectiveHeight, params }),
    ),
  });
}

/**
 * The module that draws sessions. Its end of block keeps the block's hash, which a genesis does not carry, and forgets the
 * sessions whose proofs were due.
 */
export function sessionModule(opts: ParamMessageOptions): Module {
  return {
    name: SESSION_MODULE,
    messages: sessionMessages(opts),
    queries: SESSION_QUERIES,
    genesis: moduleGenesis(session.GenesisStateSchema, { init, export: exportState }),
    endBlock(ctx): undefined {
      keepBlockHash(ctx);
      forgetDrawnSessions(ctx);
    },
  };
}
