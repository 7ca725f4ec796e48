import { MAX_TITLE_CHARS } from "./limits.ts";

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it takes out
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;
// Soft hyphens and zero-width spaces part words that are one.
const INVISIBLE = /\u00ad|\u200b|\ufeff/g;

/** Plain text without control characters, runs of blanks and empty lines; at most `maxChars` long. */
export function tidyText(text: string, maxChars: number): string {
  // A first cut, so that a long text is not worked through for nothing; blanks may make up half of it.
  const rough = text.length > maxChars * 2 ? text.slice(0, maxChars * 2) : text;
  const tidy = rough
    .toWellFormed()
    .replace(/\r\n?/g, "\n")
    .replace(CONTROLS, " ")
    .replace(INVISIBLE, "")
    .replace(/[^\S\n]+/g, " ")
    .replace(/ ?\n[ \n]*/g, "\n")
    .trim();
  return cutText(tidy, maxChars);
}

/** The first `maxChars` of a text, not ending in half a character. */
export function cutText(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const last = text.charCodeAt(maxChars - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? maxChars - 1 : maxChars).trimEnd();
}

/** One line of at most {@link MAX_TITLE_CHARS}. */
export function tidyTitle(text: string): string {
  return tidyText(text.slice(0, MAX_TITLE_CHARS * 4), MAX_TITLE_CHARS * 4)
    .replace(/\n/g, " ")
    .slice(0, MAX_TITLE_CHARS)
    .toWellFormed()
    .trim();
}

const DECORATION = /[\s•·∙|–—]/;

function withoutDecoration(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && DECORATION.test(text.charAt(start))) start++;
  while (start < end && DECORATION.test(text.charAt(end - 1))) end--;
  return text.slice(start, end);
}

/** A title without what only decorates it: shortcodes of emoji, and bullets and rules at its ends. */
export function cleanTitle(text: string): string {
  const title = tidyTitle(text);
  const plain = withoutDecoration(title.replace(/(^|\s):[a-z0-9_+-]{1,40}:(?=\s|$)/g, "$1")).replace(/\s+/g, " ");
  return plain === "" ? title : plain;
}

/** A title out of an address: the file's name, else the host. */
export function titleOfUrl(url: string): string {
  const parsed = URL.parse(url);
  if (parsed === null) return tidyTitle(url);
  const name = parsed.pathname.split("/").findLast((part) => part !== "");
  if (name === undefined) return parsed.host;
  return tidyTitle(decodeSegment(name)) || parsed.host;
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** ISO 639-1 code of a language tag (`en-US` is `en`); undefined when it has none. */
export function languageOf(tag: string | undefined): string | undefined {
  const [primary] = (tag ?? "")
    .trim()
    .toLowerCase()
    .split(/[-_,;\s]/, 1);
  return primary !== undefined && /^[a-z]{2}$/.test(primary) ? primary : undefined;
}
