import { BOOLEAN, either, list, NUMBER, object, orNull, positional, STRING, text } from "./schema.ts";
import type { JsonSchema } from "./types.ts";

/**
 * Schemas of EVM parameters. They refuse only what no node takes: clients differ about leading zeros, plain numbers,
 * `0x` and optional parameters, so that all these pass.
 */

const QUANTITY = either(text("^(0x[0-9a-fA-F]*|[0-9]+)$"), { type: "integer", minimum: 0 });
const DATA = text("^(0x)?[0-9a-fA-F]*$");
/** `one1…` is an address of Harmony. */
const ADDRESS = text("^((0x)?[0-9a-fA-F]{40}|one1[0-9a-z]{38})$");
const HASH = text("^(0x)?[0-9a-fA-F]{64}$");
const SLOT = either(text("^(0x)?[0-9a-fA-F]{0,64}$"), { type: "integer", minimum: 0 });

/** Number, tag (with those of rollups), hash, or EIP-1898 object. */
const BLOCK = either(
  text("^(0x[0-9a-fA-F]+|[0-9]+|earliest|latest|pending|safe|finalized|committed|l1_committed|accepted)$"),
  { type: "integer", minimum: 0 },
  { type: "null" },
  {
    type: "object",
    properties: {
      blockNumber: orNull(QUANTITY),
      blockHash: orNull(HASH),
      requireCanonical: BOOLEAN,
    },
  },
);

const CALL = object({
  "from?": orNull(ADDRESS),
  "to?": orNull(ADDRESS),
  "gas?": orNull(QUANTITY),
  "gasPrice?": orNull(QUANTITY),
  "maxFeePerGas?": orNull(QUANTITY),
  "maxPriorityFeePerGas?": orNull(QUANTITY),
  "value?": orNull(QUANTITY),
  "nonce?": orNull(QUANTITY),
  "data?": orNull(DATA),
  "input?": orNull(DATA),
  "chainId?": orNull(QUANTITY),
  "type?": orNull(QUANTITY),
});

const OVERRIDES = orNull({ type: "object", additionalProperties: { type: ["object", "null"] } });

const TOPIC = either({ type: "null" }, HASH, list(orNull(HASH)));

const FILTER = object({
  "fromBlock?": BLOCK,
  "toBlock?": BLOCK,
  "blockHash?": orNull(HASH),
  "address?": either({ type: "null" }, ADDRESS, list(ADDRESS)),
  "topics?": orNull(list(TOPIC)),
});

const FILTER_ID = either({ type: "string", minLength: 1, maxLength: 512 }, { type: "integer", minimum: 0 });

const NONE = positional(0);
const BY_ACCOUNT = positional(1, ADDRESS, BLOCK);
const BY_HASH = positional(1, HASH);
const BY_BLOCK = positional(1, BLOCK);
const BY_HASH_AND_INDEX = positional(2, HASH, QUANTITY);
const BY_BLOCK_AND_INDEX = positional(2, BLOCK, QUANTITY);
const CALLED = positional(1, CALL, BLOCK, OVERRIDES, orNull({ type: "object" }));

/** Parameters of every EVM method that the catalogue knows. */
export const EVM_PARAMS: Readonly<Record<string, JsonSchema>> = {
  eth_blockNumber: NONE,
  eth_call: CALLED,
  eth_chainId: NONE,
  eth_createAccessList: CALLED,
  eth_estimateGas: CALLED,
  eth_feeHistory: positional(2, QUANTITY, BLOCK, orNull(list(NUMBER))),
  eth_gasPrice: NONE,
  eth_getBalance: BY_ACCOUNT,
  eth_getBlockByHash: positional(1, HASH, orNull(BOOLEAN)),
  eth_getBlockByNumber: positional(1, BLOCK, orNull(BOOLEAN)),
  eth_getBlockReceipts: BY_BLOCK,
  eth_getBlockTransactionCountByHash: BY_HASH,
  eth_getBlockTransactionCountByNumber: BY_BLOCK,
  eth_getCode: BY_ACCOUNT,
  eth_getFilterChanges: positional(1, FILTER_ID),
  eth_getFilterLogs: positional(1, FILTER_ID),
  eth_getLogs: positional(1, FILTER),
  eth_getProof: positional(2, ADDRESS, list(SLOT), BLOCK),
  eth_getStorageAt: positional(2, ADDRESS, SLOT, BLOCK),
  eth_getTransactionByBlockHashAndIndex: BY_HASH_AND_INDEX,
  eth_getTransactionByBlockNumberAndIndex: BY_BLOCK_AND_INDEX,
  eth_getTransactionByHash: BY_HASH,
  eth_getTransactionCount: BY_ACCOUNT,
  eth_getTransactionReceipt: BY_HASH,
  eth_getUncleByBlockHashAndIndex: BY_HASH_AND_INDEX,
  eth_getUncleByBlockNumberAndIndex: BY_BLOCK_AND_INDEX,
  eth_getUncleCountByBlockHash: BY_HASH,
  eth_getUncleCountByBlockNumber: BY_BLOCK,
  eth_maxPriorityFeePerGas: NONE,
  eth_newBlockFilter: NONE,
  eth_newFilter: positional(1, FILTER),
  eth_newPendingTransactionFilter: NONE,
  eth_syncing: NONE,
  eth_uninstallFilter: positional(1, FILTER_ID),
  net_listening: NONE,
  net_version: NONE,
  web3_clientVersion: NONE,
  web3_sha3: positional(1, DATA),
  eth_accounts: NONE,
  eth_coinbase: NONE,
  eth_blobBaseFee: NONE,
  eth_config: NONE,
  eth_simulateV1: positional(1, object({ blockStateCalls: list({ type: "object" }) }), BLOCK),
  net_peerCount: NONE,
  debug_getRawHeader: BY_BLOCK,
  debug_getRawReceipts: BY_BLOCK,
  debug_getRawTransaction: BY_HASH,
  debug_getBadBlocks: NONE,
  debug_getRawBlock: BY_BLOCK,
  eth_capabilities: NONE,
  eth_getBlockAccessList: BY_BLOCK,
  eth_getStorageValues: positional(1, { type: "object", additionalProperties: list(STRING) }, BLOCK),
  txpool_status: NONE,
};
