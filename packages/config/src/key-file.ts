import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { AppError, isRecord, redacted } from "@turnpike/base";

const KEY = /^0x[0-9a-fA-F]{64}$/;

/** A private key, in lower case. */
export type PrivateKey = `0x${string}`;

/**
 * One private key of a text; spaces around it are ignored.
 * @throws AppError CONFIG_INVALID naming `where`; the text is not repeated.
 */
export function parseKey(text: string, where: string): PrivateKey {
  const key = text.trim();
  if (!KEY.test(key)) {
    throw new AppError("CONFIG_INVALID", { message: `${where}: expected a private key: 0x and 64 hex digits.` });
  }
  return key.toLowerCase() as PrivateKey;
}

function ofJson(value: unknown, where: string): PrivateKey[] {
  if (Array.isArray(value)) return value.flatMap((inner) => ofJson(inner, where));
  if (typeof value === "string") return [parseKey(value, where)];
  if (isRecord(value) && typeof value.privateKey === "string") return [parseKey(value.privateKey, where)];
  throw new AppError("CONFIG_INVALID", { message: `${where}: expected privateKey, or a list of such.` });
}

function ofText(text: string, where: string): PrivateKey[] {
  if (/^\s*[[{]/.test(text)) {
    let value: unknown;
    try {
      value = JSON.parse(text) as unknown;
    } catch {
      throw new AppError("CONFIG_INVALID", { message: `${where}: it is not JSON.` });
    }
    return ofJson(value, where);
  }
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "" && !line.startsWith("#")).map((line) => parseKey(line, where));
}

/** True for a file that other accounts may read or write. */
export function isOpenToOthers(file: string): boolean {
  return process.platform !== "win32" && (statSync(file).mode & 0o077) !== 0;
}

/**
 * The text of a file that holds a secret; its mode must be 600, so that other users cannot read it.
 * @throws AppError CONFIG_INVALID naming `where`, for a file that other users can read and one that cannot be read.
 */
export function readClosedFile(file: string, where: string = file): string {
  // in full: the reader of the message may not know in which folder the command ran
  const path = resolve(file);
  try {
    if (isOpenToOthers(path)) {
      throw new AppError("CONFIG_INVALID", {
        message: `${redacted(where)}: other users can read ${path}; run chmod 600 ${path}`,
      });
    }
    return readFileSync(path, "utf8");
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    throw new AppError("CONFIG_INVALID", { message: `${redacted(where)}: ${redacted(path)} cannot be read.`, cause });
  }
}

/**
 * The keys of a key file, in order: one a line (`#` starts a comment), or JSON `{"privateKey": …}` or a list of such, as
 * `turnpike keys new` writes them. Its mode must be 600.
 * @throws AppError CONFIG_INVALID naming `where`.
 */
export function readKeyFile(file: string, where: string = file): readonly PrivateKey[] {
  return ofText(readClosedFile(file, where), where);
}

/**
 * The networks that a key file names for its key: `networks` of a JSON object with a `privateKey`; undefined where the file
 * names none. They are texts, unchecked.
 * @throws AppError CONFIG_INVALID naming `where`.
 */
export function readKeyNetworks(file: string, where: string = file): readonly string[] | undefined {
  const text = readClosedFile(file, where);
  if (!/^\s*\{/.test(text)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text) as unknown;
  } catch {
    throw new AppError("CONFIG_INVALID", { message: `${where}: it is not JSON.` });
  }
  const networks = isRecord(value) ? value.networks : undefined;
  if (networks === undefined) return undefined;
  if (Array.isArray(networks) && networks.every((network) => typeof network === "string")) return networks;
  throw new AppError("CONFIG_INVALID", { message: `${where}: networks: expected a list such as ["eip155:8453"].` });
}

/**
 * A key of the relay protocol's chain, 32 bytes: 64 hex digits, or JSON with such a `privateKey`, as `turnpike chain key`
 * writes it. The file must be closed to other users.
 * @throws AppError CONFIG_INVALID naming `where`; the text is not repeated.
 */
export function readChainKeyFile(file: string, where: string = file): Uint8Array {
  const text = readClosedFile(file, where).trim();
  let hex: unknown = text;
  if (text.startsWith("{")) {
    try {
      const value: unknown = JSON.parse(text);
      hex = isRecord(value) ? value.privateKey : undefined;
    } catch {
      hex = undefined;
    }
  }
  if (typeof hex !== "string" || !/^(0x)?[0-9a-fA-F]{64}$/.test(hex)) {
    throw new AppError("CONFIG_INVALID", {
      message: `${where}: expected 64 hex digits, or JSON with such a privateKey, in ${resolve(file)}.`,
    });
  }
  return Uint8Array.from(Buffer.from(hex.replace(/^0x/, ""), "hex"));
}
