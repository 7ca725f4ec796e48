import { AppError } from "@turnpike/base";
import { createMessage, session, type shared } from "@turnpike/proto";
import { settlementDelayBlocks } from "@turnpike/protocol";
import { uint64Codec } from "../../state/codecs.ts";
import type { Context } from "../../state/context.ts";
import { heightType, hexType, recordType, type ValueOf } from "../../state/genesis-types.ts";
import { isHeight } from "../../state/heights.ts";
import { genesisList, moduleGenesis } from "../../state/module.ts";
import { oldestClaimedStart } from "../proof/unsettled-claims.ts";
import { getSharedParams, sharedParamsHistory } from "../shared/state.ts";
import { RECORDS_HISTORY } from "./history-genesis.ts";
import { DEFAULT_SESSION_PARAMS, sessionParamsFault } from "./params.ts";
import { blockHashes, getSessionParams, sessionParams, sessionParamsHistory } from "./state.ts";

const HASH_BYTES = 32;
const BLOCK_HASH = recordType({ height: heightType, hash: hexType(HASH_BYTES) });

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the session module is not valid: ${why}.` });

function addHashes(ctx: Context, list: readonly ValueOf<typeof BLOCK_HASH>[]): undefined {
  for (const { height, hash } of list) {
    // A chain that begins anew at block 1 counts other blocks than the one that was exported.
    if (height > ctx.block.heightBlocks) continue;
    if (blockHashes.has(ctx, height)) throw invalid(`block_hashes has ${height} twice`);
    blockHashes.set(ctx, height, hash);
  }
}

function initSession(
  ctx: Context,
  { params = DEFAULT_SESSION_PARAMS, paramsHistory }: session.GenesisState,
): undefined {
  const fault = sessionParamsFault(params);
  if (fault !== undefined) throw invalid(fault.text);
  sessionParams.set(ctx, undefined, params);
  for (const { effectiveHeight, params: noted } of paramsHistory) {
    if (noted === undefined) continue;
    const wrong = isHeight(effectiveHeight) ? sessionParamsFault(noted)?.text : "a height that no block has";
    if (wrong !== undefined) throw invalid(`the history at ${effectiveHeight}: ${wrong}`);
    sessionParamsHistory.set(ctx, effectiveHeight, noted);
  }
}

// Blocks from the start of a session to its settlement, with one session to spare.
function neededBlocks(ctx: Context): bigint {
  const span = (params: shared.Params): bigint => 2n * params.numBlocksPerSession + settlementDelayBlocks(params) + 1n;
  let most = span(getSharedParams(ctx));
  for (const [, params] of sharedParamsHistory.entries(ctx)) if (span(params) > most) most = span(params);
  return most;
}

function exportSession(ctx: Context): session.GenesisState {
  return createMessage(session.GenesisStateSchema, {
    params: getSessionParams(ctx),
    paramsHistory: [...sessionParamsHistory.entries(ctx)].map(([effectiveHeight, params]) =>
      createMessage(session.ParamsUpdateSchema, { effectiveHeight, params }),
    ),
  });
}

/** Hashes that sessions which are not settled yet were drawn by. */
function* exportHashes(ctx: Context): Generator<ValueOf<typeof BLOCK_HASH>> {
  const claimedStart = oldestClaimedStart(ctx);
  const newest = ctx.block.heightBlocks - neededBlocks(ctx);
  const first = claimedStart !== undefined && claimedStart < newest ? claimedStart : newest;
  const from = uint64Codec.encode(first > 0n ? first : 0n);
  for (const [height, hash] of blockHashes.entries(ctx, { from })) yield { height, hash };
}

/**
 * Genesis of sessions: that of the real chain, and what unsettled sessions need and the real chain's has no place for: as
 * `block_hashes` those that they were drawn by, as `records_history` earlier records.
 */
export const SESSION_GENESIS = moduleGenesis(session.GenesisStateSchema, {
  init: initSession,
  export: exportSession,
  lists: [genesisList("block_hashes", BLOCK_HASH, { init: addHashes, export: exportHashes }), RECORDS_HISTORY],
});
