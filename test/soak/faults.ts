import type { Random } from "./random.ts";

/** What a supplier can do wrong. */
export const FAULTS = [
  "dead",
  "reset",
  "slow",
  "hang",
  "html",
  "error-page",
  "half-body",
  "empty",
  "not-json",
  "wrong-id",
  "no-jsonrpc",
  "both",
  "neither",
  "status-500",
  "status-429",
  "missing-item",
  "twice",
  "stale",
  "high",
] as const;

/** What a supplier does for a while. `reversed` is allowed: a batch may be answered in any order. */
export type Mood = (typeof FAULTS)[number] | "good" | "reversed";

/** Lies about the height: they must never be most of those that say one. */
export const LIES: ReadonlySet<Mood> = new Set(["stale", "high"]);

/** How one supplier is for a while. */
export interface Spell {
  readonly mood: Mood;
  /** Share of its answers that are so. */
  readonly share: number;
  readonly durationMs: number;
}

/** A supplier that is so says no height. */
const QUIET: ReadonlySet<Mood> = new Set(["dead", "hang", "reset", ...LIES]);

/**
 * What a supplier does next. `mayLie` is false while another lies. A supplier that is `steady` lives, lies never about
 * its height and fails in less than half of its answers, so that a lie stays a minority.
 */
export function nextSpell(random: Random, mayLie: boolean, steady: boolean): Spell {
  const durationMs = random.whole(500, 8_000);
  const roll = random.next();
  if (roll < 0.3) return { mood: "good", share: 1, durationMs };
  if (roll < 0.35) return { mood: "reversed", share: 1, durationMs };
  const [first, ...rest] = FAULTS.filter((mood) => (mayLie || !LIES.has(mood)) && !(steady && QUIET.has(mood)));
  if (first === undefined) return { mood: "good", share: 1, durationMs };
  const mood = random.pick([first, ...rest]);
  // A lie is told to all; other faults come often or always.
  const isAlways = LIES.has(mood) || random.next() < 0.5;
  return { mood, share: steady ? 0.4 : isAlways ? 1 : 0.2 + random.next() * 0.6, durationMs };
}
