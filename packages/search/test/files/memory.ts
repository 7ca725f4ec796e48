import type { IndexWriter, SourceDocument } from "../../src/types.ts";

/** An index in memory, for tests. */
export function memoryWriter(): { readonly writer: IndexWriter; readonly documents: Map<string, SourceDocument> } {
  const documents = new Map<string, SourceDocument>();
  const writer: IndexWriter = {
    put(added) {
      for (const document of added) documents.set(document.url, document);
    },
    remove: (urls) => urls.filter((url) => documents.delete(url)).length,
    *urlsOf(collection) {
      for (const document of documents.values()) if (document.collection === collection) yield document.url;
    },
    stats: () => ({ documents: documents.size, bytes: 0, collections: [], languages: {} }),
    optimize() {},
    [Symbol.dispose]() {},
  };
  return { writer, documents };
}
