import { AppError, decimalToUnits, isAppError, type ServiceId, unitsToDecimal } from "@turnpike/base";
import { BUILTIN_SERVICES, familyOperations, isKnownRead } from "./builtin.ts";
import { compileSchema, jsonSchemaFault } from "./check.ts";
import { serviceDefinitionSchema, serviceOverrideSchema } from "./override-schema.ts";
import type { Catalogue, FamilyId, Operation, Service, ServiceDefinition, ServiceOverride } from "./types.ts";

/** USD a request (spec §2.1). */
export const DEFAULT_PRICE = "0.005000";
/** Largest request body in bytes where a service says nothing else. */
export const DEFAULT_MAX_BODY_BYTES = 1_048_576;

/** What {@link createCatalogue} takes. */
export interface CatalogueOptions {
  /** Changes of services that exist, by id. */
  readonly overrides?: Readonly<Record<string, ServiceOverride>>;
  /** Services that do not exist yet. */
  readonly added?: readonly ServiceDefinition[];
  /** False: nothing is sold. Services are then on the free relay alone, and those that are not on it are left out. */
  readonly sells?: boolean;
}

/** Words that follow `/relay/` and are no service: `/relay/key/{key}/{id}` carries the key of an application. */
export const RESERVED_IDS: ReadonlySet<string> = new Set(["key"]);

/** Names that change state: no route may offer them, whatever an operator writes. */
const WRITES = [
  /^eth_(send|sign|submit|fill)/,
  /^(personal|miner|admin|engine|anvil|evm|hardhat|unsafe|testing|clique|les|validator)_/,
  /^debug_(set|start|stop|write|free|chaindb|seedHash|gcStats|vmodule|verbosity)/,
  /^(eth|parity|trace|zks|hmy|klay|kaia|arb)_.*[sS]end/,
  /^broadcast_/,
  /^(check_tx|send_tx|sendTransaction|requestAirdrop|dial_peers|dial_seeds)$/,
  /^sui_(execute|unsafe)|^unsafe/,
  /^(send|submit|generate|stop|import|dump|create|sign|wallet|invalidate|reconsider|prune|add|set|disconnect)[a-z]*$/,
  /broadcast|\/submit$|^POST \/(cosmos|ibc|cosmwasm)\/|^POST \/eth\//,
];

/** True for a method or path that writes: it is never offered. */
export function isWriteOperation(name: string): boolean {
  return WRITES.some((pattern) => pattern.test(name));
}

function invalid(path: string, problem: string): AppError {
  return new AppError("CONFIG_INVALID", { message: `${path}: ${problem}.`, detail: { path } });
}

function assertFits(schema: Readonly<Record<string, unknown>>, value: unknown, path: string): void {
  const { validate } = compileSchema(schema);
  if (validate(value)) return;
  const error = validate.errors?.[0];
  const params = error?.params ?? {};
  const named: unknown = params.additionalProperty ?? params.missingProperty;
  const at = `${path}${(error?.instancePath ?? "").replaceAll("/", ".")}${typeof named === "string" ? `.${named}` : ""}`;
  if (error?.keyword === "additionalProperties") throw invalid(at, "is not a known key");
  if (error?.keyword === "required") throw invalid(at, "is required");
  const allowed: unknown = params.allowedValues;
  throw invalid(
    at,
    Array.isArray(allowed) ? `must be one of ${allowed.join(", ")}` : (error?.message ?? "is not valid"),
  );
}

/**
 * On a chain, or where nothing is known, there are more writes than a list can name: what is not known as a read needs the
 * operator's declaration.
 */
function needsWord(operation: Operation, families: readonly FamilyId[]): boolean {
  const isChain = families.some((family) => family !== "http" && family !== "search");
  return (isChain || families.length === 0) && operation.read !== true && !isKnownRead(operation.name, families);
}

function assertOperations(operations: readonly Operation[], families: readonly FamilyId[], path: string): void {
  for (const [index, operation] of operations.entries()) {
    const at = `${path}[${index}]`;
    if (isWriteOperation(operation.name))
      throw invalid(`${at}.name`, `${operation.name} is a write; only reads are sold`);
    if (needsWord(operation, families))
      throw invalid(`${at}.name`, `${operation.name} is not known as a read; if it changes nothing, say read: true`);
    if (operation.name.startsWith("GET ") && operation.params !== undefined) {
      throw invalid(`${at}.params`, "a GET has no body");
    }
    for (const key of ["params", "result"] as const) {
      const schema = operation[key];
      if (schema === undefined || typeof schema === "boolean") continue;
      const fault = jsonSchemaFault(schema);
      if (fault !== undefined) throw invalid(`${at}.${key}`, `is no JSON Schema (${fault})`);
    }
  }
}

function assertPrice(price: string, path: string): string {
  const units = decimalToUnits(price, 6);
  if (units === 0n) throw invalid(path, "must be more than 0");
  return unitsToDecimal(units, 6);
}

function byName(operations: readonly Operation[]): ReadonlyMap<string, Operation> {
  return new Map(operations.map((operation) => [operation.name, operation]));
}

/** The category first; x402 allows five. */
function tagsOf(category: string, tags: readonly string[]): readonly string[] {
  return [...new Set([category, ...tags])].slice(0, 5);
}

function toService(definition: ServiceDefinition, path: string): Service {
  const { id, families, category } = definition;
  const operations = definition.operations ?? familyOperations(id, families, { rest: true, wasm: false });
  if (operations.length === 0) throw invalid(`${path}.operations`, "is required for this family");
  return Object.freeze({
    id: id as ServiceId,
    name: definition.name,
    description: definition.description,
    category,
    tags: tagsOf(category, definition.tags ?? []),
    operationId: `call_${id.replaceAll("-", "_")}`,
    price: assertPrice(definition.price ?? DEFAULT_PRICE, `${path}.price`),
    families,
    evmChainId: definition.evmChainId,
    chainId: definition.chainId,
    network: definition.network,
    syncAllowanceBlocks: definition.syncAllowanceBlocks,
    paid: definition.paid ?? true,
    free: definition.free ?? false,
    operations: byName(operations),
    maxBodyBytes: definition.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES,
    ...(definition.iconUrl === undefined ? {} : { iconUrl: definition.iconUrl }),
  });
}

/** The operations that an override starts from: other families speak otherwise, so they bring their own. */
function baseOperations(service: Service, override: ServiceOverride, path: string): ReadonlyMap<string, Operation> {
  if (override.operations !== undefined) return byName(override.operations);
  const { families } = override;
  if (families === undefined || families.join() === service.families.join()) return service.operations;
  const operations = familyOperations(service.id, families, { rest: true, wasm: false });
  if (operations.length === 0) throw invalid(`${path}.operations`, "is required for this family");
  return byName(operations);
}

function overridden(service: Service, override: ServiceOverride, path: string): Service {
  const { operations: _replaced, addOperations = [], removeOperations = [], enabled: _, ...plain } = override;
  const operations = new Map(baseOperations(service, override, path));
  for (const operation of addOperations) operations.set(operation.name, operation);
  for (const name of removeOperations) {
    if (!operations.delete(name)) throw invalid(`${path}.removeOperations`, `${service.id} has no ${name}`);
  }
  if (operations.size === 0) throw invalid(path, "leaves no operation");
  const category = override.category ?? service.category;
  const tags = override.tags ?? service.tags.filter((tag) => tag !== service.category);
  return Object.freeze({
    ...service,
    ...plain,
    category,
    tags: tagsOf(category, tags),
    price: assertPrice(override.price ?? service.price, `${path}.price`),
    operations,
  });
}

/** A catalogue, and what is wrong with an operator's changes: what has a fault is left out of it. */
export interface ReadCatalogue {
  readonly catalogue: Catalogue;
  /** One line for each fault, with its path and what is wrong. */
  readonly faults: readonly string[];
}

function addService(services: Map<ServiceId, Service>, definition: ServiceDefinition, path: string): void {
  assertFits(serviceDefinitionSchema, definition, path);
  assertOperations(definition.operations ?? [], definition.families, `${path}.operations`);
  if (services.has(definition.id as ServiceId)) throw invalid(`${path}.id`, `${definition.id} exists; override it`);
  if (RESERVED_IDS.has(definition.id)) {
    throw invalid(
      `${path}.id`,
      `${definition.id} is reserved: /relay/${definition.id}/ is a path of the gateway's own`,
    );
  }
  const service = toService(definition, path);
  services.set(service.id, service);
}

function changeService(services: Map<ServiceId, Service>, id: string, override: ServiceOverride, path: string): void {
  const service = services.get(id as ServiceId);
  if (service === undefined) throw invalid(path, "no service has this id");
  assertFits(serviceOverrideSchema, override, path);
  const families = override.families ?? service.families;
  assertOperations(override.operations ?? [], families, `${path}.operations`);
  assertOperations(override.addOperations ?? [], families, `${path}.addOperations`);
  if (override.enabled === false) services.delete(service.id);
  else services.set(service.id, overridden(service, override, path));
}

/** The built-in services with an operator's changes, and one fault for each change that is not valid. */
export function readCatalogue(opts: CatalogueOptions = {}): ReadCatalogue {
  const services = new Map<ServiceId, Service>();
  for (const definition of BUILTIN_SERVICES) {
    const service = toService(definition, definition.id);
    services.set(service.id, service);
  }
  const faults: string[] = [];
  const attempt = (change: () => void): void => {
    try {
      change();
    } catch (error) {
      if (!isAppError(error, "CONFIG_INVALID")) throw error;
      faults.push(error.message);
    }
  };
  for (const definition of opts.added ?? []) {
    attempt(() => addService(services, definition, `catalogue.services.${definition.id}`));
  }
  for (const [id, override] of Object.entries(opts.overrides ?? {})) {
    attempt(() => changeService(services, id, override, `catalogue.overrides.${id}`));
  }
  if (opts.sells === false) sellNothing(services);
  return { catalogue: { services, get: (id) => services.get(id as ServiceId) }, faults };
}

function sellNothing(services: Map<ServiceId, Service>): void {
  for (const [id, service] of services) {
    if (service.free) services.set(id, Object.freeze({ ...service, paid: false }));
    else services.delete(id);
  }
}

/**
 * The built-in services with an operator's changes.
 * @throws AppError CONFIG_INVALID, naming each change that is not valid by its path.
 */
export function createCatalogue(opts: CatalogueOptions = {}): Catalogue {
  const { catalogue, faults } = readCatalogue(opts);
  if (faults.length > 0) throw new AppError("CONFIG_INVALID", { message: faults.join("\n"), detail: { faults } });
  return catalogue;
}
