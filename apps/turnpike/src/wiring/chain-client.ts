import { readdir, readFile, stat } from "node:fs/promises";
import { basename, dirname, extname, join, resolve, sep } from "node:path";
import { AppError, hexToBytes, isRecord, nearest, redacted, systemClock } from "@turnpike/base";
import { ChainClient, type ChainSigner, createChainSigner } from "@turnpike/chain-client";
import { addressToBytes, isPrivateKey } from "@turnpike/crypto";
import { addressesOf, findUp, readTestnet, testnetLayout } from "@turnpike/devnet/files";
import { DEFAULT_CHAIN_HOME, isTestnetFolder, nodeFileOf } from "./chain-folder.ts";

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
  /** Where the key is; undefined of an address that has none here. */
  readonly file?: string;
}

const DEFAULT_NODE = "http://127.0.0.1:26657";
const MAX_KEYS = 1_000;
const MAX_KEY_BYTES = 65_536;
/** How long a testnet's node may take to answer before the next one is asked instead. */
const PROBE_MS = 2_000;
/** A testnet has at most so many validators; nodes that joined are not needed to find one that answers. */
const MOST_PROBES = 16;

async function readJson(file: string): Promise<unknown> {
  const text = await readFile(file, "utf8").catch(() => undefined);
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function answers(url: string, signal: AbortSignal): Promise<boolean> {
  await using client = new ChainClient({ url, timeoutMs: PROBE_MS }, { clock: systemClock });
  return await client.status(signal).then(
    () => true,
    () => false,
  );
}

/** The first of these nodes that answers, in their order: who sends twice shall mostly meet the same mempool. */
export async function firstAnswering(urls: readonly string[]): Promise<string | undefined> {
  const ending = new AbortController();
  const asked = urls.map((url) => ({ url, isThere: answers(url, ending.signal) }));
  try {
    for (const { url, isThere } of asked) if (await isThere) return url;
    return undefined;
  } finally {
    // Who is away must not keep the command from ending.
    ending.abort();
  }
}

/** RPC of the first node of a testnet that answers; undefined where the folder is no testnet's. */
async function testnetNodeUrl(folder: string): Promise<string | undefined> {
  if (!isTestnetFolder(folder)) return undefined;
  const { nodes } = await readTestnet(testnetLayout(folder));
  const urls = nodes.slice(0, MOST_PROBES).map((one) => addressesOf(one).rpc);
  const found = await firstAnswering(urls);
  if (found !== undefined) return found;
  throw new AppError("CHAIN_UNREACHABLE", {
    message: `No node of the testnet in ${folder} answers: ${urls.join(", ")}.`,
    advice: `Start it with npx turnpike chain testnet start --home ${folder}, or name a node with --node.`,
  });
}

/**
 * The `turnpike up` that runs here, where no flag names another chain. A key of the caller's own never meets it: a folder that
 * was unpacked or cloned may hold names that lead to another's account.
 */
function upOf({ home, keyFile }: ChainClientFlags, cwd: string): ReturnType<typeof findUp> {
  const found = home === undefined ? findUp(cwd) : undefined;
  const isOwnKey = keyFile !== undefined && !resolve(cwd, keyFile).startsWith(`${found?.folder}${sep}`);
  return isOwnKey ? undefined : found;
}

/**
 * Address of the node: --node, else that of the node in --home (of a testnet's folder the first that answers), else of the
 * `turnpike up` that runs here (unless --key-file is from elsewhere), else of the node in `chain`, else the usual one.
 * @throws AppError CHAIN_UNREACHABLE when no node of a testnet answers, CHAIN_HOME when its file is none
 */
export async function nodeUrl(flags: ChainClientFlags, cwd = process.cwd()): Promise<string> {
  if (flags.node !== undefined) return flags.node;
  const found = upOf(flags, cwd);
  if (found !== undefined) return found.up.chain.rpc;
  const named = resolve(cwd, flags.home ?? DEFAULT_CHAIN_HOME);
  const running = await readJson(nodeFileOf(named));
  if (isRecord(running) && typeof running.rpc === "string") return running.rpc;
  return (await testnetNodeUrl(named)) ?? DEFAULT_NODE;
}

/** Asks a node. @throws AppError USAGE when the address is none; those of {@link nodeUrl} */
export async function openChainClient(flags: ChainClientFlags): Promise<ChainClient> {
  return new ChainClient({ url: await nodeUrl(flags) }, { clock: systemClock });
}

/**
 * Folder of the keys: of --home, else that of --key-file where it is in a folder `keys`, else of the `turnpike up` that runs
 * here (unless --key-file is from elsewhere), else of `turnpike chain init`. Names beside the key that signs are those of its chain.
 */
export function keysFolderOf(flags: ChainClientFlags, cwd = process.cwd()): string {
  const { home, keyFile } = flags;
  const beside = keyFile === undefined ? undefined : dirname(resolve(cwd, keyFile));
  if (home === undefined && beside !== undefined && basename(beside) === "keys") return beside;
  return join(resolve(home ?? upOf(flags, cwd)?.folder ?? DEFAULT_CHAIN_HOME), "keys");
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

async function keyIn(folder: string, name: string): Promise<ChainKey | undefined> {
  const file = join(folder, `${name}.json`);
  const key = keyOf(name, await readJson(file));
  return key === undefined ? undefined : { ...key, file };
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
    const key = await keyIn(folder, name);
    if (key !== undefined) found.set(name, key.address);
  }
  return found;
}

/**
 * A key's file: JSON as in the folder of the keys, or 64 hex digits.
 * @throws AppError USAGE, CONFIG_INVALID for one that other users can read
 */
export async function readKeyFile(file: string): Promise<ChainKey> {
  const sizeBytes = await stat(file).then(
    ({ size }) => size,
    () => undefined,
  );
  // Loaded when a file is named: the other commands do without it.
  const { readClosedFile } = await import("@turnpike/config");
  const isKeySized = sizeBytes !== undefined && sizeBytes <= MAX_KEY_BYTES;
  const text = isKeySized ? readClosedFile(file, "--key-file") : "";
  const name = basename(file, extname(file));
  const hex = hexToBytes(text.trim());
  const key = hex !== undefined && isPrivateKey(hex) ? keyOf(name, { privateKey: text.trim() }) : undefined;
  const found = key ?? keyOf(name, await readJson(file));
  if (found?.signer !== undefined) return { ...found, file: resolve(file) };
  throw new AppError("USAGE", {
    message: `--key-file ${redacted(file)} holds no private key; expected JSON with a privateKey of 64 hex digits, or those alone.`,
  });
}

/** An account by the name of its key, or by its address. @throws AppError USAGE, which names the keys that are there */
export async function findKey(wanted: string, flags: ChainClientFlags): Promise<ChainKey> {
  const folder = keysFolderOf(flags);
  if (addressToBytes(wanted) !== undefined) {
    for (const name of await keyNames(folder)) {
      const key = await keyIn(folder, name);
      if (key?.address === wanted) return key;
    }
    return { name: wanted, address: wanted };
  }
  const names = await keyNames(folder);
  const key = names.includes(wanted) ? await keyIn(folder, wanted) : undefined;
  if (key !== undefined) return key;
  const near = nearest(wanted, names);
  const fix =
    names.length === 0
      ? "there are none; name the folder above it with --home, or a key with --key-file"
      : near === undefined
        ? `there are ${names.slice(0, 20).join(", ")}`
        : `did you mean ${near}?`;
  throw new AppError("USAGE", {
    message: `${JSON.stringify(redacted(wanted))} is no address and no key of ${folder}: ${fix}.`,
  });
}
