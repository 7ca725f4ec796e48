import type { ServiceFacts } from "./documents.ts";

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];

/** How well a word fits a text: whole words count more than beginnings, beginnings more than parts. */
function fit(word: string, text: string): number {
  const low = text.toLowerCase();
  if (!low.includes(word)) return 0;
  const words = wordsOf(low);
  if (words.includes(word)) return 1;
  if (words.some((one) => one.startsWith(word))) return 0.6;
  return word.length >= 4 ? 0.25 : 0;
}

function scoreOf(service: ServiceFacts, words: readonly string[]): number {
  let sum = 0;
  for (const word of words) {
    const best = Math.max(
      service.id === word ? 12 : 6 * fit(word, service.id),
      8 * fit(word, service.name),
      4 * Math.max(0, ...service.tags.map((tag) => fit(word, tag))),
      4 * fit(word, service.category),
      2 * fit(word, service.description),
      3 * Math.max(0, ...service.operations.map((name) => fit(word, name))),
    );
    sum += best;
  }
  return sum;
}

/** Services that fit, the best first; those that answer now come before those that do not. Without a query, all. */
export function rankServices(
  services: readonly ServiceFacts[],
  query: string | undefined,
  category: string | undefined,
): readonly ServiceFacts[] {
  const wanted = category?.trim().toLowerCase();
  const kept = services.filter((one) => wanted === undefined || wanted === "" || one.category.toLowerCase() === wanted);
  const words = [...new Set(wordsOf(query ?? ""))].slice(0, 16);
  const scored = kept.map((service, at) => ({ service, at, score: scoreOf(service, words) }));
  const hits = words.length === 0 ? scored : scored.filter(({ score }) => score > 0);
  return hits
    .sort((a, b) => b.score - a.score || Number(b.service.servesNow) - Number(a.service.servesNow) || a.at - b.at)
    .map(({ service }) => service);
}
