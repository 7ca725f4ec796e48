import type { AddressBytes } from "@turnpike/base";
import { moduleAddressBytes } from "@turnpike/crypto";
import { createMessage, shared, supplier } from "@turnpike/proto";
import { nextSessionStartHeight, sessionAt } from "@turnpike/protocol";
import { accountBytes, addressFault, shareAddressFault } from "../../state/addresses.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { failStatus, type GrpcStatusName } from "../../state/grpc-status.ts";
import { done, type FaultKind, fail, type Outcome, type TxFault } from "../../state/outcome.ts";
import { createParsed, type Parsed } from "../../state/parsed.ts";
import { coinAmount, coinText, STAKE_DENOM, upokt } from "../../state/stakes.ts";
import { emit } from "../../state/typed-event.ts";
import { getAccount } from "../auth/accounts.ts";
import { isDenom, readCoins } from "../bank/coins.ts";
import { sendCoins, sendCoinsToModule } from "../bank/transfers.ts";
import { getService } from "../service/state.ts";
import { getSharedParams } from "../shared/state.ts";
import { SUPPLIER, UNAUTHORIZED_UPDATE } from "./errors.ts";
import { serviceConfigsFault } from "./service-configs.ts";
import {
  DEFAULT_SUPPLIER_PARAMS,
  endedHistory,
  getSupplier,
  getSupplierParams,
  neverServed,
  SUPPLIER_MODULE,
  setSupplier,
  suppliers,
} from "./state.ts";

const OPERATOR_ONLY = "only the operator account is authorized to update the service configurations";

type Refused = { readonly ok: false; readonly fault: TxFault };

/** A handler's refusal: a gRPC status around a module's error. */
export function refused(status: GrpcStatusName, kind: FaultKind, text: string): Refused {
  return failStatus(status, fail(kind, text).fault.text);
}

/** What is wrong with one of the addresses of a message, by its name there; undefined when nothing is. */
export function partyFault(text: string, name: string, quotes: boolean): TxFault | undefined {
  const fault = addressFault(text);
  if (fault === undefined) return undefined;
  const start = quotes ? `invalid ${name} address ${text};` : `invalid ${name} address`;
  return fail(SUPPLIER.invalidAddress, `${start} (${fault})`).fault;
}

/** Fault of a supplier's stake; undefined when it is valid. */
export function supplierStakeFault(coin: NonNullable<supplier.MsgStakeSupplier["stake"]>): string | undefined {
  const text = coinText(coin);
  const [read] = readCoins([coin]) ?? [];
  if (read === undefined || read.amount < 0n || !isDenom(read.denom)) {
    return `while parsing coin ${text}; (invalid decimal coin expression: ${text})`;
  }
  if (read.amount === 0n) return `invalid coin amount: ${text} <= 0`;
  return read.denom === STAKE_DENOM ? undefined : `invalid coin denom: expected ${STAKE_DENOM}, got ${read.denom}`;
}

/** What is wrong with a staking message before any state is asked; undefined when nothing is. */
export function stakeSupplierFault(message: supplier.MsgStakeSupplier): TxFault | undefined {
  const { ownerAddress, operatorAddress, signer, stake, services } = message;
  const party =
    partyFault(ownerAddress, "owner", true) ??
    partyFault(operatorAddress, "operator", true) ??
    partyFault(signer, "signer", true);
  if (party !== undefined) return party;
  const staked = stake === undefined ? undefined : supplierStakeFault(stake);
  if (staked !== undefined) return fail(SUPPLIER.invalidStake, staked).fault;
  if (services.length === 0) return undefined;
  if (signer !== operatorAddress) return fail(SUPPLIER.invalidServiceConfig, OPERATOR_ONLY).fault;
  const configs = serviceConfigsFault(services, shareAddressFault);
  return configs === undefined ? undefined : fail(SUPPLIER.invalidServiceConfig, configs).fault;
}

function updatesFrom({ operatorAddress, services }: Parsed<supplier.MsgStakeSupplier>, activationHeight: bigint) {
  return services.map((service) =>
    createParsed(shared.ServiceConfigUpdateSchema, { operatorAddress, service, activationHeight }),
  );
}

/**
 * The history after an update: new configurations from the next session on, all others that still hold end there. One that
 * was to begin there, too, and is replaced, never was.
 */
function updatedHistory(
  old: readonly Parsed<shared.ServiceConfigUpdate>[],
  message: Parsed<supplier.MsgStakeSupplier>,
  nextStart: bigint,
): Parsed<shared.ServiceConfigUpdate>[] {
  const replaced = new Set(message.services.map(({ serviceId }) => serviceId));
  const kept = old.filter(
    ({ activationHeight, service }) => activationHeight !== nextStart || !replaced.has(service?.serviceId ?? ""),
  );
  return [...updatesFrom(message, nextStart), ...endedHistory(kept, nextStart)];
}

function checkRights(found: shared.Supplier, message: supplier.MsgStakeSupplier): Refused | undefined {
  const { signer, ownerAddress, operatorAddress, services } = message;
  const isOwner = signer === found.ownerAddress;
  const isOperator = signer === found.operatorAddress;
  const no = (text: string): Refused => refused("InvalidArgument", UNAUTHORIZED_UPDATE, text);
  if (!isOwner && !isOperator) {
    const owners = `owner address ${ownerAddress} or supplier operator address ${operatorAddress}`;
    return no(`signer address ${signer} does not match ${owners}`);
  }
  if (ownerAddress !== found.ownerAddress && !isOwner) {
    const owner = goQuoted(found.ownerAddress);
    return no(`signer ${goQuoted(signer)} is not allowed to update the owner address ${owner}`);
  }
  return !isOperator && services.length > 0 ? no(OPERATOR_ONLY) : undefined;
}

function checkCancel(found: shared.Supplier, signer: string): Refused | undefined {
  if (found.unstakeSessionEndHeight === 0n || signer === found.ownerAddress) return undefined;
  const who = `signer ${goQuoted(signer)} is not allowed to cancel the unbonding of supplier`;
  const text = `${who} with owner ${goQuoted(found.ownerAddress)}; only the owner can cancel an in-progress unstake`;
  return refused("PermissionDenied", UNAUTHORIZED_UPDATE, text);
}

interface Changed {
  readonly supplier: Parsed<shared.Supplier>;
  readonly oldStake: bigint;
  readonly cancels: boolean;
  /** Supplier that this one takes the place of: its owner gets its stake back. */
  readonly replaced?: Parsed<shared.Supplier>;
}

/**
 * True when an operator stakes for another owner than the one who named it without its consent. An owner alone can stake for any
 * operator address, and services need the operator's signature: without any, the operator never agreed, did no work and has nothing
 * to be slashed for, so that its stake need not unbond. The real chain refuses it, so that anyone can keep an operator out for a
 * minimum stake.
 */
function isTakenBack(
  ctx: Context,
  found: shared.Supplier,
  { signer, ownerAddress }: supplier.MsgStakeSupplier,
): boolean {
  const isOperator = signer === found.operatorAddress && signer !== found.ownerAddress;
  return isOperator && ownerAddress !== found.ownerAddress && neverServed.has(unmetered(ctx), signer);
}

function changedSupplier(ctx: Context, message: Parsed<supplier.MsgStakeSupplier>): Outcome<Changed> {
  const { ownerAddress, operatorAddress, signer } = message;
  const nextStart = (): bigint => nextSessionStartHeight(getSharedParams(ctx), ctx.block.heightBlocks);
  const stored = getSupplier(ctx, operatorAddress);
  const replaced = stored !== undefined && isTakenBack(ctx, stored, message) ? stored : undefined;
  const current = replaced === undefined ? stored : undefined;
  const stake = message.stake ?? current?.stake;
  if (stake === undefined) {
    const text = "when staking a new supplier, the stake amount MUST be non-nil";
    return refused("InvalidArgument", SUPPLIER.invalidStake, text);
  }
  const fields = { ownerAddress, operatorAddress, stake: upokt(coinAmount(stake)) };
  if (current === undefined) {
    const serviceConfigHistory = updatesFrom(message, nextStart());
    const fresh = createParsed(shared.SupplierSchema, { ...fields, serviceConfigHistory });
    return done({ supplier: fresh, oldStake: 0n, cancels: false, ...(replaced === undefined ? {} : { replaced }) });
  }
  const denied = checkRights(current, message) ?? checkCancel(current, signer);
  if (denied !== undefined) return denied;
  const { serviceConfigHistory: old } = current;
  const serviceConfigHistory = message.services.length === 0 ? old : updatedHistory(old, message, nextStart());
  return done({
    supplier: { ...current, ...fields, serviceConfigHistory, unstakeSessionEndHeight: 0n },
    oldStake: coinAmount(current.stake),
    cancels: current.unstakeSessionEndHeight !== 0n,
  });
}

/** Moves what the stake grows by from the signer, or what it shrinks by to the owner, and the fee from the signer. */
function pay(
  ctx: Context,
  signer: AddressBytes,
  owner: AddressBytes,
  stakes: { old: bigint; now: bigint },
): Outcome<undefined> {
  const fee = coinAmount(getSupplierParams(ctx).stakingFee);
  const difference = stakes.now - stakes.old;
  // The real chain compares with the lowest stake again unless the stake grows.
  if (difference <= 0n) getSupplierParams(ctx);
  const moved =
    difference > 0n
      ? sendCoinsToModule(ctx, signer, SUPPLIER_MODULE, [{ denom: STAKE_DENOM, amount: difference }])
      : difference < 0n
        ? sendCoins(ctx, moduleAddressBytes(SUPPLIER_MODULE), owner, [{ denom: STAKE_DENOM, amount: -difference }])
        : done(undefined);
  if (!moved.ok) return failStatus("Internal", moved.fault.text);
  const coins = fee === 0n ? [] : [{ denom: STAKE_DENOM, amount: fee }];
  const paid = sendCoinsToModule(ctx, signer, SUPPLIER_MODULE, coins);
  return paid.ok ? paid : failStatus("FailedPrecondition", paid.fault.text);
}

/** Gives the stake of a supplier that was replaced back to its owner. */
function giveBack(ctx: Context, { ownerAddress, stake }: Parsed<shared.Supplier>): Outcome<undefined> {
  const amount = coinAmount(stake);
  const coins = amount === 0n ? [] : [{ denom: STAKE_DENOM, amount }];
  return sendCoins(ctx, moduleAddressBytes(SUPPLIER_MODULE), accountBytes(ownerAddress), coins);
}

function missingService(ctx: Context, { services }: supplier.MsgStakeSupplier): Refused | undefined {
  const missing = services.find(({ serviceId }) => getService(ctx, serviceId) === undefined);
  if (missing === undefined) return undefined;
  return refused("InvalidArgument", SUPPLIER.serviceNotFound, `service ${goQuoted(missing.serviceId)} does not exist`);
}

function noteServices(
  ctx: Context,
  { operatorAddress }: shared.Supplier,
  change: { isNew: boolean; hasServices: boolean },
): void {
  const free = unmetered(ctx);
  if (change.hasServices) neverServed.remove(free, operatorAddress);
  else if (change.isNew) neverServed.set(free, operatorAddress, undefined);
}

/**
 * Stakes a supplier or changes it. The stake moves at once, up or down; services change at the start of the next session.
 * On a fault the caller's writes must be undone.
 */
export function stakeSupplier(
  ctx: Context,
  message: Parsed<supplier.MsgStakeSupplier>,
): Outcome<supplier.MsgStakeSupplierResponse> {
  const { ownerAddress } = message;
  const owner = accountBytes(ownerAddress);
  const signer = accountBytes(message.signer);
  if (getAccount(ctx, owner)?.module !== undefined) {
    const text = `owner address ${ownerAddress} is a module account and cannot be used`;
    return refused("InvalidArgument", SUPPLIER.invalidAddress, text);
  }
  const missing = missingService(ctx, message);
  if (missing !== undefined) return missing;
  const isNew = !suppliers.has(unmetered(ctx), message.operatorAddress);
  const changed = changedSupplier(ctx, message);
  if (!changed.ok) return changed;
  const { supplier: found, oldStake, cancels, replaced } = changed.value;
  const now = coinAmount(found.stake);
  const minStake = getSupplierParams(ctx).minStake ?? DEFAULT_SUPPLIER_PARAMS.minStake;
  if (minStake !== undefined && now < coinAmount(minStake)) {
    const text = `supplier with owner ${goQuoted(ownerAddress)} must stake at least ${coinText(minStake)}`;
    return refused("InvalidArgument", SUPPLIER.invalidStake, text);
  }
  const returned = replaced === undefined ? done(undefined) : giveBack(ctx, replaced);
  if (!returned.ok) return failStatus("Internal", returned.fault.text);
  const paid = pay(ctx, signer, owner, { old: oldStake, now });
  if (!paid.ok) return paid;
  setSupplier(ctx, found);
  noteServices(ctx, found, { isNew, hasServices: message.services.length > 0 });
  const height = ctx.block.heightBlocks;
  const sessionEndHeight = sessionAt(getSharedParams(ctx), height).endHeight;
  if (cancels) {
    emit(ctx, supplier.EventSupplierUnbondingCanceledSchema, { supplier: found, sessionEndHeight, height });
  }
  emit(ctx, supplier.EventSupplierStakedSchema, { operatorAddress: found.operatorAddress, sessionEndHeight });
  return done(createMessage(supplier.MsgStakeSupplierResponseSchema));
}
