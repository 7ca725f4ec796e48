import { readdir, readFile, stat } from "node:fs/promises";
import { basename, extname, join, resolve } from "node:path";
import { AppError, hexToBytes, isRecord, nearest, systemClock } from "@turnpike/base";
import { ChainClient, type ChainSigner, createChainSigner } from "@turnpike/chain-client";
import { addressToBytes, isPrivateKey } from "@turnpike/crypto";
import { findUpFolder } from "../up-file.ts";
import { chainHome } from "./chain-layout.ts";

/** Where a command finds the node and the keys. */
export interface ChainClientFlags {
  readonly node?: string;
  readonly home?: string;
  readonly keyFile?: string;
}

/** An account by name or address, with its key where there is one. */
export interface ChainKey {
  readonly name: string;
  readonly address: string;
  /** Undefined where only the address is known. */
  readonly signer?: ChainSigner;
}

const DEFAULT_NODE = "http://127.0.0.1:26657";
const DEFAULT_HOME = "chain";
const MAX_KEYS = 1_000;
const MAX_KEY_BYTES = 65_536;

async function readJson(file: string): Promise<unknown> {
  const text = await readFile(file, "utf8").catch(() => undefined);
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Address of the node: --node, else that of the node in --home, else of the `turnpike up` that runs here, else of the node in
 * `chain`, else the usual one.
 */
export async function nodeUrl({ node, home }: ChainClientFlags, cwd = process.cwd()): Promise<string> {
  if (node !== undefined) return node;
  const folder = home === undefined ? findUpFolder(cwd) : undefined;
  if (folder === undefined) {
    const running = await readJson(chainHome(resolve(cwd, home ?? DEFAULT_HOME)).nodeFile);
    if (isRecord(running) && typeof running.rpc === "string") return running.rpc;
  }
  const up = folder === undefined ? undefined : await readJson(join(folder, "up.json"));
  const chain = isRecord(up) && isRecord(up.chain) ? up.chain : undefined;
  return typeof chain?.rpc === "string" ? chain.rpc : DEFAULT_NODE;
}

/** Asks a node. @throws AppError USAGE when the address is none */
export async function openChainClient(flags: ChainClientFlags): Promise<ChainClient> {
  return new ChainClient({ url: await nodeUrl(flags) }, { clock: systemClock });
}

/** Folder of the keys: of --home, else of the `turnpike up` that runs here, else of `turnpike chain init`. */
export function keysFolderOf({ home }: ChainClientFlags, cwd = process.cwd()): string {
  return join(resolve(home ?? findUpFolder(cwd) ?? DEFAULT_HOME), "keys");
}

function keyOf(name: string, value: unknown): ChainKey | undefined {
  if (!isRecord(value)) return undefined;
  const bytes = typeof value.privateKey === "string" ? hexToBytes(value.privateKey) : undefined;
  if (bytes !== undefined && isPrivateKey(bytes)) {
    const signer = createChainSigner(bytes);
    return { name, address: signer.address, signer };
  }
  const { address } = value;
  if (typeof address !== "string" || addressToBytes(address) === undefined) return undefined;
  return { name, address };
}

async function keyNames(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch(() => []);
  return names
    .filter((name) => name.endsWith(".json"))
    .map((name) => name.slice(0, -5))
    .sort()
    .slice(0, MAX_KEYS);
}

/** Addresses of the keys in the folder, by name. */
export async function keyAddresses(flags: ChainClientFlags): Promise<ReadonlyMap<string, string>> {
  const folder = keysFolderOf(flags);
  const found = new Map<string, string>();
  for (const name of await keyNames(folder)) {
    const key = keyOf(name, await readJson(join(folder, `${name}.json`)));
    if (key !== undefined) found.set(name, key.address);
  }
  return found;
}

/** A key's file: JSON as the keys' folder has it, or 64 hex digits. @throws AppError USAGE */
export async function readKeyFile(file: string): Promise<ChainKey> {
  const sizeBytes = await stat(file).then(
    ({ size }) => size,
    () => undefined,
  );
  const text = sizeBytes !== undefined && sizeBytes <= MAX_KEY_BYTES ? await readFile(file, "utf8") : "";
  const name = basename(file, extname(file));
  const hex = hexToBytes(text.trim());
  const key = hex !== undefined && isPrivateKey(hex) ? keyOf(name, { privateKey: text.trim() }) : undefined;
  const found = key ?? keyOf(name, await readJson(file));
  if (found?.signer !== undefined) return found;
  throw new AppError("USAGE", {
    message: `--key-file ${file} holds no private key; expected JSON with a privateKey of 64 hex digits, or those alone.`,
  });
}

/** An account by the name of its key, or by its address. @throws AppError USAGE, which names the keys that are there */
export async function findKey(wanted: string, flags: ChainClientFlags): Promise<ChainKey> {
  const folder = keysFolderOf(flags);
  if (addressToBytes(wanted) !== undefined) {
    for (const name of await keyNames(folder)) {
      const key = keyOf(name, await readJson(join(folder, `${name}.json`)));
      if (key?.address === wanted) return key;
    }
    return { name: wanted, address: wanted };
  }
  const names = await keyNames(folder);
  const key = names.includes(wanted) ? keyOf(wanted, await readJson(join(folder, `${wanted}.json`))) : undefined;
  if (key !== undefined) return key;
  const near = nearest(wanted, names);
  const mend =
    names.length === 0
      ? "there are none; name the folder above it with --home, or a key with --key-file"
      : near === undefined
        ? `there are ${names.slice(0, 20).join(", ")}`
        : `did you mean ${near}?`;
  throw new AppError("USAGE", { message: `${JSON.stringify(wanted)} is no address and no key of ${folder}: ${mend}.` });
}
