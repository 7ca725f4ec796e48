import {
  BASE64,
  BOOLEAN,
  COUNT,
  closedObject,
  DECIMAL_STRING,
  either,
  INT_STRING,
  INTEGER,
  list,
  OBJECT,
  object,
  orNull,
  STRING,
  TIME,
  text,
} from "./schema.ts";
import type { JsonSchema, Operation } from "./types.ts";

/** CometBFT RPC, after its answers from 0.34 to 0.38: what differs between these is optional. */

/** SHA-256 or address as upper-case hex; empty where there is none. */
const HEX = text("^([0-9A-Fa-f]{2})*$");
const HASH = text("^([0-9A-Fa-f]{64})?$");
const ADDRESS = text("^([0-9A-Fa-f]{40})?$");

const BLOCK_ID = object({ hash: HASH, parts: object({ total: COUNT, hash: HASH }) });
const HEADER = object({
  version: object({ "block?": INT_STRING, "app?": INT_STRING }),
  chain_id: STRING,
  height: INT_STRING,
  time: TIME,
  last_block_id: BLOCK_ID,
  last_commit_hash: HASH,
  data_hash: HASH,
  validators_hash: HASH,
  next_validators_hash: HASH,
  consensus_hash: HASH,
  app_hash: HEX,
  last_results_hash: HASH,
  evidence_hash: HASH,
  proposer_address: ADDRESS,
});
const SIGNATURE = object({
  block_id_flag: INTEGER,
  validator_address: ADDRESS,
  timestamp: TIME,
  signature: orNull(BASE64),
});
const COMMIT = object({ height: INT_STRING, round: INTEGER, block_id: BLOCK_ID, signatures: orNull(list(SIGNATURE)) });
const BLOCK = object({
  header: HEADER,
  data: object({ txs: orNull(list(BASE64)) }),
  evidence: object({ evidence: orNull(list(OBJECT)) }),
  last_commit: orNull(COMMIT),
});
const BLOCK_ANSWER = object({ block_id: BLOCK_ID, block: orNull(BLOCK) });

const EVENT = object({
  type: STRING,
  attributes: orNull(list(object({ key: orNull(STRING), value: orNull(STRING), "index?": BOOLEAN }))),
});
const EVENTS = orNull(list(EVENT));
const TX_RESULT = object({
  code: COUNT,
  data: orNull(BASE64),
  log: STRING,
  info: STRING,
  gas_wanted: INT_STRING,
  gas_used: INT_STRING,
  events: EVENTS,
  codespace: STRING,
});
const TX = object({
  hash: text("^[0-9A-Fa-f]{64}$"),
  height: INT_STRING,
  index: COUNT,
  tx_result: TX_RESULT,
  tx: BASE64,
  "proof?": object({ root_hash: HEX, data: BASE64, proof: OBJECT }),
});
const PUBLIC_KEY = object({ type: STRING, value: BASE64 });
const VALIDATOR = object({
  address: ADDRESS,
  pub_key: orNull(PUBLIC_KEY),
  voting_power: INT_STRING,
  proposer_priority: INT_STRING,
});
const CONSENSUS_PARAMS = object({
  block: object({ max_bytes: INT_STRING, max_gas: INT_STRING }),
  evidence: object({ max_age_num_blocks: INT_STRING, max_age_duration: INT_STRING }),
  validator: object({ pub_key_types: list(STRING) }),
});
const NODE_INFO = object({
  protocol_version: object({ p2p: INT_STRING, block: INT_STRING, app: INT_STRING }),
  id: STRING,
  listen_addr: STRING,
  network: STRING,
  version: STRING,
  moniker: STRING,
});
const UNCONFIRMED = { n_txs: INT_STRING, total: INT_STRING, total_bytes: INT_STRING };

const RESULTS: Readonly<Record<string, JsonSchema>> = {
  abci_info: object({
    response: object({
      "data?": STRING,
      "version?": STRING,
      "last_block_height?": INT_STRING,
      "last_block_app_hash?": BASE64,
    }),
  }),
  abci_query: object({
    response: object({
      code: COUNT,
      log: STRING,
      info: STRING,
      index: INT_STRING,
      key: orNull(BASE64),
      value: orNull(BASE64),
      proofOps: orNull(OBJECT),
      height: INT_STRING,
      codespace: STRING,
    }),
  }),
  block: BLOCK_ANSWER,
  block_by_hash: BLOCK_ANSWER,
  block_results: object({
    height: INT_STRING,
    txs_results: orNull(list(TX_RESULT)),
    "finalize_block_events?": EVENTS,
    "begin_block_events?": EVENTS,
    "end_block_events?": EVENTS,
    validator_updates: orNull(list(OBJECT)),
    consensus_param_updates: orNull(OBJECT),
  }),
  block_search: object({ blocks: orNull(list(BLOCK_ANSWER)), total_count: INT_STRING }),
  blockchain: object({
    last_height: INT_STRING,
    block_metas: orNull(
      list(object({ block_id: BLOCK_ID, block_size: INT_STRING, header: HEADER, num_txs: INT_STRING })),
    ),
  }),
  commit: object({ signed_header: object({ header: HEADER, commit: COMMIT }), canonical: BOOLEAN }),
  consensus_params: object({ block_height: INT_STRING, consensus_params: CONSENSUS_PARAMS }),
  consensus_state: object({
    round_state: object({
      "height/round/step": text("^[0-9]+/[0-9]+/[0-9]+$"),
      start_time: TIME,
      height_vote_set: orNull(list(OBJECT)),
      proposer: object({ address: ADDRESS, index: INTEGER }),
    }),
  }),
  dump_consensus_state: object({
    round_state: object({ height: INT_STRING, round: INTEGER, step: INTEGER, start_time: TIME }),
    peers: orNull(list(OBJECT)),
  }),
  genesis: object({ genesis: object({ genesis_time: TIME, chain_id: STRING, "app_state?": OBJECT }) }),
  genesis_chunked: object({ chunk: INT_STRING, total: INT_STRING, data: BASE64 }),
  header: object({ header: orNull(HEADER) }),
  header_by_hash: object({ header: orNull(HEADER) }),
  health: closedObject({}),
  net_info: object({
    listening: BOOLEAN,
    listeners: orNull(list(STRING)),
    n_peers: INT_STRING,
    peers: orNull(list(object({ node_info: NODE_INFO, is_outbound: BOOLEAN }))),
  }),
  num_unconfirmed_txs: object({ ...UNCONFIRMED, "txs?": orNull(list(BASE64)) }),
  status: object({
    node_info: NODE_INFO,
    sync_info: object({
      latest_block_hash: HASH,
      latest_app_hash: HEX,
      latest_block_height: INT_STRING,
      latest_block_time: TIME,
      "earliest_block_height?": INT_STRING,
      catching_up: BOOLEAN,
    }),
    validator_info: object({ address: ADDRESS, "pub_key?": orNull(PUBLIC_KEY), voting_power: INT_STRING }),
  }),
  tx: TX,
  tx_search: object({ txs: orNull(list(TX)), total_count: INT_STRING }),
  unconfirmed_txs: object({ ...UNCONFIRMED, txs: orNull(list(BASE64)) }),
  validators: object({
    block_height: INT_STRING,
    validators: orNull(list(VALIDATOR)),
    count: INT_STRING,
    total: INT_STRING,
  }),
};

const INT_ARGUMENT = either(INT_STRING, INTEGER, { type: "null" });
const PAGED = { "page?": INT_ARGUMENT, "per_page?": INT_ARGUMENT, "order_by?": STRING };

/** By name or by position; a number where the node wants a string is the node's to refuse. */
const args = (members: Readonly<Record<string, JsonSchema>>): JsonSchema => either({ type: "array" }, object(members));

const AT_HEIGHT = args({ "height?": INT_ARGUMENT });

const PARAMS: Readonly<Record<string, JsonSchema>> = {
  abci_query: args({ "path?": STRING, "data?": STRING, "height?": INT_ARGUMENT, "prove?": BOOLEAN }),
  block: AT_HEIGHT,
  block_by_hash: args({ "hash?": STRING }),
  block_results: AT_HEIGHT,
  block_search: args({ "query?": STRING, ...PAGED }),
  blockchain: args({ "minHeight?": INT_ARGUMENT, "maxHeight?": INT_ARGUMENT }),
  commit: AT_HEIGHT,
  consensus_params: AT_HEIGHT,
  genesis_chunked: args({ "chunk?": INT_ARGUMENT }),
  header: AT_HEIGHT,
  header_by_hash: args({ "hash?": STRING }),
  tx: args({ "hash?": STRING, "prove?": BOOLEAN }),
  tx_search: args({ "query?": STRING, "prove?": BOOLEAN, ...PAGED }),
  unconfirmed_txs: args({ "limit?": INT_ARGUMENT }),
  validators: args({ "height?": INT_ARGUMENT, "page?": INT_ARGUMENT, "per_page?": INT_ARGUMENT }),
};

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  abci_info: "Name, version and height of the application.",
  abci_query: "Asks the application's store.",
  block: "Block at a height.",
  block_by_hash: "Block with this hash.",
  block_results: "Results of a block's transactions, and its events.",
  block_search: "Blocks whose events match a query.",
  blockchain: "Headers of a range of heights.",
  commit: "Header and commit at a height.",
  consensus_params: "Consensus parameters at a height.",
  consensus_state: "State of the current round, short.",
  dump_consensus_state: "State of the current round, with peers.",
  genesis: "Genesis document.",
  genesis_chunked: "One part of the genesis document.",
  header: "Header at a height.",
  header_by_hash: "Header with this hash.",
  health: "Empty when the node is alive.",
  net_info: "The node's peers.",
  num_unconfirmed_txs: "Number of transactions in the node's pool.",
  status: "Node, height, time and validator key.",
  tx: "Transaction with this hash.",
  tx_search: "Transactions whose events match a query.",
  unconfirmed_txs: "Transactions in the node's pool.",
  validators: "Validators at a height.",
};

/** Bare RPC methods of spec §4.1.3. */
export const COSMOS_RPC_METHODS: readonly string[] = Object.keys(RESULTS);

/** GET paths of spec §4.1.3, consensus-engine style. */
export const COSMOS_RPC_PATHS: readonly string[] = [
  "/abci_info",
  "/block",
  "/block_results",
  "/block_search",
  "/blockchain",
  "/commit",
  "/consensus_params",
  "/consensus_state",
  "/genesis",
  "/header",
  "/health",
  "/net_info",
  "/num_unconfirmed_txs",
  "/status",
  "/syncing",
  "/tx",
  "/tx_search",
  "/unconfirmed_txs",
  "/validators",
];

/** The consensus engine's RPC, as methods and as GET paths. */
export const COSMOS_RPC_OPERATIONS: readonly Operation[] = [
  ...COSMOS_RPC_METHODS.map((name): Operation => {
    const result = RESULTS[name];
    const params = PARAMS[name];
    return {
      name,
      rpcType: "comet_bft",
      description: DESCRIPTIONS[name] ?? name,
      ...(params === undefined ? {} : { params }),
      ...(result === undefined ? {} : { result }),
      ...(name === "status" ? { example: { method: name, params: {} } } : {}),
    };
  }),
  ...COSMOS_RPC_PATHS.map((path): Operation => {
    const name = path.slice(1);
    const result = RESULTS[name];
    return {
      name: `GET ${path}`,
      rpcType: "comet_bft",
      description: DESCRIPTIONS[name] ?? "Whether the node is still synchronising; few nodes serve it.",
      ...(result === undefined ? {} : { result }),
    };
  }),
];

/** Parts that the REST schemas share. */
export const COSMOS_EVENTS: JsonSchema = EVENTS;
/** Decimal fraction of the SDK. */
export const SDK_DECIMAL: JsonSchema = DECIMAL_STRING;
