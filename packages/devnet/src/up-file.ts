import { closeSync, fstatSync, openSync, readFileSync, type Stats, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Address, isLoopbackUrl, isRecord, readPidFile } from "@turnpike/base";

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
    /** How long its sessions are. */
    readonly profile: "fast" | "slow";
    /** Holds upokt; used by nothing else. */
    readonly faucet: { readonly address: string; readonly privateKey: string };
  };
  /** Suppliers of the relay protocol that run here. */
  readonly suppliers: readonly {
    readonly operator: string;
    readonly owner: string;
    /** Of its relay server. */
    readonly url: string;
    readonly services: readonly string[];
    readonly metrics: string;
  }[];
  /** Applications that pay for the gateway's relays. */
  readonly applications: readonly { readonly address: string; readonly service: string }[];
  /** The gateway's account on the relay protocol's chain. */
  readonly gatewayAddress: string;
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

/** What the commands read of it. */
export type UpFacts = Pick<UpFile, "gateway" | "settlement" | "buyer"> & {
  readonly chain: Pick<UpFile["chain"], "rpc">;
};

/** An `up.json` and the state folder that it is in. */
interface FoundUp {
  readonly folder: string;
  readonly up: UpFacts;
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
const isAddress = (value: unknown): value is Address => isText(value) && /^0x[0-9a-fA-F]{40}$/.test(value);
const isLocal = (value: unknown): value is string => isText(value) && isLoopbackUrl(value);

/** False for what another account wrote or may write: it stands in a folder that anyone may have made. */
function isOwn({ uid, mode }: Stats, open: number): boolean {
  return process.getuid === undefined || (uid === process.getuid() && (mode & open) === 0);
}

/** The text of a file that this account owns and no other may read, in a folder that it owns too. */
function readOwn(folder: string, name: string): string | undefined {
  try {
    if (!isOwn(statSync(folder), 0o022)) return undefined;
    // Of the file that is open, whatever stands in its place meanwhile.
    const handle = openSync(join(folder, name), "r");
    try {
      return isOwn(fstatSync(handle), 0o077) ? readFileSync(handle, "utf8") : undefined;
    } finally {
      closeSync(handle);
    }
  } catch {
    return undefined;
  }
}

/**
 * Reads one `up.json`. Undefined when it is not there, not one, open to other accounts, or names an address of another
 * machine: a folder that was unpacked or cloned can hold one that `turnpike up` never wrote.
 */
function readUpFile(folder: string): UpFacts | undefined {
  let value: unknown;
  try {
    value = JSON.parse(readOwn(folder, "up.json") ?? "null");
  } catch {
    return undefined;
  }
  if (!isRecord(value) || !isRecord(value.settlement) || !isRecord(value.buyer) || !isRecord(value.chain))
    return undefined;
  const { gateway } = value;
  const { rpc, network, asset, payTo } = value.settlement;
  const { address, privateKey } = value.buyer;
  if (!isLocal(gateway) || !isLocal(rpc) || !isLocal(value.chain.rpc)) return undefined;
  if (!isText(network) || !isAddress(asset) || !isAddress(payTo)) return undefined;
  if (!isAddress(address) || !isText(privateKey)) return undefined;
  return {
    gateway,
    settlement: { rpc, network, asset, payTo },
    buyer: { address, privateKey },
    chain: { rpc: value.chain.rpc },
  };
}

/** The `turnpike up` that runs in the folder, or in the nearest one above it. */
export function findUp(folder: string): FoundUp | undefined {
  let at = resolve(folder);
  for (;;) {
    const state = join(at, ".turnpike");
    const up = readUpFile(state);
    const above = dirname(at);
    if (up !== undefined) return { folder: state, up };
    if (above === at) return undefined;
    at = above;
  }
}

/** True when a `turnpike up` is at work in the folder, or in one above it, and what it runs does not answer yet. */
export async function isUpStarting(folder: string): Promise<boolean> {
  for (let at = resolve(folder); ; at = dirname(at)) {
    const holder = await readPidFile(join(at, ".turnpike", "up.lock"));
    if (holder !== undefined) return findUp(at) === undefined;
    if (at === dirname(at)) return false;
  }
}

/** The configuration of the `turnpike up` that runs in the folder, or in the nearest one above it. */
export function findUpConfig(folder: string): string | undefined {
  const found = findUp(folder);
  return found === undefined ? undefined : join(found.folder, "config", "local.yaml");
}
