/** Longest path or query string that is looked at, in characters. */
const MAX_LENGTH = 8_192;
const MAX_SEGMENTS = 64;
/** RFC 3986 `pchar`, at least one: raw spaces, quotes, braces, backslashes and non-ASCII have to be percent-encoded. */
const SEGMENT = /^(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})+$/;
/** C0, DEL and C1 control characters. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const STILL_ENCODED = /%[0-9A-Fa-f]{2}/;
const QUERY_UNSAFE = /[^A-Za-z0-9\-._~!$&'()*+,;=:@/?%]/gu;
const BAD_PERCENT = /%(?![0-9A-Fa-f]{2})/;

/** A part of a path that some server could take for "here" or "up", also with path parameters (`..;x`). */
function isDotPart(part: string): boolean {
  const name = part.split(";", 1)[0];
  return name === "." || name === "..";
}

/**
 * Splits a raw path into its decoded segments; undefined when it is malformed. It is decoded once and strictly: UTF-8
 * only; no dot segments in any encoding, no backslash, no control characters, no empty segments, nothing that a second
 * decoding would change. A segment may hold an encoded slash; only a template's value can match such a segment.
 */
export function parsePath(raw: string): readonly string[] | undefined {
  if (raw.length > MAX_LENGTH || !raw.startsWith("/")) return undefined;
  const segments = raw.slice(1).split("/");
  if (segments.length > MAX_SEGMENTS) return undefined;
  const decoded: string[] = [];
  for (const segment of segments) {
    if (!SEGMENT.test(segment)) return undefined;
    let text: string;
    try {
      text = decodeURIComponent(segment);
    } catch {
      return undefined;
    }
    if (CONTROL.test(text) || text.includes("\\") || STILL_ENCODED.test(text)) return undefined;
    if (text.split("/").some((part) => part === "" || isDotPart(part))) return undefined;
    decoded.push(text);
  }
  return decoded;
}

/** Whether an appended path (raw, without its query) is well-formed; `""` is. See {@link parsePath} for the rules. */
export function checkPath(raw: string): "ok" | "bad" {
  return raw === "" || parsePath(raw) !== undefined ? "ok" : "bad";
}

/** The one spelling in which decoded segments are sent to a back-end. */
export function formatPath(segments: readonly string[]): string {
  return segments
    .map((segment) => `/${encodeURIComponent(segment).replace(/%(?:3A|40|2B|2C|3D|24|26)/g, decodeURIComponent)}`)
    .join("");
}

/**
 * A query string as it is sent to a back-end: `""`, or `?` and its text with what a URL cannot hold percent-encoded
 * (people write `GET /tx_search?query="tx.height=5"`). Undefined when malformed.
 */
export function formatQuery(raw: string): string | undefined {
  if (raw === "" || raw === "?") return "";
  if (!raw.startsWith("?") || raw.length > MAX_LENGTH || !raw.isWellFormed()) return undefined;
  const text = raw.slice(1);
  if (CONTROL.test(text) || text.includes("#") || BAD_PERCENT.test(text)) return undefined;
  const query = `?${text.replace(QUERY_UNSAFE, encodeURIComponent)}`;
  return query.length > MAX_LENGTH ? undefined : query;
}
