import { AppError } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { moduleAddressBytes } from "@turnpike/crypto";
import { staking } from "@turnpike/proto";
import { addressText } from "../../state/addresses.ts";
import { runPart } from "../../state/block-parts.ts";
import { uint64Codec } from "../../state/codecs.ts";
import type { Context } from "../../state/context.ts";
import type { ValidatorUpdate } from "../../state/module.ts";
import { timestampNanos, timestampOf } from "../../state/timestamps.ts";
import { sendCoins } from "../bank/transfers.ts";
import {
  BONDED_POOL,
  consensusKey,
  getStakingParams,
  getValidator,
  lastPowers,
  NOT_BONDED_POOL,
  operatorBytes,
  powerOf,
  removeValidator,
  setIsStale,
  setValidator,
  unbondingValidators,
  validatorNumbers,
  validators,
  validatorsByPower,
} from "./state.ts";

function known(ctx: Context, operator: Bytes): staking.Validator {
  const validator = getValidator(ctx, operator);
  if (validator === undefined)
    throw new AppError("CHAIN_INVARIANT", { detail: { missing: "a validator of an index" } });
  return validator;
}

function updateOf(validator: staking.Validator, power: bigint): ValidatorUpdate {
  const publicKey = consensusKey(validator.consensusPubkey);
  if (publicKey === undefined) throw new AppError("INTERNAL", { detail: { keyOf: validator.operatorAddress } });
  return { publicKey, power };
}

function move(ctx: Context, from: string, to: string, amount: bigint): void {
  const coins = [{ denom: getStakingParams(ctx).bondDenom, amount }];
  const moved = sendCoins(ctx, moduleAddressBytes(from), moduleAddressBytes(to), coins);
  if (!moved.ok) throw new AppError("INTERNAL", { detail: { pool: from, fault: moved.fault.text } });
}

/** Tokens of a validator stay in its pool; a bonded one's move with its state. */
function bond(ctx: Context, validator: staking.Validator): bigint {
  if (validator.status === staking.BondStatus.BONDED) return 0n;
  if (validator.status === staking.BondStatus.UNBONDING) {
    unbondingValidators.remove(ctx, [timestampNanos(validator.unbondingTime), operatorBytes(validator)]);
  }
  setValidator(ctx, { ...validator, status: staking.BondStatus.BONDED });
  return validatorNumbers(validator).tokens;
}

function beginUnbonding(ctx: Context, validator: staking.Validator): bigint {
  const until = ctx.block.timeNanos + timestampNanos(getStakingParams(ctx).unbondingTime);
  setValidator(ctx, {
    ...validator,
    status: staking.BondStatus.UNBONDING,
    unbondingHeight: ctx.block.heightBlocks,
    unbondingTime: timestampOf(until),
  });
  unbondingValidators.set(ctx, [until, operatorBytes(validator)], new Uint8Array(0));
  return validatorNumbers(validator).tokens;
}

/**
 * Makes the strongest validators, at most `max_validators`, those that vote, moves tokens between the two pools as they
 * come and go, and gives what changed for the consensus engine.
 */
export function updateValidatorSet(ctx: Context): ValidatorUpdate[] {
  if (!setIsStale.has(ctx, undefined)) return [];
  const { maxValidators } = getStakingParams(ctx);
  const leaving = new Map([...lastPowers.entries(ctx)].map(([operator]) => [operator.join(), operator]));
  const strongest: Bytes[] = [];
  for (const [[power], operator] of validatorsByPower.entries(ctx, { reverse: true })) {
    if (strongest.length >= maxValidators || power === 0n) break;
    strongest.push(operator);
  }
  const updates: ValidatorUpdate[] = [];
  let bonded = 0n;
  for (const operator of strongest) {
    const validator = known(ctx, operator);
    bonded += bond(ctx, validator);
    leaving.delete(operator.join());
    const power = powerOf(validator);
    if (lastPowers.get(ctx, operator) === power) continue;
    lastPowers.set(ctx, operator, power);
    updates.push(updateOf(validator, power));
  }
  let unbonded = 0n;
  for (const operator of leaving.values()) {
    const validator = known(ctx, operator);
    unbonded += beginUnbonding(ctx, validator);
    lastPowers.remove(ctx, operator);
    updates.push(updateOf(validator, 0n));
  }
  if (bonded > unbonded) move(ctx, NOT_BONDED_POOL, BONDED_POOL, bonded - unbonded);
  if (unbonded > bonded) move(ctx, BONDED_POOL, NOT_BONDED_POOL, unbonded - bonded);
  setIsStale.remove(ctx, undefined);
  return updates;
}

/** Ends the unbonding of validators whose time has come, and removes those without delegations and tokens (x/staking/keeper/validator.go). */
export function finishUnbonding(ctx: Context): void {
  const to = uint64Codec.encode(ctx.block.timeNanos + 1n);
  for (const [[nanos, operator]] of unbondingValidators.entries(ctx, { to })) {
    runPart(ctx, { part: "unbonding", item: addressText(operator) }, (branch) => {
      unbondingValidators.remove(branch, [nanos, operator]);
      const validator = validators.get(branch, operator);
      if (validator?.status !== staking.BondStatus.UNBONDING) return;
      const { tokens, shares } = validatorNumbers(validator);
      if (tokens === 0n && shares === 0n) {
        removeValidator(branch, validator);
        return;
      }
      setValidator(branch, { ...validator, status: staking.BondStatus.UNBONDED });
    });
  }
}
