import { concatBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { moduleAddressBytes } from "@turnpike/crypto";
import { type shared, supplier } from "@turnpike/proto";
import { isSessionStart, mayPruneConfig, unbondingEndHeight } from "@turnpike/protocol";
import { accountBytes } from "../../state/addresses.ts";
import { runPart } from "../../state/block-parts.ts";
import { uint64Codec } from "../../state/codecs.ts";
import { firstOf } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import type { GenesisList } from "../../state/module.ts";
import type { Parsed } from "../../state/parsed.ts";
import { coinAmount, STAKE_DENOM } from "../../state/stakes.ts";
import { emit } from "../../state/typed-event.ts";
import { sendCoins } from "../bank/transfers.ts";
import { hasClaim, oldestClaimedStart } from "../proof/unsettled-claims.ts";
import { SessionEndQueue } from "../shared/session-end-queue.ts";
import { settlementHeightAt } from "../shared/settlement-heights.ts";
import { getSharedParams, getSharedParamsAt } from "../shared/state.ts";
import {
  configsByActivation,
  configsByDeactivation,
  DEFAULT_SUPPLIER_PARAMS,
  enterUnstaking,
  firstConfigKeys,
  formerUnstaking,
  getDehydratedSupplier,
  getServiceEnds,
  getSupplierParams,
  lastActivated,
  removeConfigEntries,
  removeSupplier,
  SUPPLIER_MODULE,
  serviceEnds,
  unfinishedUnbonding,
  unstakingSuppliers,
} from "./state.ts";
import { forEvent } from "./unstake.ts";

/**
 * Maximum number of configurations that a block reports as begun, and that it prunes. A supplier may have thousands of services, and
 * all of its configurations end or begin at one height; no gas pays for it there. More than transactions can end: from its stake to
 * its end a configuration costs at least 58,000 gas, and a block has 400,000,000, so that pruning follows however long blocks are
 * full of restakes.
 */
export const MAX_CONFIGS_PER_BLOCK = 7_000;

/** Emits which configurations begin with the session that this block begins, and in the next blocks those above the maximum. */
export function activateConfigs(ctx: Context): void {
  const height = ctx.block.heightBlocks;
  const last = lastActivated.get(ctx, undefined);
  if (last === undefined && !isSessionStart(getSharedParams(ctx), height)) return;
  const from = last === undefined ? uint64Codec.encode(height) : concatBytes(last, Uint8Array.of(0));
  const to = uint64Codec.encode(height + 1n);
  let key: Bytes | undefined;
  let remaining = MAX_CONFIGS_PER_BLOCK;
  for (const [next, value] of configsByActivation.rawEntries(ctx, { from, to })) {
    if (remaining-- === 0) {
      if (key !== undefined) lastActivated.set(ctx, undefined, key);
      return;
    }
    key = next;
    const [[activationHeight, [serviceId, operatorAddress]]] = configsByActivation.decode(next, value);
    emit(ctx, supplier.EventSupplierServiceConfigActivatedSchema, { operatorAddress, serviceId, activationHeight });
  }
  if (last !== undefined) lastActivated.remove(ctx, undefined);
}

/** Gives a stake back; when that fails the supplier goes all the same, and its stake stays where it is. */
function returnStake(ctx: Context, found: NonNullable<ReturnType<typeof getDehydratedSupplier>>): void {
  const amount = coinAmount(found.stake);
  if (amount === 0n) return;
  const { operatorAddress, ownerAddress, stake } = found;
  const coins = [{ denom: STAKE_DENOM, amount }];
  const sent = sendCoins(ctx, moduleAddressBytes(SUPPLIER_MODULE), accountBytes(ownerAddress), coins);
  if (sent.ok) return;
  emit(ctx, supplier.EventSupplierStakeStuckInModulePoolSchema, {
    operatorAddress,
    ownerAddress,
    ...(stake === undefined ? {} : { stuckCoin: stake }),
    reason: sent.fault.text,
    sessionEndHeight: ctx.block.heightBlocks,
  });
}

function unbond(
  ctx: Context,
  found: Parsed<shared.Supplier>,
  at: { sessionEndHeight: bigint; unbondingEndHeight: bigint },
): void {
  const minStake = coinAmount(getSupplierParams(ctx).minStake ?? DEFAULT_SUPPLIER_PARAMS.minStake);
  const { VOLUNTARY, BELOW_MIN_STAKE } = supplier.SupplierUnbondingReason;
  returnStake(ctx, found);
  removeSupplier(ctx, found);
  emit(ctx, supplier.EventSupplierUnbondingEndSchema, {
    supplier: forEvent(found),
    reason: coinAmount(found.stake) < minStake ? BELOW_MIN_STAKE : VOLUNTARY,
    ...at,
  });
}

const unbondings = new SessionEndQueue({
  entries: unstakingSuppliers,
  unfinished: unfinishedUnbonding,
  former: formerUnstaking,
  enter: enterUnstaking,
  // By the parameters at the unstaking (x/supplier/keeper/unbond_suppliers.go).
  endHeight: (params, since) => unbondingEndHeight("supplier", params, since),
  waitsForSettlement: true,
});

/** List of a genesis that says how far blocks came in the suppliers that leave with a session's end. */
export const UNFINISHED_UNBONDING: GenesisList = unbondings.genesisList("unfinished_unbonding");

/**
 * At a session's end, lets those suppliers go whose unbonding is over and whose claims are settled. A stake is returned however many
 * configurations its supplier has: they are pruned later.
 */
export function unbondSuppliers(ctx: Context): void {
  unbondings.run(ctx, ({ address, endHeight, sessionEndHeight }) => {
    const found = getDehydratedSupplier(ctx, address);
    if (found === undefined || found.unstakeSessionEndHeight === 0n || hasClaim(ctx, address)) return;
    runPart(ctx, { part: "unbonding", item: address }, (branch) => {
      unbond(branch, found, { sessionEndHeight, unbondingEndHeight: endHeight });
    });
  });
}

/** The first height not below `from` at which configurations ended, until this block. */
function nextDeactivation(ctx: Context, from: bigint): bigint | undefined {
  const to = uint64Codec.encode(ctx.block.heightBlocks + 1n);
  for (const [[height]] of configsByDeactivation.entries(ctx, { from: uint64Codec.encode(from), to })) return height;
  return undefined;
}

/** Conditions under which a block prunes what ended at a height: no proof and no held claim can need it. */
class PruningConditions {
  readonly #ctx: Context;
  readonly #heldStart: bigint | undefined;
  readonly #mayPrune = new Map<bigint, boolean>();

  constructor(ctx: Context) {
    this.#ctx = ctx;
    this.#heldStart = oldestClaimedStart(ctx);
  }

  /** True when a claim of a session that began at the height, or before, is not settled. */
  isClaimed(endHeight: bigint): boolean {
    return this.#heldStart !== undefined && endHeight > this.#heldStart;
  }

  mayPrune(endHeight: bigint): boolean {
    if (this.isClaimed(endHeight)) return false;
    const current = this.#ctx.block.heightBlocks;
    const result =
      this.#mayPrune.get(endHeight) ??
      (mayPruneConfig(getSharedParamsAt(this.#ctx, endHeight - 1n), endHeight, current) &&
        settlementHeightAt(this.#ctx, endHeight - 1n) < current);
    this.#mayPrune.set(endHeight, result);
    return result;
  }
}

/** Prunes by the ends in configurations; returns the remaining number. Those that ended at one height are one part. */
function pruneWrittenEnds(ctx: Context, conditions: PruningConditions, maximum: number): number {
  let remaining = maximum;
  for (let ended = nextDeactivation(ctx, 0n); ended !== undefined; ended = nextDeactivation(ctx, ended + 1n)) {
    if (remaining <= 0 || conditions.isClaimed(ended)) break;
    if (!conditions.mayPrune(ended)) continue;
    const within = uint64Codec.encode(ended);
    const keys = firstOf(configsByDeactivation.entries(ctx, { within }), remaining).map(([key]) => key);
    runPart(ctx, { part: "pruning", item: `configurations that ended at ${ended}` }, (branch) => {
      for (const key of keys) {
        const [, [serviceId, [operatorAddress, activationHeight]]] = key;
        removeConfigEntries(branch, { serviceId, operatorAddress, activationHeight });
        configsByDeactivation.remove(branch, key);
      }
    });
    remaining -= keys.length;
  }
  return remaining;
}

/** Prunes configurations of operators whose services ended without their ends being written, and of suppliers that left. */
function pruneServiceEnds(ctx: Context, conditions: PruningConditions, maximum: number): void {
  let remaining = maximum;
  const due = [...getServiceEnds(ctx)]
    .filter(([, end]) => conditions.mayPrune(end))
    .sort(([a, endOfA], [b, endOfB]) => (endOfA === endOfB ? (a < b ? -1 : 1) : endOfA < endOfB ? -1 : 1));
  for (const [operatorAddress] of due) {
    if (remaining <= 0) return;
    const keys = firstConfigKeys(ctx, operatorAddress, remaining);
    runPart(ctx, { part: "pruning", item: `configurations of ${operatorAddress}` }, (branch) => {
      for (const key of keys) removeConfigEntries(branch, key);
      // A remaining end would hold for what the operator stakes next.
      if (keys.length < remaining) serviceEnds.remove(branch, operatorAddress);
    });
    remaining -= keys.length;
  }
}

/**
 * Prunes ended configurations, the oldest first, up to the maximum of a block. A block in which none goes costs as much as there are
 * heights at which some ended, and operators whose ends are not written, however many suppliers there are.
 */
export function pruneConfigs(ctx: Context): void {
  const conditions = new PruningConditions(ctx);
  const remaining = pruneWrittenEnds(ctx, conditions, MAX_CONFIGS_PER_BLOCK);
  pruneServiceEnds(ctx, conditions, remaining);
}
