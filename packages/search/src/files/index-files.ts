import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { isAppError, type Log } from "@turnpike/base";
import { detectLanguage } from "../local/languages.ts";
import type { Extracted, Extractor, IndexProgress, IndexReport, IndexWriter, SourceDocument } from "../types.ts";
import { sectionsOf } from "./sections.ts";
import { type FileRecord, openSourceState } from "./source-state.ts";
import { encodePath } from "./walk.ts";

/** A file to index. */
export interface IndexFile {
  /** Its name within the collection. */
  readonly path: string;
  /** Where to read it. */
  readonly file: string;
  readonly url: string;
  readonly contentType: string;
  /** What else than its size and time says that it is the same, such as a version. */
  readonly mark: string;
  /** False when its time says nothing about its age. */
  readonly dated: boolean;
  /** The document's title, out of the one that was found. */
  readonly titled?: (title: string) => string;
}

interface IndexFilesOptions {
  readonly collection: string;
  /** Where it is remembered which files were read; undefined reads all each time. */
  readonly stateFile: string | undefined;
  readonly maxFileBytes: number;
  /** Files that are read at once. */
  readonly concurrency: number;
  /** False when there are more files than those given: then none is removed. */
  readonly complete: boolean;
}

/** Parts of {@link indexFiles}. */
export interface IndexFilesModules {
  readonly writer: IndexWriter;
  readonly extractor: Extractor;
  readonly log: Log;
  readonly onProgress?: ((progress: IndexProgress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A batch is one transaction of the index. */
const BATCH_DOCUMENTS = 256;
const BATCH_CHARS = 4_000_000;
/** Reasons that another run may not meet again. */
const PASSING = new Set(["unreadable", "timed_out", "changed"]);

type Outcome =
  | { readonly kind: "unchanged"; readonly skipped: string | undefined }
  | { readonly kind: "skipped"; readonly reason: string; readonly stamp: string | undefined }
  | { readonly kind: "documents"; readonly documents: readonly SourceDocument[]; readonly stamp: string };

/**
 * Brings a collection of the index to what its files hold: reads those that are new or changed, and removes documents
 * whose files are gone. It may be ended at any moment, also by `kill -9`: the next run goes on from what is in the
 * index. When the signal aborts it ends early with `incomplete`.
 */
export async function indexFiles(
  files: readonly IndexFile[],
  opts: IndexFilesOptions,
  modules: IndexFilesModules,
): Promise<IndexReport> {
  using state = openSourceState(opts.stateFile, modules.log);
  return await new Run(files, opts, modules, state).run();
}

class Run {
  readonly #files: readonly IndexFile[];
  readonly #opts: IndexFilesOptions;
  readonly #modules: IndexFilesModules;
  readonly #state: ReturnType<typeof openSourceState>;
  readonly #known: Map<string, FileRecord>;
  readonly #indexed: Set<string>;
  readonly #kept = new Set<string>();
  /** Files that have their page's address alone; others' sections need a longer one. */
  readonly #owners: ReadonlySet<string>;
  readonly #reasons: Record<string, number> = {};
  #batch: SourceDocument[] = [];
  #stale: string[] = [];
  #records = new Map<string, FileRecord>();
  #chars = 0;
  #removed = 0;
  #counts = { seen: 0, indexed: 0, unchanged: 0, skipped: 0 };

  constructor(
    files: readonly IndexFile[],
    opts: IndexFilesOptions,
    modules: IndexFilesModules,
    state: ReturnType<typeof openSourceState>,
  ) {
    this.#files = files;
    this.#opts = opts;
    this.#modules = modules;
    this.#state = state;
    this.#known = state.load(opts.collection);
    this.#indexed = new Set(modules.writer.urlsOf(opts.collection));
    this.#owners = ownersOf(files);
  }

  async run(): Promise<IndexReport> {
    const { signal, writer } = this.#modules;
    const { collection, concurrency } = this.#opts;
    const window: { file: IndexFile; outcome: Promise<Outcome | undefined> }[] = [];
    let next = 0;
    try {
      for (;;) {
        while (window.length < concurrency && next < this.#files.length && signal?.aborted !== true) {
          const file = this.#files[next++];
          if (file !== undefined) window.push({ file, outcome: this.#read(file) });
        }
        const [first] = window;
        if (first === undefined) break;
        const outcome = await first.outcome;
        window.shift();
        if (outcome !== undefined) this.#take(first.file, outcome);
      }
    } finally {
      // After a failure nothing is left behind, neither open files nor unhandled rejections.
      await Promise.allSettled(window.map(({ outcome }) => outcome));
    }
    this.#flush();
    const incomplete = this.#counts.seen < this.#files.length || !this.#opts.complete;
    if (!incomplete) {
      const gone = [...this.#indexed].filter((url) => !this.#kept.has(url));
      if (gone.length > 0) this.#removed += writer.remove(gone);
      const paths = new Set(this.#files.map(({ path }) => path));
      this.#state.save(
        collection,
        new Map(),
        [...this.#known.keys()].filter((path) => !paths.has(path)),
      );
    }
    return { ...this.#progress(undefined), removed: this.#removed, reasons: this.#reasons, incomplete };
  }

  async #read(file: IndexFile): Promise<Outcome | undefined> {
    const { signal, extractor } = this.#modules;
    let handle: Awaited<ReturnType<typeof open>> | undefined;
    try {
      // Not through a link that was put there meanwhile, nor waiting for a pipe's other end.
      handle = await open(file.file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
      const info = await handle.stat({ bigint: true });
      const { size, mtimeNs, mtime } = info;
      if (!info.isFile()) return { kind: "skipped", reason: "unreadable", stamp: undefined };
      const stamp = `${size} ${mtimeNs} ${file.mark}${this.#owners.has(file.path) ? "" : " shared"}`;
      const known = this.#known.get(file.path);
      if (known !== undefined && known.stamp === stamp && known.url === file.url) {
        if (known.skipped !== undefined || urlsOf(known).every((one) => this.#indexed.has(one)))
          return { kind: "unchanged", skipped: known.skipped };
      }
      if (size > BigInt(this.#opts.maxFileBytes)) return { kind: "skipped", reason: "too_large", stamp: undefined };
      const body = new Uint8Array(Number(size));
      // What grows or shrinks while it is read is read again the next time.
      for (let at = 0; at < body.length; ) {
        const { bytesRead } = await handle.read(body, at, body.length - at, at);
        if (bytesRead === 0) return { kind: "skipped", reason: "changed", stamp: undefined };
        at += bytesRead;
      }
      const modified = file.dated ? mtime.toISOString() : undefined;
      // Read under its own name, which titles what has no title: the address may end in something else.
      const url = `https://file.invalid/${encodePath(file.path)}`;
      const extracted = await extractor.extract({ url, contentType: file.contentType, body, modified }, signal);
      return this.#outcome(file, stamp, extracted);
    } catch (error) {
      if (signal?.aborted === true) return undefined;
      if (isAppError(error)) throw error;
      return { kind: "skipped", reason: "unreadable", stamp: undefined };
    } finally {
      await handle?.close();
    }
  }

  #outcome(file: IndexFile, stamp: string, extracted: Extracted): Outcome {
    if (!extracted.ok) return { kind: "skipped", reason: extracted.reason, stamp };
    if (extracted.noIndex) return { kind: "skipped", reason: "noindex", stamp };
    const { text: whole, date } = extracted;
    const { collection } = this.#opts;
    const sections = sectionsOf(extracted, file.titled?.(extracted.title) ?? extracted.title);
    // A whole page says in which language it is better than a short section of it; a short page is left to the index.
    const language = extracted.language ?? (sections.length > 1 ? detectLanguage(whole) : undefined);
    const documents = sections.map(({ slug, title, text }) => {
      const url = slug === undefined ? file.url : this.#sectionUrl(file, slug);
      return { url, title, text, language, date, collection };
    });
    return { kind: "documents", documents, stamp };
  }

  #sectionUrl({ url, path }: IndexFile, slug: string): string {
    // A package's own page may be `#readme` of the same address.
    const isShared = slug === "readme" || !this.#owners.has(path);
    return `${pageOf(url)}#${isShared ? `${encodePath(path)}/` : ""}${encodeURIComponent(slug)}`;
  }

  #take(file: IndexFile, outcome: Outcome): void {
    const counts = this.#counts;
    const known = this.#known.get(file.path);
    counts.seen++;
    if (outcome.kind === "unchanged") {
      counts.unchanged++;
      if (outcome.skipped === undefined) this.#keep(known);
    } else if (outcome.kind === "skipped") {
      counts.skipped++;
      this.#reasons[outcome.reason] = (this.#reasons[outcome.reason] ?? 0) + 1;
      // A document is better old than gone when its file may be read the next time.
      if (PASSING.has(outcome.reason)) this.#keep(known ?? { url: file.url, sections: [] });
      else if (outcome.stamp !== undefined)
        this.#records.set(file.path, { stamp: outcome.stamp, url: file.url, sections: [], skipped: outcome.reason });
    } else {
      counts.indexed++;
      this.#batch.push(...outcome.documents);
      for (const { text } of outcome.documents) this.#chars += text.length;
      const [url = file.url, ...sections] = outcome.documents.map((document) => document.url);
      const record: FileRecord = { stamp: outcome.stamp, url, sections, skipped: undefined };
      this.#keep(record);
      this.#records.set(file.path, record);
      if (known !== undefined) this.#stale.push(...urlsOf(known));
    }
    if (this.#batch.length >= BATCH_DOCUMENTS || this.#chars >= BATCH_CHARS) this.#flush();
    this.#modules.onProgress?.(this.#progress(file.path));
  }

  #keep(record: Pick<FileRecord, "url" | "sections"> | undefined): void {
    if (record !== undefined) for (const url of urlsOf(record)) this.#kept.add(url);
  }

  #flush(): void {
    if (this.#batch.length > 0) this.#modules.writer.put(this.#batch);
    // Sections that a page no longer has. Ended before this, the file is read again, as it is not remembered yet.
    const gone = this.#stale.filter((url) => this.#indexed.has(url) && !this.#kept.has(url));
    if (gone.length > 0) this.#removed += this.#modules.writer.remove(gone);
    this.#state.save(this.#opts.collection, this.#records, []);
    this.#batch = [];
    this.#stale = [];
    this.#records = new Map();
    this.#chars = 0;
  }

  #progress(current: string | undefined): IndexProgress {
    return { ...this.#counts, waiting: this.#files.length - this.#counts.seen, current };
  }
}

const pageOf = (url: string): string => url.split("#", 1)[0] ?? url;

const urlsOf = ({ url, sections }: Pick<FileRecord, "url" | "sections">): readonly string[] => [url, ...sections];

/** Paths of the files that come first of those at one page. */
function ownersOf(files: readonly IndexFile[]): ReadonlySet<string> {
  const owners = new Map<string, string>();
  for (const { url, path } of files) if (!owners.has(pageOf(url))) owners.set(pageOf(url), path);
  return new Set(owners.values());
}
