import type { Bytes, Derivation, RangeOptions, StateChange, StateReader } from "@turnpike/chain-store";
import { bytesToText, textAfterPrefix, textToBytes } from "./bytes.ts";

/** What can be read: a committed state, or an {@link Overlay}. */
export type StateReads = Pick<StateReader, "get" | "range" | "derived">;

/** A state that can be read and written. */
export interface StateView extends StateReads {
  set(key: Bytes, value: Bytes): void;
  delete(key: Bytes): void;
}

/** Derived values that stay in memory; each is of entries that were written here. */
const MAX_DERIVED = 8;
/** Values of the state below that stay in memory, and the longest of them: some 20 MB at most. */
const MOST_READS = 10_000;
const MOST_KEPT_BYTES = 2_048;

/** New keys beside the list of all, where that is short. */
const MOST_RECENT = 256;

interface Derived {
  readonly derivation: Derivation<unknown>;
  readonly prefix: string;
  value: unknown;
  /** Keys under the prefix that were written since. */
  readonly changed: Set<string>;
}

interface Bounds {
  readonly low: string;
  readonly high: string | undefined;
}

/** Place of the first of sorted keys that is not before this one. */
function place(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] ?? "") < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

function boundsOf({ prefix, from, to }: RangeOptions): Bounds {
  const first = bytesToText(prefix);
  const start = from === undefined ? first : bytesToText(from);
  const afterPrefix = textAfterPrefix(first);
  const end = to === undefined ? afterPrefix : bytesToText(to);
  const high = end === undefined || (afterPrefix !== undefined && afterPrefix < end) ? afterPrefix : end;
  const startsInside = start >= first;
  return { low: startsInside ? start : first, high };
}

/**
 * Writes over a state, kept apart until {@link commit}. Overlays stack: one per block, per transaction, per message.
 * The state below must not change while an overlay on it is in use. A range may be written to while it is walked: what
 * lies ahead is seen as it is when the walk gets there.
 */
export class Overlay implements StateView {
  readonly #base: StateReads;
  // What the state below gave, so that it is not asked again.
  readonly #reads = new Map<string, Bytes | undefined>();
  readonly #writes = new Map<string, Bytes | undefined>();
  // Keys of the writes, in order. New ones are in a short list of their own: one that is written while a long range is walked
  // would move all that are behind it.
  #sorted: string[] = [];
  readonly #recent: string[] = [];
  #unsorted: string[] = [];
  // Of prefixes under which something was written here.
  readonly #derived: Derived[] = [];

  constructor(base: StateReads) {
    this.#base = base;
  }

  get(key: Bytes): Bytes | undefined {
    return this.#read(bytesToText(key), key);
  }

  set(key: Bytes, value: Bytes): void {
    this.#write(bytesToText(key), new Uint8Array(value));
  }

  delete(key: Bytes): void {
    this.#write(bytesToText(key), undefined);
  }

  *range(options: RangeOptions): Generator<readonly [key: Bytes, value: Bytes]> {
    const { low, high } = boundsOf(options);
    const reverse = options.reverse === true;
    const below = this.#base.range(options)[Symbol.iterator]();
    try {
      let next = below.next();
      let last: string | undefined;
      for (;;) {
        let baseKey = next.done === true ? undefined : bytesToText(next.value[0]);
        while (baseKey !== undefined && this.#writes.has(baseKey)) {
          next = below.next();
          baseKey = next.done === true ? undefined : bytesToText(next.value[0]);
        }
        const own = reverse ? this.#before(last ?? high, low) : this.#after(last, low, high);
        if (own === undefined && (baseKey === undefined || next.done === true)) return;
        const takeOwn = own !== undefined && (baseKey === undefined || (reverse ? own > baseKey : own < baseKey));
        if (takeOwn) {
          last = own;
          const value = this.#writes.get(own);
          if (value !== undefined) yield [textToBytes(own), value];
        } else if (next.done !== true) {
          last = baseKey;
          const entry = next.value;
          next = below.next();
          yield entry;
        }
      }
    } finally {
      below.return?.();
    }
  }

  derived<T>(derivation: Derivation<T>, prefix: Bytes): T {
    const { low, high } = boundsOf({ prefix });
    if (this.#base.derived !== undefined && this.#after(undefined, low, high) === undefined) {
      return this.#base.derived(derivation, prefix);
    }
    let derived = this.#derived.find((one) => one.derivation === derivation && one.prefix === low);
    if (derived === undefined) {
      derived = this.#derivedBelow(derivation, prefix, { low, high }) ?? {
        derivation,
        prefix: low,
        value: derivation.make(this.range({ prefix })),
        changed: new Set(),
      };
      if (this.#derived.length >= MAX_DERIVED) this.#derived.shift();
      this.#derived.push(derived);
    }
    if (derived.changed.size > 0) {
      const changes = Array.from(derived.changed, (key): StateChange => [textToBytes(key), this.#writes.get(key)]);
      derived.value = derivation.update?.(derived.value as T, changes);
      derived.changed.clear();
    }
    return derived.value as T;
  }

  // Derivation of the state below, before the writes of this overlay are applied.
  #derivedBelow<T>(derivation: Derivation<T>, prefix: Bytes, { low, high }: Bounds): Derived | undefined {
    if (this.#base.derived === undefined || derivation.update === undefined) return undefined;
    const changed = new Set<string>();
    for (let key = this.#after(undefined, low, high); key !== undefined; key = this.#after(key, low, high)) {
      changed.add(key);
    }
    return { derivation, prefix: low, value: this.#base.derived(derivation, prefix), changed };
  }

  /** Writes everything into the state below, which must be one that can be written, and discards it here. */
  commitTo(target: StateView): void {
    for (const [key, value] of this.#writes) {
      if (target instanceof Overlay) target.#write(key, value);
      else if (value === undefined) target.delete(textToBytes(key));
      else target.set(textToBytes(key), value);
    }
    this.discard();
  }

  /** Everything that was written, in no order, whether it differs from the state below or not. */
  writes(): StateChange[] {
    return Array.from(this.#writes, ([key, value]) => [textToBytes(key), value]);
  }

  /** Discards everything that was written. */
  discard(): void {
    this.#writes.clear();
    this.#sorted = [];
    this.#recent.length = 0;
    this.#unsorted = [];
    this.#derived.length = 0;
  }

  /** What differs from the state below, in the order of the keys. */
  changes(): StateChange[] {
    this.#mergeRecent();
    const changes: StateChange[] = [];
    for (const text of this.#sorted) {
      const key = textToBytes(text);
      const value = this.#writes.get(text);
      const old = this.#readBelow(text, key);
      const same = value === undefined ? old === undefined : old !== undefined && Buffer.compare(old, value) === 0;
      if (!same) changes.push([key, value]);
    }
    return changes;
  }

  #read(text: string, key: Bytes): Bytes | undefined {
    const own = this.#writes.get(text);
    return own !== undefined || this.#writes.has(text) ? own : this.#readBelow(text, key);
  }

  #readBelow(text: string, key: Bytes): Bytes | undefined {
    const base = this.#base;
    if (base instanceof Overlay) return base.#read(text, key);
    const known = this.#reads.get(text);
    if (known !== undefined || this.#reads.has(text)) return known;
    const value = base.get(key);
    if (value !== undefined && value.length > MOST_KEPT_BYTES) return value;
    if (this.#reads.size >= MOST_READS) this.#reads.clear();
    this.#reads.set(text, value);
    return value;
  }

  #write(key: string, value: Bytes | undefined): void {
    if (!this.#writes.has(key)) this.#unsorted.push(key);
    this.#writes.set(key, value);
    for (let i = this.#derived.length - 1; i >= 0; i--) {
      const derived = this.#derived[i];
      if (derived === undefined || !key.startsWith(derived.prefix)) continue;
      if (derived.derivation.update === undefined) this.#derived.splice(i, 1);
      else derived.changed.add(key);
    }
  }

  #sort(): void {
    if (this.#unsorted.length === 0) return;
    if (this.#unsorted.length > 32) {
      for (const key of this.#unsorted) this.#recent.push(key);
      this.#recent.sort((a, b) => (a < b ? -1 : 1));
    } else {
      for (const key of this.#unsorted) this.#recent.splice(place(this.#recent, key), 0, key);
    }
    this.#unsorted = [];
    // As a part of all keys, so that each of them is merged a bounded number of times.
    if (this.#recent.length > MOST_RECENT + (this.#sorted.length >>> 4)) this.#mergeRecent();
  }

  #mergeRecent(): void {
    const added = this.#recent.concat(this.#unsorted).sort((a, b) => (a < b ? -1 : 1));
    this.#recent.length = 0;
    this.#unsorted = [];
    if (added.length === 0) return;
    const merged: string[] = [];
    let next = 0;
    for (const key of this.#sorted) {
      for (let one = added[next]; one !== undefined && one < key; one = added[++next]) merged.push(one);
      merged.push(key);
    }
    for (let one = added[next]; one !== undefined; one = added[++next]) merged.push(one);
    this.#sorted = merged;
  }

  #after(last: string | undefined, low: string, high: string | undefined): string | undefined {
    this.#sort();
    const from = last === undefined ? low : `${last}\0`;
    const sorted = this.#sorted[place(this.#sorted, from)];
    const recent = this.#recent[place(this.#recent, from)];
    const key = recent === undefined || (sorted !== undefined && sorted < recent) ? sorted : recent;
    return key === undefined || (high !== undefined && key >= high) ? undefined : key;
  }

  #before(end: string | undefined, low: string): string | undefined {
    this.#sort();
    const lastOf = (keys: readonly string[]): string | undefined =>
      keys[(end === undefined ? keys.length : place(keys, end)) - 1];
    const [sorted, recent] = [lastOf(this.#sorted), lastOf(this.#recent)];
    const key = recent === undefined || (sorted !== undefined && sorted > recent) ? sorted : recent;
    return key === undefined || key < low ? undefined : key;
  }
}
