import { isPrivateHost } from "@turnpike/base";
import type { FetchFault } from "./types.ts";

/** Longest URL that is fetched, in characters. */
const MAX_URL_LENGTH = 2_048;

/**
 * Ports that are never asked: the "bad ports" of the WHATWG Fetch standard, and those of databases whose line protocols
 * could take a request for commands.
 */
const BAD_PORTS: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 445, 873, 1433, 1521, 3306, 3389, 5432, 6379, 11211,
]);

/** Which private origins may be fetched: all, none, or those named. */
export type PrivateRule = boolean | readonly string[];

/** True when this origin may have a private address. */
export function mayBePrivate(rule: PrivateRule, origin: string): boolean {
  return typeof rule === "boolean" ? rule : rule.includes(origin);
}

/** A URL that may be asked, as far as it shows before its name is resolved. */
export type TargetCheck =
  | { readonly ok: true; readonly url: URL }
  | { readonly ok: false; readonly reason: FetchFault };

/** Reads and checks a URL. `URL` converts every spelling of an IPv4 address (decimal, octal, hex, short) to the usual one. */
export function checkTarget(text: string, base: string | undefined, allowPrivate: PrivateRule): TargetCheck {
  const url = text.length > MAX_URL_LENGTH ? null : URL.parse(text, base);
  if (url === null || url.href.length > MAX_URL_LENGTH) return { ok: false, reason: "bad_url" };
  if (url.protocol !== "http:" && url.protocol !== "https:") return { ok: false, reason: "scheme" };
  if (url.username !== "" || url.password !== "") return { ok: false, reason: "credentials" };
  if (url.port !== "" && BAD_PORTS.has(Number(url.port))) return { ok: false, reason: "port" };
  if (isPrivateHost(url.hostname) && !mayBePrivate(allowPrivate, url.origin)) {
    return { ok: false, reason: "private_address" };
  }
  url.hash = "";
  return { ok: true, url };
}
