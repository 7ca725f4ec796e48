import { isIPv4 } from "node:net";
import { parseIp } from "./client-ip.ts";

const PREFIX_WORDS = 4;
const SITE_WORDS = 3;
const PREFIX_SUFFIX = "::/64";
/** Shares of a client that all clients of one site have together. */
const SITE_SHARES = 4;

/**
 * What a client is counted as: its IPv4 address, also when it is written as IPv4-mapped IPv6, or the /64 of its IPv6
 * address, since a /64 is what one subscriber usually has. Text that is no address is one client.
 */
export function clientKey(address: string): string {
  if (isIPv4(address)) return address;
  const ip = parseIp(address);
  if (ip === undefined) return "unknown";
  const { words } = ip;
  if (!ip.isV4) return hexWords(words.slice(0, PREFIX_WORDS)).join(":") + PREFIX_SUFFIX;
  const [high = 0, low = 0] = words.slice(6);
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
}

/** A name that a client is counted by, and how many times a client's share it has. */
export interface CountedName {
  readonly name: string;
  readonly shares: number;
}

/**
 * Names that a client is counted by: its {@link clientKey}, and for IPv6 its /48 as well, since a site has one for the asking, with
 * 65,536 /64s. Other text is counted by itself.
 */
export function clientKeys(key: string): readonly CountedName[] {
  const client = { name: key, shares: 1 };
  if (!key.endsWith(PREFIX_SUFFIX)) return [client];
  const site = key.slice(0, -PREFIX_SUFFIX.length).split(":").slice(0, SITE_WORDS).join(":");
  return [client, { name: `${site}::/48`, shares: SITE_SHARES }];
}

function hexWords(words: readonly number[]): readonly string[] {
  return words.map((word) => word.toString(16));
}
