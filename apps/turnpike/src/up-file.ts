import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Address, isRecord } from "@turnpike/base";

/** What the buyer's commands read of `.turnpike/up.json`, which a running `turnpike up` writes. */
export interface UpFile {
  readonly gateway: string;
  readonly settlement: {
    readonly rpc: string;
    readonly network: string;
    readonly asset: Address;
    readonly payTo: Address;
  };
  readonly buyer: { readonly address: Address; readonly privateKey: string };
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
const isAddress = (value: unknown): value is Address => isText(value) && /^0x[0-9a-fA-F]{40}$/.test(value);

/** Reads one `up.json`; undefined when it is not there or not one. */
export function readUpFile(file: string): UpFile | undefined {
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

/** The `up.json` of the folder, or of the nearest folder above it that has one. */
export function findUpFile(folder: string): UpFile | undefined {
  let at = resolve(folder);
  for (;;) {
    const found = readUpFile(join(at, ".turnpike", "up.json"));
    const above = dirname(at);
    if (found !== undefined || above === at) return found;
    at = above;
  }
}
