/** Where a gRPC method is on REST: verb, path with `{field}` places, and whether the body is the request. */
export interface RestRoute {
  readonly verb: "GET" | "POST";
  /** Segments of the path; `{field}` takes one segment. */
  readonly segments: readonly string[];
  /** gRPC path. */
  readonly method: string;
}

/** Methods of one service: name, then path under the service's prefix; `POST ` in front where the body is the request. */
type Rules = readonly (readonly [name: string, path: string])[];

const PARAMS = ["Params", "/params"] as const;

/** The paths of spec §2.7 and of the real chain's modules, without their prefix. */
const POCKET: Readonly<Record<string, Rules>> = {
  application: [PARAMS, ["AllApplications", "/application"], ["Application", "/application/{address}"]],
  gateway: [PARAMS, ["AllGateways", "/gateway"], ["Gateway", "/gateway/{address}"]],
  supplier: [PARAMS, ["AllSuppliers", "/supplier"], ["Supplier", "/supplier/{operator_address}"]],
  service: [
    PARAMS,
    ["AllServices", "/service"],
    ["Service", "/service/{id}"],
    ["RelayMiningDifficultyAll", "/relay_mining_difficulty"],
    ["RelayMiningDifficulty", "/relay_mining_difficulty/{serviceId}"],
    ["RelayMiningDifficultyAtHeight", "/relay_mining_difficulty/{serviceId}/at_height/{blockHeight}"],
    ["RelayMiningDifficultyHistory", "/relay_mining_difficulty/{serviceId}/history"],
    ["ComputeUnitsPerRelayAtHeight", "/compute_units_per_relay/{serviceId}/at_height/{blockHeight}"],
    ["ComputeUnitsPerRelayHistory", "/compute_units_per_relay/{serviceId}/history"],
  ],
  session: [PARAMS, ["GetSession", "/get_session"]],
  proof: [
    PARAMS,
    ["AllClaims", "/claim"],
    ["Claim", "/claim/{session_id}/{supplier_operator_address}"],
    ["AllProofs", "/proof"],
    ["Proof", "/proof/{session_id}/{supplier_operator_address}"],
  ],
  shared: [PARAMS, ["ParamsAtHeight", "/params/{height}"]],
  tokenomics: [PARAMS],
  migration: [PARAMS],
};

/** The real network's prefix, and the specification's. */
const POCKET_PREFIXES = ["/pokt-network/poktroll", "/pocket"] as const;

/** The SDK's own, by service and by the prefix of its paths. */
const COSMOS: readonly (readonly [service: string, prefix: string, rules: Rules])[] = [
  [
    "cosmos.auth.v1beta1.Query",
    "/cosmos/auth/v1beta1",
    [
      PARAMS,
      ["Accounts", "/accounts"],
      ["Account", "/accounts/{address}"],
      ["AccountAddressByID", "/address_by_id/{id}"],
      ["AccountInfo", "/account_info/{address}"],
      ["ModuleAccounts", "/module_accounts"],
      ["ModuleAccountByName", "/module_accounts/{name}"],
      ["Bech32Prefix", "/bech32"],
      ["AddressBytesToString", "/bech32/{address_bytes}"],
      ["AddressStringToBytes", "/bech32/{address_string}"],
    ],
  ],
  [
    "cosmos.bank.v1beta1.Query",
    "/cosmos/bank/v1beta1",
    [
      PARAMS,
      ["Balance", "/balances/{address}/by_denom"],
      ["AllBalances", "/balances/{address}"],
      ["SpendableBalances", "/spendable_balances/{address}"],
      ["SpendableBalanceByDenom", "/spendable_balances/{address}/by_denom"],
      ["TotalSupply", "/supply"],
      ["SupplyOf", "/supply/by_denom"],
      ["DenomsMetadata", "/denoms_metadata"],
      ["DenomMetadata", "/denoms_metadata/{denom=**}"],
      ["DenomMetadataByQueryString", "/denoms_metadata_by_query_string"],
      ["DenomOwners", "/denom_owners/{denom=**}"],
      ["DenomOwnersByQuery", "/denom_owners_by_query"],
      ["SendEnabled", "/send_enabled"],
    ],
  ],
  [
    "cosmos.staking.v1beta1.Query",
    "/cosmos/staking/v1beta1",
    [
      PARAMS,
      ["Pool", "/pool"],
      ["Validators", "/validators"],
      ["Validator", "/validators/{validator_addr}"],
      ["ValidatorDelegations", "/validators/{validator_addr}/delegations"],
      ["ValidatorUnbondingDelegations", "/validators/{validator_addr}/unbonding_delegations"],
      ["Delegation", "/validators/{validator_addr}/delegations/{delegator_addr}"],
      ["UnbondingDelegation", "/validators/{validator_addr}/delegations/{delegator_addr}/unbonding_delegation"],
      ["DelegatorDelegations", "/delegations/{delegator_addr}"],
      ["DelegatorUnbondingDelegations", "/delegators/{delegator_addr}/unbonding_delegations"],
      ["Redelegations", "/delegators/{delegator_addr}/redelegations"],
      ["DelegatorValidators", "/delegators/{delegator_addr}/validators"],
      ["DelegatorValidator", "/delegators/{delegator_addr}/validators/{validator_addr}"],
      ["HistoricalInfo", "/historical_info/{height}"],
    ],
  ],
  [
    "cosmos.authz.v1beta1.Query",
    "/cosmos/authz/v1beta1/grants",
    [
      ["Grants", ""],
      ["GranterGrants", "/granter/{granter}"],
      ["GranteeGrants", "/grantee/{grantee}"],
    ],
  ],
  ["cosmos.consensus.v1.Query", "/cosmos/consensus/v1", [PARAMS]],
  [
    "cosmos.upgrade.v1beta1.Query",
    "/cosmos/upgrade/v1beta1",
    [
      ["CurrentPlan", "/current_plan"],
      ["AppliedPlan", "/applied_plan/{name}"],
      ["ModuleVersions", "/module_versions"],
      ["Authority", "/authority"],
    ],
  ],
  [
    "cosmos.mint.v1beta1.Query",
    "/cosmos/mint/v1beta1",
    [PARAMS, ["Inflation", "/inflation"], ["AnnualProvisions", "/annual_provisions"]],
  ],
  [
    "cosmos.slashing.v1beta1.Query",
    "/cosmos/slashing/v1beta1",
    [PARAMS, ["SigningInfo", "/signing_infos/{cons_address}"], ["SigningInfos", "/signing_infos"]],
  ],
  [
    "cosmos.distribution.v1beta1.Query",
    "/cosmos/distribution/v1beta1",
    [
      PARAMS,
      ["ValidatorDistributionInfo", "/validators/{validator_address}"],
      ["ValidatorOutstandingRewards", "/validators/{validator_address}/outstanding_rewards"],
      ["ValidatorCommission", "/validators/{validator_address}/commission"],
      ["ValidatorSlashes", "/validators/{validator_address}/slashes"],
      ["DelegationRewards", "/delegators/{delegator_address}/rewards/{validator_address}"],
      ["DelegationTotalRewards", "/delegators/{delegator_address}/rewards"],
      ["DelegatorValidators", "/delegators/{delegator_address}/validators"],
      ["DelegatorWithdrawAddress", "/delegators/{delegator_address}/withdraw_address"],
      ["CommunityPool", "/community_pool"],
    ],
  ],
  [
    "cosmos.gov.v1.Query",
    "/cosmos/gov/v1",
    [
      ["Constitution", "/constitution"],
      ["Proposals", "/proposals"],
      ["Proposal", "/proposals/{proposal_id}"],
      ["Votes", "/proposals/{proposal_id}/votes"],
      ["Vote", "/proposals/{proposal_id}/votes/{voter}"],
      ["Params", "/params/{params_type}"],
      ["Deposits", "/proposals/{proposal_id}/deposits"],
      ["Deposit", "/proposals/{proposal_id}/deposits/{depositor}"],
      ["TallyResult", "/proposals/{proposal_id}/tally"],
    ],
  ],
  [
    "cosmos.tx.v1beta1.Service",
    "/cosmos/tx/v1beta1",
    [
      ["Simulate", "POST /simulate"],
      ["GetTx", "/txs/{hash}"],
      ["BroadcastTx", "POST /txs"],
      ["GetTxsEvent", "/txs"],
      ["GetBlockWithTxs", "/txs/block/{height}"],
      ["TxDecode", "POST /decode"],
      ["TxEncode", "POST /encode"],
    ],
  ],
  [
    "cosmos.base.tendermint.v1beta1.Service",
    "/cosmos/base/tendermint/v1beta1",
    [
      ["GetNodeInfo", "/node_info"],
      ["GetSyncing", "/syncing"],
      ["GetLatestBlock", "/blocks/latest"],
      ["GetBlockByHeight", "/blocks/{height}"],
      ["GetLatestValidatorSet", "/validatorsets/latest"],
      ["GetValidatorSetByHeight", "/validatorsets/{height}"],
      ["ABCIQuery", "/abci_query"],
    ],
  ],
  [
    "cosmos.base.node.v1beta1.Service",
    "/cosmos/base/node/v1beta1",
    [
      ["Config", "/config"],
      ["Status", "/status"],
    ],
  ],
  [
    "cosmos.base.reflection.v1beta1.ReflectionService",
    "/cosmos/base/reflection/v1beta1",
    [
      ["ListAllInterfaces", "/interfaces"],
      ["ListImplementations", "/interfaces/{interface_name}/implementations"],
    ],
  ],
  [
    "cosmos.base.reflection.v2alpha1.ReflectionService",
    "/cosmos/base/reflection/v1beta1/app_descriptor",
    [
      ["GetAuthnDescriptor", "/authn"],
      ["GetChainDescriptor", "/chain"],
      ["GetCodecDescriptor", "/codec"],
      ["GetConfigurationDescriptor", "/configuration"],
      ["GetQueryServicesDescriptor", "/query_services"],
      ["GetTxDescriptor", "/tx_descriptor"],
    ],
  ],
];

function routesOf(service: string, prefix: string, rules: Rules): RestRoute[] {
  return rules.map(([name, rule]) => {
    const verb = rule.startsWith("POST ") ? "POST" : "GET";
    const path = prefix + rule.replace(/^POST /, "");
    return { verb, segments: path.slice(1).split("/"), method: `/${service}/${name}` };
  });
}

/** Every REST path that this chain may have; a method that is not served has none. */
export const REST_ROUTES: readonly RestRoute[] = [
  ...POCKET_PREFIXES.flatMap((prefix) =>
    Object.entries(POCKET).flatMap(([module, rules]) =>
      routesOf(`pocket.${module}.Query`, `${prefix}/${module}`, rules),
    ),
  ),
  ...COSMOS.flatMap(([service, prefix, rules]) => routesOf(service, prefix, rules)),
];
