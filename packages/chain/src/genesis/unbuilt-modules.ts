import { isRecord } from "@turnpike/base";

/**
 * Sections of `app_state` of modules that this chain does not have, as a real node's genesis has them. Nothing here reads them:
 * without them `genesis validate` of the real command line refuses the file.
 */
export const UNBUILT_MODULES: Readonly<Record<string, unknown>> = {
  circuit: {
    account_permissions: [],
    disabled_type_urls: [],
  },
  crisis: {
    constant_fee: {
      denom: "upokt",
      amount: "10000",
    },
  },
  distribution: {
    params: {
      community_tax: "0.020000000000000000",
      base_proposer_reward: "0.000000000000000000",
      bonus_proposer_reward: "0.000000000000000000",
      withdraw_addr_enabled: true,
    },
    fee_pool: {
      community_pool: [],
    },
    delegator_withdraw_infos: [],
    previous_proposer: "",
    outstanding_rewards: [],
    validator_accumulated_commissions: [],
    validator_historical_rewards: [],
    validator_current_rewards: [],
    delegator_starting_infos: [],
    validator_slash_events: [],
  },
  evidence: {
    evidence: [],
  },
  feegrant: {
    allowances: [],
  },
  gov: {
    starting_proposal_id: "1",
    deposits: [],
    votes: [],
    proposals: [],
    deposit_params: null,
    voting_params: null,
    tally_params: null,
    params: {
      min_deposit: [
        {
          denom: "upokt",
          amount: "10000",
        },
      ],
      max_deposit_period: "30s",
      voting_period: "12s",
      quorum: "0.334000000000000000",
      threshold: "0.500000000000000000",
      veto_threshold: "0.334000000000000000",
      min_initial_deposit_ratio: "0.000000000000000000",
      proposal_cancel_ratio: "0.500000000000000000",
      proposal_cancel_dest: "",
      expedited_voting_period: "6s",
      expedited_threshold: "0.667000000000000000",
      expedited_min_deposit: [
        {
          denom: "upokt",
          amount: "50000",
        },
      ],
      burn_vote_quorum: false,
      burn_proposal_deposit_prevote: false,
      burn_vote_veto: true,
      min_deposit_ratio: "0.010000000000000000",
    },
    constitution: "",
  },
  group: {
    group_seq: "0",
    groups: [],
    group_members: [],
    group_policy_seq: "0",
    group_policies: [],
    proposal_seq: "0",
    proposals: [],
    votes: [],
  },
  migration: {
    params: {
      waive_morse_claim_gas_fees: false,
      allow_morse_account_import_overwrite: false,
      morse_account_claiming_enabled: true,
    },
    morseClaimableAccountList: [],
  },
  mint: {
    minter: {
      inflation: "0.000000000000000000",
      annual_provisions: "0.000000000000000000",
    },
    params: {
      mint_denom: "upokt",
      inflation_rate_change: "0.000000000000000000",
      inflation_max: "0.000000000000000000",
      inflation_min: "0.000000000000000000",
      goal_bonded: "0.670000000000000000",
      blocks_per_year: "6311520",
    },
  },
  slashing: {
    params: {
      signed_blocks_window: "100",
      min_signed_per_window: "0.500000000000000000",
      downtime_jail_duration: "600s",
      slash_fraction_double_sign: "0.050000000000000000",
      slash_fraction_downtime: "0.010000000000000000",
    },
    signing_infos: [],
    missed_blocks: [],
  },
  vesting: {},
};

/** Lists of the module gov whose entries something would have to carry out or to give back. */
const GOV_LISTS = ["proposals", "deposits", "votes"] as const;

/** Why a genesis holds content that this chain would lose; undefined when it does not. */
export function unbuiltContentFault({ gov }: Readonly<Record<string, unknown>>): string | undefined {
  if (!isRecord(gov)) return undefined;
  const list = GOV_LISTS.find((name) => Array.isArray(gov[name]) && gov[name].length > 0);
  if (list === undefined) return undefined;
  return `app_state.gov.${list} is not empty, and this chain has no governance by votes: end proposals before the export`;
}
