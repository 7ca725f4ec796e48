const ROOT = "/pokt-network/poktroll";

/** Pattern of a REST path, and the gRPC method whose answer it prints. Order matters: the first that fits. */
const ROUTES: readonly (readonly [RegExp, string])[] = [
  [
    /^\/(application|gateway|supplier|service|session|proof|shared|tokenomics|migration)\/params$/,
    "pocket.$1.Query/Params",
  ],
  [/^\/shared\/params\/-?\d+$/, "pocket.shared.Query/ParamsAtHeight"],
  [/^\/application\/application$/, "pocket.application.Query/AllApplications"],
  [/^\/application\/application\/\w*$/, "pocket.application.Query/Application"],
  [/^\/gateway\/gateway$/, "pocket.gateway.Query/AllGateways"],
  [/^\/gateway\/gateway\/\w+$/, "pocket.gateway.Query/Gateway"],
  [/^\/supplier\/supplier$/, "pocket.supplier.Query/AllSuppliers"],
  [/^\/supplier\/supplier\/\w+$/, "pocket.supplier.Query/Supplier"],
  [/^\/service\/service$/, "pocket.service.Query/AllServices"],
  [/^\/service\/service\/[\w-]+$/, "pocket.service.Query/Service"],
  [/^\/service\/relay_mining_difficulty$/, "pocket.service.Query/RelayMiningDifficultyAll"],
  [/^\/service\/relay_mining_difficulty\/[\w-]+$/, "pocket.service.Query/RelayMiningDifficulty"],
  [/^\/service\/relay_mining_difficulty\/[\w-]+\/at_height\//, "pocket.service.Query/RelayMiningDifficultyAtHeight"],
  [/^\/service\/relay_mining_difficulty\/[\w-]+\/history$/, "pocket.service.Query/RelayMiningDifficultyHistory"],
  [/^\/service\/compute_units_per_relay\/[\w-]+\/at_height\//, "pocket.service.Query/ComputeUnitsPerRelayAtHeight"],
  [/^\/service\/compute_units_per_relay\/[\w-]+\/history$/, "pocket.service.Query/ComputeUnitsPerRelayHistory"],
  [/^\/session\/get_session$/, "pocket.session.Query/GetSession"],
  [/^\/proof\/claim$/, "pocket.proof.Query/AllClaims"],
  [/^\/proof\/claim\//, "pocket.proof.Query/Claim"],
  [/^\/proof\/proof$/, "pocket.proof.Query/AllProofs"],
  [/^\/proof\/proof\//, "pocket.proof.Query/Proof"],
  [/^\/cosmos\/auth\/v1beta1\/params$/, "cosmos.auth.v1beta1.Query/Params"],
  [/^\/cosmos\/auth\/v1beta1\/accounts$/, "cosmos.auth.v1beta1.Query/Accounts"],
  [/^\/cosmos\/auth\/v1beta1\/accounts\//, "cosmos.auth.v1beta1.Query/Account"],
  [/^\/cosmos\/auth\/v1beta1\/account_info\//, "cosmos.auth.v1beta1.Query/AccountInfo"],
  [/^\/cosmos\/auth\/v1beta1\/bech32$/, "cosmos.auth.v1beta1.Query/Bech32Prefix"],
  [/^\/cosmos\/auth\/v1beta1\/module_accounts$/, "cosmos.auth.v1beta1.Query/ModuleAccounts"],
  [/^\/cosmos\/auth\/v1beta1\/module_accounts\//, "cosmos.auth.v1beta1.Query/ModuleAccountByName"],
  [/^\/cosmos\/bank\/v1beta1\/balances\/\w+$/, "cosmos.bank.v1beta1.Query/AllBalances"],
  [/^\/cosmos\/bank\/v1beta1\/balances\/\w+\/by_denom$/, "cosmos.bank.v1beta1.Query/Balance"],
  [/^\/cosmos\/bank\/v1beta1\/spendable_balances\/\w+$/, "cosmos.bank.v1beta1.Query/SpendableBalances"],
  [/^\/cosmos\/bank\/v1beta1\/spendable_balances\/\w+\/by_denom$/, "cosmos.bank.v1beta1.Query/SpendableBalanceByDenom"],
  [/^\/cosmos\/bank\/v1beta1\/supply$/, "cosmos.bank.v1beta1.Query/TotalSupply"],
  [/^\/cosmos\/bank\/v1beta1\/supply\/by_denom$/, "cosmos.bank.v1beta1.Query/SupplyOf"],
  [/^\/cosmos\/bank\/v1beta1\/params$/, "cosmos.bank.v1beta1.Query/Params"],
  [/^\/cosmos\/bank\/v1beta1\/denoms_metadata$/, "cosmos.bank.v1beta1.Query/DenomsMetadata"],
  [/^\/cosmos\/bank\/v1beta1\/denom_owners\//, "cosmos.bank.v1beta1.Query/DenomOwners"],
  [/^\/cosmos\/base\/tendermint\/v1beta1\/node_info$/, "cosmos.base.tendermint.v1beta1.Service/GetNodeInfo"],
  [/^\/cosmos\/base\/tendermint\/v1beta1\/syncing$/, "cosmos.base.tendermint.v1beta1.Service/GetSyncing"],
  [/^\/cosmos\/base\/tendermint\/v1beta1\/blocks\/latest$/, "cosmos.base.tendermint.v1beta1.Service/GetLatestBlock"],
  [/^\/cosmos\/base\/tendermint\/v1beta1\/blocks\/\d+$/, "cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight"],
  [
    /^\/cosmos\/base\/tendermint\/v1beta1\/validatorsets\/latest$/,
    "cosmos.base.tendermint.v1beta1.Service/GetLatestValidatorSet",
  ],
  [
    /^\/cosmos\/base\/tendermint\/v1beta1\/validatorsets\/\d+$/,
    "cosmos.base.tendermint.v1beta1.Service/GetValidatorSetByHeight",
  ],
  [/^\/cosmos\/base\/tendermint\/v1beta1\/abci_query$/, "cosmos.base.tendermint.v1beta1.Service/ABCIQuery"],
  [/^\/cosmos\/base\/node\/v1beta1\/config$/, "cosmos.base.node.v1beta1.Service/Config"],
  [/^\/cosmos\/base\/node\/v1beta1\/status$/, "cosmos.base.node.v1beta1.Service/Status"],
  [/^\/cosmos\/tx\/v1beta1\/txs\/block\//, "cosmos.tx.v1beta1.Service/GetBlockWithTxs"],
  [/^\/cosmos\/tx\/v1beta1\/txs\/\w+$/, "cosmos.tx.v1beta1.Service/GetTx"],
  [/^POST \/cosmos\/tx\/v1beta1\/txs$/, "cosmos.tx.v1beta1.Service/BroadcastTx"],
  [/^\/cosmos\/tx\/v1beta1\/txs$/, "cosmos.tx.v1beta1.Service/GetTxsEvent"],
  [/^POST \/cosmos\/tx\/v1beta1\/simulate$/, "cosmos.tx.v1beta1.Service/Simulate"],
  [/^POST \/cosmos\/tx\/v1beta1\/decode$/, "cosmos.tx.v1beta1.Service/TxDecode"],
  [/^\/cosmos\/authz\/v1beta1\/grants$/, "cosmos.authz.v1beta1.Query/Grants"],
  [/^\/cosmos\/consensus\/v1\/params$/, "cosmos.consensus.v1.Query/Params"],
  [/^\/cosmos\/upgrade\/v1beta1\/current_plan$/, "cosmos.upgrade.v1beta1.Query/CurrentPlan"],
  [/^\/cosmos\/upgrade\/v1beta1\/applied_plan\//, "cosmos.upgrade.v1beta1.Query/AppliedPlan"],
  [/^\/cosmos\/upgrade\/v1beta1\/module_versions$/, "cosmos.upgrade.v1beta1.Query/ModuleVersions"],
  [/^\/cosmos\/mint\/v1beta1\/params$/, "cosmos.mint.v1beta1.Query/Params"],
  [/^\/cosmos\/mint\/v1beta1\/inflation$/, "cosmos.mint.v1beta1.Query/Inflation"],
  [/^\/cosmos\/mint\/v1beta1\/annual_provisions$/, "cosmos.mint.v1beta1.Query/AnnualProvisions"],
  [/^\/cosmos\/slashing\/v1beta1\/params$/, "cosmos.slashing.v1beta1.Query/Params"],
  [/^\/cosmos\/slashing\/v1beta1\/signing_infos$/, "cosmos.slashing.v1beta1.Query/SigningInfos"],
  [/^\/cosmos\/distribution\/v1beta1\/params$/, "cosmos.distribution.v1beta1.Query/Params"],
  [/^\/cosmos\/distribution\/v1beta1\/community_pool$/, "cosmos.distribution.v1beta1.Query/CommunityPool"],
  [
    /^\/cosmos\/distribution\/v1beta1\/delegators\/\w+\/rewards$/,
    "cosmos.distribution.v1beta1.Query/DelegationTotalRewards",
  ],
  [
    /^\/cosmos\/distribution\/v1beta1\/validators\/\w+\/commission$/,
    "cosmos.distribution.v1beta1.Query/ValidatorCommission",
  ],
  [
    /^\/cosmos\/distribution\/v1beta1\/validators\/\w+\/outstanding_rewards$/,
    "cosmos.distribution.v1beta1.Query/ValidatorOutstandingRewards",
  ],
  [/^\/cosmos\/gov\/v1\/params\//, "cosmos.gov.v1.Query/Params"],
  [/^\/cosmos\/gov\/v1\/proposals$/, "cosmos.gov.v1.Query/Proposals"],
  [/^\/cosmos\/gov\/v1\/proposals\/\d+$/, "cosmos.gov.v1.Query/Proposal"],
  [/^\/cosmos\/gov\/v1\/proposals\/\d+\/tally$/, "cosmos.gov.v1.Query/TallyResult"],
  [/^\/cosmos\/gov\/v1\/proposals\/\d+\/votes$/, "cosmos.gov.v1.Query/Votes"],
  [/^\/cosmos\/staking\/v1beta1\/params$/, "cosmos.staking.v1beta1.Query/Params"],
  [/^\/cosmos\/staking\/v1beta1\/pool$/, "cosmos.staking.v1beta1.Query/Pool"],
  [/^\/cosmos\/staking\/v1beta1\/validators$/, "cosmos.staking.v1beta1.Query/Validators"],
  [/^\/cosmos\/staking\/v1beta1\/validators\/\w+$/, "cosmos.staking.v1beta1.Query/Validator"],
  [/^\/cosmos\/staking\/v1beta1\/validators\/\w+\/delegations$/, "cosmos.staking.v1beta1.Query/ValidatorDelegations"],
  [/^\/cosmos\/staking\/v1beta1\/delegations\/\w+$/, "cosmos.staking.v1beta1.Query/DelegatorDelegations"],
  [
    /^\/cosmos\/staking\/v1beta1\/delegators\/\w+\/unbonding_delegations$/,
    "cosmos.staking.v1beta1.Query/DelegatorUnbondingDelegations",
  ],
  [/^\/cosmos\/staking\/v1beta1\/delegators\/\w+\/validators$/, "cosmos.staking.v1beta1.Query/DelegatorValidators"],
  [/^\/cosmos\/staking\/v1beta1\/historical_info\/\d+$/, "cosmos.staking.v1beta1.Query/HistoricalInfo"],
];

/** gRPC path of the method that a REST request calls; undefined for one that this package has no types for. */
export function methodOfRest(verb: string, path: string): string | undefined {
  const [bare = ""] = path.split("?");
  const short = bare.startsWith(ROOT) ? bare.slice(ROOT.length) : bare;
  const subject = verb === "GET" ? short : `${verb} ${short}`;
  for (const [pattern, method] of ROUTES) {
    const found = pattern.exec(subject);
    if (found !== null) return `/${method.replace("$1", found[1] ?? "")}`;
  }
  return undefined;
}
