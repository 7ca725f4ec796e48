/** Most items in any window, and how many keys are counted one by one. */
export interface SlidingWindowOptions {
  /** Most items of a key in any window. */
  readonly requests: number;
  readonly windowMs: number;
  /** Most keys with a count of their own; see {@link SlidingWindow}. */
  readonly maxKeys: number;
  /** Secret, so that no client can choose which keys share a count. */
  readonly hashSeed: number;
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

const emptyCount = (sharedUntilMs: number): Count => ({ entries: [], head: 0, total: 0, sharedUntilMs });

/** Milliseconds that count as one: requests of one tick leave the window together, at most that much late. */
export function tickMsOf(windowMs: number): number {
  return Math.max(1, Math.ceil(windowMs / MAX_TICKS));
}

/**
 * Counts of the last `windowMs`, by key; times are monotonic milliseconds. It is exact: never more than `requests` in any
 * `windowMs`, and no item is kept out that would fit, but for one tick (1 ms for windows up to a minute, else 1/60,000 of
 * it).
 *
 * A key that has live items is never evicted. When `maxKeys` keys are live, further keys share 4,096 counts: a flood of
 * addresses costs neither memory nor another client's count, and those who come during it may be limited together.
 */
export class SlidingWindow {
  readonly #opts: SlidingWindowOptions;
  readonly #tickMs: number;
  readonly #own = new Map<string, Count>();
  readonly #sharedCounts: (Count | undefined)[] = [];
  #sharedUntilMs = Number.NEGATIVE_INFINITY;
  #sharedItems = 0;
  /** One iterator that goes round and round: a new one would step over all that was deleted before. */
  #sweep = this.#own.entries();

  constructor(opts: SlidingWindowOptions) {
    this.#opts = opts;
    this.#tickMs = tickMsOf(opts.windowMs);
  }

  /** Keys with a count of their own. */
  get size(): number {
    return this.#own.size;
  }

  /** Items that were counted in a shared count. */
  get shared(): number {
    return this.#sharedItems;
  }

  /** Items that count now. */
  used(key: string, nowMs: number): number {
    const own = this.#own.get(key);
    const share = this.#shareOf(key, own, nowMs);
    return (own === undefined ? 0 : this.#prune(own, nowMs)) + (share === undefined ? 0 : this.#prune(share, nowMs));
  }

  /** Counts items, whether or not they fit. */
  add(key: string, items: number, nowMs: number): void {
    const count = this.#own.get(key) ?? this.#newCount(key, items, nowMs);
    this.#prune(count, nowMs);
    const { entries } = count;
    const last = entries.length - 2;
    const newest = last >= count.head ? (entries[last] ?? 0) : Number.NEGATIVE_INFINITY;
    const tick = Math.max(newest, Math.ceil(nowMs / this.#tickMs));
    if (tick === newest) entries[last + 1] = (entries[last + 1] ?? 0) + items;
    else entries.push(tick, items);
    count.total += items;
  }

  /**
   * Time until this many more items fit, if no others come; the whole window for more than ever fit. `most` is for keys
   * that have another number than the rest.
   */
  waitMs(key: string, items: number, nowMs: number, most = this.#opts.requests): number {
    const { windowMs } = this.#opts;
    if (items > most) return windowMs;
    const own = this.#own.get(key);
    const counts = [own, this.#shareOf(key, own, nowMs)].filter((count) => count !== undefined);
    const over = counts.reduce((sum, count) => sum + this.#prune(count, nowMs), items - most);
    if (over <= 0) return 0;
    const [first, second] = counts;
    if (first === undefined) return windowMs;
    const entries = second === undefined ? first.entries : merged(first, second);
    return this.#leavesAtMs(tickThatFrees(entries, second === undefined ? first.head : 0, over)) - nowMs;
  }

  /** Time until the oldest item no longer counts; the whole window when there is none. */
  oldestLeavesMs(key: string, nowMs: number): number {
    const own = this.#own.get(key);
    const isOwn = own !== undefined && this.#prune(own, nowMs) > 0;
    const count = isOwn ? own : this.#shareOf(key, own, nowMs);
    if (count === undefined || this.#prune(count, nowMs) === 0) return this.#opts.windowMs;
    return this.#leavesAtMs(count.entries[count.head] ?? 0) - nowMs;
  }

  #leavesAtMs(tick: number): number {
    return tick * this.#tickMs + this.#opts.windowMs;
  }

  /** Removes the items that have left the window, and returns how many are left. */
  #prune(count: Count, nowMs: number): number {
    const { entries } = count;
    let { head } = count;
    while (head < entries.length && this.#leavesAtMs(entries[head] ?? 0) <= nowMs) {
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
  }

  /** The count for a key that has none of its own: a new one, or a shared one when there are too many keys. */
  #newCount(key: string, items: number, nowMs: number): Count {
    const { maxKeys, windowMs } = this.#opts;
    this.#sweepKeys(this.#own.size >= maxKeys ? SWEEP_FULL : SWEEP, nowMs);
    if (this.#own.size < maxKeys) {
      const count = emptyCount(this.#sharedUntilMs);
      this.#own.set(key, count);
      return count;
    }
    const at = this.#sharedAt(key);
    const count = this.#sharedCounts[at] ?? emptyCount(0);
    this.#sharedCounts[at] = count;
    this.#sharedUntilMs = Math.max(this.#sharedUntilMs, nowMs + windowMs + this.#tickMs);
    this.#sharedItems += items;
    return count;
  }

  /** The shared count that a key's items may also be in. */
  #shareOf(key: string, own: Count | undefined, nowMs: number): Count | undefined {
    return (own?.sharedUntilMs ?? this.#sharedUntilMs) > nowMs ? this.#sharedCounts[this.#sharedAt(key)] : undefined;
  }

  /** FNV-1a from a secret start. */
  #sharedAt(key: string): number {
    let hash = this.#opts.hashSeed | 0;
    for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
    return (hash ^ (hash >>> 15)) & (SHARED_COUNTS - 1);
  }

  /** Evicts keys without live items, some at a time. */
  #sweepKeys(most: number, nowMs: number): void {
    for (let left = Math.min(most, this.#own.size); left > 0; left--) {
      let next = this.#sweep.next();
      if (next.done === true) {
        this.#sweep = this.#own.entries();
        next = this.#sweep.next();
      }
      if (next.done === true) return;
      const [key, count] = next.value;
      if (this.#prune(count, nowMs) === 0) this.#own.delete(key);
    }
  }
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
