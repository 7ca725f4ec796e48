import { encodeKey, heightToBytes, type KeyBounds, parseVersionKey, versionKey } from "./keys.ts";
import { damaged } from "./sealed.ts";
import type { Tables } from "./tables.ts";
import type { Bytes } from "./types.ts";

/** An entry of the state. */
export type Entry = readonly [key: Buffer, value: Buffer];

/** Versions of one key that are stepped over before a new cursor is cheaper. */
const MAX_STEPS = 16;
const NONE = Buffer.of(0);
const SOME = Buffer.of(1);

/** Parts of the stored form of what a block replaced. */
export function replacedParts(value: Bytes | undefined): readonly Bytes[] {
  return value === undefined ? [NONE] : [SOME, value];
}

function readReplaced(bytes: Buffer): Buffer | undefined {
  if (bytes[0] === SOME[0]) return bytes.subarray(1);
  if (bytes[0] === NONE[0] && bytes.length === 1) return undefined;
  throw damaged('a value of "replaced"');
}

/**
 * Value of a key after a block, which is not ahead. What the first later change replaced, or else the newest value: so
 * it is right also when the newest block is later than the reader thinks.
 */
export function valueAt(tables: Tables, key: Bytes, heightBlocks: bigint): Buffer | undefined {
  const prefix = encodeKey(key);
  const from = Buffer.concat([prefix, heightToBytes(heightBlocks + 1n)]);
  const to = Buffer.concat([prefix, Buffer.alloc(9, 0xff)]);
  for (const [, bytes] of tables.replaced.entries({ from, to })) return readReplaced(bytes);
  return tables.latest.get(key);
}

/** A key that some kept block changed, and the version that says its value; undefined when none of them is later. */
interface ChangedKey {
  readonly key: Buffer;
  readonly version: Buffer | "unknown" | undefined;
}

/** Keys within the bounds that kept blocks changed, each once, in order. */
function* changedKeys(
  tables: Tables,
  bounds: KeyBounds,
  heightBlocks: bigint,
  reverse: boolean,
): Generator<ChangedKey, undefined> {
  let from = bounds.from.length === 0 ? undefined : encodeKey(bounds.from);
  let to = bounds.to === undefined ? undefined : encodeKey(bounds.to);
  for (;;) {
    let now: Buffer | undefined;
    let version: Buffer | undefined;
    let steps = 0;
    let jumped = false;
    for (const bytes of tables.replaced.keys({ from, to, reverse })) {
      const parsed = parseVersionKey(bytes);
      if (parsed === undefined) throw damaged('a key of "replaced"');
      if (now === undefined || !now.equals(parsed.key)) {
        if (now !== undefined) yield { key: now, version };
        now = parsed.key;
        version = undefined;
        steps = 0;
      }
      // The smallest later height decides: the first one forwards, the last one backwards.
      if (parsed.heightBlocks > heightBlocks && (reverse || version === undefined)) version = bytes;
      if (++steps < MAX_STEPS) continue;
      yield { key: now, version: reverse || version === undefined ? "unknown" : version };
      if (reverse) to = encodeKey(now);
      else from = Buffer.concat([encodeKey(now), Buffer.alloc(9, 0xff)]);
      jumped = true;
      break;
    }
    if (jumped) continue;
    if (now !== undefined) yield { key: now, version };
    return undefined;
  }
}

function valueOfChanged(tables: Tables, found: ChangedKey, heightBlocks: bigint, newest: Buffer | undefined) {
  if (found.version === undefined) return newest;
  if (found.version === "unknown") return valueAt(tables, found.key, heightBlocks);
  const bytes = tables.replaced.get(found.version);
  if (bytes === undefined) throw damaged('a value of "replaced"');
  return readReplaced(bytes);
}

/**
 * Entries within the bounds after a block, in order: the newest ones and what was replaced since, merged. Synchronous;
 * its cursors live until it ends.
 */
export function* entriesAt(
  tables: Tables,
  bounds: KeyBounds,
  heightBlocks: bigint,
  reverse: boolean,
): Generator<Entry, undefined> {
  const sign = reverse ? -1 : 1;
  using newest = tables.latest.entries({ ...bounds, reverse });
  using changed = changedKeys(tables, bounds, heightBlocks, reverse);
  let a = newest.next();
  let b = changed.next();
  while (!a.done || !b.done) {
    const order = a.done ? 1 : b.done ? -1 : sign * Buffer.compare(a.value[0], b.value.key);
    if (order < 0 && !a.done) {
      yield a.value;
      a = newest.next();
    } else if (!b.done) {
      const found = b.value;
      const current = order === 0 && !a.done ? a.value[1] : undefined;
      const value = valueOfChanged(tables, found, heightBlocks, current);
      if (value !== undefined) yield [found.key, value];
      if (order === 0) a = newest.next();
      b = changed.next();
    }
  }
  return undefined;
}

/** Removes what a block replaced; the keys are those that it changed. */
export function removeReplaced(tables: Tables, keys: Iterable<Bytes>, heightBlocks: bigint): void {
  for (const key of keys) tables.replaced.remove(versionKey(key, heightBlocks));
}
