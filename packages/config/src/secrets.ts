import { AppError } from "@turnpike/base";
import { DANGEROUS } from "./dangerous.ts";
import type { Environment } from "./environment.ts";
import { type PrivateKey, parseKey, readKeyFile } from "./key-file.ts";
import type { Config } from "./schema.ts";

type Role = "gateway" | "facilitator";

interface FoundKeys {
  /** The variable or the path that they come from. */
  readonly where: string;
  readonly keys: readonly PrivateKey[];
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
function othersKeys(config: Config, env: Environment, role: Role): FoundKeys {
  try {
    return readKeys(config, env, role);
  } catch {
    return { where: "", keys: [] };
  }
}

/**
 * The relayer's private keys, in order, each once: of the environment (TURNPIKE_RELAYER_KEYS, for a facilitator that
 * runs alone TURNPIKE_FACILITATOR_KEYS), else of `keysFile`, else (localnet only) of `keys`.
 * @throws AppError CONFIG_INVALID for text that is no key, for a sample key outside a localnet, for an open file, and for
 * a key that the other role has too, wherever it has it from.
 */
export function relayerKeys(config: Config, env: Environment, role: Role): readonly PrivateKey[] {
  const { where, keys } = readKeys(config, env, role);
  if (!config.localnet && keys.some((key) => DANGEROUS.privateKeys.includes(key))) {
    throw new AppError("CONFIG_INVALID", {
      message: `${where}: a sample key that everybody knows; make your own with npx turnpike keys new.`,
    });
  }
  // Below the curve's order each account has one key, so keys in one spelling are compared as accounts would be.
  const others = othersKeys(config, env, role === "gateway" ? "facilitator" : "gateway");
  if (keys.some((key) => others.keys.includes(key))) {
    throw new AppError("CONFIG_INVALID", {
      message: `${where}: has a key of ${others.where} too; the gateway and the facilitator need keys of their own, or both would use the same nonces of one account.`,
    });
  }
  return [...new Set(keys)];
}
