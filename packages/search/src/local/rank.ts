import type { TextHit } from "./hits.ts";
import type { Term } from "./terms.ts";

/** What is known of a candidate when it is ranked. */
export interface Candidate {
  readonly id: number;
  /** FTS5's bm25 over the columns, turned so that more is better. */
  readonly bm25: number;
  readonly url: string;
  readonly language: string;
  readonly title: { readonly hits: readonly TextHit[]; readonly words: number };
  readonly address: readonly TextHit[];
  readonly body: readonly TextHit[];
}

/**
 * Weight of each signal. Chosen by hand, then compared with `npm run bench -- search known-item`, whose labels come from
 * outside: more for coverage made it worse. The labelled set of `relevance.test.ts` tests what is found, not its order.
 */
const WEIGHT = {
  bm25: 0.6,
  coverage: 0.5,
  title: 0.4,
  /** The whole query, side by side in the title: a page's section has its own heading behind the page's title. */
  titlePhrase: 0.3,
  near: 0.25,
  inOrder: 0.15,
  exact: 0.1,
  language: 0.2,
};

/** How rare a word is: the logarithm that BM25 takes, never below a small part. */
function weightOf(documents: number, all: number): number {
  return Math.max(0.05, Math.log(1 + (all - Math.min(documents, all) + 0.5) / (documents + 0.5)));
}

/** Words in the shortest stretch that has all the terms which the text has. */
function shortestSpan(hits: readonly TextHit[], distinct: number): number {
  const counts = new Map<number, number>();
  let from = 0;
  let best = Number.POSITIVE_INFINITY;
  for (const hit of hits) {
    counts.set(hit.term, (counts.get(hit.term) ?? 0) + 1);
    while (counts.size === distinct) {
      const first = hits[from];
      if (first === undefined) break;
      best = Math.min(best, hit.ordinal - first.ordinal + 1);
      const left = (counts.get(first.term) ?? 1) - 1;
      if (left === 0) counts.delete(first.term);
      else counts.set(first.term, left);
      from++;
    }
  }
  return best;
}

function shareInOrder(hits: readonly TextHit[], terms: number): number {
  const pairs = new Set<number>();
  for (const [index, hit] of hits.entries()) {
    const next = hits[index + 1];
    if (next !== undefined && next.term === hit.term + 1 && next.ordinal - hit.ordinal <= 3) pairs.add(hit.term);
  }
  return terms > 1 ? pairs.size / (terms - 1) : 0;
}

function scoreOf(candidate: Candidate, weights: readonly number[], best: number, language: string | undefined): number {
  const { title, address, body } = candidate;
  const total = weights.reduce((sum, weight) => sum + weight, 0) || 1;
  const share = (terms: Iterable<number>): number =>
    [...terms].reduce((sum, term) => sum + (weights[term] ?? 0), 0) / total;
  const termsIn = (hits: readonly TextHit[]): ReadonlySet<number> => new Set(hits.map(({ term }) => term));
  const inTitle = termsIn(title.hits);
  const inBody = termsIn(body);
  const everywhere = new Set([...inTitle, ...inBody, ...termsIn(address)]);
  const exact = new Set([...title.hits, ...body].filter(({ isExact }) => isExact).map(({ term }) => term));
  const precision = title.words === 0 ? 0 : Math.min(1, inTitle.size / title.words);
  const span = inBody.size > 1 ? shortestSpan(body, inBody.size) : 0;
  const near = span === 0 ? 0 : ((inBody.size - 1) / Math.max(1, span - 1)) * share(inBody);
  return (
    WEIGHT.bm25 * (best > 0 ? candidate.bm25 / best : 0) +
    WEIGHT.coverage * share(everywhere) +
    WEIGHT.title * share(inTitle) * (0.5 + 0.5 * precision) +
    (weights.length > 1 && shareInOrder(title.hits, weights.length) === 1 ? WEIGHT.titlePhrase : 0) +
    WEIGHT.near * near +
    WEIGHT.inOrder * Math.max(shareInOrder(body, weights.length), shareInOrder(title.hits, weights.length)) +
    WEIGHT.exact * share(exact) +
    (language === undefined || language === candidate.language ? WEIGHT.language : 0)
  );
}

/** What a further result of a host that has three already loses of its score, each time. */
const SAME_HOST = 0.96;

/** Orders candidates, the best first; of one host not all at the top when others are as good. */
export function rank<C extends Candidate>(
  candidates: readonly C[],
  terms: readonly Term[],
  allDocuments: number,
  language: string | undefined,
): readonly C[] {
  const weights = termWeights(terms, allDocuments);
  const best = Math.max(0, ...candidates.map(({ bm25 }) => bm25));
  const scored = candidates
    .map((candidate) => ({ candidate, score: scoreOf(candidate, weights, best, language) }))
    .toSorted((a, b) => b.score - a.score || a.candidate.id - b.candidate.id);
  const seen = new Map<string, number>();
  return scored
    .map(({ candidate, score }) => {
      const host = URL.parse(candidate.url)?.host ?? "";
      const before = seen.get(host) ?? 0;
      seen.set(host, before + 1);
      return { candidate, score: before < 3 ? score : score * SAME_HOST ** (before - 2) };
    })
    .toSorted((a, b) => b.score - a.score || a.candidate.id - b.candidate.id)
    .map(({ candidate }) => candidate);
}

/** Weights of a query's terms; one that the index does not have counts as the rarest. */
export function termWeights(terms: readonly Term[], allDocuments: number): readonly number[] {
  return terms.map(({ documents, isPhrase }) => weightOf(isPhrase ? 1 : documents, allDocuments));
}
