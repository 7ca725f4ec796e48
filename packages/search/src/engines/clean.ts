import { Parser } from "htmlparser2";

/** Longest title, in characters. */
export const MAX_TITLE_CHARS = 300;
/** Longest snippet, in characters. */
export const MAX_SNIPPET_CHARS = 1_000;
/** Longest URL, in characters. */
const MAX_URL_CHARS = 2_048;

/** So much of a text is looked at, for each character that may be kept. */
const READ_FACTOR = 8;
/** Controls (C0, DEL, C1), byte order marks, and marks that turn the direction of the text around them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]+/g;
const SPACES = /\s+/g;
/** Elements whose text is not for reading. */
const UNREAD = new Set(["script", "style", "template", "noscript", "iframe", "object", "svg", "head"]);
/** Names of HTML elements: `Promise<string>` in a text about code is none. */
const TAG =
  /<\/?(?:a|abbr|article|aside|b|blockquote|body|br|button|cite|code|dd|del|div|dl|dt|em|embed|figure|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|kbd|li|link|main|mark|meta|nav|object|ol|p|pre|q|s|samp|script|section|small|span|strike|strong|style|sub|sup|svg|table|tbody|td|textarea|tfoot|th|thead|title|tr|u|ul|var|video)(?:\s[^<>]*)?\/?>/gi;

/** Plain text on one line, without control characters, cut at a word where it is too long. Not text: `""`. */
export function cleanText(value: unknown, maxChars: number): string {
  if (typeof value !== "string") return "";
  const text = value
    .slice(0, maxChars * READ_FACTOR)
    .toWellFormed()
    .replaceAll(CONTROLS, " ")
    .replaceAll(SPACES, " ")
    .trim();
  if (text.length <= maxChars) return text;
  const cut = text.slice(0, maxChars - 1);
  const space = cut.lastIndexOf(" ");
  // Half of a surrogate pair may stand at the cut.
  const kept = (space > maxChars * 0.6 ? cut.slice(0, space) : cut).replace(/[\ud800-\udbff]$/, "");
  return `${kept.trimEnd()}…`;
}

/** Takes the tags of HTML out of a text that is plain otherwise. */
export function withoutTags(value: unknown, maxChars: number): string {
  if (typeof value !== "string") return "";
  return value.slice(0, maxChars * READ_FACTOR).replaceAll(TAG, " ");
}

/** The text of a piece of HTML. */
export function htmlText(value: unknown, maxChars: number): string {
  if (typeof value !== "string") return "";
  const parts: string[] = [];
  let unread = 0;
  const parser = new Parser(
    {
      onopentagname: (name) => {
        if (UNREAD.has(name)) unread += 1;
      },
      ontext: (text) => {
        if (unread === 0) parts.push(text);
      },
      onclosetag: (name) => {
        if (UNREAD.has(name)) unread -= 1;
      },
    },
    { decodeEntities: true },
  );
  parser.end(value.slice(0, maxChars * READ_FACTOR));
  // What stood there as entities is a tag now.
  return withoutTags(parts.join(""), maxChars);
}

/** An absolute `http:` or `https:` URL as it may be shown; undefined for anything else. */
export function cleanUrl(value: unknown): string | undefined {
  if (typeof value !== "string" || value.length > MAX_URL_CHARS || !URL.canParse(value)) return undefined;
  const url = new URL(value);
  if (url.protocol !== "http:" && url.protocol !== "https:") return undefined;
  // `https://bank.example@evil.example/` reads as what it is not.
  if (url.hostname === "" || url.username !== "" || url.password !== "") return undefined;
  return url.href.length > MAX_URL_CHARS ? undefined : url.href;
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const INSTANT = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2})?)(?:[.,]\d{1,9})?\s?(Z|[+-]\d{2}:?\d{2})?$/i;
/** RFC 5322 §3.3, as HTTP and feeds write it. */
const MAIL = /^(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}(?::\d{2})? (?:GMT|UTC?|Z|[+-]\d{4})$/;

function instantOf(text: string): string | undefined {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}

/** A day or an instant in ISO 8601; an instant without a zone is taken as UTC. Undefined for anything else. */
export function cleanDate(value: unknown): string | undefined {
  if (typeof value !== "string" || value.length > 64) return undefined;
  const text = value.trim();
  if (DAY.test(text)) return instantOf(`${text}T00:00:00Z`)?.startsWith(text) === true ? text : undefined;
  const [, day = "", time = "", zone = "Z"] = INSTANT.exec(text) ?? [];
  if (day !== "") {
    if (cleanDate(day) === undefined) return undefined;
    return instantOf(`${day}T${time}${zone.replace(/^([+-]\d{2})(\d{2})$/, "$1:$2").toUpperCase()}`);
  }
  return MAIL.test(text) ? instantOf(text) : undefined;
}

/** A query as a hosted engine takes it: one line of at most so many characters and words. `""`: nothing is left. */
export function hostedQuery(query: string, maxChars: number, maxWords = Number.POSITIVE_INFINITY): string {
  const words = query.toWellFormed().replaceAll(CONTROLS, " ").trim().split(/\s+/);
  const text = words.slice(0, maxWords).join(" ").slice(0, maxChars);
  return text.replace(/[\ud800-\udbff]$/, "").trim();
}
