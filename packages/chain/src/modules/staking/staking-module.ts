import { staking } from "@turnpike/proto";
import { type Module, moduleGenesis } from "../../state/module.ts";
import { exportStaking, initStaking } from "./genesis.ts";
import { type StakingOptions, stakingMessages } from "./messages.ts";
import { STAKING_QUERIES } from "./queries.ts";
import { STAKING_MODULE } from "./state.ts";
import { finishUnbonding, updateValidatorSet } from "./validator-set.ts";

/**
 * The module of validators and delegations, as state only: there is no slashing, and delegations are not taken back.
 * Who votes changes at the end of a block.
 */
export function stakingModule(opts: StakingOptions): Module {
  return {
    name: STAKING_MODULE,
    messages: stakingMessages(opts),
    queries: STAKING_QUERIES,
    genesis: moduleGenesis(staking.GenesisStateSchema, { init: initStaking, export: exportStaking }),
    endBlock(ctx) {
      const updates = updateValidatorSet(ctx);
      finishUnbonding(ctx);
      return updates;
    },
  };
}
