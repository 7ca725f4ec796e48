import type { Extracted } from "../types.ts";
import { isoDate } from "./dates.ts";
import type { PageLimits } from "./limits.ts";
import { isTame } from "./readable.ts";
import { type Scan, scanHtml } from "./scan.ts";
import { languageOf, tidyText, tidyTitle, titleOfUrl } from "./text.ts";

/** Finds a page's main text; undefined when there is none to find. Gets and gives HTML. */
export type Reader = (html: string, hasBody: boolean) => string | undefined;

/** Less than this is a banner or a caption rather than a page's text. */
const MIN_MAIN_CHARS = 200;

/** Reads an HTML page. */
export function extractHtml(
  page: { readonly url: string; readonly modified: string | undefined },
  markup: string,
  reader: Reader,
  limits: PageLimits,
): Extracted {
  const html = closedTags(markup);
  const scan = scanHtml(html, page.url, limits);
  const text = tidyText(mainText(html, page.url, scan, reader, limits), limits.maxTextChars);
  const description = tidyText(scan.meta.get("description") ?? scan.meta.get("og:description") ?? "", 2_000);
  const named = tidyTitle(scan.meta.get("og:title") ?? "") || tidyTitle(scan.title) || tidyTitle(scan.firstHeading);
  const title = named || titleOfUrl(page.url);
  const content = text || description || (scan.links.length > 0 ? title : named);
  if (content === "") return { ok: false, reason: "empty" };
  const robots = new Set(scan.robots.flatMap((tag) => tag.toLowerCase().split(/[\s,]+/)));
  return {
    ok: true,
    title,
    text: content,
    language: scan.language ?? languageOf(scan.meta.get("content-language")),
    date: dateOf(scan) ?? isoDate(page.modified),
    links: scan.links,
    canonical: scan.canonical,
    noIndex: robots.has("noindex") || robots.has("none"),
    noFollow: robots.has("nofollow") || robots.has("none"),
  };
}

/**
 * The reader's choice, unless it left out most of what the page itself marks as its content: documentation often loses
 * whole sections so.
 */
function mainText(html: string, url: string, scan: Scan, reader: Reader, limits: PageLimits): string {
  const article = isTame(html, scan.size) ? reader(html, scan.hasBody) : undefined;
  const readable = article === undefined ? "" : scanHtml(article, url, { ...limits, maxLinks: 0 }).all;
  if (scan.main.length >= MIN_MAIN_CHARS && readable.length < scan.main.length * 0.7) return scan.main;
  if (readable.length >= MIN_MAIN_CHARS) return readable;
  return scan.main.length >= MIN_MAIN_CHARS ? scan.main : scan.body || scan.all;
}

/** Elements that XHTML may close in themselves, while HTML reads on until their end tag. */
function closedTags(markup: string): string {
  return markup.replace(
    /<(script|style|title|textarea|iframe|template|noscript|svg|a|div)(\s[^<>]{0,2048})?\/>/gi,
    "<$1$2></$1>",
  );
}

function dateOf(scan: Scan): string | undefined {
  const { meta } = scan;
  const candidates = [
    meta.get("article:published_time"),
    meta.get("datepublished"),
    ...scan.jsonLd.map((text) => jsonLdDate(text, "datePublished")),
    meta.get("dc.date"),
    meta.get("dcterms.date"),
    meta.get("date"),
    meta.get("article:modified_time"),
    meta.get("datemodified"),
    meta.get("og:updated_time"),
    ...scan.jsonLd.map((text) => jsonLdDate(text, "dateModified")),
    ...scan.times,
  ];
  for (const candidate of candidates) {
    const date = isoDate(candidate);
    if (date !== undefined) return date;
  }
  return undefined;
}

function jsonLdDate(text: string, key: string): string | undefined {
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    return undefined;
  }
  // What describes the page stands at the top, in a list, or in `@graph`; deeper are its parts and its neighbours.
  let level: unknown[] = [root];
  for (let depth = 0; depth < 3; depth++) {
    const next: unknown[] = [];
    for (const node of level) {
      if (Array.isArray(node)) next.push(...node.slice(0, 256));
      else if (typeof node === "object" && node !== null) {
        const value: unknown = Reflect.get(node, key);
        if (typeof value === "string") return value;
        if (Object.hasOwn(node, "@graph")) next.push(Reflect.get(node, "@graph"));
      }
    }
    level = next.slice(0, 1_024);
  }
  return undefined;
}
