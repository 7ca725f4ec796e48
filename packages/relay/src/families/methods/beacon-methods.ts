import type { BackendCall } from "@turnpike/protocol";
import { memberAt } from "../family.ts";
import type { MethodTraits } from "../method-traits.ts";
import { type PathArguments, type PathRule, pathRead, pathTable, pathTip, pathTraitsOf } from "./paths.ts";
import { decimalHeight, FOREVER, HEAD, NEVER, own, paramAt } from "./rules.ts";

/** Slot of a block, as the answers about one state it. */
function slotIn(result: unknown): number | undefined {
  const data = memberAt(result, "data");
  const first = paramAt(data, 0) ?? data;
  for (const names of [
    ["message", "slot"],
    ["header", "message", "slot"],
    ["signed_block_header", "message", "slot"],
  ]) {
    const slot = decimalHeight(memberAt(first, ...names));
    if (slot !== undefined) return slot;
  }
  return undefined;
}

/** By slot or root: the node says itself whether it is final. What names `head` or `finalized` moves, and is not kept. */
function finalSlot(result: unknown, { values }: PathArguments): number | undefined {
  if (memberAt(result, "finalized") !== true || memberAt(result, "execution_optimistic") === true) return undefined;
  const [id = ""] = values;
  if (/^0x[0-9a-f]{64}$/i.test(id)) return slotIn(result);
  return decimalHeight(id);
}

const BY_ID: PathRule = { by: "found", heightOf: finalSlot };
/** Nodes drop blobs after some weeks, and not all keep them all: only those that are there are an answer. */
const BLOBS: PathRule = {
  by: "found",
  heightOf: (result, args) => {
    const data = memberAt(result, "data");
    return Array.isArray(data) && data.length > 0 ? finalSlot(result, args) : undefined;
  },
};
const byId = pathRead(BY_ID, false);
const never = pathRead(NEVER, false);

/** The Beacon API. Heights are slots. Flags in the answers differ between nodes for a while, so they are not compared. */
export const BEACON_PATHS = pathTable([
  ["GET /eth/v1/node/syncing", pathTip(NEVER, (result) => decimalHeight(memberAt(result, "data", "head_slot")))],
  ["GET /eth/v1/node/*", never],
  ["GET /eth/v1/beacon/genesis", pathRead(FOREVER)],
  ["GET /eth/v1/config/deposit_contract", pathRead(FOREVER)],
  ["GET /eth/v1/config/*", pathRead(HEAD, false)],
  ["GET /eth/v1/beacon/headers", never],
  ["GET /eth/v1/beacon/headers/{block_id}", byId],
  ["GET /eth/v2/beacon/blocks/{block_id}", byId],
  ["GET /eth/v1/beacon/blocks/{block_id}/*", byId],
  ["GET /eth/v2/beacon/blocks/{block_id}/*", byId],
  ["GET /eth/v1/beacon/blinded_blocks/{block_id}", byId],
  ["GET /eth/v1/beacon/rewards/blocks/{block_id}", byId],
  ["GET /eth/v1/beacon/blob_sidecars/{block_id}", pathRead(BLOBS, false)],
  ["GET /eth/v1/beacon/blobs/{block_id}", pathRead(BLOBS, false)],
  ["GET /eth/v1/beacon/states/{state_id}/*", byId],
  ["GET /eth/v1/beacon/light_client/finality_update", pathRead(HEAD, false)],
  ["GET /eth/v1/beacon/light_client/optimistic_update", pathRead(HEAD, false)],
  ["GET /eth/v1/beacon/light_client/*", never],
  ["GET /eth/v1/validator/aggregate_attestation", never],
  ["GET /eth/v1/validator/attestation_data", never],
  ["GET /eth/v1/validator/duties/*", never],
  ["GET /eth/v1/validator/sync_committee_contribution", never],
  ["POST /eth/v1/beacon/states/*", never],
  ["POST /eth/v1/beacon/rewards/*", never],
  ["POST /eth/v1/validator/duties/*", never],
  ["POST /eth/v1/validator/liveness/{epoch}", never],
  ["POST /eth/*", { kind: "write", cache: NEVER, isComparable: false }],
]);

/** What is known of a call to the consensus layer. */
export function beaconTraits(call: BackendCall): MethodTraits | undefined {
  return pathTraitsOf(BEACON_PATHS, call) ?? (call.verb === "GET" ? own() : undefined);
}
