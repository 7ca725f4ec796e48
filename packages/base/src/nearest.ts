/** A longer word is compared with nothing: what is asked may come from anybody. */
const MAX_WORD_LENGTH = 128;

/** Number of single-letter edits between two words. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

const clean = (text: string): string => text.toLowerCase().replaceAll(/[-_]/g, "");

/** The known word that is most like an unknown one, but for case, `-` and `_`; undefined when none is near. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  if (word.length > MAX_WORD_LENGTH) return undefined;
  const wanted = clean(word);
  const most = Math.max(2, Math.floor(word.length / 3));
  let best: string | undefined;
  let bestDistance = most + 1;
  for (const name of known) {
    const other = clean(name);
    if (Math.abs(other.length - wanted.length) >= bestDistance) continue;
    const distance = editDistance(wanted, other);
    if (distance < bestDistance) [best, bestDistance] = [name, distance];
  }
  return best;
}
