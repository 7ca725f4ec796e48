import type { BackendCall } from "@turnpike/protocol";
import { memberAt } from "../family.ts";
import type { BlockRef, MethodTraits } from "../method-traits.ts";
import { EVM_METHODS } from "./evm-methods.ts";
import { type PathRule, type PathTraits, pathRead, pathTable, pathTip, pathTraitsOf } from "./paths.ts";
import { all, atHeight, decimalHeight, FINALIZED, HEAD, LATEST, NEVER, own, traitsOf } from "./rules.ts";

const BY_NUM: PathRule = { by: "block", blocks: ({ named }) => all(atHeight(decimalHeight(named.num))) };
const BY_ID: PathRule = {
  by: "block",
  blocks: ({ named }) => {
    const { id_or_num: id } = named;
    if (id === undefined) return [LATEST];
    if (typeof id === "string" && /^[0-9a-f]{64}$/i.test(id)) return [{ hash: id.toLowerCase() }];
    return all(atHeight(decimalHeight(id)));
  },
};
/** From the first, up to and without the second. */
const RANGE: PathRule = {
  by: "block",
  blocks: ({ named }) => {
    const end = decimalHeight(named.endNum);
    return all(atHeight(decimalHeight(named.startNum)), atHeight(end === undefined ? undefined : Math.max(0, end - 1)));
  },
};
const SOLID: PathRule = { by: "block", blocks: (): readonly BlockRef[] => [FINALIZED] };
const IN_BLOCK: PathRule = { by: "found", heightOf: (result) => decimalHeight(memberAt(result, "blockNumber")) };
const nowBlock = (result: unknown): number | undefined =>
  decimalHeight(memberAt(result, "block_header", "raw_data", "number"));

const never = pathRead(NEVER, false);
const WRITES: PathTraits = { kind: "write", cache: NEVER, isComparable: false };

/** java-tron's REST paths. `walletsolidity` knows only blocks that cannot be undone. */
export const TRON_PATHS = pathTable([
  ["/wallet/getnowblock", pathTip(HEAD, nowBlock)],
  ["/wallet/getblock", pathRead(BY_ID)],
  ["/wallet/getblockbynum", pathRead(BY_NUM)],
  ["/wallet/getblockbyid", pathRead({ by: "found", heightOf: nowBlock })],
  ["/wallet/getblockbylimitnext", pathRead(RANGE)],
  ["/wallet/gettransactioninfobyblocknum", pathRead(BY_NUM)],
  ["/wallet/gettransactioninfobyid", pathRead(IN_BLOCK)],
  ["/wallet/getaccount", pathRead(HEAD, false)],
  ["/wallet/getcontract", pathRead(HEAD)],
  ["/wallet/getchainparameters", pathRead(HEAD)],
  ["/wallet/triggerconstantcontract", pathRead(HEAD, false)],
  ["/wallet/estimateenergy", pathRead(HEAD, false)],
  ["/wallet/gettransactionbyid", never],
  ["/wallet/getaccountresource", never],
  ["/wallet/getnodeinfo", never],
  ["/wallet/listwitnesses", never],
  ["/walletsolidity/getnowblock", pathRead(SOLID, false)],
  ["/walletsolidity/getaccount", pathRead(SOLID, false)],
  ["/walletsolidity/getblock", pathRead(BY_ID)],
  ["/walletsolidity/getblockbynum", pathRead(BY_NUM)],
  ["/walletsolidity/gettransactioninfobyblocknum", pathRead(BY_NUM)],
  ["/walletsolidity/gettransactioninfobyid", pathRead(IN_BLOCK)],
  ["/walletsolidity/gettransactionbyid", never],
  ["/wallet/broadcasttransaction", WRITES],
  ["/wallet/broadcasthex", WRITES],
]);

/** Reads by their names; `triggersmartcontract` only builds a transaction. */
const POST_READS = /^\/wallet(?:solidity)?\/(?:get|list|trigger(?:constant|smart))/;

/** What is known of a call to a Tron-style network. */
export function tronTraits(call: BackendCall): MethodTraits | undefined {
  if (call.rpcType !== "rest") return traitsOf(EVM_METHODS, call.method ?? call.operation, call.params);
  const listed = pathTraitsOf(TRON_PATHS, call);
  return listed ?? (call.verb === "GET" || POST_READS.test(call.path) ? own() : undefined);
}
