import type { Clock, Log } from "@turnpike/base";
import type { SafeFetcher } from "../fetching/types.ts";
import type { Extractor, IndexProgress, IndexWriter } from "../types.ts";

/** A site that is indexed, and its bounds. */
export interface SiteOptions {
  /** Where it begins: a page, a sitemap or a feed. */
  readonly start: string;
  /** `url` follows links; `sitemap` and `feed` take what is listed, and follow none. */
  readonly kind: "url" | "sitemap" | "feed";
  /** Its documents' collection in the index. */
  readonly collection: string;
  /** File of the crawl's state. One crawl at a time has it; several sites may share it one after the other. */
  readonly stateFile: string;
  /** The first word before a `/` is the name that robots.txt knows the crawler by. */
  readonly userAgent: string;
  /** Most pages asked for in one run, and most documents kept. */
  readonly maxPages: number;
  /** Most links from the start. */
  readonly maxDepth: number;
  /** Least time between two requests to one host. */
  readonly delayMs: number;
  /** Hosts that are read at once. */
  readonly concurrency: number;
  /** Most redirects of one page. */
  readonly maxRedirects: number;
  /** Further hosts whose pages are taken, such as `docs.example.org` or `example.org:8443`. */
  readonly domains: readonly string[];
}

export interface SiteModules {
  readonly writer: IndexWriter;
  readonly extractor: Extractor;
  readonly fetcher: SafeFetcher;
  readonly clock: Clock;
  readonly log: Log;
  /** Called after each page. */
  readonly onProgress?: (progress: IndexProgress) => void;
  /** Ends the run early; the next one goes on from there. */
  readonly signal?: AbortSignal;
  /** Waits so many milliseconds, or until the signal. Default: a timer. */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
}
