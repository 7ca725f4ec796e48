import { AppError, decimalToUnits, isAppError } from "@turnpike/base";
import { type Catalogue, isBuiltin, readCatalogue, type Service } from "@turnpike/catalogue";
import {
  type Config,
  type Environment,
  readSellerKey,
  relayerKeys,
  relayerKeysByNetwork,
  type SupplierConfig,
} from "@turnpike/config";
import { decodeBech32 } from "@turnpike/crypto";
import { catalogueOptions, sells } from "./catalogue.ts";
import { type LedgerRole, ledgerUrl } from "./ledger.ts";
import { engineOptions, noKeys, requireNetworks } from "./networks.ts";
import { workersOf } from "./worker-share.ts";

/** Most services that one fault names. */
const NAMED = 3;

/** What a configuration gives to run a role with, and what keeps it from running. */
export interface RunCheck {
  readonly catalogue: Catalogue;
  /** One line for each fault, with its path and its fix; empty when the role can start. */
  readonly faults: readonly string[];
}

function several(names: readonly string[]): string {
  const rest = names.length - NAMED;
  return rest > 0 ? `${names.slice(0, NAMED).join(", ")} and ${rest} more` : names.join(", ");
}

/** Prices that a token's units cannot say. */
function priceFaults(config: Config, catalogue: Catalogue): string[] {
  const byPrice = new Map<string, string[]>();
  for (const { id, price, paid } of catalogue.services.values()) {
    if (paid) byPrice.set(price, [...(byPrice.get(price) ?? []), id]);
  }
  return config.payment.networks.flatMap(({ decimals }, at) =>
    [...byPrice].flatMap(([price, ids]) => {
      try {
        decimalToUnits(price, decimals);
        return [];
      } catch {
        const path = `payment.networks[${at}].decimals`;
        return [
          `${path}: a token with ${decimals} decimal places cannot pay ${price} (${several(ids)}); correct it, or the price`,
        ];
      }
    }),
  );
}

function urlFaults(path: string, urls: Readonly<Record<string, string | undefined>>): string[] {
  return Object.entries(urls).flatMap(([rpcType, url]) => {
    if (url === undefined) return [];
    const wanted = rpcType === "websocket" ? /^(wss?|https?):$/ : /^https?:$/;
    if (URL.canParse(url) && wanted.test(new URL(url).protocol)) return [];
    // The URL is not shown: it may hold a key.
    return [
      `${path}.${rpcType}: expected ${rpcType === "websocket" ? "a ws:// or wss://" : "an http:// or https://"} URL`,
    ];
  });
}

function supplierFaults(id: string, supplier: SupplierConfig, service: Service): string[] {
  const path = `suppliers.${id}.endpoints`;
  const faults = supplier.endpoints.flatMap(({ urls }, at) => urlFaults(`${path}[${at}].urls`, urls));
  const spoken = new Set<string>([...service.operations.values()].map(({ rpcType }) => rpcType));
  const wanted = [...spoken].sort().join(" or ");
  // the free relay alone speaks WebSocket
  if (service.free && (spoken.has("json_rpc") || spoken.has("comet_bft"))) spoken.add("websocket");
  const usable = supplier.endpoints.some(({ urls }) => Object.keys(urls).some((rpcType) => spoken.has(rpcType)));
  if (!usable) faults.push(`${path}: none has a URL that ${id} is spoken to by; set urls.${wanted}`);
  return faults;
}

function suppliersFaults(config: Config, catalogue: Catalogue): string[] {
  const onSale = sells(config) ? undefined : readCatalogue(catalogueOptions(config)).catalogue;
  return Object.entries(config.suppliers).flatMap(([id, supplier]) => {
    const service = catalogue.get(id);
    if (service !== undefined) return supplierFaults(id, supplier, service);
    const isOwn = Object.hasOwn(config.catalogue.services, id);
    if (onSale?.get(id) !== undefined) {
      const row = `catalogue.${isOwn ? "services" : "overrides"}.${id}`;
      return [
        `suppliers.${id}: this service is only sold, and payment.mode none sells nothing; remove it, or put it on the free relay with free: true in ${row}`,
      ];
    }
    // Its own fault is in the list already.
    if (isOwn) return [];
    const isOff = config.catalogue.overrides[id]?.enabled === false;
    return [
      `suppliers.${id}: ${isOff ? "this service is switched off by catalogue.overrides" : "the catalogue has no such service"}; remove it, or ${isOff ? "switch it on" : `add ${id} to catalogue.services`}`,
    ];
  });
}

/** Services and owners that `protocol.sell: listed` cannot mean. */
function saleFaults({ protocol }: Config, catalogue: Catalogue): string[] {
  const services = protocol.sellServices.flatMap((id, at) => {
    const path = `protocol.sellServices[${at}]`;
    const service = catalogue.get(id);
    if (service === undefined) {
      return [`${path}: the catalogue has no ${id}; correct it, or define it in catalogue.services`];
    }
    return service.paid ? [] : [`${path}: ${id} has paid: false; remove it here, or set paid: true`];
  });
  const owners = protocol.sellOwners.flatMap((address, at) =>
    decodeBech32(address) === undefined
      ? [`protocol.sellOwners[${at}]: no address, its checksum is wrong; copy it from query service show-service`]
      : [],
  );
  return [...services, ...owners];
}

/** Services that cannot be refused, because they are not the chain's alone. */
function refusedFaults({ protocol, catalogue: { services } }: Config): string[] {
  return protocol.refuseServices.flatMap((id, at) => {
    const isOwn = Object.hasOwn(services, id);
    if (!isOwn && !isBuiltin(id)) return [];
    const fix = isOwn ? `remove catalogue.services.${id}` : `set catalogue.overrides.${id}.enabled to false`;
    return [`protocol.refuseServices[${at}]: ${id} is not the chain's alone; ${fix} instead`];
  });
}

/** Each worker is a gateway of its own to the ledger, and sells nothing without a relayer key that it holds. */
function workerFaults(config: Config, env: Environment): string[] {
  const workers = workersOf(config);
  if (workers === 1 || config.payment.mode !== "local") return [];
  const fewest = [...relayerKeysByNetwork(config, env, "gateway").values()].reduce<number | undefined>(
    (least, { length }) => Math.min(least ?? length, length),
    undefined,
  );
  // Its own fault is in the list already.
  if (fewest === undefined || fewest === 0 || workers <= fewest) return [];
  return [
    `gateway.workers: ${workers} workers need a relayer key each, and there ${fewest === 1 ? "is 1" : `are ${fewest}`}; add keys (npx turnpike keys new) to payment.relayer.keysFile, or set gateway.workers to ${fewest}`,
  ];
}

/** The reference client waits 90 seconds for a settlement; it must hear of a pending one before. */
export const LONGEST_SETTLE_WAIT_MS = 60_000;

/** Confirmations that a facilitator's clients do not wait for. */
function waitFaults({ payment }: Config): string[] {
  return payment.networks.flatMap(({ confirmations, blockTimeSeconds }, at) => {
    const neededMs = confirmations * blockTimeSeconds * 1_000;
    // A shorter wait has a fault of its own in the list.
    if (neededMs < LONGEST_SETTLE_WAIT_MS || payment.settleWaitMs < LONGEST_SETTLE_WAIT_MS) return [];
    const most = Math.max(1, Math.ceil(LONGEST_SETTLE_WAIT_MS / (blockTimeSeconds * 1_000)) - 1);
    return [
      `payment.networks[${at}].confirmations: ${confirmations} blocks of ${blockTimeSeconds} seconds are longer than a facilitator's clients wait (${LONGEST_SETTLE_WAIT_MS / 1_000} seconds); set at most ${most}`,
    ];
  });
}

/** Goes through everything that a start of this role needs of the configuration; asks no network. */
export function checkRun(config: Config, env: Environment, role: LedgerRole): RunCheck {
  const faults: string[] = [];
  const attempt = (build: () => unknown): void => {
    try {
      build();
    } catch (error) {
      if (!isAppError(error, "CONFIG_INVALID")) throw error;
      faults.push(error.message);
    }
  };
  const isSeller = role === "facilitator" || sells(config);
  if (isSeller) {
    attempt(() => requireNetworks(config, role));
    attempt(() => ledgerUrl(config));
  } else if (config.payment.networks.length > 0) {
    faults.push("payment.networks: payment.mode none sells nothing; remove the networks, or set the mode to local");
  }
  if (role === "facilitator" || config.payment.mode === "local") {
    const path = role === "facilitator" ? "facilitator.relayer.keysFile" : "payment.relayer.keysFile";
    attempt(() => {
      if (config.payment.networks.length > 0) engineOptions(config, relayerKeysByNetwork(config, env, role), path);
      else if (relayerKeys(config, env, role).length === 0) throw noKeys(path);
    });
  }
  if (role === "gateway" && config.payment.mode === "remote") attempt(() => readSellerKey(config));
  if (role === "facilitator") faults.push(...waitFaults(config));
  if (role === "gateway") attempt(() => faults.push(...workerFaults(config, env)));
  const { catalogue, faults: changes } = readCatalogue({ ...catalogueOptions(config), sells: isSeller });
  const hasPrices = role === "gateway" || config.facilitator.discoveryUrl !== undefined;
  if (hasPrices) faults.push(...changes, ...priceFaults(config, catalogue));
  if (role === "gateway") faults.push(...suppliersFaults(config, catalogue));
  if (role === "gateway") faults.push(...refusedFaults(config));
  if (role === "gateway" && isSeller) faults.push(...saleFaults(config, catalogue));
  return { catalogue, faults };
}

/** The error of a configuration that cannot run: one line for each fault. */
export function cannotRun(faults: readonly string[]): AppError {
  return new AppError("CONFIG_INVALID", { message: faults.join("\n"), detail: { faults } });
}

/** The catalogue of a role that can start. @throws AppError CONFIG_INVALID that names every fault. */
export function requireRunnable(config: Config, env: Environment, role: LedgerRole): Catalogue {
  const { catalogue, faults } = checkRun(config, env, role);
  if (faults.length > 0) throw cannotRun(faults);
  return catalogue;
}
