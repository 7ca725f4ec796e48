import type { BackendCall } from "@turnpike/protocol";
import { memberAt } from "../family.ts";
import type { BlockRef, CacheRule, MethodTraits } from "../method-traits.ts";
import { type PathRule, pathRead, pathTable, pathTip, pathTraitsOf, readQuery } from "./paths.ts";
import {
  all,
  atHeight,
  byBlock,
  decimalHeight,
  FOREVER,
  found,
  HEAD,
  LATEST,
  methodTable,
  NEVER,
  namedParams,
  own,
  paramAt,
  read,
  SUBSCRIPTION,
  tip,
  traitsOf,
  WRITE,
} from "./rules.ts";

/** A parameter by its name, or by its place in a list. */
function argument(params: unknown, name: string, index: number): unknown {
  return Array.isArray(params) ? paramAt(params, index) : namedParams(params)?.[name];
}

/** `height` of CometBFT: none is the newest. It refuses 0, except in `abci_query`, where 0 is the newest too. */
function heightRef(value: unknown, zero: BlockRef | undefined): BlockRef | undefined {
  if (value === undefined || value === null) return LATEST;
  const height = decimalHeight(value);
  return height === 0 ? zero : atHeight(height);
}

const AT_HEIGHT = byBlock((params) => all(heightRef(argument(params, "height", 0), undefined)));

/** The commit of the newest block is the node's own; that of an older one stands in the block after it. */
const COMMIT = byBlock((params) => {
  const ref = heightRef(argument(params, "height", 0), undefined);
  return ref !== undefined && "height" in ref ? [ref, { height: ref.height + 1 }] : all(ref);
});

/** Queries that read the state of a height alone. Other services answer about the node, or about what is newest. */
const STATE_QUERY = /^"?(?:\/store\/|\/[A-Za-z0-9_.]+\.Query\/)/;

const ABCI_QUERY = byBlock((params) => {
  const path = argument(params, "path", 0);
  if (typeof path !== "string" || !STATE_QUERY.test(path)) return undefined;
  return all(heightRef(argument(params, "height", 2), LATEST));
});

const inTx = found((result) => decimalHeight(memberAt(result, "height")));
const blockHeight = (result: unknown): number | undefined =>
  decimalHeight(memberAt(result, "block", "header", "height"));
const headerHeight = (result: unknown): number | undefined => decimalHeight(memberAt(result, "header", "height"));
const commitHeight = (result: unknown): number | undefined =>
  decimalHeight(memberAt(result, "signed_header", "header", "height"));

/** RPC of CometBFT; its GET routes have the same names. A committed block is final. */
export const COMET_METHODS = methodTable(
  [
    ["block", { ...read(AT_HEIGHT), tipOf: blockHeight }],
    ["block_results", read(AT_HEIGHT)],
    ["header", { ...read(AT_HEIGHT), tipOf: headerHeight }],
    ["consensus_params validators", read(AT_HEIGHT)],
    ["commit", tip(COMMIT, commitHeight)],
    ["block_by_hash", read(found(blockHeight))],
    ["header_by_hash", read(found(headerHeight))],
    ["tx", read(inTx)],
    ["abci_query", read(ABCI_QUERY)],
    ["genesis genesis_chunked", read(FOREVER)],
    // It also states the newest height, and is cut to what the node keeps.
    ["blockchain", own(HEAD)],
    ["status", tip(NEVER, (result) => decimalHeight(memberAt(result, "sync_info", "latest_block_height")))],
    ["abci_info", tip(NEVER, (result) => decimalHeight(memberAt(result, "response", "last_block_height")))],
    // Indexing comes after the block, at each node in its own time.
    ["tx_search block_search", own()],
    ["health net_info consensus_state dump_consensus_state syncing check_tx", own()],
    ["unconfirmed_tx unconfirmed_txs num_unconfirmed_txs", own()],
    ["broadcast_tx_async broadcast_tx_sync broadcast_tx_commit broadcast_evidence", WRITE],
    ["subscribe unsubscribe unsubscribe_all", SUBSCRIPTION],
  ],
  /^(?!broadcast_|subscribe|unsubscribe)/,
);

const HEIGHT_HEADER = "x-cosmos-block-height";

/** A module's query: state at the height of the header, or at the newest. */
const MODULE: PathRule = {
  by: "block",
  blocks: ({ named, headers }) =>
    "height" in named || "block_height" in named ? undefined : all(heightRef(headers[HEIGHT_HEADER], LATEST)),
};
const BY_VALUE: PathRule = {
  by: "block",
  blocks: ({ values }) => all(atHeight(decimalHeight(values[0]) || undefined)),
};
const TXS_HASH: PathRule = {
  by: "found",
  heightOf: (result) => decimalHeight(memberAt(result, "tx_response", "height")),
};
const BASE = "/cosmos/base/tendermint/v1beta1";
const never = pathRead(NEVER, false);
const moduleQuery = pathRead(MODULE);

const LCD_PATHS = pathTable([
  [`GET ${BASE}/blocks/latest`, pathTip(HEAD, blockHeight)],
  [`GET ${BASE}/blocks/{height}`, pathRead(BY_VALUE)],
  [`GET ${BASE}/validatorsets/latest`, pathRead(HEAD)],
  [`GET ${BASE}/validatorsets/{height}`, pathRead(BY_VALUE)],
  ["GET /cosmos/base/*", never],
  ["GET /cosmos/tx/v1beta1/txs/block/{height}", pathRead(BY_VALUE)],
  ["GET /cosmos/tx/v1beta1/txs/{hash}", pathRead(TXS_HASH)],
  ["GET /cosmos/tx/*", never],
  ["GET /cosmos/app/*", never],
  ["GET /cosmos/autocli/*", never],
  ["GET /cosmos/reflection/*", never],
  ["GET /cosmos/{module}/{version}/*", moduleQuery],
  ["GET /ibc/apps/*", moduleQuery],
  ["GET /ibc/core/*", moduleQuery],
  ["GET /cosmwasm/wasm/*", moduleQuery],
  ["GET /{chain}/{module}/v1/*", moduleQuery],
  ["GET /{chain}/{module}/v1beta1/*", moduleQuery],
  ["GET /{chain}/{module}/v1beta2/*", moduleQuery],
  ["GET /{chain}/{module}/v1beta3/*", moduleQuery],
  ["GET /{chain}/{module}/v1beta4/*", moduleQuery],
  ["GET /{chain}/{module}/v2/*", moduleQuery],
  ["POST /cosmos/tx/v1beta1/txs", { kind: "write", cache: NEVER, isComparable: false }],
]);

/** REST paths of the Cosmos SDK. */
export const COSMOS_PATHS = LCD_PATHS;

/** Numbers and texts of CometBFT's GET routes may stand in quotes. */
function unquote(named: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(named).map(([name, value]) => [name, value.replace(/^"(.*)"$/s, "$1")]));
}

function cometGet(call: BackendCall): MethodTraits | undefined {
  const at = call.path.indexOf("?");
  const name = call.path.slice(1, at === -1 ? undefined : at);
  const traits = traitsOf(COMET_METHODS, name, undefined);
  const { cache } = traits ?? {};
  if (traits === undefined || cache?.by !== "block") return traits;
  const blocks = (): readonly BlockRef[] | undefined => {
    const named = readQuery(at === -1 ? "" : call.path.slice(at + 1));
    return named === undefined ? undefined : cache.blocks(unquote(named));
  };
  const bound: CacheRule = { by: "block", blocks };
  return { ...traits, cache: bound };
}

/** What is known of a call to a Cosmos-style network. */
export function cosmosTraits(call: BackendCall): MethodTraits | undefined {
  if (call.rpcType === "rest") {
    const listed = pathTraitsOf(COSMOS_PATHS, call);
    return listed ?? (call.verb === "GET" ? own() : undefined);
  }
  if (call.rpcType !== "comet_bft" && call.rpcType !== "websocket") return undefined;
  return call.verb === "GET" ? cometGet(call) : traitsOf(COMET_METHODS, call.method ?? call.operation, call.params);
}
