import { tronEvmOperations } from "./evm-operations.ts";
import { BOOLEAN, COUNT, either, INTEGER, list, NUMBER, OBJECT, object, orNull, STRING, text } from "./schema.ts";
import type { FamilyId, JsonSchema, Operation } from "./types.ts";

/** Reads of the networks that are neither EVM nor Cosmos-style, in their own methods and paths. */

type Row = readonly [name: string, description: string, result?: JsonSchema];

const rpc = (rows: readonly Row[], first: Readonly<Record<string, unknown>>): readonly Operation[] =>
  rows.map(([name, description, result], index) => ({
    name,
    rpcType: "json_rpc",
    description,
    ...(result === undefined ? {} : { result }),
    ...(index === 0 ? { example: { method: name, ...first } } : {}),
  }));

const rest = (rows: readonly Row[], first?: Readonly<Record<string, unknown>>): readonly Operation[] =>
  rows.map(([name, description, result], index) => ({
    name,
    rpcType: "rest",
    description,
    ...(name.startsWith("POST ") ? { params: OBJECT } : {}),
    ...(result === undefined ? {} : { result }),
    ...(index === 0 && first !== undefined ? { example: { method: name, ...first } } : {}),
  }));

const CONTEXT = object({ slot: COUNT });
const inContext = (value: JsonSchema): JsonSchema => object({ context: CONTEXT, value });
const BASE58 = text("^[1-9A-HJ-NP-Za-km-z]+$");
const TOKEN_AMOUNT = object({ amount: text("^[0-9]+$"), decimals: COUNT });
const SOLANA_ACCOUNT = object({ lamports: COUNT, owner: BASE58, executable: BOOLEAN });
const KEYED_ACCOUNTS = list(object({ pubkey: BASE58, account: SOLANA_ACCOUNT }));

const SOLANA: readonly Row[] = [
  ["getSlot", "Slot that has reached the commitment.", COUNT],
  ["getAccountInfo", "Everything about an account.", inContext(orNull(SOLANA_ACCOUNT))],
  ["getBalance", "Balance of an account in lamports.", inContext(COUNT)],
  [
    "getBlock",
    "A confirmed block.",
    orNull(object({ blockhash: BASE58, previousBlockhash: BASE58, parentSlot: COUNT })),
  ],
  ["getBlockCommitment", "Commitment of a block.", object({ totalStake: COUNT })],
  ["getBlockHeight", "Height of the newest block.", COUNT],
  ["getBlockProduction", "Recent block production.", inContext(OBJECT)],
  ["getBlockTime", "Estimated time of a block.", orNull(INTEGER)],
  ["getBlocks", "Confirmed slots between two slots.", list(COUNT)],
  ["getBlocksWithLimit", "Confirmed slots from a slot.", list(COUNT)],
  ["getClusterNodes", "Nodes of the cluster.", list(object({ pubkey: BASE58 }))],
  [
    "getEpochInfo",
    "The current epoch.",
    object({ absoluteSlot: COUNT, epoch: COUNT, slotIndex: COUNT, slotsInEpoch: COUNT }),
  ],
  ["getEpochSchedule", "Epoch schedule of the genesis.", object({ slotsPerEpoch: COUNT, firstNormalEpoch: COUNT })],
  ["getFeeForMessage", "Fee of a message.", inContext(orNull(COUNT))],
  ["getFirstAvailableBlock", "Oldest slot that is kept.", COUNT],
  ["getGenesisHash", "Hash of the genesis.", BASE58],
  ["getHealth", "Health of the node.", STRING],
  ["getHighestSnapshotSlot", "Newest snapshot.", object({ full: COUNT })],
  ["getIdentity", "Identity of the node.", object({ identity: BASE58 })],
  ["getInflationGovernor", "Parameters of inflation.", object({ initial: NUMBER, terminal: NUMBER, taper: NUMBER })],
  ["getInflationRate", "Inflation of this epoch.", object({ epoch: COUNT, total: NUMBER, validator: NUMBER })],
  ["getInflationReward", "Rewards of addresses in an epoch.", list(orNull(object({ amount: COUNT, epoch: COUNT })))],
  ["getLargestAccounts", "The largest accounts.", inContext(list(object({ address: BASE58, lamports: COUNT })))],
  ["getLatestBlockhash", "Newest block hash.", inContext(object({ blockhash: BASE58, lastValidBlockHeight: COUNT }))],
  ["getLeaderSchedule", "Leaders of an epoch.", orNull(OBJECT)],
  ["getMaxRetransmitSlot", "Highest slot seen in retransmit.", COUNT],
  ["getMaxShredInsertSlot", "Highest slot seen in shred insert.", COUNT],
  ["getMinimumBalanceForRentExemption", "Balance that frees an account of rent.", COUNT],
  ["getMultipleAccounts", "Several accounts.", inContext(list(orNull(SOLANA_ACCOUNT)))],
  ["getProgramAccounts", "Accounts of a program.", either(KEYED_ACCOUNTS, inContext(KEYED_ACCOUNTS))],
  ["getRecentPerformanceSamples", "Recent throughput.", list(object({ slot: COUNT, numTransactions: COUNT }))],
  ["getRecentPrioritizationFees", "Recent priority fees.", list(object({ slot: COUNT, prioritizationFee: COUNT }))],
  ["getSignatureStatuses", "Status of signatures.", inContext(list(orNull(object({ slot: COUNT }))))],
  ["getSignaturesForAddress", "Signatures of an address.", list(object({ signature: BASE58, slot: COUNT }))],
  ["getSlotLeader", "Leader of the slot.", BASE58],
  ["getSlotLeaders", "Leaders of a range of slots.", list(BASE58)],
  ["getStakeMinimumDelegation", "Least stake that can be delegated.", inContext(COUNT)],
  ["getSupply", "Supply of the coin.", inContext(object({ total: COUNT, circulating: COUNT, nonCirculating: COUNT }))],
  ["getTokenAccountBalance", "Balance of a token account; may be unreliable.", inContext(TOKEN_AMOUNT)],
  ["getTokenAccountsByDelegate", "Token accounts by delegate; may be unreliable.", inContext(KEYED_ACCOUNTS)],
  ["getTokenAccountsByOwner", "Token accounts by owner; may be unreliable.", inContext(KEYED_ACCOUNTS)],
  ["getTokenLargestAccounts", "Largest accounts of a token.", inContext(list(TOKEN_AMOUNT))],
  ["getTokenSupply", "Supply of a token.", inContext(TOKEN_AMOUNT)],
  [
    "getTransaction",
    "A confirmed transaction.",
    orNull(object({ slot: COUNT, transaction: either(OBJECT, list(STRING)) })),
  ],
  ["getTransactionCount", "Number of transactions so far.", COUNT],
  ["getVersion", "Version of the node.", object({ "solana-core": STRING })],
  ["getVoteAccounts", "Vote accounts.", object({ current: list(OBJECT), delinquent: list(OBJECT) })],
  ["isBlockhashValid", "Whether a block hash is still valid.", inContext(BOOLEAN)],
  ["minimumLedgerSlot", "Lowest slot that the node knows.", COUNT],
];

const NEAR_BLOCK = object({ author: STRING, header: object({ height: COUNT, hash: BASE58 }), chunks: list(OBJECT) });
const NEAR: readonly Row[] = [
  [
    "status",
    "Node, chain and newest block.",
    object({ chain_id: STRING, sync_info: object({ latest_block_height: COUNT }) }),
  ],
  ["block", "A block.", NEAR_BLOCK],
  ["chunk", "A chunk.", object({ author: STRING, header: OBJECT, transactions: list(OBJECT), receipts: list(OBJECT) })],
  ["query", "Accounts, keys, code, state and view calls.", object({ block_height: COUNT, block_hash: BASE58 })],
  ["gas_price", "Gas price of a block.", object({ gas_price: text("^[0-9]+$") })],
  ["health", "Health of the node."],
  ["network_info", "The node's peers.", object({ num_active_peers: COUNT, active_peers: list(OBJECT) })],
  [
    "validators",
    "Validators of an epoch.",
    object({ current_validators: list(OBJECT), next_validators: list(OBJECT) }),
  ],
  ["tx", "Status of a transaction.", object({ transaction: OBJECT })],
  ["changes", "State changes.", object({ block_hash: BASE58, changes: list(OBJECT) })],
  ["block_effects", "Kinds of changes in a block.", object({ block_hash: BASE58, changes: list(OBJECT) })],
  ["EXPERIMENTAL_changes", "State changes.", object({ block_hash: BASE58, changes: list(OBJECT) })],
  [
    "EXPERIMENTAL_changes_in_block",
    "Kinds of changes in a block.",
    object({ block_hash: BASE58, changes: list(OBJECT) }),
  ],
  ["EXPERIMENTAL_genesis_config", "Genesis configuration.", object({ chain_id: STRING, protocol_version: COUNT })],
  ["EXPERIMENTAL_protocol_config", "Protocol configuration.", object({ chain_id: STRING, protocol_version: COUNT })],
  ["EXPERIMENTAL_receipt", "A receipt.", object({ receipt_id: BASE58, receiver_id: STRING })],
  ["EXPERIMENTAL_tx_status", "Status of a transaction, with receipts.", object({ transaction: OBJECT })],
  ["EXPERIMENTAL_validators_ordered", "Validators in order.", list(OBJECT)],
  ["EXPERIMENTAL_light_client_proof", "Proof for a light client.", object({ outcome_proof: OBJECT })],
  ["next_light_client_block", "Next block for a light client.", OBJECT],
  ["light_client_proof", "Proof for a light client.", object({ outcome_proof: OBJECT })],
];

const U64 = text("^[0-9]+$");
const SUI_PAGE = object({ data: list(OBJECT), hasNextPage: BOOLEAN });
const SUI: readonly Row[] = [
  ["sui_getLatestCheckpointSequenceNumber", "Number of the newest checkpoint.", U64],
  ["sui_getChainIdentifier", "Chain id.", text("^[0-9a-f]{8}$")],
  ["sui_getCheckpoint", "A checkpoint.", object({ sequenceNumber: U64, digest: BASE58, epoch: U64 })],
  ["sui_getCheckpoints", "Several checkpoints.", SUI_PAGE],
  ["sui_getEvents", "Events of a transaction.", list(OBJECT)],
  ["sui_getMoveFunctionArgTypes", "Argument types of a function.", list(either(STRING, OBJECT))],
  ["sui_getNormalizedMoveFunction", "A function of a module.", OBJECT],
  ["sui_getNormalizedMoveModule", "A module of a package.", OBJECT],
  ["sui_getNormalizedMoveModulesByPackage", "All modules of a package.", OBJECT],
  ["sui_getNormalizedMoveStruct", "A structure of a module.", OBJECT],
  ["sui_getObject", "An object.", object({ "data?": orNull(OBJECT), "error?": orNull(OBJECT) })],
  ["sui_getProtocolConfig", "Protocol configuration.", object({ protocolVersion: U64 })],
  ["sui_getTotalTransactionBlocks", "Number of transactions so far.", U64],
  ["sui_getTransactionBlock", "A transaction.", object({ digest: BASE58 })],
  ["sui_multiGetObjects", "Several objects.", list(OBJECT)],
  ["sui_multiGetTransactionBlocks", "Several transactions.", list(object({ digest: BASE58 }))],
  ["sui_tryGetPastObject", "An object at a version.", object({ status: STRING })],
  ["sui_tryMultiGetPastObjects", "Several objects at versions.", list(object({ status: STRING }))],
  ["suix_getAllBalances", "All balances of an owner.", list(object({ coinType: STRING, totalBalance: U64 }))],
  ["suix_getAllCoins", "All coins of an owner.", SUI_PAGE],
  ["suix_getBalance", "Balance of an owner.", object({ coinType: STRING, totalBalance: U64 })],
  ["suix_getCoinMetadata", "What a coin is.", orNull(object({ decimals: COUNT, name: STRING, symbol: STRING }))],
  ["suix_getCoins", "Coins of one type.", SUI_PAGE],
  ["suix_getCommitteeInfo", "Committee of an epoch.", object({ epoch: U64, validators: list(list(STRING)) })],
  ["suix_getDynamicFieldObject", "A dynamic field.", OBJECT],
  ["suix_getDynamicFields", "Dynamic fields of an object.", SUI_PAGE],
  ["suix_getLatestSuiSystemState", "Newest system state.", object({ epoch: U64 })],
  ["suix_getOwnedObjects", "Objects of an owner.", SUI_PAGE],
  ["suix_getReferenceGasPrice", "Reference gas price.", U64],
  ["suix_getStakes", "Stakes of an owner.", list(OBJECT)],
  ["suix_getTotalSupply", "Supply of a coin.", object({ value: U64 })],
  ["suix_getValidatorsApy", "Yields of validators.", object({ apys: list(OBJECT), epoch: U64 })],
  ["suix_queryEvents", "Events that match.", SUI_PAGE],
  ["suix_queryTransactionBlocks", "Transactions that match.", SUI_PAGE],
  ["suix_resolveNameServiceAddress", "Address of a name.", orNull(STRING)],
  ["suix_resolveNameServiceNames", "Names of an address.", object({ data: list(STRING) })],
];

/** `wallet/…` answers are objects of the node's own form; the solidity node's paths answer for confirmed blocks. */
const TRON_READS = ["getaccount", "getaccountresource", "getblockbylimitnext", "getblockbynum", "getcontract"]
  .concat(["getnowblock", "gettransactionbyid", "gettransactioninfobyblocknum", "gettransactioninfobyid"])
  .concat(["listwitnesses", "triggerconstantcontract", "getchainparameters", "getnodeinfo", "getblock"]);
const TRON_CONFIRMED = ["getaccount", "getblockbynum", "getnowblock", "gettransactionbyid", "gettransactioninfobyid"];
const TRON: readonly Row[] = [
  ...TRON_READS.map((name): Row => [`POST /wallet/${name}`, `The node's ${name}.`, OBJECT]),
  ...TRON_CONFIRMED.map((name): Row => [`POST /walletsolidity/${name}`, `The node's ${name}, confirmed.`, OBJECT]),
  ["GET /wallet/getnowblock", "Newest block.", object({ blockID: STRING, block_header: OBJECT })],
  ["GET /wallet/getchainparameters", "Parameters of the chain.", object({ chainParameter: list(OBJECT) })],
];

const LEDGER = object({ ledger_state: object({ network: STRING, state_version: COUNT, epoch: COUNT, round: COUNT }) });
const RADIX_STATUS: readonly Row[] = [
  ["POST /status/gateway-status", "State of the gateway and of the ledger.", LEDGER],
  [
    "POST /status/network-configuration",
    "Network and well-known addresses.",
    object({ network_id: COUNT, network_name: STRING }),
  ],
];
const RADIX: readonly Row[] = [
  ...RADIX_STATUS,
  ...[
    "/transaction/construction",
    "/transaction/status",
    "/transaction/committed-details",
    "/transaction/preview",
    "/transaction/account-deposit-pre-validation",
    "/stream/transactions",
    "/state/entity/details",
    "/state/entity/metadata",
    "/state/entity/page/metadata",
    "/state/entity/page/fungibles",
    "/state/entity/page/non-fungibles",
    "/state/non-fungible/data",
    "/state/non-fungible/ids",
    "/state/non-fungible/location",
    "/state/key-value-store/data",
    "/state/key-value-store/keys",
    "/state/package/page/blueprints",
    "/state/validators/list",
    "/statistics/validators/uptime",
  ].map((path): Row => [`POST ${path}`, `The gateway API's ${path.slice(1)}.`, OBJECT]),
];

const SHA256 = text("^[0-9a-f]{64}$");
const BITCOIN: readonly Row[] = [
  ["getblockcount", "Height of the best chain.", COUNT],
  ["getbestblockhash", "Hash of the newest block.", SHA256],
  ["getblock", "A block.", either(text("^[0-9a-f]+$"), object({ hash: SHA256, height: INTEGER }))],
  [
    "getblockchaininfo",
    "State of the chain.",
    object({ chain: STRING, blocks: COUNT, headers: COUNT, bestblockhash: SHA256 }),
  ],
  ["getblockhash", "Hash of the block at a height.", SHA256],
  ["getblockheader", "Header of a block.", either(text("^[0-9a-f]{160}$"), object({ hash: SHA256, height: INTEGER }))],
  ["getblockstats", "Statistics of a block.", OBJECT],
  ["getchaintips", "Tips of all branches.", list(object({ height: COUNT, hash: SHA256, status: STRING }))],
  ["getchaintxstats", "Statistics of transactions.", object({ txcount: COUNT })],
  ["getdifficulty", "Proof-of-work difficulty.", NUMBER],
  ["getmempoolancestors", "Ancestors in the pool.", either(list(SHA256), OBJECT)],
  ["getmempooldescendants", "Descendants in the pool.", either(list(SHA256), OBJECT)],
  ["getmempoolentry", "One transaction of the pool.", object({ vsize: COUNT, time: COUNT })],
  ["getmempoolinfo", "State of the pool.", object({ size: COUNT, bytes: COUNT })],
  ["getrawmempool", "Transactions of the pool.", either(list(SHA256), OBJECT)],
  ["getrawtransaction", "A transaction.", either(text("^[0-9a-f]+$"), object({ txid: SHA256 }))],
  ["gettxout", "An unspent output.", orNull(object({ bestblock: SHA256, confirmations: COUNT, value: NUMBER }))],
  ["gettxoutproof", "Proof that transactions are in a block.", text("^[0-9a-f]+$")],
  ["getnetworkinfo", "State of the network.", object({ version: INTEGER, subversion: STRING })],
  ["getmininginfo", "State of mining.", object({ blocks: COUNT, difficulty: NUMBER })],
  ["getnetworkhashps", "Estimated hashes a second.", NUMBER],
  ["getindexinfo", "State of indices.", OBJECT],
  ["estimatesmartfee", "Estimated fee rate.", object({ blocks: COUNT })],
  ["decoderawtransaction", "Decodes a transaction.", object({ txid: SHA256 })],
  ["decodescript", "Decodes a script.", OBJECT],
  ["validateaddress", "Whether an address is valid.", object({ isvalid: BOOLEAN })],
  ["verifymessage", "Whether a signature is an address's.", BOOLEAN],
];

const data = (schema: JsonSchema): JsonSchema => object({ data: schema });
const ROOT = text("^0x[0-9a-f]{64}$");
const BEACON_HEADER = object({
  root: ROOT,
  canonical: BOOLEAN,
  header: object({ message: OBJECT, signature: STRING }),
});
const FORK = object({ previous_version: STRING, current_version: STRING, epoch: U64 });
const BEACON: readonly Row[] = [
  [
    "GET /eth/v1/node/syncing",
    "State of synchronisation.",
    data(object({ head_slot: U64, sync_distance: U64, is_syncing: BOOLEAN })),
  ],
  ["GET /eth/v1/node/version", "Version of the node.", data(object({ version: STRING }))],
  ["GET /eth/v1/node/peer_count", "Number of peers.", data(object({ connected: U64 }))],
  ["GET /eth/v1/node/identity", "Identity of the node.", data(object({ peer_id: STRING }))],
  ["GET /eth/v1/beacon/genesis", "Genesis.", data(object({ genesis_time: U64, genesis_validators_root: ROOT }))],
  ["GET /eth/v1/beacon/headers", "Headers.", data(list(BEACON_HEADER))],
  ["GET /eth/v1/beacon/headers/{block_id}", "A header.", data(BEACON_HEADER)],
  [
    "GET /eth/v2/beacon/blocks/{block_id}",
    "A block.",
    object({ version: STRING, data: object({ message: OBJECT, signature: STRING }) }),
  ],
  ["GET /eth/v1/beacon/blocks/{block_id}/root", "Root of a block.", data(object({ root: ROOT }))],
  ["GET /eth/v2/beacon/blocks/{block_id}/attestations", "Attestations of a block.", data(list(OBJECT))],
  ["GET /eth/v1/beacon/blob_sidecars/{block_id}", "Blobs of a block.", data(list(OBJECT))],
  ["GET /eth/v1/beacon/states/{state_id}/root", "Root of a state.", data(object({ root: ROOT }))],
  ["GET /eth/v1/beacon/states/{state_id}/fork", "Fork of a state.", data(FORK)],
  ["GET /eth/v1/beacon/states/{state_id}/finality_checkpoints", "Checkpoints.", data(object({ finalized: OBJECT }))],
  ["GET /eth/v1/beacon/states/{state_id}/validators", "Validators.", data(list(OBJECT))],
  [
    "GET /eth/v1/beacon/states/{state_id}/validators/{validator_id}",
    "A validator.",
    data(object({ index: U64, status: STRING })),
  ],
  [
    "GET /eth/v1/beacon/states/{state_id}/validator_balances",
    "Balances of validators.",
    data(list(object({ index: U64, balance: U64 }))),
  ],
  ["GET /eth/v1/beacon/states/{state_id}/committees", "Committees.", data(list(OBJECT))],
  ["GET /eth/v1/beacon/states/{state_id}/sync_committees", "Sync committees.", data(object({ validators: list(U64) }))],
  ["GET /eth/v1/beacon/states/{state_id}/randao", "Randomness.", data(object({ randao: ROOT }))],
  ["GET /eth/v1/beacon/light_client/bootstrap/{block_root}", "Bootstrap for a light client.", data(OBJECT)],
  ["GET /eth/v1/beacon/light_client/finality_update", "Newest finality update.", data(OBJECT)],
  ["GET /eth/v1/beacon/light_client/optimistic_update", "Newest optimistic update.", data(OBJECT)],
  ["GET /eth/v1/config/spec", "Constants of the network.", data(OBJECT)],
  ["GET /eth/v1/config/fork_schedule", "Forks.", data(list(FORK))],
  [
    "GET /eth/v1/config/deposit_contract",
    "Deposit contract.",
    data(object({ chain_id: U64, address: text("^0x[0-9a-fA-F]{40}$") })),
  ],
  ["GET /eth/v1/validator/duties/proposer/{epoch}", "Proposers of an epoch.", data(list(OBJECT))],
];

/** Operations of a native family; none for families that have their own module. */
export function nativeOperations(family: FamilyId): readonly Operation[] {
  switch (family) {
    case "solana":
      return rpc(SOLANA, { params: [] });
    case "near":
      return rpc(NEAR, { params: [] });
    case "sui":
      return rpc(SUI, { params: [] });
    case "tron":
      return [...tronEvmOperations(), ...rest(TRON)];
    case "radix":
      return rest(RADIX, { params: {} });
    case "bitcoin":
      return rpc(BITCOIN, { params: [] });
    case "beacon":
      return rest(BEACON, {});
    case "evm":
    case "cosmos":
    case "search":
    case "http":
      return [];
  }
}
