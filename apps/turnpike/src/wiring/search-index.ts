import { mkdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname } from "node:path";
import { type Log, systemClock } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import {
  type IndexedSource,
  type IndexProgress,
  type IndexStats,
  indexSource,
  openIndexWriter,
  type SourceKind,
  WorkerExtractor,
} from "@turnpike/search";
import { besideIndex, searchPublicUrl } from "./search.ts";

/** A source of the local index. */
export interface Source {
  /** The folder's path or the URL. */
  readonly target: string;
  /** Undefined: it is found out. */
  readonly kind: SourceKind | undefined;
  /** Address under which a folder's files are published; undefined: the copy that the service serves. */
  readonly baseUrl: string | undefined;
}

/** The local index of a configuration, open for writing. */
export interface SourceIndex extends AsyncDisposable {
  /** Indexes one source. @throws AppError SOURCE_REFUSED, SEARCH_INDEX, SEARCH_INDEX_BUSY. */
  add(source: Source): Promise<IndexedSource>;
  /** Makes queries faster after much was written. */
  optimize(): void;
  stats(): IndexStats;
}

export interface SourceIndexModules {
  readonly log: Log;
  readonly onProgress?: (target: string, progress: IndexProgress) => void;
  readonly signal?: AbortSignal;
}

const MAX_WORKERS = 4;

/** Opens the local index for writing, and makes it where there is none. @throws AppError SEARCH_INDEX, SEARCH_INDEX_BUSY. */
export function createSourceIndex(config: Config, modules: SourceIndexModules): SourceIndex {
  const { log, onProgress, signal } = modules;
  const { crawl, local } = config.search;
  mkdirSync(dirname(local.file), { recursive: true });
  const writer = openIndexWriter({ file: local.file }, { log });
  const workers = Math.max(1, Math.min(MAX_WORKERS, availableParallelism() - 1));
  const extractor = new WorkerExtractor({ workers, maxPageBytes: crawl.maxPageBytes }, { log });
  return {
    add: ({ target, kind, baseUrl }) =>
      indexSource(
        {
          target,
          kind,
          baseUrl,
          publicUrl: searchPublicUrl(config),
          crawlFile: besideIndex(local.file, "crawl"),
          filesFile: besideIndex(local.file, "files"),
          crawl,
        },
        {
          writer,
          extractor,
          clock: systemClock,
          log,
          ...(onProgress === undefined ? {} : { onProgress: (progress) => onProgress(target, progress) }),
          ...(signal === undefined ? {} : { signal }),
        },
      ),
    optimize: () => writer.optimize(),
    stats: () => writer.stats(),
    async [Symbol.asyncDispose]() {
      await extractor[Symbol.asyncDispose]();
      writer[Symbol.dispose]();
    },
  };
}
