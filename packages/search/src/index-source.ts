import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { AppError, type Clock, type Log, trimEndOf } from "@turnpike/base";
import { indexSite } from "./crawl/site.ts";
import { createSafeFetcher } from "./fetching/fetcher.ts";
import { indexFolder } from "./files/index-folder.ts";
import { indexPackages } from "./files/index-packages.ts";
import { DOCUMENTS_PATH } from "./service/documents.ts";
import { detectKind, type SourceKind } from "./source-kind.ts";
import type { Extractor, IndexProgress, IndexReport, IndexWriter } from "./types.ts";

/** How sites are read. */
export interface CrawlOptions {
  readonly userAgent: string;
  readonly maxPages: number;
  readonly maxDepth: number;
  readonly delayMs: number;
  readonly concurrency: number;
  readonly maxPageBytes: number;
  readonly timeoutMs: number;
  readonly maxRedirects: number;
  readonly domains: readonly string[];
  readonly allowPrivate: boolean;
}

/** One source to index. */
export interface IndexSourceOptions {
  /** The folder's path or the URL. */
  readonly target: string;
  /** Undefined: found out by {@link detectKind}. */
  readonly kind: SourceKind | undefined;
  /** Address under which a folder's files are published; undefined: the copy that the search service serves. */
  readonly baseUrl: string | undefined;
  /** Address of the search service. */
  readonly publicUrl: string;
  /** File in which crawls remember where they are. */
  readonly crawlFile: string;
  /** File in which it is remembered which files were read. */
  readonly filesFile: string;
  readonly crawl: CrawlOptions;
}

export interface IndexSourceModules {
  readonly writer: IndexWriter;
  readonly extractor: Extractor;
  readonly clock: Clock;
  readonly log: Log;
  readonly onProgress?: (progress: IndexProgress) => void;
  readonly signal?: AbortSignal;
}

/** A source that was indexed. */
export interface IndexedSource {
  readonly kind: SourceKind;
  /** Its documents' collection in the index. */
  readonly collection: string;
  readonly report: IndexReport;
}

/** Names of machines that the operator means when he names them; others' names may lead anywhere tomorrow. */
const OWN_HOST = /^(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/i;

/**
 * Origins of private networks that may be read: all, or that of a target that names an address itself. The operator
 * chose it; where its pages or redirects lead is not his choice.
 */
function privateRule(target: string, { allowPrivate }: CrawlOptions): boolean | readonly string[] {
  if (allowPrivate || !URL.canParse(target)) return allowPrivate;
  const { hostname, origin } = new URL(target);
  return OWN_HOST.test(hostname) ? [origin] : false;
}

/**
 * Where the service serves the files of a folder: a name for people, and a digest, as folders may share one. A single
 * file stands below the name of its folder, and a digest of its own.
 */
function servedUrl(publicUrl: string, folder: string): string {
  const isFile = statSync(folder, { throwIfNoEntry: false })?.isFile() === true;
  const name = basename(isFile ? dirname(folder) : folder).replaceAll(/[^A-Za-z0-9._-]+/g, "-") || "files";
  const digest = createHash("sha256").update(folder).digest("hex").slice(0, 8);
  return `${trimEndOf(publicUrl, "/")}${DOCUMENTS_PATH}${encodeURIComponent(name)}-${digest}/`;
}

/**
 * Indexes one source, whatever it is. A run that was ended early goes on where it stopped when it is called again.
 * @throws AppError SOURCE_REFUSED when the target is none of what can be indexed, and what the index throws.
 */
export async function indexSource(opts: IndexSourceOptions, modules: IndexSourceModules): Promise<IndexedSource> {
  const { target, crawl } = opts;
  const { userAgent, maxRedirects, timeoutMs, maxPageBytes } = crawl;
  await using fetcher = createSafeFetcher(
    { userAgent, timeoutMs, maxBytes: maxPageBytes, maxRedirects, allowPrivate: privateRule(target, crawl) },
    { clock: modules.clock },
  );
  const kind = opts.kind ?? (await detectKind(target, fetcher, modules.signal));
  if (kind === "folder" || kind === "packages") {
    const folder = resolve(target);
    const baseUrl = opts.baseUrl ?? servedUrl(opts.publicUrl, folder);
    const named = { baseUrl, collection: folder, stateFile: opts.filesFile };
    const report =
      kind === "folder"
        ? await indexFolder({ ...named, folder }, modules)
        : await indexPackages({ ...named, nodeModules: folder }, modules);
    return { kind, collection: folder, report };
  }
  if (opts.baseUrl !== undefined) {
    throw new AppError("SOURCE_REFUSED", { message: "Only a folder has an address under which it is published." });
  }
  const collection = URL.canParse(target) ? new URL(target).href : target;
  const site = { ...crawl, start: target, kind, collection, stateFile: opts.crawlFile };
  return { kind, collection, report: await indexSite(site, { ...modules, fetcher }) };
}
