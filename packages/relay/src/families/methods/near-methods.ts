import { memberAt } from "../family.ts";
import type { BlockRef, MethodTraits } from "../method-traits.ts";
import {
  all,
  atHeight,
  byBlock,
  decimalHeight,
  FINALIZED,
  FOREVER,
  found,
  LATEST,
  methodTable,
  namedParams,
  own,
  paramAt,
  read,
  tip,
  WRITE,
} from "./rules.ts";

const FINALITY: Readonly<Record<string, BlockRef>> = {
  optimistic: LATEST,
  "near-final": { tag: "safe" },
  final: FINALIZED,
};

/** A block by its number or its hash. */
function blockId(value: unknown): BlockRef | undefined {
  if (typeof value === "number") return atHeight(decimalHeight(value));
  return typeof value === "string" && /^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(value) ? { hash: value } : undefined;
}

/** `{block_id}` or `{finality}`; both or neither is for the node to refuse. */
function blockRef(params: unknown): BlockRef | undefined {
  const { block_id: id, finality, ...rest } = namedParams(params) ?? {};
  if ((id === undefined) === (finality === undefined) || "sync_checkpoint" in rest) return undefined;
  if (id !== undefined) return blockId(id);
  return typeof finality === "string" && Object.hasOwn(FINALITY, finality) ? FINALITY[finality] : undefined;
}

const BY_REFERENCE = byBlock((params) => all(blockRef(params)));
const BLOCK = byBlock((params) => all(Array.isArray(params) ? blockId(paramAt(params, 0)) : blockRef(params)));
/** `[block_id]` or `{block_id}`; null is the newest. */
const BY_ID = byBlock((params) => {
  const id = Array.isArray(params) ? paramAt(params, 0) : namedParams(params)?.block_id;
  return all(id === null || id === undefined ? LATEST : blockId(id));
});
const inBlock = found((result) => decimalHeight(memberAt(result, "header", "height_included")));

const statusHeight = (result: unknown): number | undefined =>
  decimalHeight(memberAt(result, "sync_info", "latest_block_height"));
const block = read(BLOCK);
const newest: MethodTraits = {
  ...block,
  tipOf: (result) => decimalHeight(memberAt(result, "header", "height")),
};
const blockChoice = (params: unknown): MethodTraits =>
  namedParams(params)?.finality === "optimistic" ? newest : block;

/** NEAR's JSON-RPC, of nearcore. */
export const NEAR_METHODS = methodTable(
  [
    ["status", tip({ by: "never" }, statusHeight)],
    ["block", blockChoice],
    ["chunk", read(inBlock)],
    ["query changes block_effects EXPERIMENTAL_changes EXPERIMENTAL_changes_in_block", read(BY_REFERENCE)],
    ["EXPERIMENTAL_protocol_config EXPERIMENTAL_view_account EXPERIMENTAL_view_code", read(BY_REFERENCE)],
    ["EXPERIMENTAL_view_state EXPERIMENTAL_view_access_key EXPERIMENTAL_view_access_key_list", read(BY_REFERENCE)],
    ["EXPERIMENTAL_call_function", read(BY_REFERENCE)],
    ["gas_price EXPERIMENTAL_validators_ordered", read(BY_ID)],
    ["genesis_config EXPERIMENTAL_genesis_config", read(FOREVER)],
    // They grow until all receipts have run, and do not say at which height.
    ["tx EXPERIMENTAL_tx_status EXPERIMENTAL_receipt", own()],
    ["validators light_client_proof next_light_client_block EXPERIMENTAL_light_client_proof", own()],
    ["EXPERIMENTAL_light_client_block_proof maintenance_windows EXPERIMENTAL_maintenance_windows", own()],
    ["EXPERIMENTAL_split_storage_info EXPERIMENTAL_congestion_level", own()],
    ["health network_info client_config", own()],
    ["broadcast_tx_async broadcast_tx_commit send_tx EXPERIMENTAL_broadcast_tx_sync", WRITE],
  ],
  /^(?:block|chunk|gas_price|query|status|tx|changes|validators|EXPERIMENTAL_(?!.*broadcast).*)$/,
);
