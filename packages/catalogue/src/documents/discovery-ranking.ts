import type { ServiceId } from "@turnpike/base";
import type { Service } from "../types.ts";

/** Orders services by how well they fit a query. */
export interface Ranking {
  /** Indices of the services that fit, best first; equals that answer now first, then in the catalogue's order. */
  rank(query: string, serves: (id: ServiceId) => boolean): readonly number[];
}

/** What a word is worth by where it stands; a word counts once, where it is worth most. */
const WEIGHTS = { name: 6, tags: 4, methods: 3, description: 2 } as const;
const PREFIX_SHARE = 0.5;
/** For a query that is a service's whole id or name: `base` is Base, before its test networks. */
const WHOLE_NAME_FACTOR = 2;
const MIN_PREFIX = 3;
const MAX_WORDS = 32;
const STOP_WORDS = new Set(
  "a an and any api are at be by can do for from get give how i in is it me my of on or that the this to use what with x402".split(
    " ",
  ),
);

/** Lower-case words without accents, each once; a plural counts as its singular. */
function wordsOf(text: string, most = Number.POSITIVE_INFINITY): readonly string[] {
  const found =
    text
      .normalize("NFKD")
      .toLowerCase()
      .replaceAll(/\p{M}/gu, "")
      .match(/[\p{L}\p{N}_]+/gu) ?? [];
  const kept = found.filter((word) => !STOP_WORDS.has(word));
  const singular = kept.map((word) => (word.length > 3 && /[^s]s$/.test(word) ? word.slice(0, -1) : word));
  return [...new Set(singular)].slice(0, most);
}

/** What each word of a service is worth. */
function worthOf({
  id,
  name,
  tags,
  category,
  families,
  operations,
  description,
}: Service): ReadonlyMap<string, number> {
  const worth = new Map<string, number>();
  const add = (text: string, weight: number): void => {
    for (const word of wordsOf(text)) worth.set(word, Math.max(weight, worth.get(word) ?? 0));
  };
  add(`${id} ${name}`, WEIGHTS.name);
  add([...tags, category, ...families].join(" "), WEIGHTS.tags);
  add([...operations.keys()].join(" "), WEIGHTS.methods);
  add(description, WEIGHTS.description);
  return worth;
}

function wordScore(worth: ReadonlyMap<string, number>, word: string): number {
  const exact = worth.get(word);
  if (exact !== undefined) return exact;
  if (word.length < MIN_PREFIX) return 0;
  let best = 0;
  for (const [own, weight] of worth) if (weight > best && own.startsWith(word)) best = weight;
  return best * PREFIX_SHARE;
}

/**
 * A ranking by words: each is worth its place times its rarity (idf, `ln(1 + n / df)`). Small and without state: the
 * catalogue has some hundred services.
 */
export function createRanking(services: readonly Service[]): Ranking {
  const worths = services.map(worthOf);
  const wholes = services.map(({ id, name }) => [id, name].map((text) => wordsOf(text).toSorted().join(" ")));
  return {
    rank(query, serves) {
      const scores = services.map(() => 0);
      const words = wordsOf(query, MAX_WORDS);
      for (const word of words) {
        const hits = worths.map((worth) => wordScore(worth, word));
        const df = hits.filter((score) => score > 0).length;
        for (const [index, score] of hits.entries()) {
          if (score > 0) scores[index] = (scores[index] ?? 0) + score * Math.log(1 + services.length / df);
        }
      }
      const whole = words.toSorted().join(" ");
      for (const [index, names] of wholes.entries()) {
        if (names.includes(whole)) scores[index] = (scores[index] ?? 0) * WHOLE_NAME_FACTOR;
      }
      const isServing = services.map(({ id }) => serves(id));
      return [...scores.keys()]
        .filter((index) => (scores[index] ?? 0) > 0)
        .sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0) || Number(isServing[b]) - Number(isServing[a]) || a - b);
    },
  };
}
