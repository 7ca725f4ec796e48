export type { SiteModules, SiteOptions } from "./crawl/options.ts";

export {
  createEngines,
  type EngineOptions,
  type Engines,
  type EnginesModules,
  type WeightedEngine,
} from "./engines/create-engines.ts";
export type { EngineFailure } from "./engines/failure.ts";
export { type ExtractorOptions, WorkerExtractor } from "./extract/extractor.ts";

export type {
  FetchAnswer,
  FetchFailure,
  FetchFault,
  FetchRequest,
  FetchResult,
  SafeFetcher,
  SafeFetcherModules,
  SafeFetcherOptions,
} from "./fetching/types.ts";
export type { IndexFilesModules } from "./files/index-files.ts";
export type { IndexFolderOptions } from "./files/index-folder.ts";
export type { IndexPackagesOptions } from "./files/index-packages.ts";
export { furtherSections } from "./files/source-state.ts";
export {
  type CrawlOptions,
  type IndexedSource,
  type IndexSourceModules,
  type IndexSourceOptions,
  indexSource,
} from "./index-source.ts";
export { type LocalEngine, type LocalEngineOptions, openLocalEngine } from "./local/engine.ts";
export { type IndexWriterOptions, openIndexWriter } from "./local/writer.ts";
export { SEARCH_METRICS } from "./metrics.ts";
export type { FindDocument } from "./service/documents.ts";
export {
  type SearchService,
  type SearchServiceModules,
  type SearchServiceOptions,
  startSearchService,
} from "./service/search-service.ts";
export type { SearcherOptions } from "./service/searcher.ts";
export { joinedDocuments, pagesOf } from "./service/sections.ts";
export type { SourceKind } from "./source-kind.ts";
export type {
  EngineHit,
  EngineQuery,
  EngineReport,
  Extracted,
  Extractor,
  IndexProgress,
  IndexReport,
  IndexStats,
  IndexWriter,
  RawPage,
  SearchAnswer,
  SearchEngine,
  SearchResult,
  SourceDocument,
} from "./types.ts";
