import { AppError } from "./errors.ts";

/** An address as eight 16-bit words; IPv4 and IPv4-mapped IPv6 are `::ffff:a.b.c.d`. */
export interface Ip {
  readonly isV4: boolean;
  readonly words: readonly number[];
}

interface Block extends Ip {
  /** Bits that must be alike, counted in the 128 of `words`. */
  readonly bits: number;
}

const PART = "(0|[1-9]\\d{0,2})";
// Without leading zeros, which some read as octal.
const V4 = new RegExp(`^${[PART, PART, PART, PART].join("\\.")}$`);
const WORD = /^[0-9a-f]{1,4}$/i;
const MAPPED_BITS = 96;

function parseV4(text: string): readonly [number, number] | undefined {
  const found = V4.exec(text);
  if (found === null) return undefined;
  const [a = 256, b = 256, c = 256, d = 256] = found.slice(1).map(Number);
  return a > 255 || b > 255 || c > 255 || d > 255 ? undefined : [a * 256 + b, c * 256 + d];
}

function parseWords(text: string): number[] | undefined {
  if (text === "") return [];
  const parts = text.split(":");
  const words: number[] = [];
  for (const [at, part] of parts.entries()) {
    const v4 = at === parts.length - 1 ? parseV4(part) : undefined;
    if (v4 !== undefined) for (const word of v4) words.push(word);
    else if (WORD.test(part)) words.push(Number.parseInt(part, 16));
    else return undefined;
  }
  return words;
}

/** Reads an IPv4 or IPv6 address (RFC 4291 §2.2), with or without a zone; undefined for anything else. */
export function parseIp(text: string): Ip | undefined {
  const v4 = parseV4(text);
  if (v4 !== undefined) return { isV4: true, words: [0, 0, 0, 0, 0, 0xffff, ...v4] };
  if (text.length > 64) return undefined;
  const zone = text.indexOf("%");
  const [left = "", right, more] = (zone === -1 ? text : text.slice(0, zone)).split("::");
  if (more !== undefined) return undefined;
  const head = parseWords(left);
  const tail = right === undefined ? [] : parseWords(right);
  if (head === undefined || tail === undefined) return undefined;
  const gap = 8 - head.length - tail.length;
  if (right === undefined ? gap !== 0 : gap < 1) return undefined;
  const words = [...head, ...Array.from({ length: gap }, () => 0), ...tail];
  return { isV4: words[5] === 0xffff && words.slice(0, 5).every((word) => word === 0), words };
}

/** Reads an address or a CIDR block. */
function parseBlock(text: string): Block | undefined {
  const slash = text.indexOf("/");
  const ip = parseIp(slash === -1 ? text : text.slice(0, slash));
  if (ip === undefined) return undefined;
  // `10.0.0.0/8` counts the bits of IPv4, `::ffff:10.0.0.0/104` those of IPv6.
  const base = ip.isV4 && !text.includes(":") ? MAPPED_BITS : 0;
  if (slash === -1) return { ...ip, bits: 128 };
  const length = text.slice(slash + 1);
  if (!/^\d{1,3}$/.test(length)) return undefined;
  const bits = base + Number(length);
  if (bits > 128) return undefined;
  return { ...ip, isV4: ip.isV4 && bits >= MAPPED_BITS, bits };
}

function parseBlocks(trustedProxies: readonly string[]): readonly Block[] {
  return trustedProxies.map((text) => {
    const block = parseBlock(text);
    if (block !== undefined) return block;
    throw new AppError("CONFIG_INVALID", {
      message: `gateway.trustedProxies: ${JSON.stringify(text)} is neither an IP address nor a CIDR block.`,
    });
  });
}

function contains(block: Block, ip: Ip): boolean {
  // A short block of IPv6 is not meant for IPv4 clients, whose mapped form lies in `::/0` too.
  if (block.isV4 !== ip.isV4) return false;
  let left = block.bits;
  for (let at = 0; left > 0; at++, left -= 16) {
    const shift = left >= 16 ? 0 : 16 - left;
    if ((block.words[at] ?? 0) >> shift !== (ip.words[at] ?? 0) >> shift) return false;
  }
  return true;
}

/** One entry of X-Forwarded-For: an address, which some proxies write with a port. */
function parseHop(text: string): { readonly text: string; readonly ip: Ip } | undefined {
  const bare = text.startsWith("[")
    ? /^\[([^\]]+)\](?::\d{1,5})?$/.exec(text)?.[1]
    : (/^([\d.]+):\d{1,5}$/.exec(text)?.[1] ?? text);
  const ip = bare === undefined ? undefined : parseIp(bare);
  return bare === undefined || ip === undefined ? undefined : { text: bare, ip };
}

/** The network that an address is in, for logs: /24 of IPv4, /64 of IPv6; empty for text that is no address. */
export function truncateIp(text: string): string {
  const ip = parseIp(text);
  if (ip === undefined) return "";
  const { isV4, words } = ip;
  if (!isV4)
    return `${words
      .slice(0, 4)
      .map((word) => word.toString(16))
      .join(":")}::/64`;
  const [high = 0, low = 0] = words.slice(6);
  return `${high >> 8}.${high & 255}.${low >> 8}.0/24`;
}

/**
 * Checks whether an address is a trusted proxy's.
 * @throws AppError CONFIG_INVALID when an entry is neither an address nor a CIDR block.
 */
export function createProxyCheck(trustedProxies: readonly string[]): (address: string) => boolean {
  const blocks = parseBlocks(trustedProxies);
  if (blocks.length === 0) return () => false;
  return (address) => {
    const ip = parseIp(address);
    return ip !== undefined && blocks.some((block) => contains(block, ip));
  };
}

/** What {@link ClientIpOf} looks at: a request of `node:http`, or one like it. */
export interface ClientIpSource {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** Returns the address of the client that a request is from. */
export type ClientIpOf = (req: ClientIpSource) => string;

/**
 * The client's address: the connection's own or, when that is a trusted proxy, the first one from the right in
 * X-Forwarded-For that is not a trusted proxy. Everything left of it is the client's own word. At text that is no
 * address the walk ends, and the proxy that passed it on counts as the client.
 * @throws AppError CONFIG_INVALID when an entry is neither an address nor a CIDR block.
 */
export function createClientIp(trustedProxies: readonly string[]): ClientIpOf {
  const blocks = parseBlocks(trustedProxies);
  if (blocks.length === 0) return ({ socket }) => socket.remoteAddress ?? "";
  const isTrusted = (ip: Ip): boolean => blocks.some((block) => contains(block, ip));

  return ({ headers, socket }) => {
    const peer = socket.remoteAddress ?? "";
    const peerIp = parseIp(peer);
    const header = headers["x-forwarded-for"];
    if (header === undefined || peerIp === undefined || !isTrusted(peerIp)) return peer;
    // Node gives several lines of this header as one text.
    const hops = String(header).split(",");
    let client = peer;
    for (let at = hops.length - 1; at >= 0; at--) {
      const hop = parseHop((hops[at] ?? "").trim());
      if (hop === undefined) return client;
      client = hop.text;
      if (!isTrusted(hop.ip)) return client;
    }
    return client;
  };
}
