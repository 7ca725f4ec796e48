import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";

/** The labelled set: texts, queries, and which texts answer them. */
export interface LabelledSet {
  readonly documents: readonly {
    readonly id: string;
    readonly language: string;
    readonly url: string;
    readonly title: string;
    readonly text: string;
  }[];
  readonly queries: readonly { readonly query: string; readonly grades: Readonly<Record<string, number>> }[];
}

/** Reads the labelled set. */
export function readLabelledSet(): LabelledSet {
  const file = new URL("../../../../test/spec/search/relevance.json", import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")) as LabelledSet;
}

/** Discounted gain of grades in their order, with gain 2^grade - 1 (Burges et al. 2005). */
function gain(grades: readonly number[]): number {
  return grades.reduce((sum, grade, rank) => sum + (2 ** grade - 1) / Math.log2(rank + 2), 0);
}

/** nDCG of the first ten: 1 is the best order there is. */
export function ndcg10(ids: readonly string[], grades: Readonly<Record<string, number>>): number {
  const best = gain(
    Object.values(grades)
      .toSorted((a, b) => b - a)
      .slice(0, 10),
  );
  return gain(ids.slice(0, 10).map((id) => grades[id] ?? 0)) / best;
}

/** What {@link plainFts5} is asked with: FTS5's default tokenizer, or the one that takes English endings off. */
export type PlainTokenizer = "unicode61" | "porter";

/**
 * Plain FTS5: one table of title, address and text, those with all of the raw words first, then those with any, each in
 * bm25's order with its own weights. No small words are left out, and no language is known.
 */
export function plainFts5(
  set: { readonly documents: readonly Omit<LabelledSet["documents"][number], "language">[] },
  maxResults: number,
  tokenizer: PlainTokenizer = "unicode61",
): (query: string) => readonly string[] {
  const database = new DatabaseSync(":memory:");
  database.exec(`create virtual table plain using fts5 (id unindexed, title, url, text, tokenize = '${tokenizer}')`);
  const add = database.prepare("insert into plain values (?, ?, ?, ?)");
  for (const { id, title, url, text } of set.documents) add.run(id, title, url, text);
  const find = database.prepare("select id from plain where plain match ? order by rank limit ?");
  return (query) => {
    const words = [...query.matchAll(/[\p{L}\p{N}\p{M}]+/gu)].map(([word]) => `"${word}"`);
    const run = (expression: string): readonly string[] => find.all(expression, maxResults).map(({ id }) => String(id));
    // those with any of the words fill up what those with all of them leave
    return [...new Set([...run(words.join(" AND ")), ...run(words.join(" OR "))])].slice(0, maxResults);
  };
}
