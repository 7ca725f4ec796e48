import { COSMOS_EVENTS, SDK_DECIMAL } from "./cosmos-rpc.ts";
import {
  BASE64,
  BOOLEAN,
  COUNT,
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

/** The Cosmos SDK's REST answers, from 0.45 to 0.53: what differs between these is optional. */

const COIN = object({ denom: STRING, amount: INT_STRING });
const DEC_COIN = object({ denom: STRING, amount: SDK_DECIMAL });
const PAGE = orNull(object({ "next_key?": orNull(BASE64), "total?": INT_STRING }));
const ANY = object({ "@type": STRING });
const paged = (name: string, items: JsonSchema): JsonSchema => object({ [name]: list(items), "pagination?": PAGE });
/** An object that has at least one of these members. */
const withOneOf = (names: readonly string[], members: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  ...(object(members) as Readonly<Record<string, unknown>>),
  anyOf: names.map((name) => ({ required: [name] })),
});
const params = (members: Readonly<Record<string, JsonSchema>>): JsonSchema => object({ params: object(members) });

const BLOCK_ID = object({ hash: orNull(BASE64), part_set_header: object({ total: COUNT, hash: orNull(BASE64) }) });
const HEADER = object({
  chain_id: STRING,
  height: INT_STRING,
  time: TIME,
  last_block_id: BLOCK_ID,
  app_hash: orNull(BASE64),
  proposer_address: STRING,
});
const BLOCK = object({ header: HEADER, data: object({ txs: list(BASE64) }), last_commit: orNull(OBJECT) });
const BLOCK_ANSWER = object({ block_id: BLOCK_ID, block: BLOCK });
const VALIDATOR_SET = object({
  block_height: INT_STRING,
  validators: list(object({ address: STRING, pub_key: orNull(ANY), voting_power: INT_STRING })),
  "pagination?": PAGE,
});

const VALIDATOR = object({
  operator_address: STRING,
  consensus_pubkey: orNull(ANY),
  jailed: BOOLEAN,
  status: text("^BOND_STATUS_[A-Z]+$"),
  tokens: INT_STRING,
  delegator_shares: SDK_DECIMAL,
  description: object({ moniker: STRING }),
  commission: object({ commission_rates: object({ rate: SDK_DECIMAL }) }),
});
const DELEGATIONS = paged(
  "delegation_responses",
  object({
    delegation: object({ delegator_address: STRING, validator_address: STRING, shares: SDK_DECIMAL }),
    balance: COIN,
  }),
);

const TX = object({
  body: object({ messages: list(ANY), memo: STRING }),
  auth_info: object({ signer_infos: list(OBJECT), fee: orNull(object({ amount: list(COIN), gas_limit: INT_STRING })) }),
  signatures: list(BASE64),
});
const TX_RESPONSE = object({
  height: INT_STRING,
  txhash: text("^[0-9A-F]{64}$"),
  codespace: STRING,
  code: COUNT,
  data: STRING,
  raw_log: STRING,
  gas_wanted: INT_STRING,
  gas_used: INT_STRING,
  "timestamp?": STRING,
  "events?": COSMOS_EVENTS,
});

const PROPOSAL = object({
  id: INT_STRING,
  messages: list(ANY),
  status: text("^PROPOSAL_STATUS_[A-Z_]+$"),
  submit_time: orNull(TIME),
  total_deposit: list(COIN),
});
const TALLY = object({ tally: object({ yes_count: INT_STRING, abstain_count: INT_STRING, no_count: INT_STRING }) });
const BALANCES = paged("balances", COIN);
const ONE_BALANCE = object({ balance: orNull(COIN) });

/** Path template → schema of the answer; undefined: undeclared. Sorted as in spec §4.1.3. */
const PATHS: ReadonlyMap<string, JsonSchema | undefined> = new Map([
  ["/cosmos/auth/v1beta1/accounts", paged("accounts", ANY)],
  ["/cosmos/auth/v1beta1/accounts/{address}", object({ account: ANY })],
  ["/cosmos/auth/v1beta1/params", params({ max_memo_characters: INT_STRING, tx_sig_limit: INT_STRING })],
  ["/cosmos/authz/v1beta1/grants", paged("grants", object({ authorization: ANY }))],
  ["/cosmos/bank/v1beta1/balances/{address}", BALANCES],
  ["/cosmos/bank/v1beta1/balances/{address}/by_denom", ONE_BALANCE],
  ["/cosmos/bank/v1beta1/denoms_metadata", paged("metadatas", object({ base: STRING, display: STRING }))],
  ["/cosmos/bank/v1beta1/params", params({ default_send_enabled: BOOLEAN })],
  ["/cosmos/bank/v1beta1/spendable_balances/{address}", BALANCES],
  ["/cosmos/bank/v1beta1/supply", paged("supply", COIN)],
  ["/cosmos/bank/v1beta1/supply/by_denom", object({ amount: COIN })],
  [
    "/cosmos/base/tendermint/v1beta1/abci_query",
    object({ code: COUNT, log: STRING, key: orNull(BASE64), value: orNull(BASE64), height: INT_STRING }),
  ],
  ["/cosmos/base/tendermint/v1beta1/blocks/latest", BLOCK_ANSWER],
  ["/cosmos/base/tendermint/v1beta1/blocks/{height}", BLOCK_ANSWER],
  [
    "/cosmos/base/tendermint/v1beta1/node_info",
    object({
      default_node_info: object({ default_node_id: STRING, network: STRING, version: STRING, moniker: STRING }),
      application_version: object({ name: STRING, app_name: STRING, version: STRING }),
    }),
  ],
  ["/cosmos/base/tendermint/v1beta1/syncing", object({ syncing: BOOLEAN })],
  ["/cosmos/base/tendermint/v1beta1/validatorsets/latest", VALIDATOR_SET],
  ["/cosmos/base/tendermint/v1beta1/validatorsets/{height}", VALIDATOR_SET],
  ["/cosmos/distribution/v1beta1/community_pool", object({ pool: list(DEC_COIN) })],
  [
    "/cosmos/distribution/v1beta1/delegators/{delegator_address}/rewards",
    object({
      rewards: list(object({ validator_address: STRING, reward: list(DEC_COIN) })),
      total: list(DEC_COIN),
    }),
  ],
  ["/cosmos/distribution/v1beta1/params", params({ community_tax: SDK_DECIMAL, withdraw_addr_enabled: BOOLEAN })],
  [
    "/cosmos/distribution/v1beta1/validators/{validator_address}/commission",
    object({ commission: object({ commission: list(DEC_COIN) }) }),
  ],
  [
    "/cosmos/distribution/v1beta1/validators/{validator_address}/outstanding_rewards",
    object({ rewards: object({ rewards: list(DEC_COIN) }) }),
  ],
  ["/cosmos/evidence/v1beta1/evidence", paged("evidence", ANY)],
  ["/cosmos/feegrant/v1beta1/allowances/{grantee}", paged("allowances", object({ granter: STRING, grantee: STRING }))],
  [
    "/cosmos/gov/v1/params/{params_type}",
    withOneOf(["voting_params", "deposit_params", "tally_params", "params"], {
      "voting_params?": orNull(OBJECT),
      "deposit_params?": orNull(OBJECT),
      "tally_params?": orNull(OBJECT),
      "params?": orNull(object({ "voting_period?": STRING, "quorum?": SDK_DECIMAL, "min_deposit?": list(COIN) })),
    }),
  ],
  ["/cosmos/gov/v1/proposals", paged("proposals", PROPOSAL)],
  ["/cosmos/gov/v1/proposals/{proposal_id}", object({ proposal: PROPOSAL })],
  ["/cosmos/gov/v1/proposals/{proposal_id}/tally", TALLY],
  ["/cosmos/gov/v1/proposals/{proposal_id}/votes", paged("votes", object({ proposal_id: INT_STRING, voter: STRING }))],
  [
    "/cosmos/gov/v1beta1/proposals",
    paged("proposals", object({ proposal_id: INT_STRING, content: orNull(ANY), status: STRING })),
  ],
  ["/cosmos/mint/v1beta1/annual_provisions", object({ annual_provisions: SDK_DECIMAL })],
  ["/cosmos/mint/v1beta1/inflation", object({ inflation: SDK_DECIMAL })],
  ["/cosmos/mint/v1beta1/params", params({ mint_denom: STRING })],
  ["/cosmos/params/v1beta1/params", object({ param: object({ subspace: STRING, key: STRING, value: STRING }) })],
  [
    "/cosmos/slashing/v1beta1/params",
    params({
      signed_blocks_window: INT_STRING,
      min_signed_per_window: SDK_DECIMAL,
      slash_fraction_downtime: SDK_DECIMAL,
    }),
  ],
  [
    "/cosmos/slashing/v1beta1/signing_infos",
    paged("info", object({ address: STRING, tombstoned: BOOLEAN, missed_blocks_counter: INT_STRING })),
  ],
  ["/cosmos/staking/v1beta1/delegations/{delegator_addr}", DELEGATIONS],
  [
    "/cosmos/staking/v1beta1/delegators/{delegator_addr}/unbonding_delegations",
    paged(
      "unbonding_responses",
      object({ delegator_address: STRING, validator_address: STRING, entries: list(object({ balance: INT_STRING })) }),
    ),
  ],
  ["/cosmos/staking/v1beta1/delegators/{delegator_addr}/validators", paged("validators", VALIDATOR)],
  [
    "/cosmos/staking/v1beta1/historical_info/{height}",
    object({ hist: object({ header: HEADER, valset: list(VALIDATOR) }) }),
  ],
  ["/cosmos/staking/v1beta1/params", params({ unbonding_time: STRING, max_validators: INTEGER, bond_denom: STRING })],
  [
    "/cosmos/staking/v1beta1/pool",
    object({ pool: object({ not_bonded_tokens: INT_STRING, bonded_tokens: INT_STRING }) }),
  ],
  ["/cosmos/staking/v1beta1/validators", paged("validators", VALIDATOR)],
  ["/cosmos/staking/v1beta1/validators/{validator_addr}", object({ validator: VALIDATOR })],
  ["/cosmos/staking/v1beta1/validators/{validator_addr}/delegations", DELEGATIONS],
  ["/cosmos/tx/v1beta1/txs", object({ txs: list(TX), tx_responses: list(TX_RESPONSE), "pagination?": PAGE })],
  [
    "/cosmos/tx/v1beta1/txs/block/{height}",
    object({ txs: list(TX), block_id: BLOCK_ID, block: BLOCK, "pagination?": PAGE }),
  ],
  ["/cosmos/tx/v1beta1/txs/{hash}", object({ tx: TX, tx_response: TX_RESPONSE })],
  ["/cosmos/upgrade/v1beta1/applied_plan/{name}", object({ height: INT_STRING })],
  ["/cosmos/upgrade/v1beta1/current_plan", object({ plan: orNull(object({ name: STRING, height: INT_STRING })) })],
  [
    "/cosmos/upgrade/v1beta1/module_versions",
    object({ module_versions: list(object({ name: STRING, version: INT_STRING })) }),
  ],
  ["/ibc/apps/transfer/v1/denoms", paged("denoms", object({ base: STRING, "trace?": orNull(list(OBJECT)) }))],
  [
    "/ibc/core/channel/v1/channels",
    paged("channels", object({ state: STRING, ordering: STRING, port_id: STRING, channel_id: STRING })),
  ],
  [
    "/ibc/core/client/v1/client_states",
    paged("client_states", object({ client_id: STRING, client_state: orNull(ANY) })),
  ],
  [
    "/ibc/core/connection/v1/connections",
    paged("connections", object({ id: STRING, client_id: STRING, state: STRING })),
  ],
]);

const WASM_PATHS: ReadonlyMap<string, JsonSchema | undefined> = new Map([
  ["/cosmwasm/wasm/v1/code", paged("code_infos", object({ code_id: INT_STRING, creator: STRING, data_hash: STRING }))],
  ["/cosmwasm/wasm/v1/codes/params", params({ code_upload_access: OBJECT, instantiate_default_permission: STRING })],
  ["/cosmwasm/wasm/v1/contract/{address}", object({ address: STRING, contract_info: object({ code_id: INT_STRING }) })],
  // the contract decides what `data` is
  ["/cosmwasm/wasm/v1/contract/{address}/smart/{query_data}", object({ data: true })],
  [
    "/cosmwasm/wasm/v1/contract/{address}/state",
    paged("models", object({ key: text("^[0-9A-Fa-f]*$"), value: BASE64 })),
  ],
]);

const AKASH_PATHS: ReadonlyMap<string, JsonSchema | undefined> = new Map([
  ["/akash/deployment/v1beta3/deployments/list", paged("deployments", object({ deployment: OBJECT }))],
]);

function restOperations(paths: ReadonlyMap<string, JsonSchema | undefined>): readonly Operation[] {
  return [...paths].map(([path, result]) => {
    const [, , module = "", , ...rest] = path.split("/");
    const words = rest.filter((part) => !part.startsWith("{")).map((part) => part.replaceAll("_", " "));
    return {
      name: `GET ${path}`,
      rpcType: "rest",
      description: `The chain's ${[module, ...words].join(" ")}.`,
      ...(result === undefined ? {} : { result }),
    };
  });
}

const common = restOperations(PATHS);
const wasm = restOperations(WASM_PATHS);
const akash = restOperations(AKASH_PATHS);

/** LCD paths of a Cosmos-style route (spec §4.1.3). */
export function cosmosRestOperations(serviceId: string, hasWasm: boolean): readonly Operation[] {
  return [...common, ...(hasWasm ? wasm : []), ...(serviceId === "akash" ? akash : [])];
}
