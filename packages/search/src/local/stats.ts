import type { DatabaseSync } from "node:sqlite";
import type { IndexStats } from "../types.ts";

/** What there is where no index is. */
export const NO_STATS: IndexStats = { documents: 0, bytes: 0, collections: [], languages: {} };

/** Counts what an index holds. */
export function readStats(database: DatabaseSync, bytes: number): IndexStats {
  const collections = database
    .prepare(
      "select c.name, count(*) as documents from documents d join collections c on c.id = d.collection group by c.id order by c.name",
    )
    .all()
    .map(({ name, documents }) => ({ name: String(name), documents: Number(documents) }));
  const languages = Object.fromEntries(
    database
      .prepare(
        "select language, count(*) as documents from documents group by language order by documents desc, language",
      )
      .all()
      .map(({ language, documents }) => [String(language), Number(documents)]),
  );
  return { documents: collections.reduce((sum, { documents }) => sum + documents, 0), bytes, collections, languages };
}
