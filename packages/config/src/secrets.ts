import { AppError } from "@turnpike/base";
import { DANGEROUS } from "./dangerous.ts";
import type { Environment } from "./environment.ts";
import { type PrivateKey, parseKey, readClosedFile, readKeyFile } from "./key-file.ts";
import { SELLER_KEY_PATTERN } from "./keys.ts";
import type { Config } from "./schema.ts";

const SELLER_KEY = new RegExp(SELLER_KEY_PATTERN);

type Role = "gateway" | "facilitator";

interface FoundKeys {
  /** The variable or the path that they come from. */
  readonly where: string;
  readonly keys: readonly PrivateKey[];
}

/** Keys of one network alone; undefined where it has none of its own. A facilitator has one set for all. */
function readNetworkKeys(config: Config, at: number): FoundKeys | undefined {
  const own = config.payment.networks[at]?.relayer;
  const path = `payment.networks[${at}].relayer`;
  if (own?.keysFile !== undefined) {
    return { where: `${path}.keysFile`, keys: readKeyFile(own.keysFile, `${path}.keysFile`) };
  }
  const keys = (own?.keys ?? []).map((key) => parseKey(key, `${path}.keys`));
  return keys.length === 0 ? undefined : { where: `${path}.keys`, keys };
}

function readKeys(config: Config, env: Environment, role: Role): FoundKeys {
  const own = role === "facilitator" ? config.facilitator.relayer : config.payment.relayer;
  const variable = role === "facilitator" ? "TURNPIKE_FACILITATOR_KEYS" : "TURNPIKE_RELAYER_KEYS";
  const section = role === "facilitator" ? "facilitator.relayer" : "payment.relayer";
  const text = config.localnet ? "" : (env[variable] ?? "");
  if (text !== "") {
    const parts = text.split(",").filter((part) => part.trim() !== "");
    return { where: variable, keys: parts.map((part) => parseKey(part, variable)) };
  }
  if (own.keysFile !== undefined) {
    const where = `${section}.keysFile`;
    return { where, keys: readKeyFile(own.keysFile, where) };
  }
  return { where: `${section}.keys`, keys: own.keys.map((key) => parseKey(key, `${section}.keys`)) };
}

/** Keys of the other role, as far as they are known here: their file may be on another machine. */
function othersKeys(config: Config, env: Environment, role: Role): readonly FoundKeys[] {
  const known = (read: () => FoundKeys | undefined): readonly FoundKeys[] => {
    try {
      return [read() ?? []].flat();
    } catch {
      return [];
    }
  };
  const ofNetworks =
    role === "gateway" ? config.payment.networks.map((_, at) => () => readNetworkKeys(config, at)) : [];
  return [() => readKeys(config, env, role), ...ofNetworks].flatMap(known);
}

function checked({ where, keys }: FoundKeys, config: Config, env: Environment, role: Role): readonly PrivateKey[] {
  if (!config.localnet && keys.some((key) => DANGEROUS.privateKeys.includes(key))) {
    throw new AppError("CONFIG_INVALID", {
      message: `${where}: a sample key that everybody knows; make your own with npx turnpike keys new.`,
    });
  }
  // Below the curve's order each account has one key, so keys in one spelling are compared as accounts would be.
  const others = othersKeys(config, env, role === "gateway" ? "facilitator" : "gateway");
  const shared = others.find((other) => keys.some((key) => other.keys.includes(key)));
  if (shared !== undefined) {
    throw new AppError("CONFIG_INVALID", {
      message: `${where}: has a key of ${shared.where} too; the gateway and the facilitator need keys of their own, or both would use the same nonces of one account.`,
    });
  }
  return [...new Set(keys)];
}

/**
 * The relayer's private keys, in order, each once: of the environment (TURNPIKE_RELAYER_KEYS, for a facilitator that
 * runs alone TURNPIKE_FACILITATOR_KEYS), else of `keysFile`, else (localnet only) of `keys`.
 * @throws AppError CONFIG_INVALID for text that is no key, for a sample key outside a localnet, for an open file, and for
 * a key that the other role has too, wherever it has it from.
 */
export function relayerKeys(config: Config, env: Environment, role: Role): readonly PrivateKey[] {
  return checked(readKeys(config, env, role), config, env, role);
}

/**
 * The same by network: a gateway's network may have keys of its own, in place of {@link relayerKeys}.
 * @throws AppError CONFIG_INVALID as {@link relayerKeys}.
 */
export function relayerKeysByNetwork(
  config: Config,
  env: Environment,
  role: Role,
): ReadonlyMap<string, readonly PrivateKey[]> {
  let common: readonly PrivateKey[] | undefined;
  const found = new Map<string, readonly PrivateKey[]>();
  for (const [at, { network }] of config.payment.networks.entries()) {
    if (found.has(network)) continue;
    const own = role === "gateway" ? readNetworkKeys(config, at) : undefined;
    if (own === undefined) common ??= relayerKeys(config, env, role);
    found.set(network, own === undefined ? (common ?? []) : checked(own, config, env, role));
  }
  return found;
}

/**
 * The key by which a facilitator knows this gateway as a seller: `sellerKey`, else of `sellerKeyFile`; undefined without either.
 * @throws AppError CONFIG_INVALID for a file that other users can read, and one without such a key; its text is not repeated.
 */
export function readSellerKey({ payment }: Config): string | undefined {
  const { sellerKey, sellerKeyFile } = payment;
  if (sellerKey !== undefined || sellerKeyFile === undefined) return sellerKey;
  const where = "payment.sellerKeyFile";
  const text = readClosedFile(sellerKeyFile, where).trim();
  if (SELLER_KEY.test(text)) return text;
  const message = `${where}: expected a key of 1 to 512 printable ASCII characters without spaces, and nothing else.`;
  throw new AppError("CONFIG_INVALID", { message });
}
