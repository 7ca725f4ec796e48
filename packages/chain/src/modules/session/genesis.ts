import { AppError, bytesToHex, hexToBytes, isRecord } from "@turnpike/base";
import { createMessage, fromApiJson, session, type shared, toApiJson } from "@turnpike/proto";
import { settlementDelayBlocks } from "@turnpike/protocol";
import { uint64Codec } from "../../state/codecs.ts";
import type { Context } from "../../state/context.ts";
import { isHeight } from "../../state/heights.ts";
import { oldestClaimedStart } from "../proof/unsettled-claims.ts";
import { getSharedParams, sharedParamsHistory } from "../shared/state.ts";
import { addHistory, exportHistory, HISTORY_FIELD } from "./history-genesis.ts";
import { DEFAULT_SESSION_PARAMS, sessionParamsFault } from "./params.ts";
import { blockHashes, getSessionParams, sessionParams, sessionParamsHistory } from "./state.ts";

const HASHES = "block_hashes";
const HASH_BYTES = 32;
const HEIGHT = /^\d{1,18}$/;

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the session module is not valid: ${why}.` });

function addHashes(ctx: Context, list: unknown): void {
  if (!Array.isArray(list)) throw invalid(`${HASHES} is no list`);
  for (const item of list as readonly unknown[]) {
    const { height: text, hash: hex } = isRecord(item) ? item : {};
    const height = typeof text === "string" && HEIGHT.test(text) ? BigInt(text) : undefined;
    const hash = typeof hex === "string" ? hexToBytes(hex) : undefined;
    if (height === undefined || hash?.length !== HASH_BYTES) throw invalid(`an entry of ${HASHES}`);
    // A chain that begins anew at block 1 counts other blocks than the one that was exported.
    if (height > ctx.block.heightBlocks) continue;
    if (blockHashes.has(ctx, height)) throw invalid(`${HASHES} has ${height} twice`);
    blockHashes.set(ctx, height, hash);
  }
}

/**
 * Fills the state from a genesis: that of the real chain, and what unsettled sessions need and the real chain's has no place
 * for: as `block_hashes` those that they were drawn by, as `records_history` earlier records.
 * @throws AppError CONFIG_INVALID
 */
export function initSession(ctx: Context, json: unknown): undefined {
  const { [HASHES]: hashes = [], [HISTORY_FIELD]: history = [], ...rest } = isRecord(json) ? json : {};
  const read = fromApiJson(session.GenesisStateSchema, isRecord(json) ? rest : (json ?? {}));
  if (!read.ok) throw invalid(read.fault);
  const { params = DEFAULT_SESSION_PARAMS, paramsHistory } = read.message;
  const fault = sessionParamsFault(params);
  if (fault !== undefined) throw invalid(fault.text);
  sessionParams.set(ctx, undefined, params);
  for (const { effectiveHeight, params: noted } of paramsHistory) {
    if (noted === undefined) continue;
    const wrong = isHeight(effectiveHeight) ? sessionParamsFault(noted)?.text : "a height that no block has";
    if (wrong !== undefined) throw invalid(`the history at ${effectiveHeight}: ${wrong}`);
    sessionParamsHistory.set(ctx, effectiveHeight, noted);
  }
  addHashes(ctx, hashes);
  addHistory(ctx, history);
}

// Blocks from the start of a session to its settlement, with one session to spare.
function neededBlocks(ctx: Context): bigint {
  const span = (params: shared.Params): bigint => 2n * params.numBlocksPerSession + settlementDelayBlocks(params) + 1n;
  let most = span(getSharedParams(ctx));
  for (const [, params] of sharedParamsHistory.entries(ctx)) if (span(params) > most) most = span(params);
  return most;
}

/** What {@link initSession} makes the same state of, as far as sessions that are not settled yet need it. */
export function exportSession(ctx: Context): Record<string, unknown> {
  const state = createMessage(session.GenesisStateSchema, {
    params: getSessionParams(ctx),
    paramsHistory: [...sessionParamsHistory.entries(ctx)].map(([effectiveHeight, params]) =>
      createMessage(session.ParamsUpdateSchema, { effectiveHeight, params }),
    ),
  });
  const claimedStart = oldestClaimedStart(ctx);
  const newest = ctx.block.heightBlocks - neededBlocks(ctx);
  const first = claimedStart !== undefined && claimedStart < newest ? claimedStart : newest;
  const from = uint64Codec.encode(first > 0n ? first : 0n);
  const hashes = [...blockHashes.entries(ctx, { from })].map(([height, hash]) => ({
    height: height.toString(),
    hash: bytesToHex(hash),
  }));
  const json = toApiJson(session.GenesisStateSchema, state) as Record<string, unknown>;
  const history = exportHistory(ctx);
  return {
    ...json,
    ...(hashes.length === 0 ? {} : { [HASHES]: hashes }),
    ...(history.length === 0 ? {} : { [HISTORY_FIELD]: history }),
  };
}
