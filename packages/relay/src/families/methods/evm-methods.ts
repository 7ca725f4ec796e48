import { isRecord } from "@turnpike/base";
import { memberAt, readHeight } from "../family.ts";
import type { BlockRef, CacheRule, MethodTraits } from "../method-traits.ts";
import {
  all,
  byBlock,
  FILTER,
  FOREVER,
  found,
  HEAD,
  LATEST,
  methodTable,
  NEVER,
  own,
  PENDING,
  paramAt,
  read,
  SUBSCRIPTION,
  tip,
  WRITE,
} from "./rules.ts";

const TAGS: ReadonlyMap<unknown, BlockRef> = new Map(
  (["latest", "pending", "safe", "finalized", "earliest"] as const).map((tag) => [tag, { tag }]),
);
const QUANTITY = /^0x[0-9a-f]{1,13}$/i;
const HASH = /^0x[0-9a-f]{64}$/i;

/**
 * The block that a parameter names: a tag, a hex quantity, a hash, or an object of EIP-1898. Undefined for what nodes
 * could read in several ways, as decimal text.
 */
function evmBlockRef(value: unknown): BlockRef | undefined {
  if (typeof value === "string") {
    const named = TAGS.get(value);
    if (named !== undefined) return named;
    if (HASH.test(value)) return { hash: value.toLowerCase() };
    return QUANTITY.test(value) ? { height: Number(value) } : undefined;
  }
  if (!isRecord(value)) return undefined;
  const { blockHash, blockNumber } = value;
  if (blockHash === undefined) return typeof blockNumber === "string" ? evmBlockRef(blockNumber) : undefined;
  if (blockNumber !== undefined || typeof blockHash !== "string" || !HASH.test(blockHash)) return undefined;
  return { hash: blockHash.toLowerCase() };
}

/** The block that is the parameter at a place; `absent` is what nodes take when there is none. */
function at(index: number, absent?: BlockRef): CacheRule {
  return byBlock((params) => {
    if (!Array.isArray(params)) return undefined;
    const value = paramAt(params, index);
    const ref = value === undefined ? absent : evmBlockRef(value);
    return ref === undefined ? undefined : [ref];
  });
}

function range(from: unknown, to: unknown, hash: unknown): readonly BlockRef[] | undefined {
  if (hash === undefined || hash === null) return all(evmBlockRef(from ?? "latest"), evmBlockRef(to ?? "latest"));
  if (from !== undefined || to !== undefined || typeof hash !== "string") return undefined;
  return HASH.test(hash) ? [{ hash: hash.toLowerCase() }] : undefined;
}

/** Blocks of the filter object of `eth_getLogs`. */
const LOGS = byBlock((params) => {
  const filter = paramAt(params, 0);
  return isRecord(filter) ? range(filter.fromBlock, filter.toBlock, filter.blockHash) : undefined;
});
/** Nodes differ about the ends that are left out. */
const TRACE_FILTER = byBlock((params) => {
  const filter = paramAt(params, 0);
  if (!isRecord(filter) || filter.fromBlock === undefined || filter.toBlock === undefined) return undefined;
  return range(filter.fromBlock, filter.toBlock, undefined);
});
const TWO_BLOCKS = byBlock((params) => all(evmBlockRef(paramAt(params, 0)), evmBlockRef(paramAt(params, 1) ?? null)));

const inBlock = found((result) => readHeight(memberAt(result, "blockNumber")));
const isBlock = found((result) => readHeight(memberAt(result, "number")));
/** Traces of one transaction stand in one block, as JSON numbers. */
const tracesInBlock = found((result) => readHeight(memberAt(paramAt(result, 0), "blockNumber")));

const numberOf = (result: unknown): number | undefined => readHeight(memberAt(result, "number"));
const blockByNumber = read(at(0));
const newestBlock: MethodTraits = { ...blockByNumber, tipOf: numberOf };
const blockChoice = (params: unknown): MethodTraits => (paramAt(params, 0) === "latest" ? newestBlock : blockByNumber);

/** Ethereum JSON-RPC, of geth, Erigon, Nethermind, Besu, Reth and the networks that extend it. */
export const EVM_METHODS = methodTable(
  [
    ["eth_chainId net_version web3_sha3", read(FOREVER)],
    ["eth_blockNumber", tip(HEAD, readHeight)],
    ["erigon_blockNumber", own(at(0, LATEST))],

    [
      "eth_getBalance eth_getCode eth_getTransactionCount eth_call eth_getAccount eth_getStorageValues",
      read(at(1, LATEST)),
    ],
    ["eth_getStorageAt", read(at(2, LATEST))],
    // Nodes write the keys of a proof in their own ways, and estimate and simulate with algorithms of their own.
    ["eth_getProof", own(at(2, LATEST))],
    ["eth_simulateV1", own(at(1, LATEST))],
    // Without a block, nodes take the newest or the pending one.
    ["eth_estimateGas eth_createAccessList", own(at(1, PENDING))],
    ["eth_feeHistory", own(at(1))],
    ["eth_gasPrice eth_maxPriorityFeePerGas eth_blobBaseFee eth_baseFee", own(HEAD)],

    ["eth_getBlockByNumber eth_getHeaderByNumber", blockChoice],
    ["eth_getBlockByHash eth_getHeaderByHash", read(isBlock)],
    ["eth_getBlockReceipts eth_getBlockTransactionCountByNumber eth_getUncleCountByBlockNumber", read(at(0))],
    ["eth_getBlockTransactionCountByHash eth_getUncleCountByBlockHash eth_getBlockAccessList", read(at(0))],
    ["eth_getTransactionByBlockNumberAndIndex eth_getRawTransactionByBlockNumberAndIndex", read(at(0))],
    ["eth_getTransactionByBlockHashAndIndex", read(inBlock)],
    ["eth_getRawTransactionByBlockHashAndIndex", read(at(0))],
    ["eth_getUncleByBlockNumberAndIndex eth_getUncleByBlockHashAndIndex", read(at(0))],
    // One supplier may know it as pending and another in its block.
    ["eth_getTransactionByHash eth_getTransactionBySenderAndNonce", own(inBlock)],
    ["eth_getTransactionReceipt", read(inBlock)],
    ["eth_getRawTransactionByHash", own()],
    ["eth_getLogs", read(LOGS)],

    ["debug_getRawHeader debug_getRawBlock debug_getRawReceipts", read(at(0))],
    ["debug_getRawTransaction", own()],
    // What a trace looks like depends on the node.
    ["debug_traceBlockByNumber debug_traceBlockByHash", own(at(0))],
    ["debug_traceCall", own(at(1, PENDING))],
    ["debug_traceTransaction debug_traceBlock debug_traceChain", own()],
    ["debug_storageRangeAt", own(at(0))],
    ["debug_getModifiedAccountsByNumber debug_getModifiedAccountsByHash", own(TWO_BLOCKS)],
    ["debug_getBadBlocks debug_getAccessibleState", own()],
    ["trace_block trace_replayBlockTransactions", own(at(0))],
    ["trace_call", own(at(2, PENDING))],
    ["trace_callMany", own(at(1, PENDING))],
    ["trace_transaction", own(tracesInBlock)],
    ["trace_get", own(inBlock)],
    ["trace_filter", own(TRACE_FILTER)],
    ["trace_rawTransaction trace_replayTransaction", own()],

    ["eth_syncing eth_accounts eth_coinbase eth_mining eth_hashrate eth_protocolVersion eth_config", own(NEVER)],
    ["eth_capabilities eth_pendingTransactions net_listening net_peerCount web3_clientVersion rpc_modules", own(NEVER)],
    ["txpool_status txpool_content txpool_contentFrom txpool_inspect", own(NEVER)],
    ["optimism_outputAtBlock optimism_rollupConfig optimism_syncStatus optimism_version", own(NEVER)],

    ["eth_sendRawTransaction eth_sendRawTransactionSync eth_sendRawTransactionConditional", WRITE],
    ["eth_sendBundle eth_cancelBundle eth_sendPrivateTransaction eth_sendPrivateRawTransaction", WRITE],
    ["eth_cancelPrivateTransaction eth_sendUserOperation eth_submitTransaction", WRITE],
    ["zks_sendRawTransactionWithDetailedOutput", WRITE],
    ["eth_newFilter eth_newBlockFilter eth_newPendingTransactionFilter", FILTER],
    ["eth_getFilterChanges eth_getFilterLogs eth_uninstallFilter", FILTER],
    ["eth_subscribe eth_unsubscribe", SUBSCRIPTION],
  ],
  /^(?:eth_(?:get|call|estimate|simulate|create|fee|gas|max|blob|chain|block|sync|protocol)(?!.*[Ff]ilter)|net_|web3_|trace_|debug_(?:get|trace)|txpool_|ots_|erigon_get|bor_get|zks_(?:get|estimate)|arbtrace_|parity_)/,
);
