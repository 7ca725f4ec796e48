import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { silentLog } from "@turnpike/base";
import { temporaryFolder } from "../../test/local/index.ts";
import { ndcg10, plainFts5, readLabelledSet } from "../../test/local/relevance.ts";
import { IndexSearcher } from "./searcher.ts";
import { openIndexWriter } from "./writer.ts";

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

test("on the labelled set results are in a better order than plain FTS5's", (t) => {
  const set = readLabelledSet();
  assert.ok(set.documents.length >= 60 && set.queries.length >= 40);
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using writer = openIndexWriter({ file }, { log: silentLog });
  // languages are found, not told
  writer.put(
    set.documents.map(({ url, title, text }) => ({
      url,
      title,
      text,
      language: undefined,
      date: undefined,
      collection: "set",
    })),
  );
  using searcher = new IndexSearcher({ file, maxSnippetChars: 200 });
  const idOf = new Map(set.documents.map(({ url, id }) => [url, id]));
  const ours = (query: string): readonly string[] =>
    searcher.search(query, 10, performance.now() + 60_000).map(({ url }) => idOf.get(url) ?? "");
  const plain = plainFts5(set, 10);
  const porter = plainFts5(set, 10, "porter");
  const scores = set.queries.map(({ query, grades }) => ({
    query,
    ours: ndcg10(ours(query), grades),
    plain: ndcg10(plain(query), grades),
    porter: ndcg10(porter(query), grades),
  }));
  const our = mean(scores.map((score) => score.ours));
  const their = mean(scores.map((score) => score.plain));
  const stemmed = mean(scores.map((score) => score.porter));
  t.diagnostic(
    `nDCG@10 of ${scores.length} queries on ${set.documents.length} documents: ours ${our.toFixed(3)}, plain FTS5 ${their.toFixed(3)}, with porter ${stemmed.toFixed(3)}`,
  );
  for (const { query, ours: a, plain: b } of scores) {
    if (a < 0.9) t.diagnostic(`${query}: ours ${a.toFixed(2)}, plain ${b.toFixed(2)}`);
  }
  assert.ok(our > 0.9, `ours ${our}`);
  assert.ok(our > their + 0.1, `ours ${our}, plain ${their}`);
  assert.ok(our > stemmed + 0.05, `ours ${our}, with porter ${stemmed}`);
});
