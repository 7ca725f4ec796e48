import { Lexer, type Token, type Tokens } from "marked";
import type { Extracted, PageHeading } from "../types.ts";
import { resolveLink } from "./attributes.ts";
import { isoDate } from "./dates.ts";
import type { PageLimits } from "./limits.ts";
import { scanHtml } from "./scan.ts";
import { createSlugs } from "./slugs.ts";
import { cleanTitle, cutText, languageOf, tidyText, tidyTitle, titleOfUrl } from "./text.ts";
import { TextBuilder } from "./text-builder.ts";

/** Longer files are read as plain text: the parser's time grows faster than their length. */
const MAX_PARSED_CHARS = 1_000_000;
const MAX_NESTING = 64;
const MAX_HEADINGS = 2_000;

interface Reading {
  readonly url: string;
  readonly limits: PageLimits;
  readonly text: TextBuilder;
  readonly links: Set<string>;
  /** Title out of the first heading, and its depth. */
  heading: { readonly title: string; readonly depth: number } | undefined;
  /** Headings that stand by themselves, and where each begins in what was collected. */
  readonly headings: PageHeading[];
  readonly slugOf: (heading: string) => string;
}

/** Reads a Markdown file: its words, with code and tables, without link targets, images, comments and front matter. */
export function extractMarkdown(
  page: { readonly url: string; readonly modified: string | undefined },
  source: string,
  limits: PageLimits,
): Extracted {
  const { front, body } = frontMatter(source.replace(/\r\n?/g, "\n"));
  const reading = newReading(page.url, limits);
  const parsed = body.length <= MAX_PARSED_CHARS && parseInto(reading, withoutModules(page.url, body));
  const { text, headings } = parsed
    ? tidyParts(reading, limits.maxTextChars)
    : { text: tidyText(body, limits.maxTextChars), headings: [] };
  const heading = parsed ? reading.heading?.title : /^#{1,6}[ \t]([^\n]{1,300})/m.exec(body.slice(0, 65_536))?.[1];
  const title = cleanTitle(front.get("title") ?? "") || cleanTitle(heading ?? "");
  if (text === "" && title === "") return { ok: false, reason: "empty" };
  return {
    ok: true,
    title: title || titleOfUrl(page.url),
    text: text || title,
    language: languageOf(front.get("lang") ?? front.get("language")),
    date: isoDate(front.get("date")) ?? isoDate(page.modified),
    links: [...reading.links],
    canonical: undefined,
    noIndex: false,
    noFollow: false,
    headings,
  };
}

function newReading(url: string, limits: PageLimits): Reading {
  return {
    url,
    limits,
    text: new TextBuilder(limits.maxTextChars * 2),
    links: new Set(),
    heading: undefined,
    headings: [],
    slugOf: createSlugs(),
  };
}

/** Tidies what was collected from heading to heading, so that it stays known where each begins. */
function tidyParts(reading: Reading, maxChars: number): { text: string; headings: readonly PageHeading[] } {
  const raw = reading.text.toString();
  const headings: PageHeading[] = [];
  let text = tidyText(raw.slice(0, reading.headings[0]?.at), maxChars);
  for (const [index, heading] of reading.headings.entries()) {
    const part = tidyText(raw.slice(heading.at, reading.headings[index + 1]?.at), maxChars);
    const at = text === "" ? 0 : text.length + 1;
    if (at + part.length > maxChars)
      return { text: cutText(text === "" ? part : `${text}\n${part}`, maxChars), headings };
    text = text === "" || part === "" ? text + part : `${text}\n${part}`;
    headings.push({ ...heading, at: Math.min(at, text.length) });
  }
  return { text, headings };
}

function parseInto(reading: Reading, body: string): boolean {
  try {
    readTokens(reading, new Lexer({ gfm: true }).lex(body), 0);
    return true;
  } catch {
    // Nested too deeply for the parser.
    return false;
  }
}

function readTokens(reading: Reading, tokens: readonly Token[], depth: number): void {
  if (depth > MAX_NESTING) return;
  for (const token of tokens) readToken(reading, token, depth);
}

function readToken(reading: Reading, token: Token, depth: number): void {
  const { text } = reading;
  switch (token.type) {
    case "heading": {
      const heading = token as Tokens.Heading;
      const { mark, length: at } = text;
      text.endBlock();
      readTokens(reading, heading.tokens, depth + 1);
      const title = tidyTitle(text.since(mark));
      noteHeading(reading, title, heading.depth);
      if (depth === 0 && title !== "" && reading.headings.length < MAX_HEADINGS)
        reading.headings.push({ title: cleanTitle(title), slug: reading.slugOf(title), level: heading.depth, at });
      text.endBlock();
      return;
    }
    case "code":
      text.endBlock();
      text.add((token as Tokens.Code).text, true);
      text.endBlock();
      return;
    case "codespan":
      text.add((token as Tokens.Codespan).text, false);
      return;
    case "html":
      readHtml(reading, token as Tokens.HTML | Tokens.Tag);
      return;
    case "link": {
      const link = token as Tokens.Link;
      noteLink(reading, link.href);
      readTokens(reading, link.tokens, depth + 1);
      return;
    }
    case "list":
      for (const item of (token as Tokens.List).items) {
        text.endBlock();
        readTokens(reading, item.tokens, depth + 1);
      }
      text.endBlock();
      return;
    case "table": {
      const table = token as Tokens.Table;
      for (const row of [table.header, ...table.rows]) {
        text.endBlock();
        for (const cell of row) {
          text.endCell();
          readTokens(reading, cell.tokens, depth + 1);
        }
      }
      text.endBlock();
      return;
    }
    case "br":
      text.endBlock();
      return;
    case "escape":
      text.add((token as Tokens.Escape).text, false);
      return;
    case "image":
    case "def":
    case "space":
    case "hr":
    case "checkbox":
      return;
    default:
      readOther(reading, token, depth);
  }
}

function readOther(reading: Reading, token: Token, depth: number): void {
  const block = token.type === "paragraph" || token.type === "blockquote";
  if (block) reading.text.endBlock();
  if ("tokens" in token && token.tokens !== undefined) readTokens(reading, token.tokens, depth + 1);
  else if ("text" in token) reading.text.add(decodeEntities(reading, String(token.text)), false);
  if (block) reading.text.endBlock();
}

function decodeEntities(reading: Reading, text: string): string {
  if (!/&[#\w]/.test(text)) return text;
  // The scanner trims: blanks at the ends part words.
  const before = /^\s/.test(text) ? " " : "";
  const after = /\s$/.test(text) ? " " : "";
  const scan = scanHtml(text.replaceAll("<", "&lt;"), reading.url, { ...reading.limits, maxLinks: 0 });
  return before + scan.all + after;
}

function readHtml(reading: Reading, { raw, block }: Tokens.HTML | Tokens.Tag): void {
  // A single tag within a line, the commonest case.
  if (/^<\/?(?:a|b|i|em|strong|code|sup|sub|kbd|span|img)\b[^<>]*>$/i.test(raw) && !/href/i.test(raw)) return;
  const { text } = reading;
  const scan = scanHtml(raw, reading.url, {
    ...reading.limits,
    maxLinks: reading.limits.maxLinks - reading.links.size,
  });
  for (const link of scan.links) noteLink(reading, link);
  if (scan.firstHeading !== "") noteHeading(reading, scan.firstHeading, 1);
  const parted = block || /^<br/i.test(raw);
  if (parted) text.endBlock();
  if (scan.all !== "") text.add(scan.all, true);
  if (parted) text.endBlock();
}

function noteHeading(reading: Reading, written: string, depth: number): void {
  const title = tidyTitle(written);
  if (title !== "" && (reading.heading === undefined || (depth === 1 && reading.heading.depth > 1)))
    reading.heading = { title, depth };
}

function noteLink(reading: Reading, href: string): void {
  if (reading.links.size >= reading.limits.maxLinks || href.startsWith("#")) return;
  const link = resolveLink(href, reading.url);
  if (link !== undefined) reading.links.add(link);
}

/** Front matter in YAML or TOML: its plain `key: value` lines. */
function frontMatter(source: string): { front: ReadonlyMap<string, string>; body: string } {
  const front = new Map<string, string>();
  const fence = source.startsWith("---\n") ? "---" : source.startsWith("+++\n") ? "+++" : undefined;
  if (fence === undefined) return { front, body: source };
  const end = source.slice(0, 65_536).indexOf(`\n${fence}`, 3);
  const after = end < 0 ? undefined : source.indexOf("\n", end + 1);
  // Two rules around a text are no front matter.
  const lines = source.slice(4, Math.max(4, end)).split("\n");
  if (after === undefined || !lines.some((line) => /^[\w-]{1,64}[ \t]{0,8}[:=]/.test(line)))
    return { front, body: source };
  for (const line of lines) {
    const match = /^([\w-]{1,64})[ \t]{0,8}[:=](.{0,1000})$/.exec(line);
    if (match === null) continue;
    const value = (match[2] ?? "").trim().replace(/^(["'])(.*)\1$/, "$2");
    const key = (match[1] ?? "").toLowerCase();
    if (value !== "" && !front.has(key)) front.set(key, value);
  }
  return { front, body: after < 0 ? "" : source.slice(after + 1) };
}

/** MDX: its import and export lines outside of fences. */
function withoutModules(url: string, body: string): string {
  if (!URL.parse(url)?.pathname.toLowerCase().endsWith(".mdx")) return body;
  let fenced = false;
  const kept = body.split("\n").filter((line) => {
    if (/^\s{0,3}(?:```|~~~)/.test(line)) fenced = !fenced;
    return fenced || !/^(?:import|export)\s[^\n]{0,1000}(?:from|=|\{|["'])/.test(line);
  });
  return kept.join("\n");
}

/** Reads a text file; in reStructuredText without directives and the lines under headings. */
export function extractPlain(
  page: { readonly url: string; readonly modified: string | undefined },
  source: string,
  rst: boolean,
  limits: PageLimits,
): Extracted {
  const lines = cutText(source, limits.maxTextChars * 4)
    .replace(/\r\n?/g, "\n")
    .split("\n");
  let title: string | undefined;
  const kept = lines.filter((line, i) => {
    const below = lines[i + 1] ?? "";
    if (rst && isUnderline(line)) return false;
    if (rst && (line.startsWith(".. ") || /^ {2,}:[\w-]{1,40}:/.test(line))) return false;
    if (line.trim() !== "" && (!rst || isUnderline(below))) title ??= line;
    return true;
  });
  const text = tidyText(kept.join("\n"), limits.maxTextChars);
  if (text === "") return { ok: false, reason: "empty" };
  const named = tidyTitle(title ?? "");
  return {
    ok: true,
    title: named !== "" && named.length <= 150 ? named : titleOfUrl(page.url),
    text,
    language: undefined,
    date: isoDate(page.modified),
    links: [],
    canonical: undefined,
    noIndex: false,
    noFollow: false,
  };
}

function isUnderline(line: string): boolean {
  const [first = ""] = line;
  return line.length >= 3 && "=-~^\"'`#*+:._".includes(first) && line.trimEnd() === first.repeat(line.trimEnd().length);
}
