import { AppError, utf8ToBytes } from "@turnpike/base";
import { encodeBech32, moduleAddressBytes } from "@turnpike/crypto";
import { createMessage, staking } from "@turnpike/proto";
import { parseAddress } from "../../state/addresses.ts";
import { bytesToText } from "../../state/bytes.ts";
import type { Context } from "../../state/context.ts";
import type { ValidatorUpdate } from "../../state/module.ts";
import { decimalOf, integerOf, rateOf } from "../../state/numbers.ts";
import { parsedRecord } from "../../state/parsed.ts";
import { timestampNanos } from "../../state/timestamps.ts";
import { getBalance } from "../bank/balances.ts";
import { MOST_TOKENS } from "./delegate.ts";
import { paramsFault } from "./params.ts";
import {
  BONDED_POOL,
  consensusKey,
  DEFAULT_STAKING_PARAMS,
  delegations,
  getDelegation,
  getStakingParams,
  getValidator,
  lastPowers,
  NOT_BONDED_POOL,
  OPERATOR_PREFIX,
  operatorBytes,
  powerOf,
  setDelegation,
  setIsStale,
  setValidator,
  stakingParams,
  unbondingValidators,
  validators,
  validatorsByKey,
} from "./state.ts";
import { updateValidatorSet } from "./validator-set.ts";

const { BONDED, UNBONDING } = staking.BondStatus;

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of staking is not valid: ${why}.` });

// It may hold more: rewards can be paid to any address, and cannot be taken back from here.
function checkPool(ctx: Context, name: string, sum: bigint): void {
  const held = getBalance(ctx, moduleAddressBytes(name), getStakingParams(ctx).bondDenom);
  if (held < sum) throw invalid(`${name} has ${held}, and its validators ${sum}`);
}

function addValidator(ctx: Context, validator: staking.Validator): bigint {
  const { operatorAddress: name, status, jailed } = validator;
  const operator = parseAddress(name, OPERATOR_PREFIX);
  const tokens = integerOf(validator.tokens);
  const areNumbers =
    decimalOf(validator.delegatorShares) !== undefined && integerOf(validator.minSelfDelegation) !== undefined;
  const isNumeric = tokens !== undefined && tokens >= 0n && tokens <= MOST_TOKENS && areNumbers;
  const key = consensusKey(validator.consensusPubkey);
  if (!operator.ok || !isNumeric || key === undefined) throw invalid(`the validator ${name}`);
  if (rateOf(validator.commission?.commissionRates?.rate ?? "") === undefined)
    throw invalid(`the commission of ${name}`);
  if (getValidator(ctx, operator.value) !== undefined) throw invalid(`two validators ${name}`);
  if (validatorsByKey.has(ctx, key)) throw invalid(`the key of ${name} is another's, too`);
  if (jailed && status === BONDED) throw invalid(`${name} is jailed and bonded`);
  const until = timestampNanos(validator.unbondingTime);
  if (status === UNBONDING && until < 0n) throw invalid(`the time at which ${name} is unbonded`);
  setValidator(ctx, validator);
  if (status === UNBONDING) unbondingValidators.set(ctx, [until, operator.value], new Uint8Array(0));
  return tokens;
}

function addDelegation(ctx: Context, delegation: staking.Delegation): { operator: string; shares: bigint } {
  const { delegatorAddress, validatorAddress } = delegation;
  const operator = parseAddress(validatorAddress, OPERATOR_PREFIX);
  const delegator = parseAddress(delegatorAddress);
  const shares = decimalOf(delegation.shares) ?? 0n;
  const isKnown = operator.ok && getValidator(ctx, operator.value) !== undefined;
  if (!isKnown || !delegator.ok || shares <= 0n || getDelegation(ctx, operator.value, delegator.value) !== undefined) {
    throw invalid(`the delegation of ${delegatorAddress} to ${validatorAddress}`);
  }
  setDelegation(ctx, operator.value, delegator.value, parsedRecord(delegation));
  return { operator: bytesToText(operator.value), shares };
}

// Rewards are shared out by delegations: more than a validator's shares would pay out more than there is.
function addDelegations(ctx: Context, list: readonly staking.Delegation[]): void {
  const sums = new Map<string, bigint>();
  for (const delegation of list) {
    const { operator, shares } = addDelegation(ctx, delegation);
    sums.set(operator, (sums.get(operator) ?? 0n) + shares);
  }
  for (const [operator, { operatorAddress, delegatorShares }] of validators.entries(ctx)) {
    if ((sums.get(bytesToText(operator)) ?? 0n) === decimalOf(delegatorShares)) continue;
    throw invalid(`the delegations to ${operatorAddress} are not its shares`);
  }
}

function lastKnown(ctx: Context, powers: readonly staking.LastValidatorPower[]): ValidatorUpdate[] {
  return powers.map(({ address, power }) => {
    const operator = parseAddress(address, OPERATOR_PREFIX);
    const validator = operator.ok ? getValidator(ctx, operator.value) : undefined;
    const publicKey = consensusKey(validator?.consensusPubkey);
    if (!operator.ok || validator?.status !== BONDED || publicKey === undefined)
      throw invalid(`the power of ${address}`);
    if (power <= 0n || power !== powerOf(validator) || lastPowers.has(ctx, operator.value)) {
      throw invalid(`the power of ${address}`);
    }
    lastPowers.set(ctx, operator.value, power);
    return { publicKey, power };
  });
}

// The pools and the set of voters move with a validator's state: one that is bonded and does not vote could never leave.
function checkVoters(ctx: Context): void {
  for (const [, validator] of validators.entries(ctx)) {
    if (validator.status !== BONDED || lastPowers.has(ctx, operatorBytes(validator))) continue;
    throw invalid(`${validator.operatorAddress} is bonded and does not vote`);
  }
}

/** Fills the state from a genesis. @throws AppError CONFIG_INVALID when blocks could not go on from it */
export function initStaking(ctx: Context, state: staking.GenesisState): ValidatorUpdate[] {
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
    if (validator.status === BONDED) bonded += tokens;
    else notBonded += tokens;
  }
  checkPool(ctx, BONDED_POOL, bonded);
  checkPool(ctx, NOT_BONDED_POOL, notBonded);
  addDelegations(ctx, state.delegations);
  const updates = state.exported ? lastKnown(ctx, state.lastValidatorPowers) : updateValidatorSet(ctx);
  setIsStale.remove(ctx, undefined);
  checkVoters(ctx);
  return updates;
}

/** The module's part of a genesis, from the state. */
export function exportStaking(ctx: Context): staking.GenesisState {
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
