import type { EngineHit, IndexStats, SourceDocument } from "../types.ts";

/** What a thread is started with. */
export interface ThreadData {
  readonly file: string;
  readonly maxSnippetChars: number;
}

/** What a thread is asked. `budgetMs` is the time that it may take. */
export type ThreadRequest =
  | { readonly ask: "search"; readonly query: string; readonly maxResults: number; readonly budgetMs: number }
  | { readonly ask: "document"; readonly url: string }
  | { readonly ask: "stats" };

/** Its answer; `hits`, `document` or `stats` by what was asked. */
export type ThreadReply =
  | { readonly ok: true; readonly value: readonly EngineHit[] | SourceDocument | IndexStats | undefined }
  | { readonly ok: false; readonly code: "SEARCH_INDEX" | "SEARCH_ENGINE_FAILED"; readonly message: string };
