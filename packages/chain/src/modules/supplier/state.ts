import { createMessage, shared, supplier } from "@turnpike/proto";
import { isConfigActive } from "@turnpike/protocol";
import { endedTextCodec, messageCodec, noKey, pairCodec, textCodec, uint64Codec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";

/** Name of the module, of its part of the state, and of the account that holds its stakes. */
export const SUPPLIER_MODULE = "supplier";

const module = SUPPLIER_MODULE;

/** The parameters. */
export const supplierParams = new Collection({
  module,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(supplier.ParamsSchema),
});
/** Suppliers by operator address, without services and history, which {@link serviceConfigs} has. */
export const suppliers = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: textCodec,
  value: messageCodec(shared.SupplierSchema),
});
/**
 * Every configuration of a supplier for a service, active, ended and to come: by service, activation height and operator
 * address. This is the order in which sessions list their candidates.
 */
export const serviceConfigs = new Collection({
  module,
  prefix: Uint8Array.of(2),
  key: pairCodec(endedTextCodec, pairCodec(uint64Codec, textCodec)),
  value: messageCodec(shared.ServiceConfigUpdateSchema),
});
/** Where a supplier's configurations are: by operator address, service and activation height. */
export const configsByOperator = new Collection({
  module,
  prefix: Uint8Array.of(3),
  key: pairCodec(endedTextCodec, pairCodec(endedTextCodec, uint64Codec)),
  value: { encode: () => new Uint8Array(0), decode: () => undefined },
});

/** The parameters. */
export function getSupplierParams(ctx: Context): supplier.Params {
  return supplierParams.get(ctx, undefined) ?? createMessage(supplier.ParamsSchema);
}

/** A supplier without services and history; undefined when there is none. */
export function getDehydratedSupplier(ctx: Context, operatorAddress: string): shared.Supplier | undefined {
  return suppliers.get(ctx, operatorAddress);
}

/** All configurations of a supplier, of one service or of all, by service and activation height. */
export function getSupplierConfigs(
  ctx: Context,
  operatorAddress: string,
  serviceId?: string,
): shared.ServiceConfigUpdate[] {
  const operator = endedTextCodec.encode(operatorAddress);
  const within = serviceId === undefined ? operator : Buffer.concat([operator, endedTextCodec.encode(serviceId)]);
  return [...configsByOperator.entries(ctx, { within })].flatMap(([[, [service, height]]]) => {
    return serviceConfigs.get(ctx, [service, [height, operatorAddress]]) ?? [];
  });
}

/** A supplier with its history, and as services what is active at this block; undefined when there is none. */
export function getSupplier(ctx: Context, operatorAddress: string): shared.Supplier | undefined {
  const found = getDehydratedSupplier(ctx, operatorAddress);
  if (found === undefined) return undefined;
  const serviceConfigHistory = getSupplierConfigs(ctx, operatorAddress);
  const services = serviceConfigHistory.flatMap((update) =>
    update.service !== undefined && isConfigActive(update, ctx.block.heightBlocks) ? [update.service] : [],
  );
  return { ...found, services, serviceConfigHistory };
}

/** Configurations for a service that hold at a height, in store order: the candidates of a session. */
export function getActiveServiceConfigs(ctx: Context, serviceId: string, height: bigint): shared.ServiceConfigUpdate[] {
  const within = endedTextCodec.encode(serviceId);
  const to = Buffer.concat([within, uint64Codec.encode(height + 1n)]);
  return [...serviceConfigs.entries(ctx, { within, to })]
    .map(([, update]) => update)
    .filter((update) => isConfigActive(update, height));
}

/**
 * Writes a supplier's own record: owner, stake, unstaking height, with the index of unstaking suppliers. Its
 * configurations stay as they are.
 */
export function setDehydratedSupplier(ctx: Context, changed: shared.Supplier): void {
  suppliers.set(
    ctx,
    changed.operatorAddress,
    createMessage(shared.SupplierSchema, { ...changed, services: [], serviceConfigHistory: [] }),
  );
}
