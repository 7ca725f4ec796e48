import { BlockList, isIP } from "node:net";

/** IPv4 networks that are not of the public internet: IANA's special-purpose registry, multicast and reserved. */
const PRIVATE_IPV4: readonly (readonly [string, number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
];

/** Global unicast addresses that are none: IETF assignments with Teredo, documentation, 6to4. */
const PRIVATE_IPV6: readonly (readonly [string, number])[] = [
  ["2001::", 23],
  ["2001:db8::", 32],
  // 6to4 is no longer routed, and its addresses can hold a private one.
  ["2002::", 16],
  ["3fff::", 20],
];

/** Prefixes of 96 bits whose addresses hold an IPv4 address: mapped ones, and NAT64 of RFC 6052. */
const IPV4_IN_IPV6 = ["::ffff:", "64:ff9b::"] as const;

function privateNetworks(): BlockList {
  const list = new BlockList();
  for (const [network, bits] of PRIVATE_IPV4) {
    list.addSubnet(network, bits, "ipv4");
    for (const prefix of IPV4_IN_IPV6) list.addSubnet(`${prefix}${network}`, 96 + bits, "ipv6");
  }
  for (const [network, bits] of PRIVATE_IPV6) list.addSubnet(network, bits, "ipv6");
  return list;
}

function publicIpv6(): BlockList {
  const list = new BlockList();
  list.addSubnet("2000::", 3, "ipv6");
  for (const prefix of IPV4_IN_IPV6) list.addSubnet(`${prefix}0.0.0.0`, 96, "ipv6");
  return list;
}

const PRIVATE = privateNetworks();
// IPv6 is decided the other way round: what IANA has not given out as global unicast is refused.
const PUBLIC_IPV6 = publicIpv6();

/** True for an address of the public internet. Anything that is no address, or has a zone, is not. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !PRIVATE.check(address, "ipv4");
  if (family !== 6 || address.includes("%")) return false;
  return PUBLIC_IPV6.check(address, "ipv6") && !PRIVATE.check(address, "ipv6");
}
