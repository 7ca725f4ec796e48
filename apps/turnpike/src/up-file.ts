import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Address, isRecord } from "@turnpike/base";

/** What `.turnpike/up.json` holds while everything that `turnpike up` runs answers. */
export interface UpFile {
  readonly gateway: string;
  /** Relay hosts are `<service id>.<relayDomain>`. */
  readonly relayDomain: string;
  readonly metrics: string;
  readonly facilitator: string;
  /** The relay protocol's chain. */
  readonly chain: {
    readonly rpc: string;
    readonly rest: string;
    /** host:port */
    readonly grpc: string;
    readonly metrics: string;
    readonly chainId: string;
    /** Holds upokt; used by nothing else. */
    readonly faucet: { readonly address: string; readonly privateKey: string };
  };
  readonly settlement: {
    readonly rpc: string;
    readonly network: string;
    readonly asset: Address;
    readonly payTo: Address;
  };
  /** Holds tokens and gas; used by nothing else. */
  readonly buyer: { readonly address: Address; readonly privateKey: string };
  /** Ids of services that answer now. */
  readonly services: readonly string[];
  /** The management data API. */
  readonly db: string;
  /** Tokens of the management data API, for all accounts. They end a week after the start. */
  readonly dbTokens: { readonly admin: string; readonly reader: string };
  /** Web search, as the gateway's supplier of `search`. */
  readonly search: string;
}

/** What the buyer's commands read of it. */
export type BuyerFacts = Pick<UpFile, "gateway" | "settlement" | "buyer">;

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
const isAddress = (value: unknown): value is Address => isText(value) && /^0x[0-9a-fA-F]{40}$/.test(value);

/** Reads one `up.json`; undefined when it is not there or not one. */
export function readUpFile(file: string): BuyerFacts | undefined {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
  if (!isRecord(value) || !isText(value.gateway) || !isRecord(value.settlement) || !isRecord(value.buyer))
    return undefined;
  const { rpc, network, asset, payTo } = value.settlement;
  const { address, privateKey } = value.buyer;
  if (!isText(rpc) || !isText(network) || !isAddress(asset) || !isAddress(payTo)) return undefined;
  if (!isAddress(address) || !isText(privateKey)) return undefined;
  return { gateway: value.gateway, settlement: { rpc, network, asset, payTo }, buyer: { address, privateKey } };
}

/** An `up.json` and the state folder that it is in. */
interface FoundUp {
  readonly folder: string;
  readonly up: BuyerFacts;
}

function findUp(folder: string): FoundUp | undefined {
  let at = resolve(folder);
  for (;;) {
    const state = join(at, ".turnpike");
    const up = readUpFile(join(state, "up.json"));
    const above = dirname(at);
    if (up !== undefined) return { folder: state, up };
    if (above === at) return undefined;
    at = above;
  }
}

/** True when a `turnpike up` is at work in the folder, or in one above it, and what it runs does not answer yet. */
export async function isUpStarting(folder: string): Promise<boolean> {
  const { readPidFile } = await import("@turnpike/localnet");
  for (let at = resolve(folder); ; at = dirname(at)) {
    const holder = await readPidFile(join(at, ".turnpike", "up.lock"));
    if (holder !== undefined) return findUp(at) === undefined;
    if (at === dirname(at)) return false;
  }
}

/** The `up.json` of the folder, or of the nearest folder above it that has one. */
export function findUpFile(folder: string): BuyerFacts | undefined {
  return findUp(folder)?.up;
}

/** The state folder of the `turnpike up` that runs in the folder, or in the nearest one above it. */
export function findUpFolder(folder: string): string | undefined {
  return findUp(folder)?.folder;
}

/** The configuration of the `turnpike up` that runs in the folder, or in the nearest one above it. */
export function findUpConfig(folder: string): string | undefined {
  const found = findUp(folder);
  return found === undefined ? undefined : join(found.folder, "config", "local.yaml");
}
