import type { TextHit } from "./hits.ts";

const SENTENCE_END = /[.!?。！？…\n]/u;
const ELLIPSIS = "…";

function clean(text: string): string {
  return text
    .replace(/\p{Cf}+/gu, "")
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ")
    .toWellFormed()
    .trim();
}

const isTail = (text: string, at: number): boolean => at > 0 && (text.charCodeAt(at) & 0xfc00) === 0xdc00;

/** Start of the sentence or of the word that `at` is in, not before `least`. */
function startBefore(text: string, at: number, least: number): number {
  if (least === 0 && text.slice(0, at).trim() === "") return 0;
  for (let i = at - 1; i >= least; i--) {
    if (
      SENTENCE_END.test(text.charAt(i)) &&
      (text.charAt(i) === "\n" || /^\s?$/u.test(text.charAt(i + 1)) || text.charCodeAt(i) > 0x2fff)
    ) {
      return i + 1;
    }
  }
  if (least === 0) return 0;
  for (let i = least; i < at; i++) if (/\s/u.test(text.charAt(i))) return i + 1;
  return least;
}

/** The best place: where within `length` characters the most weight of different words stands. */
function bestStretch(
  hits: readonly TextHit[],
  weights: readonly number[],
  length: number,
): { readonly start: number; readonly end: number } {
  const inside = new Map<number, number>();
  let from = 0;
  let best = { start: 0, end: 0, weight: -1 };
  let weight = 0;
  for (const hit of hits) {
    const count = inside.get(hit.term) ?? 0;
    inside.set(hit.term, count + 1);
    // again the same word: a little better than once
    weight += (weights[hit.term] ?? 0) * (count === 0 ? 1 : 0.05);
    for (let first = hits[from]; first !== undefined && hit.end - first.start > length; first = hits[from]) {
      const left = (inside.get(first.term) ?? 1) - 1;
      inside.set(first.term, left);
      weight -= (weights[first.term] ?? 0) * (left === 0 ? 1 : 0.05);
      from++;
    }
    if (weight > best.weight + 1e-9) best = { start: hits[from]?.start ?? hit.start, end: hit.end, weight };
  }
  return best;
}

/** The passage of a text that says most of what was asked: plain text of at most `maxChars` characters. */
export function snippetOf(
  text: string,
  hits: readonly TextHit[],
  weights: readonly number[],
  maxChars: number,
): string {
  const room = Math.max(8, maxChars - 2 * ELLIPSIS.length);
  const best = bestStretch(hits, weights, Math.floor(room * 0.8));
  const spare = Math.max(0, room - (best.end - best.start));
  let start = best.start === 0 ? 0 : startBefore(text, best.start, Math.max(0, best.start - Math.floor(spare * 0.8)));
  // near its end, so that the passage is not cut short for nothing
  if (text.length - start < room)
    start = Math.max(0, Math.min(start, startBefore(text, text.length - room + 1, text.length - room)));
  let end = Math.min(text.length, start + room);
  if (end < text.length) {
    const space = text.slice(start, end).search(/\s\S*$/u);
    if (space > room * 0.6) end = start + space;
  }
  // not through the middle of a character
  if (isTail(text, start)) start++;
  if (isTail(text, end)) end--;
  const passage = clean(text.slice(start, end));
  const before = start > 0 && clean(text.slice(Math.max(0, start - 200), start)) !== "" ? ELLIPSIS : "";
  const after = end < text.length && clean(text.slice(end, end + 200)) !== "" ? ELLIPSIS : "";
  return passage === "" ? "" : `${before}${passage}${after}`;
}
