import type { DatabaseSync } from "node:sqlite";

/** What words an index has, and in how many documents. Remembers what was asked. */
export interface Vocabulary {
  /** Documents that have a form; of a phrase 1. */
  documentsWith(form: string): number;
  /** Words one letter away (two for long ones), the most frequent first, at most two. */
  nearly(folded: string): readonly string[];
}

const MAX_KEPT = 50_000;
const MAX_SCANNED = 4_000;

/** Letters to change, add, leave out or swap to make one of the other; more than `most` is `most + 1`. */
function editDistance(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return most + 1;
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let value = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        value = Math.min(value, (before[j - 2] ?? 0) + 1);
      row.push(value);
      least = Math.min(least, value);
    }
    if (least > most) return most + 1;
    before = last;
    last = row;
  }
  return last[b.length] ?? most + 1;
}

/** Reads the words of a connection of `openForReading`. */
export function createVocabulary(database: DatabaseSync): Vocabulary {
  const one = database.prepare("select doc from temp.vocabulary where term = ?");
  const range = database.prepare("select term, doc from temp.vocabulary where term >= ? and term < ? limit ?");
  const kept = new Map<string, number>();
  const documentsWith = (form: string): number => {
    const known = kept.get(form);
    if (known !== undefined) return known;
    const documents = Number(one.get(form)?.doc ?? 0);
    if (kept.size >= MAX_KEPT) kept.clear();
    kept.set(form, documents);
    return documents;
  };
  return {
    documentsWith,
    nearly(folded) {
      if (folded.length < 5 || folded.length > 32 || !/^\p{L}+$/u.test(folded)) return [];
      // the first two letters are hardly ever the wrong ones
      const start = folded.slice(0, 2);
      const most = folded.length >= 9 ? 2 : 1;
      return range
        .all(start, `${start}\u{10ffff}`, MAX_SCANNED)
        .map(({ term, doc }) => ({ term: String(term), documents: Number(doc) }))
        .filter(({ term }) => editDistance(folded, term, most) <= most)
        .toSorted((a, b) => b.documents - a.documents)
        .slice(0, 2)
        .map(({ term }) => term);
    },
  };
}
