import { application, gateway, proof, service, session, shared, supplier, tokenomics } from "@turnpike/proto";

/** Every parameter that one message changes, by module. */
export const PARAMS = [
  ...[
    "num_blocks_per_session",
    "grace_period_end_offset_blocks",
    "claim_window_open_offset_blocks",
    "claim_window_close_offset_blocks",
    "proof_window_open_offset_blocks",
    "proof_window_close_offset_blocks",
    "supplier_unbonding_period_sessions",
    "application_unbonding_period_sessions",
    "gateway_unbonding_period_sessions",
    "compute_units_to_tokens_multiplier",
    "compute_unit_cost_granularity",
  ].map((name) => [shared.MsgUpdateParamSchema, name, "asUint64"] as const),
  [session.MsgUpdateParamSchema, "num_suppliers_per_session", "asUint64"],
  [service.MsgUpdateParamSchema, "target_num_relays", "asUint64"],
  [service.MsgUpdateParamSchema, "add_service_fee", "asCoin"],
  [application.MsgUpdateParamSchema, "max_delegated_gateways", "asUint64"],
  [application.MsgUpdateParamSchema, "min_stake", "asCoin"],
  [supplier.MsgUpdateParamSchema, "min_stake", "asCoin"],
  [supplier.MsgUpdateParamSchema, "staking_fee", "asCoin"],
  [gateway.MsgUpdateParamSchema, "min_stake", "asCoin"],
  [proof.MsgUpdateParamSchema, "proof_request_probability", "asFloat"],
  [proof.MsgUpdateParamSchema, "proof_requirement_threshold", "asCoin"],
  [proof.MsgUpdateParamSchema, "proof_missing_penalty", "asCoin"],
  [proof.MsgUpdateParamSchema, "proof_submission_fee", "asCoin"],
  [tokenomics.MsgUpdateParamSchema, "global_inflation_per_claim", "asFloat"],
  [tokenomics.MsgUpdateParamSchema, "mint_ratio", "asFloat"],
  [tokenomics.MsgUpdateParamSchema, "overservicing_bonus_multiplier", "asUint64"],
  [tokenomics.MsgUpdateParamSchema, "dao_reward_address", "asString"],
] as const;

/** Numbers for float parameters, most of which must be refused. */
export const FLOATS = [0, 1, 0.5, 1e-9, 5e-324, Number.NaN, Number.POSITIVE_INFINITY, -0, -1, 1e308, 1.5, 0.1];
/** Shares of rewards: of the DAO, the proposer, the supplier, the source owner and the application. */
export const SHARES = [
  [0.1, 0.05, 0.7, 0.15, 0],
  [0, 1, 0, 0, 0],
  [0, 0, 1, 0, 0],
  [0.2, 0.2, 0.2, 0.2, 0.2],
  [Number.NaN, 0, 1, 0, 0],
  [0.00004, 0.00004, 0.99999, 0.00004, 0.00004],
] as const;
