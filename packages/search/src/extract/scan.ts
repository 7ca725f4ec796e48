import { Tokenizer } from "htmlparser2";
import { isSkipped, resolveLink, words } from "./attributes.ts";
import type { PageLimits } from "./limits.ts";
import { BLOCKS, CELLS, CHROME, LOOSE, SKIPPED, VOID } from "./tags.ts";
import { languageOf } from "./text.ts";
import { TextBuilder } from "./text-builder.ts";

const MAX_ATTRIBUTES = 64;
const MAX_VALUE_CHARS = 8_192;
const MAX_JSON_LD = 8;
const MAX_JSON_LD_CHARS = 262_144;
const MAX_HEADING_CHARS = 2_000;
const ESCAPED: ReadonlySet<string> = new Set(["&", "<", ">", "\u00a0"]);

/** What one pass over a page's tokens finds. */
export interface Scan {
  /** Text of all that is visible. */
  readonly all: string;
  /** The same without navigation, asides and footers. */
  readonly body: string;
  /** Text within `main`, `article` and their roles. */
  readonly main: string;
  readonly title: string;
  readonly firstHeading: string;
  readonly language: string | undefined;
  /** Meta tags by lower-case name, property, itemprop or http-equiv, the first of each. */
  readonly meta: ReadonlyMap<string, string>;
  /** Every robots tag that is meant for us. */
  readonly robots: readonly string[];
  readonly times: readonly string[];
  readonly jsonLd: readonly string[];
  readonly links: readonly string[];
  readonly canonical: string | undefined;
  /** How much a parser that builds a tree would have to do. */
  readonly size: {
    /** Tags, entities and stretches of text. */
    readonly pieces: number;
    readonly chars: number;
    readonly depth: number;
    /** Most of one tag. */
    readonly attributes: number;
  };
  readonly hasBody: boolean;
}

/** Name under which pages may speak to this crawler in their robots tags. */
const OWN_ROBOT = "turnpikebot";

/**
 * Reads a page's tokens once, without building a tree: time grows with the length alone, whatever the page holds.
 * `baseUrl` resolves links.
 */
export function scanHtml(html: string, baseUrl: string, limits: PageLimits): Scan {
  const scanner = new Scanner(html, baseUrl, limits);
  return scanner.run();
}

/** Characters of a text that become entities, and so pieces of their own, when a tree is written and read again. */
function escapedIn(text: string): number {
  let count = 0;
  // A single one was an entity already.
  if (text.length > 1) for (const char of text) if (ESCAPED.has(char)) count++;
  return count;
}

class Scanner {
  readonly #html: string;
  readonly #limits: PageLimits;
  readonly #all: TextBuilder;
  readonly #body: TextBuilder;
  readonly #main: TextBuilder;
  readonly #title = new TextBuilder(MAX_HEADING_CHARS);
  readonly #heading = new TextBuilder(MAX_HEADING_CHARS);
  readonly #meta = new Map<string, string>();
  readonly #robots: string[] = [];
  readonly #times: string[] = [];
  readonly #jsonLd: string[] = [];
  readonly #links = new Set<string>();
  readonly #open = new Map<string, number>();
  #base: string;
  #hasBase = false;
  #canonical: string | undefined;
  #language: string | undefined;
  #pieces = 0;
  #chars = 0;
  #depth = 0;
  #deepest = 0;
  #mostAttributes = 0;
  #chrome = 0;
  #mains = 0;
  #mainTag: string | undefined;
  #inTitle: "no" | "now" | "done" = "no";
  #inHeading: "no" | "now" | "done" = "no";
  #skip: { readonly name: string; depth: number; readonly jsonLd: boolean; readonly hidden: boolean } | undefined;
  #script = "";
  #name = "";
  #attributes = new Map<string, string>();
  #attributeCount = 0;
  #attribute: string | undefined;
  #value = "";

  constructor(html: string, baseUrl: string, limits: PageLimits) {
    this.#html = html;
    this.#base = baseUrl;
    this.#limits = limits;
    this.#all = new TextBuilder(limits.maxTextChars);
    this.#body = new TextBuilder(limits.maxTextChars);
    this.#main = new TextBuilder(limits.maxTextChars);
  }

  run(): Scan {
    const ignore = () => {};
    const tokenizer = new Tokenizer(
      { xmlMode: false, decodeEntities: true },
      {
        onopentagname: (start, end) => this.#begin(this.#slice(start, end).toLowerCase()),
        onattribname: (start, end) => this.#startAttribute(start, end),
        onattribdata: (start, end) => this.#addValue(start, end),
        onattribentity: (point) => this.#addValueText(String.fromCodePoint(point)),
        onattribend: () => this.#endAttribute(),
        onopentagend: () => this.#opened(),
        onselfclosingtag: () => this.#opened(),
        onclosetag: (start, end) => this.#closed(this.#slice(start, end).trim().toLowerCase()),
        ontext: (start, end) => this.#text(this.#slice(start, end)),
        ontextentity: (point) => this.#text(String.fromCodePoint(point)),
        oncdata: ignore,
        oncomment: ignore,
        ondeclaration: ignore,
        onprocessinginstruction: ignore,
        onend: ignore,
      },
    );
    tokenizer.write(this.#html);
    tokenizer.end();
    return {
      all: this.#all.toString(),
      body: this.#body.toString(),
      main: this.#main.toString(),
      title: this.#title.toString(),
      firstHeading: this.#heading.toString(),
      language: this.#language,
      meta: this.#meta,
      robots: this.#robots,
      times: this.#times,
      jsonLd: this.#jsonLd,
      links: [...this.#links],
      canonical: this.#canonical,
      size: { pieces: this.#pieces, chars: this.#chars, depth: this.#deepest, attributes: this.#mostAttributes },
      hasBody: this.#open.has("body"),
    };
  }

  #slice(start: number, end: number): string {
    return this.#html.slice(start, end);
  }

  #begin(name: string): void {
    // A name kilobytes long is no element's.
    this.#name = name.length > 64 ? "" : name;
    this.#attributes = new Map();
    this.#attributeCount = 0;
  }

  #startAttribute(start: number, end: number): void {
    this.#attributeCount++;
    const wanted = this.#attributes.size < MAX_ATTRIBUTES && end - start <= 64;
    const name = wanted ? this.#slice(start, end).toLowerCase() : undefined;
    this.#attribute = name !== undefined && this.#attributes.has(name) ? undefined : name;
    this.#value = "";
  }

  #addValue(start: number, end: number): void {
    if (this.#attribute !== undefined) this.#addValueText(this.#slice(start, Math.min(end, start + MAX_VALUE_CHARS)));
  }

  #addValueText(text: string): void {
    if (this.#attribute !== undefined && this.#value.length < MAX_VALUE_CHARS) this.#value += text;
  }

  #endAttribute(): void {
    if (this.#attribute !== undefined) this.#attributes.set(this.#attribute, this.#value);
    this.#attribute = undefined;
  }

  #opened(): void {
    const name = this.#name;
    const attributes = this.#attributes;
    this.#pieces++;
    this.#mostAttributes = Math.max(this.#mostAttributes, this.#attributeCount);
    if (!VOID.has(name) && !LOOSE.has(name)) {
      this.#depth++;
      this.#deepest = Math.max(this.#deepest, this.#depth);
    }
    if (this.#skip !== undefined) {
      if (this.#skip.name === name) this.#skip.depth++;
      // Menus are hidden until they are opened: their links count, their text does not.
      if (this.#skip.hidden && name === "a") this.#noteLink(attributes.get("href"), attributes.get("rel"));
      return;
    }
    this.#note(name, attributes);
    if (isSkipped(name, attributes)) {
      const jsonLd = name === "script" && attributes.get("type")?.trim().toLowerCase() === "application/ld+json";
      this.#skip = { name, depth: 1, jsonLd, hidden: !SKIPPED.has(name) };
      this.#script = "";
      this.#break(name);
      return;
    }
    this.#break(name);
    if (name === "title" && this.#inTitle === "no") this.#inTitle = "now";
    if (name === "h1" && this.#inHeading === "no") this.#inHeading = "now";
    if (VOID.has(name)) return;
    this.#open.set(name, (this.#open.get(name) ?? 0) + 1);
    if (CHROME.has(name)) this.#chrome++;
    const role = attributes.get("role");
    if (name === "main" || name === "article" || role === "main" || role === "article") {
      if (this.#mainTag === undefined) {
        this.#mainTag = name;
        this.#mains = 0;
      }
    }
    if (name === this.#mainTag) this.#mains++;
  }

  #closed(name: string): void {
    this.#pieces++;
    if (!VOID.has(name) && !LOOSE.has(name) && this.#depth > 0) this.#depth--;
    const skip = this.#skip;
    if (skip !== undefined) {
      if (skip.name !== name || --skip.depth > 0) return;
      this.#skip = undefined;
      if (skip.jsonLd && this.#jsonLd.length < MAX_JSON_LD && this.#script.length < MAX_JSON_LD_CHARS)
        this.#jsonLd.push(this.#script);
      return;
    }
    this.#break(name);
    if (name === "title" && this.#inTitle === "now") this.#inTitle = "done";
    if (name === "h1" && this.#inHeading === "now") this.#inHeading = this.#heading.length > 0 ? "done" : "no";
    const open = this.#open.get(name) ?? 0;
    if (open === 0) return;
    this.#open.set(name, open - 1);
    if (CHROME.has(name)) this.#chrome--;
    if (name === this.#mainTag && --this.#mains === 0) this.#mainTag = undefined;
  }

  #text(text: string): void {
    this.#pieces += 1 + escapedIn(text);
    if (this.#skip !== undefined) {
      if (this.#skip.jsonLd && this.#script.length < MAX_JSON_LD_CHARS) this.#script += text;
      return;
    }
    this.#chars += text.length;
    if (this.#inTitle === "now") {
      this.#title.add(text, false);
      return;
    }
    if (this.#inHeading === "now") this.#heading.add(text, false);
    const keepLines = (this.#open.get("pre") ?? 0) > 0 || (this.#open.get("textarea") ?? 0) > 0;
    this.#all.add(text, keepLines);
    if (this.#chrome > 0) return;
    this.#body.add(text, keepLines);
    if (this.#mainTag !== undefined) this.#main.add(text, keepLines);
  }

  #break(name: string): void {
    if (BLOCKS.has(name)) for (const text of [this.#all, this.#body, this.#main]) text.endBlock();
    else if (CELLS.has(name)) for (const text of [this.#all, this.#body, this.#main]) text.endCell();
  }

  #note(name: string, attributes: ReadonlyMap<string, string>): void {
    if (name === "html") this.#language ??= languageOf(attributes.get("lang") ?? attributes.get("xml:lang"));
    else if (name === "meta") this.#noteMeta(attributes);
    else if (name === "base") this.#noteBase(attributes.get("href"));
    else if (name === "a" || name === "area") this.#noteLink(attributes.get("href"), attributes.get("rel"));
    else if (name === "link" && words(attributes.get("rel")).includes("canonical"))
      this.#canonical ??= this.#resolve(attributes.get("href"));
    else if (name === "time") {
      const at = attributes.get("datetime");
      if (at !== undefined && this.#times.length < 64) this.#times.push(at);
    }
    const published = attributes.get("itemprop");
    const at = attributes.get("content") ?? attributes.get("datetime");
    if (name !== "meta" && published !== undefined && at !== undefined) this.#setMeta(published, at);
  }

  #noteMeta(attributes: ReadonlyMap<string, string>): void {
    const content = attributes.get("content");
    if (content === undefined) return;
    for (const key of ["name", "property", "itemprop", "http-equiv"]) {
      const value = attributes.get(key)?.trim().toLowerCase();
      if (value === undefined || value === "") continue;
      if (key === "name" && (value === "robots" || value === OWN_ROBOT) && this.#robots.length < 64)
        this.#robots.push(content);
      this.#setMeta(value, content);
    }
    if (attributes.get("http-equiv")?.trim().toLowerCase() !== "refresh") return;
    this.#noteLink(/^[\d.\s]{0,32}[;,]\s{0,32}url\s{0,8}=\s{0,8}["']?([^"']{1,2048})/i.exec(content)?.[1], undefined);
  }

  #setMeta(name: string, content: string): void {
    const key = name.trim().toLowerCase();
    if (this.#meta.size < 256 && !this.#meta.has(key) && content.trim() !== "") this.#meta.set(key, content);
  }

  #noteBase(href: string | undefined): void {
    if (this.#hasBase || href === undefined) return;
    this.#hasBase = true;
    const base = URL.parse(href.trim(), this.#base);
    if (base !== null && (base.protocol === "http:" || base.protocol === "https:")) this.#base = base.href;
  }

  #noteLink(href: string | undefined, rel: string | undefined): void {
    if (this.#links.size >= this.#limits.maxLinks || words(rel).includes("nofollow")) return;
    const link = this.#resolve(href);
    if (link !== undefined) this.#links.add(link);
  }

  #resolve(href: string | undefined): string | undefined {
    return href === undefined ? undefined : resolveLink(href, this.#base);
  }
}
