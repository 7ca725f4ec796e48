import { moduleAddressBytes } from "@turnpike/crypto";
import { supplier } from "@turnpike/proto";
import { isSessionEnd, isSessionStart, mayPruneConfig, unbondingEndHeight } from "@turnpike/protocol";
import { parseAddress } from "../../state/addresses.ts";
import { runPart } from "../../state/block-parts.ts";
import { uint64Codec } from "../../state/codecs.ts";
import type { Context } from "../../state/context.ts";
import { coinAmount, STAKE_DENOM } from "../../state/stakes.ts";
import { emit } from "../../state/typed-event.ts";
import { sendCoins } from "../bank/transfers.ts";
import { hasHeldClaim, oldestHeldStart } from "../proof/held-claims.ts";
import { getSharedParams, getSharedParamsAt } from "../shared/state.ts";
import {
  configsByActivation,
  configsByDeactivation,
  DEFAULT_SUPPLIER_PARAMS,
  getDehydratedSupplier,
  getSupplierParams,
  removeServiceConfig,
  removeSupplier,
  SUPPLIER_MODULE,
  serviceConfigs,
  unstakingSuppliers,
} from "./state.ts";
import { forEvent } from "./unstake.ts";

/** Maximum number of configurations that a block handles. */
export const MAX_CONFIGS_PER_BLOCK = 1_000;

/** Emits which configurations begin with the session that this block begins. */
export function activateConfigs(ctx: Context): void {
  const activationHeight = ctx.block.heightBlocks;
  if (!isSessionStart(getSharedParams(ctx), activationHeight)) return;
  const within = uint64Codec.encode(activationHeight);
  for (const [[, [serviceId, operatorAddress]]] of configsByActivation.entries(ctx, { within })) {
    emit(ctx, supplier.EventSupplierServiceConfigActivatedSchema, { operatorAddress, serviceId, activationHeight });
  }
}

/** Gives a stake back; when that fails the supplier goes all the same, and its stake stays where it is. */
function returnStake(ctx: Context, found: NonNullable<ReturnType<typeof getDehydratedSupplier>>): void {
  const amount = coinAmount(found.stake);
  if (amount === 0n) return;
  const { operatorAddress, ownerAddress, stake } = found;
  const owner = parseAddress(ownerAddress);
  const coins = [{ denom: STAKE_DENOM, amount }];
  const sent = owner.ok ? sendCoins(ctx, moduleAddressBytes(SUPPLIER_MODULE), owner.value, coins) : owner;
  if (sent.ok) return;
  emit(ctx, supplier.EventSupplierStakeStuckInModulePoolSchema, {
    operatorAddress,
    ownerAddress,
    ...(stake === undefined ? {} : { stuckCoin: stake }),
    reason: sent.fault.text,
    sessionEndHeight: ctx.block.heightBlocks,
  });
}

/** At a session's end, lets those suppliers go whose unbonding is over: by the parameters at their unstaking. */
export function unbondSuppliers(ctx: Context): void {
  const height = ctx.block.heightBlocks;
  if (!isSessionEnd(getSharedParams(ctx), height)) return;
  const minStake = coinAmount(getSupplierParams(ctx).minStake ?? DEFAULT_SUPPLIER_PARAMS.minStake);
  for (const [operatorAddress] of unstakingSuppliers.entries(ctx)) {
    const found = getDehydratedSupplier(ctx, operatorAddress);
    if (found === undefined || found.unstakeSessionEndHeight === 0n) {
      unstakingSuppliers.remove(ctx, operatorAddress);
      continue;
    }
    const since = found.unstakeSessionEndHeight;
    const endHeight = unbondingEndHeight("supplier", getSharedParamsAt(ctx, since), since);
    if (endHeight > height || hasHeldClaim(ctx, operatorAddress)) continue;
    runPart(ctx, { part: "unbonding", item: operatorAddress }, (branch) => {
      returnStake(branch, found);
      removeSupplier(branch, operatorAddress);
      const { VOLUNTARY, BELOW_MIN_STAKE } = supplier.SupplierUnbondingReason;
      emit(branch, supplier.EventSupplierUnbondingEndSchema, {
        supplier: forEvent(found),
        reason: coinAmount(found.stake) < minStake ? BELOW_MIN_STAKE : VOLUNTARY,
        sessionEndHeight: height,
        unbondingEndHeight: endHeight,
      });
    });
  }
}

/** The first height not below `from` at which configurations ended, until this block. */
function nextDeactivation(ctx: Context, from: bigint): bigint | undefined {
  const to = uint64Codec.encode(ctx.block.heightBlocks + 1n);
  for (const [[height]] of configsByDeactivation.entries(ctx, { from: uint64Codec.encode(from), to })) return height;
  return undefined;
}

/**
 * Prunes ended configurations once no proof and no held claim can need them. Those that ended at one height go together, so that a block
 * in which none goes costs as much as there are such heights, however many suppliers there are.
 */
export function pruneConfigs(ctx: Context): void {
  const current = ctx.block.heightBlocks;
  const heldStart = oldestHeldStart(ctx);
  for (let ended = nextDeactivation(ctx, 0n); ended !== undefined; ended = nextDeactivation(ctx, ended + 1n)) {
    if (heldStart !== undefined && ended > heldStart) return;
    if (!mayPruneConfig(getSharedParamsAt(ctx, ended - 1n), ended, current)) continue;
    const within = uint64Codec.encode(ended);
    runPart(ctx, { part: "pruning", item: `configurations that ended at ${ended}` }, (branch) => {
      for (const [key] of configsByDeactivation.entries(branch, { within })) {
        const [, [serviceId, [operatorAddress, activationHeight]]] = key;
        const update = serviceConfigs.get(branch, [serviceId, [activationHeight, operatorAddress]]);
        if (update === undefined) configsByDeactivation.remove(branch, key);
        else removeServiceConfig(branch, update);
      }
    });
  }
}
