import { silentLog } from "@turnpike/base";
import { openIndexWriter } from "@turnpike/search";
import { IndexSearcher } from "../../packages/search/src/local/searcher.ts";
import type { LabelledSet } from "../../packages/search/test/local/relevance.ts";

/** Indexes documents as the product does, their language untold; how their ids are found. */
export function labelledHits(
  set: { readonly documents: readonly Omit<LabelledSet["documents"][number], "language">[] },
  file: string,
): (query: string) => readonly string[] {
  using writer = openIndexWriter({ file }, { log: silentLog });
  writer.put(
    set.documents.map(({ url, title, text }) => ({
      url,
      title,
      text,
      language: undefined,
      date: undefined,
      collection: "labelled",
    })),
  );
  const searcher = new IndexSearcher({ file, maxSnippetChars: 320 });
  const ids = new Map(set.documents.map(({ id, url }) => [url, id]));
  return (query) => searcher.search(query, 10, performance.now() + 60_000).map(({ url }) => ids.get(url) ?? "");
}
