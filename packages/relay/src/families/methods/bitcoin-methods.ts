import { memberAt } from "../family.ts";
import type { BlockRef } from "../method-traits.ts";
import {
  all,
  atHeight,
  byBlock,
  decimalHeight,
  FOREVER,
  HEAD,
  LATEST,
  methodTable,
  NEVER,
  namedParams,
  own,
  paramAt,
  read,
  tip,
  WRITE,
} from "./rules.ts";

function argument(params: unknown, name: string, index: number): unknown {
  return Array.isArray(params) ? paramAt(params, index) : namedParams(params)?.[name];
}

function hashRef(value: unknown): BlockRef | undefined {
  return typeof value === "string" && /^[0-9a-f]{64}$/i.test(value) ? { hash: value.toLowerCase() } : undefined;
}

/** Parsed blocks and headers also count their confirmations; raw ones do not change. */
const byHash = (detail: string): ReturnType<typeof byBlock> =>
  byBlock((params) => {
    const ref = hashRef(argument(params, "blockhash", 0));
    const level = argument(params, detail, 1);
    return level === 0 || level === false ? all(ref) : all(ref, LATEST);
  });

const BY_HEIGHT = byBlock((params) => all(atHeight(decimalHeight(argument(params, "height", 0)))));
const STATS = byBlock((params) => {
  const value = argument(params, "hash_or_height", 0);
  return all(typeof value === "number" ? atHeight(decimalHeight(value)) : hashRef(value));
});

/** RPC of Bitcoin Core. Its chain has no finality; see the probe for what counts as final. */
export const BITCOIN_METHODS = methodTable(
  [
    ["getblockcount", tip(HEAD, decimalHeight)],
    ["getblockchaininfo", tip(NEVER, (result) => decimalHeight(memberAt(result, "blocks")))],
    ["getbestblockhash getdifficulty getchaintxstats", read(HEAD)],
    ["getblockhash", read(BY_HEIGHT)],
    ["getblock", read(byHash("verbosity"))],
    ["getblockheader", read(byHash("verbose"))],
    ["getblockstats", read(STATS)],
    ["getrawtransaction", own(HEAD)],
    ["decoderawtransaction decodescript decodepsbt validateaddress verifymessage", read(FOREVER)],
    ["getnetworkhashps", read(HEAD)],
    ["getmempoolancestors getmempooldescendants getmempoolentry getmempoolinfo getrawmempool", own()],
    ["gettxout gettxoutproof gettxspendingprevout getblockfilter", own()],
    ["getchaintips getnetworkinfo getmininginfo getindexinfo getdeploymentinfo", own()],
    ["estimatesmartfee estimaterawfee testmempoolaccept verifytxoutproof uptime help", own()],
    ["sendrawtransaction submitpackage", WRITE],
  ],
  /^(?:get|decode|estimate|list|test|validate|verify|scan)/,
);
