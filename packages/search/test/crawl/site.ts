import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { silentLog } from "@turnpike/base";
import type { SiteModules, SiteOptions } from "../../src/crawl/options.ts";
import { indexSite } from "../../src/crawl/site.ts";
import { createSafeFetcher } from "../../src/fetching/fetcher.ts";
import type { SafeFetcherOptions } from "../../src/fetching/types.ts";
import type { Extracted, Extractor, IndexReport, IndexWriter, RawPage, SourceDocument } from "../../src/types.ts";

/** An index in memory. */
export class MemoryIndex implements IndexWriter {
  readonly documents = new Map<string, SourceDocument>();
  /** URLs in the order in which they were put. */
  readonly puts: string[] = [];

  put(documents: readonly SourceDocument[]): void {
    for (const document of documents) {
      this.documents.set(document.url, document);
      this.puts.push(document.url);
    }
  }

  remove(urls: readonly string[]): number {
    return urls.filter((url) => this.documents.delete(url)).length;
  }

  *urlsOf(collection: string): Iterable<string> {
    for (const document of this.documents.values()) if (document.collection === collection) yield document.url;
  }

  stats(): { documents: number; bytes: number; collections: []; languages: Record<string, number> } {
    return { documents: this.documents.size, bytes: 0, collections: [], languages: {} };
  }

  optimize(): void {}

  [Symbol.dispose](): void {}
}

/** Extracts simple pages with regular expressions. */
export class PlainExtractor implements Extractor {
  async extract(page: RawPage): Promise<Extracted> {
    const html = new TextDecoder().decode(page.body);
    const absolute = (text: string): string | undefined => URL.parse(text, page.url)?.href;
    const robots = /<meta name=robots content="([^"]*)"/.exec(html)?.[1] ?? "";
    const text = html.replace(/<title>.*?<\/title>|<[^>]*>/g, "").trim();
    if (text === "") return { ok: false, reason: "empty" };
    return {
      ok: true,
      title: /<title>(.*?)<\/title>/.exec(html)?.[1] ?? "",
      text,
      language: "en",
      date: page.modified,
      links: [...html.matchAll(/<a href="([^"]*)"/g)].flatMap((found) => absolute(found[1] ?? "") ?? []),
      canonical: absolute(/<link rel=canonical href="([^"]*)"/.exec(html)?.[1] ?? "http://["),
      noIndex: robots.includes("noindex"),
      noFollow: robots.includes("nofollow"),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** A page with a title, words of its own and links. */
export function page(title: string, links: readonly string[] = [], head = ""): string {
  const anchors = links.map((link) => `<a href="${link}"></a>`).join("");
  return `<html><head><title>${title}</title>${head}</head><body>Words of ${title}.${anchors}</body></html>`;
}

/** Time that passes only while the crawler sleeps. */
export class SleepClock {
  #ms = 1_000_000;
  nowMs(): number {
    return 1_700_000_000_000 + this.#ms;
  }
  monotonicMs(): number {
    return this.#ms;
  }
  readonly sleep = async (ms: number, signal: AbortSignal): Promise<void> => {
    await setImmediate();
    if (!signal.aborted) this.#ms += ms;
  };
}

/** What a test crawls with: state in a folder of its own, an index in memory. */
export class Workbench implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), "turnpike-crawl-"));
  readonly stateFile = join(this.folder, "crawl.sqlite");
  readonly clock = new SleepClock();
  index = new MemoryIndex();

  /** One run. */
  async crawl(
    start: string,
    options: Partial<SiteOptions> = {},
    modules: Partial<SiteModules> = {},
    fetching: Partial<SafeFetcherOptions> = {},
  ): Promise<IndexReport> {
    const bounds = { userAgent: "TestBot/1.0", timeoutMs: 60_000, maxBytes: 1_000_000, maxRedirects: 5, ...fetching };
    await using fetcher = createSafeFetcher({ allowPrivate: true, ...bounds }, { clock: this.clock });
    const site: SiteOptions = {
      start,
      kind: "url",
      collection: "test",
      stateFile: this.stateFile,
      userAgent: "TestBot/1.0",
      maxPages: 1_000,
      maxDepth: 5,
      delayMs: 0,
      concurrency: 4,
      maxRedirects: 5,
      domains: [],
      ...options,
    };
    return await indexSite(site, {
      writer: this.index,
      extractor: new PlainExtractor(),
      fetcher,
      clock: this.clock,
      sleep: this.clock.sleep,
      log: silentLog,
      ...modules,
    });
  }

  /** Paths of the index's documents, sorted. */
  get paths(): readonly string[] {
    return [...this.index.documents.keys()].map((url) => url.replace(/^https?:\/\/[^/]*/, "")).sort();
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
