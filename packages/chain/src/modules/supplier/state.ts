import { concatBytes } from "@turnpike/base";
import { createMessage, shared, supplier } from "@turnpike/proto";
import { isConfigActive } from "@turnpike/protocol";
import {
  endedTextCodec,
  messageCodec,
  noKey,
  pairCodec,
  rawCodec,
  slashEndedTextCodec,
  textCodec,
  uint64Codec,
} from "../../state/codecs.ts";
import { Collection, firstOf } from "../../state/collection.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { createParsed, type Parsed, recordCodec } from "../../state/parsed.ts";
import { unfinishedEndCodec } from "../shared/session-end-queue.ts";

/** Name of the module, of its part of the state, and of the account that holds its stakes. */
export const SUPPLIER_MODULE = "supplier";

/** The parameters that a chain has unless its genesis says otherwise. */
export const DEFAULT_SUPPLIER_PARAMS: supplier.Params = createMessage(supplier.ParamsSchema, {
  minStake: { denom: "upokt", amount: "1000000" },
  stakingFee: { denom: "upokt", amount: "1" },
});

const module = SUPPLIER_MODULE;
/** Height of the first block: what ends there was active in none. */
const FIRST_HEIGHT = 1n;
const NOTHING = { encode: () => new Uint8Array(0), decode: () => undefined };

// On the real chain a height in a key ends in a slash, as texts do, and indexes hold the configuration's own key.
const primaryKeyBytes = (serviceId: string, operatorAddress: string): number =>
  serviceId.length + 1 + 8 + 1 + operatorAddress.length + 1;

/** The parameters. */
export const supplierParams = new Collection({
  module,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(supplier.ParamsSchema),
  stored: { prefixBytes: "p_supplier".length },
});
/** Suppliers by operator address, without services and history, which {@link serviceConfigs} has. */
export const suppliers = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: slashEndedTextCodec,
  value: recordCodec(shared.SupplierSchema),
  stored: { prefixBytes: "Supplier/operator_address/".length },
});
/**
 * Every configuration of a supplier for a service, active, ended and to come: by service, activation height and operator
 * address. This is the order in which sessions list their candidates.
 */
export const serviceConfigs = new Collection({
  module,
  prefix: Uint8Array.of(2),
  key: pairCodec(endedTextCodec, pairCodec(uint64Codec, textCodec)),
  value: recordCodec(shared.ServiceConfigUpdateSchema),
  stored: { prefixBytes: "ServiceConfigUpdate/service_id/".length, moreKeyBytes: 2 },
});
/** Where a supplier's configurations are: by operator address, service and activation height. */
export const configsByOperator = new Collection({
  module,
  prefix: Uint8Array.of(3),
  key: pairCodec(slashEndedTextCodec, pairCodec(slashEndedTextCodec, uint64Codec)),
  value: NOTHING,
  stored: {
    prefixBytes: "ServiceConfigUpdate/operator_address/".length,
    moreKeyBytes: 1,
    valueBytes: ([operatorAddress, [serviceId]]) => primaryKeyBytes(serviceId, operatorAddress),
  },
});
/** Operator addresses of the suppliers that are unbonding, as an earlier version wrote them; see {@link unstakingSuppliers}. */
export const formerUnstaking = new Collection({
  module,
  prefix: Uint8Array.of(4),
  key: slashEndedTextCodec,
  value: NOTHING,
});
/** Suppliers that are unbonding, by the last height of the session in which that began. The real chain's key is the address alone. */
export const unstakingSuppliers = new Collection({
  module,
  prefix: Uint8Array.of(11),
  key: pairCodec(uint64Codec, slashEndedTextCodec),
  value: NOTHING,
  stored: {
    prefixBytes: "Supplier/unbonding_height/".length,
    keyBytes: ([, operatorAddress]) => operatorAddress.length + 1,
    valueBytes: ([, operatorAddress]) => operatorAddress.length,
  },
});
/** Configurations by activation height, service and operator address: the order in which blocks activate them. */
export const configsByActivation = new Collection({
  module,
  prefix: Uint8Array.of(5),
  key: pairCodec(uint64Codec, pairCodec(slashEndedTextCodec, slashEndedTextCodec)),
  value: NOTHING,
  stored: {
    prefixBytes: "ServiceConfigUpdate/activation_height/".length,
    moreKeyBytes: 1,
    valueBytes: ([, [serviceId, operatorAddress]]) => primaryKeyBytes(serviceId, operatorAddress),
  },
});
/** Ended and ending configurations by deactivation height, service, operator address and activation height. */
export const configsByDeactivation = new Collection({
  module,
  prefix: Uint8Array.of(6),
  key: pairCodec(uint64Codec, pairCodec(slashEndedTextCodec, pairCodec(slashEndedTextCodec, uint64Codec))),
  value: NOTHING,
  stored: {
    prefixBytes: "ServiceConfigUpdate/deactivation_height/".length,
    moreKeyBytes: 2,
    valueBytes: ([, [serviceId, [operatorAddress]]]) => primaryKeyBytes(serviceId, operatorAddress),
  },
});

/** Last key of {@link configsByActivation} whose event a block emitted, while more of them are due. */
export const lastActivated = new Collection({
  module,
  prefix: Uint8Array.of(7),
  key: noKey,
  value: rawCodec,
});
/** Point that blocks reached in {@link unstakingSuppliers}, while some of a session's end remain. */
export const unfinishedUnbonding = new Collection({
  module,
  prefix: Uint8Array.of(8),
  key: noKey,
  value: unfinishedEndCodec,
});

/**
 * Operators whose suppliers never had services. A supplier without a history may have had some: they are pruned while it unbonds.
 * The real chain has nothing like it, so it costs no gas.
 */
export const neverServed = new Collection({
  module,
  prefix: Uint8Array.of(9),
  key: textCodec,
  value: NOTHING,
});

/**
 * First height at which no configuration of an operator is active, whatever end is written in them: slashing and unbonding end
 * thousands of configurations that no gas pays for, and write this alone. It lasts until the supplier stakes again, which writes
 * the ends, or until its configurations are pruned. The real chain has nothing like it, so it costs no gas.
 */
export const serviceEnds = new Collection({
  module,
  prefix: Uint8Array.of(10),
  key: textCodec,
  value: uint64Codec,
});

const endsByOperator = serviceEnds.derivation<ReadonlyMap<string, bigint>>({
  make: (entries) => new Map(Array.from(entries, ({ key, value }) => serviceEnds.decode(key, value))),
  update(ends, changes) {
    const changed = new Map(ends);
    for (const { key, value } of changes) {
      if (value === undefined) changed.delete(textCodec.decode(key));
      else changed.set(textCodec.decode(key), uint64Codec.decode(value));
    }
    return changed;
  },
});

/** All of {@link serviceEnds} by operator address, in no order. */
export function getServiceEnds(ctx: Context): ReadonlyMap<string, bigint> {
  return endsByOperator(ctx, new Uint8Array(0));
}

/** Ends all services of an operator at a height, without writing its configurations. */
export function endServices(ctx: Context, operatorAddress: string, height: bigint): void {
  const free = unmetered(ctx);
  const earlier = serviceEnds.get(free, operatorAddress);
  if (earlier === undefined || earlier > height) serviceEnds.set(free, operatorAddress, height);
}

/** The parameters. */
export function getSupplierParams(ctx: Context): supplier.Params {
  return supplierParams.get(ctx, undefined) ?? createMessage(supplier.ParamsSchema);
}

/** A supplier without services and history; undefined when there is none. */
export function getDehydratedSupplier(ctx: Context, operatorAddress: string): Parsed<shared.Supplier> | undefined {
  return suppliers.get(ctx, operatorAddress);
}

/** Part of a supplier's configurations: those of one service or of all, and the first ones or all. */
interface ConfigSelection {
  readonly serviceId?: string;
  readonly maximum?: number;
}

/** Configurations of a supplier as they are stored, by service and activation height: {@link serviceEnds} is not applied. */
function getStoredConfigs(
  ctx: Context,
  operatorAddress: string,
  { serviceId, maximum = Number.POSITIVE_INFINITY }: ConfigSelection = {},
): Parsed<shared.ServiceConfigUpdate>[] {
  const operator = slashEndedTextCodec.encode(operatorAddress);
  const within = serviceId === undefined ? operator : concatBytes(operator, slashEndedTextCodec.encode(serviceId));
  return firstOf(configsByOperator.entries(ctx, { within }), maximum).flatMap(([[, [service, height]]]) => {
    return serviceConfigs.get(ctx, [service, [height, operatorAddress]]) ?? [];
  });
}

/** Configurations of one operator with their ends. */
function withEnds(
  ctx: Context,
  operatorAddress: string,
  configs: readonly Parsed<shared.ServiceConfigUpdate>[],
): readonly Parsed<shared.ServiceConfigUpdate>[] {
  const end = serviceEnds.get(unmetered(ctx), operatorAddress);
  return end === undefined ? configs : endedHistory(configs, end);
}

/** The configurations of a supplier, of one service or of all, by service and activation height. */
export function getSupplierConfigs(
  ctx: Context,
  operatorAddress: string,
  selection: ConfigSelection = {},
): readonly Parsed<shared.ServiceConfigUpdate>[] {
  return withEnds(ctx, operatorAddress, getStoredConfigs(ctx, operatorAddress, selection));
}

/** True when a stored configuration is active at a height. */
export function isActiveConfig(ctx: Context, config: Parsed<shared.ServiceConfigUpdate>, height: bigint): boolean {
  const [update = config] = withEnds(ctx, config.operatorAddress, [config]);
  return isConfigActive(update, height);
}

/** A supplier with its history, and as services what is active at this block; undefined when there is none. */
export function getSupplier(ctx: Context, operatorAddress: string): Parsed<shared.Supplier> | undefined {
  const found = getDehydratedSupplier(ctx, operatorAddress);
  if (found === undefined) return undefined;
  const serviceConfigHistory = [...getSupplierConfigs(ctx, operatorAddress)];
  const services = serviceConfigHistory.flatMap((update) =>
    update.service !== undefined && isConfigActive(update, ctx.block.heightBlocks) ? [update.service] : [],
  );
  return { ...found, services, serviceConfigHistory };
}

/**
 * The newest of each operator among configurations of one service, in their order. No message makes two that hold at once, but
 * a genesis may have them, as the real chain lets ended ones hold again: an operator has one seat in a session.
 *
 * @param configs by activation height
 */
export function newestOfEach<T>(configs: readonly T[], operatorOf: (config: T) => string): readonly T[] {
  const newest = new Map(configs.map((config) => [operatorOf(config), config]));
  return newest.size === configs.length
    ? configs
    : configs.filter((config) => newest.get(operatorOf(config)) === config);
}

/** Configurations for a service that hold at a height, one for each operator, in store order: the candidates of a session. */
export function getActiveServiceConfigs(
  ctx: Context,
  serviceId: string,
  height: bigint,
): readonly Parsed<shared.ServiceConfigUpdate>[] {
  const within = endedTextCodec.encode(serviceId);
  const to = concatBytes(within, uint64Codec.encode(height + 1n));
  const active = [...serviceConfigs.entries(ctx, { within, to })]
    .map(([, update]) => update)
    .filter((update) => isActiveConfig(ctx, update, height));
  return newestOfEach(active, ({ operatorAddress }) => operatorAddress);
}

/** The configuration by which a supplier is a candidate for sessions of a service at a height; undefined when it is none. */
export function getActiveServiceConfig(
  ctx: Context,
  { operatorAddress, serviceId, height }: { operatorAddress: string; serviceId: string; height: bigint },
): Parsed<shared.ServiceConfigUpdate> | undefined {
  return getSupplierConfigs(ctx, operatorAddress, { serviceId }).findLast((update) => isConfigActive(update, height));
}

/**
 * A history that ends at a height. What ended before stays as it was: sessions that were served are drawn by it. The real chain's
 * unstaking lets these configurations hold until the height, too, so that who left a service is drawn for its sessions again.
 */
export function endedHistory(
  history: readonly Parsed<shared.ServiceConfigUpdate>[],
  deactivationHeight: bigint,
): Parsed<shared.ServiceConfigUpdate>[] {
  return history.map((update) => {
    const isOver = update.deactivationHeight !== 0n && update.deactivationHeight <= deactivationHeight;
    return isOver ? update : { ...update, deactivationHeight };
  });
}

/**
 * Writes a supplier's own record: owner, stake, unstaking height, with the index of unstaking suppliers. Its
 * configurations stay as they are.
 */
export function setDehydratedSupplier(ctx: Context, changed: Parsed<shared.Supplier>): void {
  const { operatorAddress, unstakeSessionEndHeight: since } = changed;
  const before = getDehydratedSupplier(unmetered(ctx), operatorAddress)?.unstakeSessionEndHeight ?? 0n;
  if (since === 0n) unstakingSuppliers.remove(ctx, [before, operatorAddress]);
  else {
    if (before !== since) unstakingSuppliers.remove(unmetered(ctx), [before, operatorAddress]);
    unstakingSuppliers.set(ctx, [since, operatorAddress], undefined);
  }
  const own = createParsed(shared.SupplierSchema, { ...changed, services: [], serviceConfigHistory: [] });
  suppliers.set(ctx, operatorAddress, own);
}

/** Enters a supplier of a state that an earlier version made into {@link unstakingSuppliers}. */
export function enterUnstaking(ctx: Context, operatorAddress: string): void {
  const since = getDehydratedSupplier(ctx, operatorAddress)?.unstakeSessionEndHeight ?? 0n;
  if (since !== 0n) unstakingSuppliers.set(ctx, [since, operatorAddress], undefined);
}

/** Writes a supplier's record, and its history as all its configurations with their indexes. */
export function setSupplier(ctx: Context, changed: Parsed<shared.Supplier>): void {
  const { operatorAddress, serviceConfigHistory } = changed;
  for (const old of getStoredConfigs(ctx, operatorAddress)) removeServiceConfig(ctx, old);
  const free = unmetered(ctx);
  // A removal of nothing would make a new map of all ends, and nearly no supplier has one.
  if (serviceEnds.has(free, operatorAddress)) serviceEnds.remove(free, operatorAddress);
  for (const update of serviceConfigHistory) {
    const { service, activationHeight, deactivationHeight } = update;
    if (service === undefined) continue;
    const { serviceId } = service;
    serviceConfigs.set(ctx, [serviceId, [activationHeight, operatorAddress]], update);
    configsByOperator.set(ctx, [operatorAddress, [serviceId, activationHeight]], undefined);
    configsByActivation.set(ctx, [activationHeight, [serviceId, operatorAddress]], undefined);
    if (deactivationHeight === 0n) continue;
    configsByDeactivation.set(ctx, [deactivationHeight, [serviceId, [operatorAddress, activationHeight]]], undefined);
  }
  setDehydratedSupplier(ctx, changed);
}

/** Key of a configuration in each of its collections, by its fields. */
export interface ConfigKey {
  readonly serviceId: string;
  readonly operatorAddress: string;
  readonly activationHeight: bigint;
}

/** Removes one configuration without reading it; its entry by deactivation height stays. */
export function removeConfigEntries(ctx: Context, config: ConfigKey): void {
  const { serviceId, operatorAddress, activationHeight } = config;
  serviceConfigs.remove(ctx, [serviceId, [activationHeight, operatorAddress]]);
  configsByOperator.remove(ctx, [operatorAddress, [serviceId, activationHeight]]);
  configsByActivation.remove(ctx, [activationHeight, [serviceId, operatorAddress]]);
}

function removeServiceConfig(ctx: Context, update: shared.ServiceConfigUpdate): void {
  const { operatorAddress, service, activationHeight, deactivationHeight } = update;
  const serviceId = service?.serviceId ?? "";
  removeConfigEntries(ctx, { serviceId, operatorAddress, activationHeight });
  configsByDeactivation.remove(ctx, [deactivationHeight, [serviceId, [operatorAddress, activationHeight]]]);
}

/** First configurations of an operator, by service and activation height, without reading them. */
export function firstConfigKeys(ctx: Context, operatorAddress: string, maximum: number): ConfigKey[] {
  const within = slashEndedTextCodec.encode(operatorAddress);
  return firstOf(configsByOperator.entries(ctx, { within }), maximum).map(([[, [serviceId, activationHeight]]]) => {
    return { serviceId, operatorAddress, activationHeight };
  });
}

/**
 * Removes a supplier's record. Its configurations were never active from now on, and are pruned later: however many there are, its
 * stake does not wait for it.
 */
export function removeSupplier(ctx: Context, found: Parsed<shared.Supplier>): void {
  const { operatorAddress, unstakeSessionEndHeight } = found;
  if (firstConfigKeys(ctx, operatorAddress, 1).length > 0) {
    endServices(ctx, operatorAddress, FIRST_HEIGHT);
  }
  unstakingSuppliers.remove(ctx, [unstakeSessionEndHeight, operatorAddress]);
  neverServed.remove(unmetered(ctx), operatorAddress);
  suppliers.remove(ctx, operatorAddress);
}
