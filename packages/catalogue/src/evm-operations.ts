import { EVM_PARAMS } from "./evm-params.ts";
import { EVM_EXTRA_RESULTS, EVM_RESULTS } from "./evm-results.ts";
import type { Operation } from "./types.ts";

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  eth_blockNumber: "Number of the newest block.",
  eth_call: "Runs a call without a transaction.",
  eth_chainId: "Chain id.",
  eth_createAccessList: "Access list that a transaction would touch.",
  eth_estimateGas: "Gas that a transaction would use.",
  eth_feeHistory: "Base fees and rewards of a range of blocks.",
  eth_gasPrice: "Current gas price in wei.",
  eth_getBalance: "Balance of an account in wei.",
  eth_getBlockByHash: "Block with this hash.",
  eth_getBlockByNumber: "Block with this number or tag.",
  eth_getBlockReceipts: "All receipts of a block.",
  eth_getBlockTransactionCountByHash: "Number of transactions in the block with this hash.",
  eth_getBlockTransactionCountByNumber: "Number of transactions in the block with this number or tag.",
  eth_getCode: "Code of an account.",
  eth_getFilterChanges: "What is new for a filter since the last poll.",
  eth_getFilterLogs: "All logs of a filter.",
  eth_getLogs: "Logs that match a filter.",
  eth_getProof: "Merkle proof of an account and of its storage.",
  eth_getStorageAt: "One storage slot of an account.",
  eth_getTransactionByBlockHashAndIndex: "Transaction at an index of the block with this hash.",
  eth_getTransactionByBlockNumberAndIndex: "Transaction at an index of the block with this number or tag.",
  eth_getTransactionByHash: "Transaction with this hash.",
  eth_getTransactionCount: "Nonce of an account.",
  eth_getTransactionReceipt: "Receipt of a transaction.",
  eth_getUncleByBlockHashAndIndex: "Uncle at an index of the block with this hash.",
  eth_getUncleByBlockNumberAndIndex: "Uncle at an index of the block with this number or tag.",
  eth_getUncleCountByBlockHash: "Number of uncles of the block with this hash.",
  eth_getUncleCountByBlockNumber: "Number of uncles of the block with this number or tag.",
  eth_maxPriorityFeePerGas: "Suggested priority fee in wei.",
  eth_newBlockFilter: "Makes a filter for new blocks.",
  eth_newFilter: "Makes a filter for logs.",
  eth_newPendingTransactionFilter: "Makes a filter for pending transactions.",
  eth_syncing: "State of the node's synchronisation, or false.",
  eth_uninstallFilter: "Removes a filter.",
  net_listening: "Whether the node takes connections.",
  net_version: "Network id.",
  web3_clientVersion: "Name and version of the node.",
  web3_sha3: "Keccak-256 of the given bytes.",
  eth_accounts: "Accounts that the node holds.",
  eth_coinbase: "Account that the node credits blocks to.",
  eth_blobBaseFee: "Current price of blob gas in wei.",
  eth_config: "Fork configuration of the node (EIP-7910).",
  eth_simulateV1: "Simulates calls over several blocks.",
  net_peerCount: "Number of the node's peers.",
  debug_getRawHeader: "RLP of a block's header.",
  debug_getRawReceipts: "Encoded receipts of a block.",
  debug_getRawTransaction: "Encoded transaction.",
  debug_getBadBlocks: "Blocks that the node refused lately.",
  debug_getRawBlock: "RLP of a block.",
  eth_capabilities: "Which history the node holds.",
  eth_getBlockAccessList: "Access list of a block (EIP-7928).",
  eth_getStorageValues: "Many storage slots of many accounts.",
  txpool_status: "Number of pending and queued transactions.",
};

const FILTERS: Readonly<Record<string, "create" | "use">> = {
  eth_newFilter: "create",
  eth_newBlockFilter: "create",
  eth_newPendingTransactionFilter: "create",
  eth_getFilterChanges: "use",
  eth_getFilterLogs: "use",
  eth_uninstallFilter: "use",
};

const ETHEREUM = ["eth", "eth-sepolia-testnet", "eth-holesky-testnet"];
const OP_STACK = [
  "base",
  "base-sepolia-testnet",
  "blast",
  "boba",
  "celo",
  "fraxtal",
  "ink",
  "op",
  "op-sepolia-testnet",
].concat(["giwa", "giwa-sepolia-testnet", "manta", "mantle", "opbnb", "unichain"]);
const OWN_CHAIN = [
  "avax",
  "avax-dfk",
  "bera",
  "bsc",
  "fantom",
  "fuse",
  "gnosis",
  "harmony",
  "iotex",
  "kaia",
  "poly",
].concat(["poly-amoy-testnet", "sonic", "moonbeam", "moonriver", "oasys", "kava", "sei", "xrplevm", "xrplevm-testnet"]);
const ROLLUPS = ["arb-one", "arb-sepolia-testnet", "linea", "metis", "poly-zkevm", "scroll", "taiko"];
const LOCAL = ["anvil", "anvilws"];
const BLOBS = [...ETHEREUM, ...OP_STACK, ...LOCAL, "gnosis", "bsc", "bera"];

/** Which routes have the methods of spec §4.1.2's second table. */
const EXTRA_ROUTES: Readonly<Record<string, readonly string[]>> = {
  eth_accounts: [...ETHEREUM, ...OP_STACK, ...OWN_CHAIN, ...ROLLUPS, ...LOCAL],
  eth_coinbase: [...ETHEREUM, ...OWN_CHAIN, ...LOCAL],
  eth_blobBaseFee: BLOBS,
  eth_config: ETHEREUM,
  eth_simulateV1: [...ETHEREUM, ...OP_STACK, "gnosis", "bsc", "anvil"],
  net_peerCount: [...ETHEREUM, ...OP_STACK, ...OWN_CHAIN, ...ROLLUPS],
  debug_getRawHeader: [...ETHEREUM, "base", "op"],
  debug_getRawReceipts: [...ETHEREUM, "base", "op"],
  debug_getRawTransaction: [...ETHEREUM, "base", "op", "anvil"],
  debug_getBadBlocks: ["eth-sepolia-testnet"],
  debug_getRawBlock: ["eth-sepolia-testnet"],
  eth_capabilities: ["eth"],
  eth_getBlockAccessList: ["eth"],
  eth_getStorageValues: ["eth"],
  txpool_status: [...ETHEREUM, ...OP_STACK, ...OWN_CHAIN, ...LOCAL],
};

function evmOperation(name: string): Operation {
  const filter = FILTERS[name];
  const params = EVM_PARAMS[name];
  const result = EVM_RESULTS[name] ?? EVM_EXTRA_RESULTS[name];
  return {
    name,
    rpcType: "json_rpc",
    description: DESCRIPTIONS[name] ?? name,
    ...(params === undefined ? {} : { params }),
    ...(result === undefined ? {} : { result }),
    ...(filter === undefined ? {} : { filter }),
    ...(name === "eth_blockNumber" ? { example: { method: name, params: [] } } : {}),
  };
}

/** Names of the methods that every EVM route has (spec §4.1.2). */
export const EVM_COMMON_METHODS: readonly string[] = Object.keys(EVM_RESULTS);

/** Names of the methods that some EVM routes have (spec §4.1.2, second table). */
export const EVM_EXTRA_METHODS: readonly string[] = Object.keys(EVM_EXTRA_RESULTS);

const common = EVM_COMMON_METHODS.map(evmOperation);
const extra = EVM_EXTRA_METHODS.map(evmOperation);

/** Operations of an EVM route: the common ones, and the extra ones that this route has. */
export function evmOperations(serviceId: string): readonly Operation[] {
  return [...common, ...extra.filter(({ name }) => EXTRA_ROUTES[name]?.includes(serviceId) === true)];
}

/** Methods that Tron's JSON-RPC has. */
const TRON_METHODS: ReadonlySet<string> = new Set([
  "eth_blockNumber",
  "eth_call",
  "eth_chainId",
  "eth_estimateGas",
  "eth_gasPrice",
  "eth_getBalance",
  "eth_getBlockByHash",
  "eth_getBlockByNumber",
  "eth_getBlockReceipts",
  "eth_getBlockTransactionCountByHash",
  "eth_getBlockTransactionCountByNumber",
  "eth_getCode",
  "eth_getFilterChanges",
  "eth_getFilterLogs",
  "eth_getLogs",
  "eth_getStorageAt",
  "eth_getTransactionByBlockHashAndIndex",
  "eth_getTransactionByBlockNumberAndIndex",
  "eth_getTransactionByHash",
  "eth_getTransactionReceipt",
  "eth_newBlockFilter",
  "eth_newFilter",
  "eth_syncing",
  "eth_uninstallFilter",
  "net_listening",
  "net_version",
  "web3_clientVersion",
  "web3_sha3",
]);

/** Tron writes blocks, transactions and receipts with members of its own form. */
const TRON_OWN_FORM = /^eth_get(Block(By|Receipts)|Transaction(By|Receipt)|Storage)|^eth_syncing$/;

/** EVM methods as Tron has them. */
export function tronEvmOperations(): readonly Operation[] {
  return common
    .filter(({ name }) => TRON_METHODS.has(name))
    .map((operation) => {
      if (!TRON_OWN_FORM.test(operation.name)) return operation;
      const { result: _, ...undeclared } = operation;
      return undeclared;
    });
}
