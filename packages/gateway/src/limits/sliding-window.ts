/** Options of {@link createSlidingWindow}. */
export interface SlidingWindowOptions {
  /** Most items of a key in any window. */
  readonly requests: number;
  readonly windowMs: number;
  /** Most keys with a count of their own; see {@link createSlidingWindow}. */
  readonly maxKeys: number;
  /** Secret, so that nobody can choose whose count is shared with whose. */
  readonly hashSeed: number;
}

/** Counts of the last `windowMs`, by key. Times are monotonic milliseconds. */
export interface SlidingWindow {
  /** Items that count now. */
  used(key: string, nowMs: number): number;
  /** Counts items, whether or not they fit. */
  add(key: string, items: number, nowMs: number): void;
  /**
   * Time until this many more items fit, if no others come; the whole window for more than ever fit. `most` is for keys
   * that have another number than the rest.
   */
  waitMs(key: string, items: number, nowMs: number, most?: number): number;
  /** Time until the oldest item no longer counts; the whole window when there is none. */
  oldestLeavesMs(key: string, nowMs: number): number;
  /** Keys with a count of their own. */
  readonly size: number;
  /** Items that were counted in a shared count. */
  readonly shared: number;
}

/** What was counted, oldest first: `entries` is tick, items, tick, items, …, live from `head` on. */
interface Count {
  entries: number[];
  head: number;
  total: number;
  /** Until then the key may also have items in its shared count. */
  sharedUntilMs: number;
}

/** Entries that one count can have: with windows up to a minute every millisecond has its own. */
const MAX_TICKS = 60_000;
const SHARED_COUNTS = 4_096;
/** Keys looked at for each new one. */
const SWEEP = 2;
const SWEEP_FULL = 8;

const newCount = (sharedUntilMs: number): Count => ({ entries: [], head: 0, total: 0, sharedUntilMs });

/** Milliseconds that count as one: requests of one tick leave the window together, at most that much late. */
export function tickMsOf(windowMs: number): number {
  return Math.max(1, Math.ceil(windowMs / MAX_TICKS));
}

/**
 * An exact sliding window: never more than `requests` in any `windowMs`, and no item is kept out that would fit, but
 * for one tick (1 ms for windows up to a minute, else 1/60,000 of it).
 *
 * A key that has live items is never forgotten. When `maxKeys` keys are live, further keys share 4,096 counts: a flood
 * of addresses costs neither memory nor anybody's count, and those who come during it may be limited together.
 */
export function createSlidingWindow(opts: SlidingWindowOptions): SlidingWindow {
  const { requests, windowMs, maxKeys } = opts;
  const tickMs = tickMsOf(windowMs);
  const own = new Map<string, Count>();
  const sharedCounts: (Count | undefined)[] = [];
  let sharedUntilMs = Number.NEGATIVE_INFINITY;
  let sharedItems = 0;

  const leavesAt = (tick: number): number => tick * tickMs + windowMs;

  const prune = (count: Count, nowMs: number): number => {
    const { entries } = count;
    let { head } = count;
    while (head < entries.length && leavesAt(entries[head] ?? 0) <= nowMs) {
      count.total -= entries[head + 1] ?? 0;
      head += 2;
    }
    count.head = head;
    if (head === entries.length && head > 0) {
      count.entries = [];
      count.head = 0;
    } else if (head > 64 && head * 2 > entries.length) {
      count.entries = entries.slice(head);
      count.head = 0;
    }
    return count.total;
  };

  const record = (count: Count, items: number, nowMs: number): void => {
    const { entries } = count;
    const last = entries.length - 2;
    const newest = last >= count.head ? (entries[last] ?? 0) : Number.NEGATIVE_INFINITY;
    const tick = Math.max(newest, Math.ceil(nowMs / tickMs));
    if (tick === newest) entries[last + 1] = (entries[last + 1] ?? 0) + items;
    else entries.push(tick, items);
    count.total += items;
  };

  /** FNV-1a from a secret start. */
  const sharedAt = (key: string): number => {
    let hash = opts.hashSeed | 0;
    for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
    return (hash ^ (hash >>> 15)) & (SHARED_COUNTS - 1);
  };

  const shareOf = (key: string, untilMs: number, nowMs: number): Count | undefined =>
    untilMs > nowMs ? sharedCounts[sharedAt(key)] : undefined;

  /** The one or two counts that a key's items are in. */
  const countsOf = (key: string, nowMs: number): readonly [Count | undefined, Count | undefined] => {
    const count = own.get(key);
    return [count, shareOf(key, count?.sharedUntilMs ?? sharedUntilMs, nowMs)];
  };

  // One iterator that goes round and round: a new one would step over all that was deleted before.
  let round = own.entries();

  /** Drops keys without live items, some at a time. */
  const sweep = (most: number, nowMs: number): void => {
    for (let left = Math.min(most, own.size); left > 0; left--) {
      let next = round.next();
      if (next.done === true) {
        round = own.entries();
        next = round.next();
      }
      if (next.done === true) return;
      const [key, count] = next.value;
      if (prune(count, nowMs) === 0) own.delete(key);
    }
  };

  return {
    used(key, nowMs) {
      const [count, share] = countsOf(key, nowMs);
      return (count === undefined ? 0 : prune(count, nowMs)) + (share === undefined ? 0 : prune(share, nowMs));
    },
    add(key, items, nowMs) {
      let count = own.get(key);
      if (count === undefined) {
        sweep(own.size >= maxKeys ? SWEEP_FULL : SWEEP, nowMs);
        if (own.size < maxKeys) {
          count = newCount(sharedUntilMs);
          own.set(key, count);
        } else {
          const at = sharedAt(key);
          count = sharedCounts[at] ?? newCount(0);
          sharedCounts[at] = count;
          sharedUntilMs = Math.max(sharedUntilMs, nowMs + windowMs + tickMs);
          sharedItems += items;
        }
      }
      prune(count, nowMs);
      record(count, items, nowMs);
    },
    waitMs(key, items, nowMs, most = requests) {
      if (items > most) return windowMs;
      const counts = countsOf(key, nowMs).filter((count) => count !== undefined);
      const over = counts.reduce((sum, count) => sum + prune(count, nowMs), items - most);
      if (over <= 0) return 0;
      const [first, second] = counts;
      if (first === undefined) return windowMs;
      const entries = second === undefined ? first.entries : merged(first, second);
      return leavesAt(tickThatFrees(entries, second === undefined ? first.head : 0, over)) - nowMs;
    },
    oldestLeavesMs(key, nowMs) {
      const count = countsOf(key, nowMs).find((one) => one !== undefined && prune(one, nowMs) > 0);
      return count === undefined ? windowMs : leavesAt(count.entries[count.head] ?? 0) - nowMs;
    },
    get size() {
      return own.size;
    },
    get shared() {
      return sharedItems;
    },
  };
}

/** The live entries of two counts, oldest first. */
function merged(...counts: readonly Count[]): readonly number[] {
  const pairs: (readonly [number, number])[] = [];
  for (const { entries, head } of counts) {
    for (let at = head; at < entries.length; at += 2) pairs.push([entries[at] ?? 0, entries[at + 1] ?? 0]);
  }
  return pairs.sort(([a], [b]) => a - b).flat();
}

/** Tick of the entry with which `over` items have left. */
function tickThatFrees(entries: readonly number[], head: number, over: number): number {
  let left = over;
  let at = head;
  while (at < entries.length - 2) {
    left -= entries[at + 1] ?? 0;
    if (left <= 0) break;
    at += 2;
  }
  return entries[at] ?? 0;
}
