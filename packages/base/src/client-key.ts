import { isIPv4 } from "node:net";
import { parseIp } from "./client-ip.ts";

const PREFIX_WORDS = 4;

/**
 * What a client is counted as: its IPv4 address, also when it is written as IPv4-mapped IPv6, or the /64 of its IPv6
 * address, since a /64 is what one subscriber usually has. Text that is no address is one client.
 */
export function clientKey(address: string): string {
  if (isIPv4(address)) return address;
  const ip = parseIp(address);
  if (ip === undefined) return "unknown";
  const { words } = ip;
  if (!ip.isV4)
    return `${words
      .slice(0, PREFIX_WORDS)
      .map((word) => word.toString(16))
      .join(":")}::/64`;
  const [high = 0, low = 0] = words.slice(6);
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
}
