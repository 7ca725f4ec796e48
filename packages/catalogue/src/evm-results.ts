import { BOOLEAN, COUNT, either, INTEGER, list, NUMBER, object, oneOf, orNull, STRING, text } from "./schema.ts";
import type { JsonSchema } from "./types.ts";

/**
 * Schemas of EVM results, after ethereum/execution-apis. What a rollup or an older client leaves out is optional, and
 * more members are always allowed; those present must have their form.
 */

/** Hex quantity without leading zeros. */
const QUANTITY: JsonSchema = text("^0x(0|[1-9a-fA-F][0-9a-fA-F]*)$");
const QUANTITY_64: JsonSchema = text("^0x(0|[1-9a-fA-F][0-9a-fA-F]{0,15})$");
const QUANTITY_256: JsonSchema = text("^0x(0|[1-9a-fA-F][0-9a-fA-F]{0,63})$");
/** Whole bytes as hex. */
const DATA: JsonSchema = text("^0x([0-9a-fA-F]{2})*$");
const SOME_DATA: JsonSchema = text("^0x([0-9a-fA-F]{2})+$");
/** 32 bytes. */
const HASH: JsonSchema = text("^0x[0-9a-fA-F]{64}$");
const ADDRESS: JsonSchema = text("^0x[0-9a-fA-F]{40}$");
const BLOOM: JsonSchema = text("^0x[0-9a-fA-F]{512}$");
const BYTES_8: JsonSchema = text("^0x[0-9a-fA-F]{16}$");
/** Signature parts: clients differ about leading zeros. */
const SIGNATURE_PART: JsonSchema = text("^0x[0-9a-fA-F]{0,64}$");
/** Id of a filter: clients differ about leading zeros. */
const FILTER_ID: JsonSchema = text("^0x[0-9a-fA-F]{1,64}$");

const ACCESS_LIST = list(object({ address: ADDRESS, storageKeys: list(HASH) }));

const LOG = object({
  address: ADDRESS,
  topics: { type: "array", maxItems: 4, items: HASH },
  data: DATA,
  blockNumber: orNull(QUANTITY),
  transactionHash: orNull(HASH),
  logIndex: orNull(QUANTITY),
  "blockHash?": orNull(HASH),
  "transactionIndex?": orNull(QUANTITY),
  "blockTimestamp?": orNull(QUANTITY),
  "removed?": BOOLEAN,
});

const AUTHORIZATION = object({
  chainId: QUANTITY,
  address: ADDRESS,
  nonce: QUANTITY,
  "yParity?": SIGNATURE_PART,
  "r?": SIGNATURE_PART,
  "s?": SIGNATURE_PART,
});

const TRANSACTION = object({
  hash: HASH,
  nonce: QUANTITY,
  from: ADDRESS,
  to: orNull(ADDRESS),
  gas: QUANTITY,
  value: QUANTITY_256,
  input: DATA,
  blockHash: orNull(HASH),
  blockNumber: orNull(QUANTITY),
  transactionIndex: orNull(QUANTITY),
  "blockTimestamp?": orNull(QUANTITY),
  "type?": QUANTITY_64,
  "gasPrice?": orNull(QUANTITY),
  "maxFeePerGas?": orNull(QUANTITY),
  "maxPriorityFeePerGas?": orNull(QUANTITY),
  "maxFeePerBlobGas?": orNull(QUANTITY),
  "blobVersionedHashes?": orNull(list(HASH)),
  "accessList?": orNull(ACCESS_LIST),
  "authorizationList?": orNull(list(AUTHORIZATION)),
  "chainId?": orNull(QUANTITY),
  "v?": SIGNATURE_PART,
  "yParity?": SIGNATURE_PART,
  "r?": SIGNATURE_PART,
  "s?": SIGNATURE_PART,
});

const WITHDRAWAL = object({ index: QUANTITY, validatorIndex: QUANTITY, address: ADDRESS, amount: QUANTITY });

const HEADER_MEMBERS = {
  // null in a pending block
  hash: orNull(HASH),
  parentHash: HASH,
  number: orNull(QUANTITY),
  timestamp: QUANTITY,
  gasUsed: QUANTITY,
  stateRoot: HASH,
  transactionsRoot: HASH,
  receiptsRoot: HASH,
  logsBloom: orNull(BLOOM),
  extraData: DATA,
  miner: orNull(ADDRESS),
  "gasLimit?": QUANTITY,
  "sha3Uncles?": HASH,
  "nonce?": orNull(BYTES_8),
  "mixHash?": orNull(HASH),
  "difficulty?": QUANTITY,
  "totalDifficulty?": orNull(QUANTITY),
  "baseFeePerGas?": orNull(QUANTITY),
  "size?": orNull(QUANTITY),
  "withdrawalsRoot?": orNull(HASH),
  "parentBeaconBlockRoot?": orNull(HASH),
  "requestsHash?": orNull(HASH),
  "blockAccessListHash?": orNull(HASH),
  "blobGasUsed?": orNull(QUANTITY),
  "excessBlobGas?": orNull(QUANTITY),
} as const;

const BLOCK = object({
  ...HEADER_MEMBERS,
  transactions: either(list(HASH), list(TRANSACTION)),
  "uncles?": list(HASH),
  "withdrawals?": orNull(list(WITHDRAWAL)),
});

const UNCLE = object({ ...HEADER_MEMBERS, "uncles?": list(HASH) });

const RECEIPT = object({
  transactionHash: HASH,
  transactionIndex: QUANTITY,
  blockHash: HASH,
  blockNumber: QUANTITY,
  // anvil writes a number here
  "blockTimestamp?": either(QUANTITY, COUNT, { type: "null" }),
  from: ADDRESS,
  "to?": orNull(ADDRESS),
  cumulativeGasUsed: QUANTITY,
  gasUsed: QUANTITY,
  logs: list(LOG),
  logsBloom: BLOOM,
  "contractAddress?": orNull(ADDRESS),
  "effectiveGasPrice?": QUANTITY,
  "type?": QUANTITY_64,
  "status?": text("^0x[01]$"),
  "root?": orNull(DATA),
  "blobGasUsed?": orNull(QUANTITY),
  "blobGasPrice?": orNull(QUANTITY),
});

const FEE_HISTORY = object({
  oldestBlock: QUANTITY,
  // null when no blocks were asked for
  gasUsedRatio: orNull(list({ type: "number", minimum: 0 })),
  "baseFeePerGas?": orNull(list(QUANTITY)),
  "reward?": orNull(list(list(QUANTITY))),
  "baseFeePerBlobGas?": orNull(list(QUANTITY)),
  "blobGasUsedRatio?": orNull(list({ type: "number", minimum: 0 })),
});

const PROOF = object({
  address: ADDRESS,
  accountProof: list(DATA),
  balance: QUANTITY_256,
  codeHash: HASH,
  nonce: QUANTITY_64,
  storageHash: HASH,
  storageProof: list(object({ key: text("^0x[0-9a-fA-F]{0,64}$"), value: QUANTITY_256, proof: list(DATA) })),
});

const SYNCING = either(
  { const: false },
  {
    type: "object",
    minProperties: 1,
    properties: {
      startingBlock: orNull(QUANTITY),
      currentBlock: orNull(QUANTITY),
      highestBlock: orNull(QUANTITY),
    },
  },
);

const COUNT_OR_NULL = orNull(QUANTITY);

/** Results of the methods that every EVM route has (spec §4.1.2). */
export const EVM_RESULTS: Readonly<Record<string, JsonSchema>> = {
  eth_blockNumber: QUANTITY,
  eth_call: DATA,
  eth_chainId: QUANTITY,
  eth_createAccessList: object({ accessList: ACCESS_LIST, gasUsed: QUANTITY, "error?": STRING }),
  eth_estimateGas: QUANTITY,
  eth_feeHistory: FEE_HISTORY,
  eth_gasPrice: QUANTITY,
  eth_getBalance: QUANTITY_256,
  eth_getBlockByHash: orNull(BLOCK),
  eth_getBlockByNumber: orNull(BLOCK),
  eth_getBlockReceipts: orNull(list(RECEIPT)),
  eth_getBlockTransactionCountByHash: COUNT_OR_NULL,
  eth_getBlockTransactionCountByNumber: COUNT_OR_NULL,
  eth_getCode: DATA,
  eth_getFilterChanges: either(list(HASH), list(LOG), list(TRANSACTION)),
  eth_getFilterLogs: list(LOG),
  eth_getLogs: list(LOG),
  eth_getProof: PROOF,
  eth_getStorageAt: HASH,
  eth_getTransactionByBlockHashAndIndex: orNull(TRANSACTION),
  eth_getTransactionByBlockNumberAndIndex: orNull(TRANSACTION),
  eth_getTransactionByHash: orNull(TRANSACTION),
  eth_getTransactionCount: QUANTITY_64,
  eth_getTransactionReceipt: orNull(RECEIPT),
  eth_getUncleByBlockHashAndIndex: orNull(UNCLE),
  eth_getUncleByBlockNumberAndIndex: orNull(UNCLE),
  eth_getUncleCountByBlockHash: COUNT_OR_NULL,
  eth_getUncleCountByBlockNumber: COUNT_OR_NULL,
  eth_maxPriorityFeePerGas: QUANTITY,
  eth_newBlockFilter: FILTER_ID,
  eth_newFilter: FILTER_ID,
  eth_newPendingTransactionFilter: FILTER_ID,
  eth_syncing: SYNCING,
  eth_uninstallFilter: BOOLEAN,
  net_listening: BOOLEAN,
  net_version: text("^(0|[1-9][0-9]*|0x[0-9a-fA-F]+)$"),
  web3_clientVersion: { type: "string", minLength: 1 },
  web3_sha3: HASH,
};

const FORK = object({
  activationTime: NUMBER,
  chainId: QUANTITY,
  forkId: text("^0x[0-9a-fA-F]{8}$"),
  "blobSchedule?": orNull(object({ baseFeeUpdateFraction: COUNT, max: COUNT, target: COUNT })),
  precompiles: { type: "object", additionalProperties: ADDRESS },
  "systemContracts?": orNull({ type: "object", additionalProperties: ADDRESS }),
});

const SIMULATED_LOG = object({
  address: ADDRESS,
  topics: list(HASH),
  data: DATA,
  "blockHash?": orNull(HASH),
  "blockNumber?": orNull(QUANTITY),
  "blockTimestamp?": orNull(QUANTITY),
  "transactionHash?": orNull(HASH),
  "transactionIndex?": orNull(QUANTITY),
  "logIndex?": orNull(QUANTITY),
});

const SIMULATED_CALL = object({
  status: text("^0x[01]$"),
  gasUsed: QUANTITY,
  returnData: DATA,
  "logs?": list(SIMULATED_LOG),
  "error?": object({ code: INTEGER, message: STRING }),
});

const AVAILABLE = object({
  disabled: BOOLEAN,
  "oldestBlock?": QUANTITY,
  "deleteStrategy?": object({ type: oneOf("window", "none"), "retentionBlocks?": QUANTITY }),
});

const ACCOUNT_ACCESS = object({
  address: ADDRESS,
  "storageChanges?": list(object({ key: HASH, changes: list(object({ index: QUANTITY, value: HASH })) })),
  "storageReads?": list(HASH),
  "balanceChanges?": list(object({ index: QUANTITY, value: QUANTITY_256 })),
  "nonceChanges?": list(object({ index: QUANTITY, value: QUANTITY_64 })),
  "codeChanges?": list(object({ index: QUANTITY, code: DATA })),
});

const POOL_COUNT = either(QUANTITY, COUNT);

/** Results of the methods that some routes have (spec §4.1.2, second table). */
export const EVM_EXTRA_RESULTS: Readonly<Record<string, JsonSchema>> = {
  eth_accounts: list(ADDRESS),
  eth_coinbase: ADDRESS,
  eth_blobBaseFee: QUANTITY,
  eth_config: object({ current: FORK, "next?": orNull(FORK), "last?": orNull(FORK) }),
  eth_simulateV1: list(
    object({
      ...HEADER_MEMBERS,
      calls: list(SIMULATED_CALL),
      "transactions?": either(list(HASH), list(TRANSACTION)),
    }),
  ),
  net_peerCount: QUANTITY,
  debug_getRawHeader: SOME_DATA,
  debug_getRawReceipts: list(SOME_DATA),
  debug_getRawTransaction: DATA,
  debug_getBadBlocks: list(object({ hash: HASH, "block?": BLOCK, rlp: SOME_DATA })),
  debug_getRawBlock: SOME_DATA,
  eth_capabilities: object({
    head: object({ number: QUANTITY, hash: HASH }),
    state: AVAILABLE,
    tx: AVAILABLE,
    logs: AVAILABLE,
    receipts: AVAILABLE,
    blocks: AVAILABLE,
    stateproofs: AVAILABLE,
  }),
  eth_getBlockAccessList: orNull(list(ACCOUNT_ACCESS)),
  eth_getStorageValues: { type: "object", additionalProperties: list(HASH) },
  txpool_status: object({ pending: POOL_COUNT, queued: POOL_COUNT }),
};
