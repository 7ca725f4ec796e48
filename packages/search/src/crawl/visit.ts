import { createHash } from "node:crypto";
import type { FetchAnswer, FetchFailure, FetchResult } from "../fetching/types.ts";
import type { Extracted } from "../types.ts";
import { PASSING } from "./frontier.ts";
import type { Item } from "./item.ts";
import {
  isoOf,
  type Judgement,
  LISTING_TIMEOUT_MS,
  MAX_ATTEMPTS,
  MAX_TITLE,
  NETWORK,
  NO_PAGE,
  NOT_NOW,
  PAGE_TYPES,
  type VisitModules,
} from "./judgement.ts";
import { ListingReader, MAX_LISTING_BYTES } from "./listings.ts";
import type { SiteOptions } from "./options.ts";
import { productOf, type RobotsRules } from "./robots.ts";
import { readRobotsTags } from "./robots-tag.ts";
import { LISTED } from "./tally.ts";
import { normalUrl, trapOf } from "./urls.ts";

/** Takes one address after the other from the frontier: one visit sends one request at most. */
export class Visitor {
  readonly #options: SiteOptions;
  readonly #modules: VisitModules;
  readonly #product: string;
  readonly #sitemapsOf = new Set<string>();
  #asked: number;
  #gotOn = false;

  constructor(options: SiteOptions, modules: VisitModules) {
    this.#options = options;
    this.#modules = modules;
    this.#product = productOf(options.userAgent);
    this.#asked = modules.frontier.asked;
  }

  /** Pages that were asked for in this run, before a crash too. */
  get asked(): number {
    return this.#asked;
  }

  /** True once a page came to more than a fault that may pass. */
  get gotOn(): boolean {
    return this.#gotOn;
  }

  /** Does the next step for an address. It goes on waiting when its host's rules had to be read first, or must be spared. */
  async visit(item: Item): Promise<void> {
    const judgement = await this.#look(item);
    if (judgement !== undefined) this.#finish(item, judgement);
  }

  async #look(item: Item): Promise<Judgement | undefined> {
    const { robots, hosts, scope, signal } = this.#modules;
    const url = new URL(item.url);
    if (!scope.has(url) || item.depth > this.#options.maxDepth) return { outcome: "out_of_scope", isAsked: false };
    const rules = robots.known(url.origin);
    if (rules === undefined) {
      const read = await robots.ask(url.origin, signal);
      if (read === undefined) return undefined;
      hosts.slowDown(item.host, read.delayMs);
      if (read.refused === undefined) hosts.answered(item.host);
      else hosts.failed(item.host);
      return undefined;
    }
    hosts.slowDown(item.host, rules.delayMs);
    this.#addSitemaps(url, rules);
    if (rules.refused !== undefined) {
      if (NOT_NOW.has(rules.refused)) hosts.leave(item.host);
      return { outcome: rules.refused, isAsked: false, keeps: true };
    }
    if (!rules.isAllowed(item.url)) return { outcome: "robots_disallowed", isAsked: false };
    return item.isListing ? await this.#readListing(item, url) : await this.#readPage(item, url);
  }

  /** What robots.txt names is read as if the start linked to it. */
  #addSitemaps(url: URL, rules: RobotsRules): void {
    if (this.#options.kind !== "url" || this.#options.maxDepth < 1 || this.#sitemapsOf.has(url.origin)) return;
    this.#sitemapsOf.add(url.origin);
    for (const text of rules.sitemaps) {
      const sitemap = normalUrl(text, url.origin);
      if (sitemap !== undefined && this.#modules.scope.has(sitemap)) this.#modules.frontier.add(sitemap, true, 1);
    }
  }

  async #readListing(item: Item, url: URL): Promise<Judgement | undefined> {
    const { fetcher, signal } = this.#modules;
    const found: { readonly url: URL; readonly isListing: boolean }[] = [];
    // Pages of a start are its own; those of a robots.txt are as far away as the sitemap.
    const depth = item.depth;
    let isFull = false;
    const reader = new ListingReader((text, isListing) => {
      const listed = normalUrl(text, item.url);
      if (listed !== undefined) found.push({ url: listed, isListing });
      return isFull || found.length > 100_000;
    });
    const flush = (): void => {
      isFull = !this.#addAll(found, depth) || isFull;
      found.length = 0;
    };
    const result = await fetcher.fetch({
      url: url.href,
      maxBytes: MAX_LISTING_BYTES,
      maxRedirects: 0,
      timeoutMs: LISTING_TIMEOUT_MS,
      sink: (piece) => {
        const isOver = reader.write(piece);
        flush();
        return isOver || isFull;
      },
      signal,
    });
    if (signal.aborted) return undefined;
    const other = this.#judge(item, url, result);
    if (other !== "read") return other;
    await reader.end();
    flush();
    return { outcome: reader.found > 0 ? LISTED : "listing_empty", isAsked: true };
  }

  /** False when the frontier is full. */
  #addAll(found: readonly { readonly url: URL; readonly isListing: boolean }[], depth: number): boolean {
    const { frontier, scope } = this.#modules;
    let isRoom = true;
    if (found.length === 0) return isRoom;
    frontier.transaction(() => {
      for (const { url, isListing } of found) {
        if (!scope.has(url) || (!isListing && trapOf(url) !== undefined)) continue;
        if (frontier.add(url, isListing, depth) === "full" && !isListing) isRoom = false;
        if (!isRoom) return;
      }
    });
    return isRoom;
  }

  async #readPage(item: Item, url: URL): Promise<Judgement | undefined> {
    const { fetcher, extractor, signal } = this.#modules;
    const held = item.isDoc ? { etag: item.etag, modified: item.modified } : {};
    const result = await fetcher.fetch({ url: item.url, types: PAGE_TYPES, maxRedirects: 0, ...held, signal });
    if (signal.aborted) return undefined;
    const other = this.#judge(item, url, result);
    if (other !== "read") return other;
    if (!result.ok) return undefined;
    if (result.status === 304) return this.#unchanged(item, result);
    const { contentType, body } = result;
    const page = { url: item.url, contentType, body, modified: isoOf(result.modified) };
    let extracted: Extracted;
    try {
      extracted = await extractor.extract(page, signal);
    } catch (error) {
      if (signal.aborted) return undefined;
      throw error;
    }
    return signal.aborted ? undefined : this.#take(item, url, result, extracted);
  }

  #unchanged(item: Item, answer: FetchAnswer): Judgement {
    const canonical = item.canonical === undefined ? undefined : normalUrl(item.canonical);
    if (canonical !== undefined) this.#modules.frontier.add(canonical, false, item.depth);
    const { links } = item;
    const held = { ...answer, etag: answer.etag ?? item.etag, modified: answer.modified ?? item.modified };
    return { outcome: "unchanged", isAsked: true, keeps: true, answer: held, links };
  }

  /** Puts a page into the index, or says why not. */
  #take(item: Item, url: URL, answer: FetchAnswer, extracted: Extracted): Judgement {
    const { writer, documents, clock, frontier, scope, tally } = this.#modules;
    if (!extracted.ok) {
      return { outcome: extracted.reason, isAsked: true, keeps: !NO_PAGE.has(extracted.reason) };
    }
    const tag = readRobotsTags(answer.robotsTags, this.#product, clock.nowMs());
    const follows = this.#options.kind === "url" && !tag.noFollow && !extracted.noFollow;
    const links = follows ? this.#linksOf(extracted.links, url) : [];
    const asked = { isAsked: true, links } as const;
    if (tag.noIndex || extracted.noIndex) return { outcome: "noindex", ...asked };

    const named = extracted.canonical === undefined ? undefined : normalUrl(extracted.canonical);
    const isOther = named !== undefined && named.href !== item.url && scope.has(named) && trapOf(named) === undefined;
    const canonical = isOther ? named.href : undefined;
    if (isOther) {
      const known = frontier.find(named.href);
      const isIndexed = known?.isDoc === true && known.run === frontier.run && !known.isWaiting;
      if (isIndexed) return { outcome: "canonical", ...asked, canonical };
      // A hint only: until that page proves to be one, this one stands.
      frontier.add(named, false, item.depth);
    }
    const title = (extracted.title === "" ? item.url : extracted.title).slice(0, MAX_TITLE);
    const { text, language, date } = extracted;
    const hash = createHash("sha256")
      .update(JSON.stringify([title, text, language, date]))
      .digest("base64url");
    if (documents.sameContent(hash, item.url)) return { outcome: "duplicate", ...asked, hash, canonical };

    const isSame = item.isDoc && item.hash === hash;
    // The index first: after a crash between the two the page is read again, and replaces itself.
    if (!isSame) {
      writer.put([{ url: item.url, title, text, language, date, collection: this.#options.collection }]);
    }
    for (const older of documents.calling(item.url)) {
      tally.removed(writer.remove([older.url]));
      documents.markRemoved(older, "canonical");
      if (older.run === frontier.run && !older.isWaiting) tally.move("indexed", "canonical");
    }
    return { outcome: isSame ? "unchanged" : "indexed", ...asked, keeps: true, answer, hash, canonical };
  }

  #linksOf(texts: readonly string[], page: URL): readonly string[] {
    const links = new Set<string>();
    for (const text of texts) {
      const link = normalUrl(text, page.href);
      if (link !== undefined && this.#modules.scope.has(link) && trapOf(link) === undefined) links.add(link.href);
    }
    links.delete(page.href);
    return [...links];
  }

  /** What becomes of an answer that is not to be read; undefined: the address goes on waiting. */
  #judge(item: Item, url: URL, result: FetchResult): Judgement | "read" | undefined {
    if (!result.ok) return this.#failed(item, result);
    this.#modules.hosts.answered(item.host);
    const { status, location } = result;
    if (status === 200 || (status === 304 && item.isDoc)) return "read";
    if (location !== undefined) return this.#redirected(item, url, location);
    return { outcome: `status_${status}`, isAsked: true, keeps: true };
  }

  #failed(item: Item, failure: FetchFailure): Judgement | undefined {
    const { hosts, frontier } = this.#modules;
    const { reason, status, retryAfterMs } = failure;
    const prefix = item.isListing ? "listing_" : "";
    if (status === 429 || status === 503) {
      hosts.backOff(item.host, retryAfterMs);
      if (item.attempts + 1 >= MAX_ATTEMPTS)
        return { outcome: `${prefix}status_${status}`, isAsked: true, keeps: true };
      frontier.postpone(item);
      return undefined;
    }
    if (NETWORK.has(reason)) hosts.failed(item.host);
    else hosts.answered(item.host);
    if (status === 404 || status === 410) return { outcome: `${prefix}gone`, isAsked: true };
    const outcome = `${prefix}${reason === "status" ? `status_${status}` : reason}`;
    return { outcome, isAsked: true, keeps: !NO_PAGE.has(reason) };
  }

  /** Redirects are followed like links, so that every hop has its robots.txt, its pause and its bounds. */
  #redirected(item: Item, url: URL, location: string): Judgement {
    const { frontier, scope } = this.#modules;
    const refused = (outcome: string): Judgement => ({ outcome, isAsked: true });
    const target = normalUrl(location);
    if (target === undefined) return refused("redirect_refused");
    if (target.href === item.url) return refused("redirect_loop");
    if (item.redirects >= this.#options.maxRedirects) return refused("too_many_redirects");
    if (item.depth === 0 && scope.admitTwin(url, target)) frontier.twin = target.host;
    if (!scope.has(target)) return refused("redirect_outside");
    frontier.add(target, item.isListing, item.depth, item.redirects + 1);
    return refused("redirected");
  }

  /** Closes an address: its document goes unless it is kept, its links wait, and all this is written at once. */
  #finish(item: Item, kept: Judgement): void {
    const { outcome } = kept;
    const { frontier, documents, writer, clock, tally, onProgress } = this.#modules;
    const isIndexed = outcome === "indexed" || outcome === "unchanged";
    const isDoc = isIndexed || (item.isDoc && kept.keeps === true);
    const gone = item.isDoc && !isDoc ? writer.remove([item.url]) : 0;
    const held = kept.answer ?? (isDoc ? item : undefined);
    const hash = kept.hash ?? (isDoc ? item.hash : undefined);
    const links = kept.links ?? (isDoc ? item.links : []);
    const canonical = "canonical" in kept ? kept.canonical : isDoc ? item.canonical : undefined;
    frontier.transaction(() => {
      const { etag, modified } = held ?? {};
      frontier.finish(
        item,
        { outcome, isAsked: kept.isAsked, isDoc, etag, modified, hash, canonical, links },
        clock.nowMs(),
      );
      tally.removed(gone);
      if (item.hash !== undefined && item.isDoc && item.hash !== (isDoc ? hash : undefined)) {
        if (documents.revive(item.hash)) tally.add("duplicate", -1);
      }
      if (item.depth < this.#options.maxDepth) {
        for (const link of kept.links ?? []) frontier.add(new URL(link), false, item.depth + 1);
      }
    });
    if (kept.isAsked && !item.isListing) this.#asked++;
    if (!PASSING.includes(outcome)) this.#gotOn = true;
    tally.add(outcome);
    onProgress?.(tally.progress(item.url));
  }
}
