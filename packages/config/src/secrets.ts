import { AppError } from "@turnpike/base";
import { DANGEROUS } from "./dangerous.ts";
import type { Environment } from "./environment.ts";
import { type PrivateKey, parseKey, readKeyFile } from "./key-file.ts";
import type { Config } from "./schema.ts";

/**
 * The relayer's private keys, in order, each once: of the environment (TURNPIKE_RELAYER_KEYS, for a facilitator that
 * runs alone TURNPIKE_FACILITATOR_KEYS), else of `keysFile`, else (localnet only) of `keys`.
 * @throws AppError CONFIG_INVALID for text that is no key, for a sample key outside a localnet, and for an open file.
 */
export function relayerKeys(config: Config, env: Environment, role: "gateway" | "facilitator"): readonly PrivateKey[] {
  const own = role === "facilitator" ? config.facilitator.relayer : config.payment.relayer;
  const variable = role === "facilitator" ? "TURNPIKE_FACILITATOR_KEYS" : "TURNPIKE_RELAYER_KEYS";
  const section = role === "facilitator" ? "facilitator.relayer" : "payment.relayer";
  const text = config.localnet ? "" : (env[variable] ?? "");
  const read = (): { readonly where: string; readonly keys: readonly PrivateKey[] } => {
    if (text !== "") {
      const parts = text.split(",").filter((part) => part.trim() !== "");
      return { where: variable, keys: parts.map((part) => parseKey(part, variable)) };
    }
    if (own.keysFile !== undefined) {
      const where = `${section}.keysFile`;
      return { where, keys: readKeyFile(own.keysFile, where) };
    }
    return { where: `${section}.keys`, keys: own.keys.map((key) => parseKey(key, `${section}.keys`)) };
  };
  const { where, keys } = read();
  if (!config.localnet && keys.some((key) => DANGEROUS.privateKeys.includes(key))) {
    throw new AppError("CONFIG_INVALID", {
      message: `${where}: a sample key that everybody knows; make your own with turnpike keys new.`,
    });
  }
  return [...new Set(keys)];
}
