import { AppError, utf8ToBytes } from "@turnpike/base";
import { encodeBech32, moduleAddressBytes } from "@turnpike/crypto";
import { createMessage, staking } from "@turnpike/proto";
import { parseAddress } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { type Module, moduleGenesis, type ValidatorUpdate } from "../../state/module.ts";
import { getBalance } from "../bank/balances.ts";
import { readWhole } from "./decimals.ts";
import { MOST_TOKENS } from "./delegate.ts";
import { paramsFault, type StakingOptions, stakingMessages } from "./messages.ts";
import { STAKING_QUERIES } from "./queries.ts";
import {
  BONDED_POOL,
  consensusKey,
  DEFAULT_STAKING_PARAMS,
  delegations,
  getStakingParams,
  getValidator,
  lastPowers,
  NOT_BONDED_POOL,
  OPERATOR_PREFIX,
  STAKING_MODULE,
  setDelegation,
  setIsStale,
  setValidator,
  stakingParams,
  unbondingValidators,
  validators,
} from "./state.ts";
import { finishUnbonding, updateValidatorSet } from "./validator-set.ts";

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of staking is not valid: ${why}.` });

function checkPool(ctx: Context, name: string, sum: bigint): void {
  const held = getBalance(ctx, moduleAddressBytes(name), getStakingParams(ctx).bondDenom);
  if (held !== sum) throw invalid(`${name} has ${held}, and its validators ${sum}`);
}

function addValidator(ctx: Context, validator: staking.Validator): bigint {
  const operator = parseAddress(validator.operatorAddress, OPERATOR_PREFIX);
  const tokens = readWhole(validator.tokens);
  const numbers = [validator.delegatorShares, validator.minSelfDelegation].map(readWhole);
  const rate = readWhole(validator.commission?.commissionRates?.rate ?? "");
  const isNumeric =
    tokens !== undefined && tokens >= 0n && tokens <= MOST_TOKENS && !numbers.includes(undefined) && rate !== undefined;
  if (!operator.ok || !isNumeric || consensusKey(validator.consensusPubkey) === undefined) {
    throw invalid(`the validator ${validator.operatorAddress}`);
  }
  if (getValidator(ctx, operator.value) !== undefined) throw invalid(`two validators ${validator.operatorAddress}`);
  setValidator(ctx, validator);
  if (validator.status === staking.BondStatus.UNBONDING) {
    const { seconds = 0n, nanos = 0 } = validator.unbondingTime ?? {};
    unbondingValidators.set(ctx, [seconds * 1_000_000_000n + BigInt(nanos), operator.value], new Uint8Array(0));
  }
  return tokens;
}

function lastKnown(ctx: Context, powers: readonly staking.LastValidatorPower[]): ValidatorUpdate[] {
  return powers.map(({ address, power }) => {
    const operator = parseAddress(address, OPERATOR_PREFIX);
    const validator = operator.ok ? getValidator(ctx, operator.value) : undefined;
    const publicKey = consensusKey(validator?.consensusPubkey);
    if (!operator.ok || publicKey === undefined || power <= 0n) throw invalid(`the power of ${address}`);
    lastPowers.set(ctx, operator.value, power);
    return { publicKey, power };
  });
}

function init(ctx: Context, state: staking.GenesisState): ValidatorUpdate[] {
  const params = state.params ?? DEFAULT_STAKING_PARAMS;
  const fault = paramsFault(params);
  if (fault !== undefined) throw invalid(fault);
  stakingParams.set(ctx, undefined, params);
  if (state.unbondingDelegations.length > 0 || state.redelegations.length > 0) {
    throw invalid("delegations that are being taken back or moved are not supported");
  }
  let bonded = 0n;
  let notBonded = 0n;
  for (const validator of state.validators) {
    const tokens = addValidator(ctx, validator);
    if (validator.status === staking.BondStatus.BONDED) bonded += tokens;
    else notBonded += tokens;
  }
  checkPool(ctx, BONDED_POOL, bonded);
  checkPool(ctx, NOT_BONDED_POOL, notBonded);
  for (const delegation of state.delegations) {
    const operator = parseAddress(delegation.validatorAddress, OPERATOR_PREFIX);
    const delegator = parseAddress(delegation.delegatorAddress);
    if (!operator.ok || !delegator.ok || (readWhole(delegation.shares) ?? 0n) <= 0n) {
      throw invalid(`the delegation of ${delegation.delegatorAddress}`);
    }
    setDelegation(ctx, operator.value, delegator.value, delegation);
  }
  if (!state.exported) return updateValidatorSet(ctx);
  const updates = lastKnown(ctx, state.lastValidatorPowers);
  setIsStale.remove(ctx, undefined);
  return updates;
}

function exportState(ctx: Context): staking.GenesisState {
  const powers = [...lastPowers.entries(ctx)];
  const total = powers.reduce((sum, [, power]) => sum + power, 0n);
  return createMessage(staking.GenesisStateSchema, {
    params: getStakingParams(ctx),
    lastTotalPower: utf8ToBytes(total.toString()),
    lastValidatorPowers: powers.map(([operator, power]) =>
      createMessage(staking.LastValidatorPowerSchema, { address: encodeBech32(OPERATOR_PREFIX, operator), power }),
    ),
    validators: [...validators.entries(ctx)].map(([, validator]) => validator),
    delegations: [...delegations.entries(ctx)].map(([, delegation]) => delegation),
    exported: true,
  });
}

/**
 * The module of validators and delegations, as state only: there is no slashing, and delegations are not taken back.
 * Who votes changes at the end of a block.
 */
export function stakingModule(opts: StakingOptions): Module {
  return {
    name: STAKING_MODULE,
    messages: stakingMessages(opts),
    queries: STAKING_QUERIES,
    genesis: moduleGenesis(staking.GenesisStateSchema, { init, export: exportState }),
    endBlock(ctx) {
      const updates = updateValidatorSet(ctx);
      finishUnbonding(ctx);
      return updates;
    },
  };
}
