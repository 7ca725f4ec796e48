import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";

// what a first attempt looks like: all words, else any of them, in the order of bm25, with FTS5's own snippets
const { file } = workerData as { readonly file: string };
const database = new DatabaseSync(file, { readOnly: true });
database.exec("pragma cache_size = -32768");
const find = database.prepare(
  "select url, title, snippet(plain, 2, '', '', '…', 40) as snippet from plain where plain match ? order by rank limit ?",
);

parentPort?.on("message", ({ query, maxResults }: { readonly query: string; readonly maxResults: number }) => {
  const words = [...query.matchAll(/"[^"]+"|[\p{L}\p{N}]+/gu)].map(([word]) =>
    word.startsWith('"') ? word : `"${word}"`,
  );
  let rows = find.all(words.join(" AND "), maxResults);
  if (rows.length < maxResults && words.length > 1) rows = [...rows, ...find.all(words.join(" OR "), maxResults)];
  const value = rows.slice(0, maxResults).map(({ url, title, snippet }) => ({ url, title, snippet }));
  parentPort?.postMessage({ ok: true, value });
});
