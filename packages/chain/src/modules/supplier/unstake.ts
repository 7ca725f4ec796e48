import { createMessage, shared, supplier } from "@turnpike/proto";
import { sessionAt, unbondingEndHeight } from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import { compactText, goQuoted } from "../../state/go-text.ts";
import { done, type Outcome, type TxFault } from "../../state/outcome.ts";
import { coinText } from "../../state/stakes.ts";
import { emit } from "../../state/typed-event.ts";
import { getSharedParams } from "../shared/state.ts";
import { SUPPLIER, UNAUTHORIZED_UPDATE } from "./errors.ts";
import { partyFault, refused } from "./stake.ts";
import { endedHistory, getSupplier, setSupplier } from "./state.ts";

/** What is wrong with an unstaking message before any state is asked; undefined when nothing is. */
export function unstakeSupplierFault({ signer, operatorAddress }: supplier.MsgUnstakeSupplier): TxFault | undefined {
  return partyFault(signer, "signer", false) ?? partyFault(operatorAddress, "operator", false);
}

/** A supplier as Go's `%+v` prints it. */
function goText(found: shared.Supplier): string {
  const services = found.services.map((service) => compactText(shared.SupplierServiceConfigSchema, service));
  const history = found.serviceConfigHistory.map((one) => compactText(shared.ServiceConfigUpdateSchema, one));
  const parts = [
    `OwnerAddress:${found.ownerAddress}`,
    `OperatorAddress:${found.operatorAddress}`,
    `Stake:${found.stake === undefined ? "<nil>" : coinText(found.stake)}`,
    `Services:[${services.join(" ")}]`,
    `UnstakeSessionEndHeight:${found.unstakeSessionEndHeight}`,
    `ServiceConfigHistory:[${history.join(" ")}]`,
  ];
  return `{${parts.join(" ")}}`;
}

/** A supplier as events show it: without services and history. */
export function forEvent(found: shared.Supplier): shared.Supplier {
  return createMessage(shared.SupplierSchema, { ...found, services: [], serviceConfigHistory: [] });
}

/** Begins the unbonding of a supplier: its configurations end with this session. */
export function unstakeSupplier(
  ctx: Context,
  { signer, operatorAddress }: supplier.MsgUnstakeSupplier,
): Outcome<supplier.MsgUnstakeSupplierResponse> {
  const found = getSupplier(ctx, operatorAddress);
  const named = `supplier with operator address ${goQuoted(operatorAddress)}`;
  if (found === undefined) return refused("NotFound", SUPPLIER.notFound, named);
  if (signer !== found.operatorAddress && signer !== found.ownerAddress) {
    const text = `signer ${goQuoted(signer)} is not allowed to unstake supplier ${goText(found)}`;
    return refused("PermissionDenied", UNAUTHORIZED_UPDATE, text);
  }
  if (found.unstakeSessionEndHeight !== 0n) return refused("FailedPrecondition", SUPPLIER.isUnstaking, named);
  const params = getSharedParams(ctx);
  const sessionEndHeight = sessionAt(params, ctx.block.heightBlocks).endHeight;
  const changed = {
    ...found,
    unstakeSessionEndHeight: sessionEndHeight,
    serviceConfigHistory: endedHistory(found.serviceConfigHistory, sessionEndHeight + 1n),
  };
  setSupplier(ctx, changed);
  emit(ctx, supplier.EventSupplierUnbondingBeginSchema, {
    supplier: forEvent(changed),
    reason: supplier.SupplierUnbondingReason.VOLUNTARY,
    sessionEndHeight,
    unbondingEndHeight: unbondingEndHeight("supplier", params, sessionEndHeight),
  });
  return done(createMessage(supplier.MsgUnstakeSupplierResponseSchema));
}
