/** Pseudo-random numbers that a seed repeats. Not for secrets. */
export interface Random {
  /** A number of [0, 1). */
  next(): number;
  /** A whole number of [from, to]. */
  whole(from: number, to: number): number;
  pick<T>(list: readonly [T, ...T[]]): T;
}

/** Mulberry32 (T. Ettinger, public domain). */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    next,
    whole: (from, to) => from + Math.floor(next() * (to - from + 1)),
    pick: (list) => list[Math.floor(next() * list.length)] ?? list[0],
  };
}
