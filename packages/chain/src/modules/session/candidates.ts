import { concatBytes, utf8ToBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { sha3256 } from "@turnpike/crypto";
import { bytesToText } from "../../state/bytes.ts";
import { endedTextCodec } from "../../state/codecs.ts";
import type { RawChange, RawEntry } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { type WalkedEntries, walkGas } from "../../state/gas.ts";
import { getServiceEnds, newestOfEach, serviceConfigs } from "../supplier/state.ts";
import type { Candidate } from "./state.ts";

const HEIGHT_BYTES = 8;
const DEACTIVATION_HEIGHT_FIELD = 4;
const DOT = utf8ToBytes(".");

interface Varint {
  readonly value: bigint;
  readonly next: number;
}

function varintAt(bytes: Bytes, at: number): Varint {
  let value = 0n;
  let next = at;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[next++] ?? 0;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return { value: BigInt.asIntN(64, value), next };
  }
}

/**
 * The deactivation height of a stored `ServiceConfigUpdate`, without the rest of it: sessions of a service with thousands
 * of suppliers ask for nothing else. All fields of that message are numbers or have a length.
 */
function deactivationHeight(value: Bytes): bigint {
  let at = 0;
  while (at < value.length) {
    const tag = value[at] ?? 0;
    if (tag === DEACTIVATION_HEIGHT_FIELD << 3) return varintAt(value, at + 1).value;
    const first = value[at + 1] ?? 0;
    // Most lengths take one byte; numbers may take ten.
    const { value: number, next } = first < 0x80 ? { value: undefined, next: at + 2 } : varintAt(value, at + 1);
    at = (tag & 7) === 2 ? next + (number === undefined ? first : Number(number)) : next;
  }
  return 0n;
}

/** A stored configuration. */
interface StoredCandidate extends Candidate {
  /** Bytes of its key, which the configurations are in the order of. */
  readonly key: string;
  readonly deactivationHeight: bigint;
  readonly chargedBytes: number;
}

/** Sets of candidates, and sessions drawn of each, that stay in memory for one service. */
const MOST_SPANS = 8;
const MOST_DRAWN = 1_000;

function bounded<K, V>(map: Map<K, V>, most: number, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  for (const [oldest] of map) {
    if (map.size < most) break;
    map.delete(oldest);
  }
  map.set(key, made);
  return made;
}

/** Candidates of a span without operators. */
interface Part {
  readonly ended: ReadonlySet<string>;
  readonly span: Span;
}

/** Candidates of a height, and of all heights until another configuration begins or ends. */
class Span {
  readonly #candidates: readonly StoredCandidate[];
  /** By limit and preimage. */
  readonly #drawn = new Map<string, readonly Candidate[]>();
  /** The same candidates without operators whose services ended, the newest last. */
  readonly #parts: Part[] = [];
  /** Those of the ends as they stand, by height: thousands of ends are compared once, and not in each draw. */
  readonly #byEnds = new WeakMap<ReadonlyMap<string, bigint>, Map<bigint, Span>>();
  #operators: ReadonlySet<string> | undefined;

  constructor(candidates: readonly StoredCandidate[]) {
    this.#candidates = candidates;
  }

  draw(preimage: Bytes, limit: number): readonly Candidate[] {
    const key = `${limit}/${Buffer.from(preimage).toString("latin1")}`;
    return bounded(this.#drawn, MOST_DRAWN, key, () => drawCandidates(preimage, this.#candidates, limit));
  }

  /** The span without operators whose services ended until a height. */
  without(ends: ReadonlyMap<string, bigint>, height: bigint): Span {
    if (ends.size === 0) return this;
    const byHeight = this.#byEnds.get(ends) ?? new Map<bigint, Span>();
    this.#byEnds.set(ends, byHeight);
    return bounded(byHeight, MOST_SPANS, height, () => this.#without(ends, height));
  }

  #without(ends: ReadonlyMap<string, bigint>, height: bigint): Span {
    this.#operators ??= new Set(this.#candidates.map(operatorOf));
    const ended = new Set<string>();
    for (const operator of this.#operators) if ((ends.get(operator) ?? height + 1n) <= height) ended.add(operator);
    if (ended.size === 0) return this;
    // Ends of other services change the map, and leave these sessions as they are.
    const isSame = (part: Part): boolean => {
      if (part.ended.size !== ended.size) return false;
      for (const operator of ended) if (!part.ended.has(operator)) return false;
      return true;
    };
    const same = this.#parts.find(isSame);
    if (same !== undefined) return same.span;
    const span = new Span(this.#candidates.filter((candidate) => !ended.has(operatorOf(candidate))));
    if (this.#parts.push({ ended, span }) > MOST_SPANS) this.#parts.shift();
    return span;
  }
}

function operatorOf({ key, operator }: StoredCandidate): string {
  return key.slice(key.length - operator.length);
}

function isActive({ activationHeight, deactivationHeight: end }: StoredCandidate, height: bigint): boolean {
  return activationHeight <= height && (end === 0n || end > height);
}

function storedCandidate({ key, value, chargedBytes }: RawEntry): StoredCandidate {
  const at = key.indexOf(0) + 1;
  return {
    key: bytesToText(key),
    operator: Uint8Array.from(key.subarray(at + HEIGHT_BYTES)),
    activationHeight: new DataView(key.buffer, key.byteOffset + at, HEIGHT_BYTES).getBigUint64(0),
    deactivationHeight: deactivationHeight(value),
    chargedBytes,
  };
}

/** Entries of the walk until a height, as its gas goes by them. */
interface Walk extends WalkedEntries {
  readonly firstKey: string;
}

/** Change of one configuration; undefined where there is none. */
interface Replacement {
  readonly before: StoredCandidate | undefined;
  readonly now: StoredCandidate | undefined;
}

/** A walk after a change; undefined when its first entry is gone, so that it has to be made anew. */
function walkAfter(walk: Walk, height: bigint, { before, now }: Replacement): Walk | undefined {
  const key = now?.key ?? before?.key ?? "";
  const old = before !== undefined && before.activationHeight <= height ? before : undefined;
  const entry = now !== undefined && now.activationHeight <= height ? now : undefined;
  if (entry === undefined && key === walk.firstKey) return undefined;
  const isFirst = entry !== undefined && (walk.entries === 0 || key <= walk.firstKey);
  return {
    firstKey: isFirst ? key : walk.firstKey,
    firstBytes: isFirst ? entry.chargedBytes : walk.firstBytes,
    bytes: walk.bytes + (entry?.chargedBytes ?? 0) - (old?.chargedBytes ?? 0),
    entries: walk.entries + (entry === undefined ? 0 : 1) - (old === undefined ? 0 : 1),
  };
}

function countHeights(counts: Map<bigint, number>, candidate: StoredCandidate | undefined, by: 1 | -1): void {
  if (candidate === undefined) return;
  for (const height of [candidate.activationHeight, candidate.deactivationHeight]) {
    const count = (counts.get(height) ?? 0) + by;
    if (count === 0) counts.delete(height);
    else counts.set(height, count);
  }
}

interface DrawLimits {
  /** Maximum number of suppliers. */
  readonly limit: number;
  /** Heights at which all services of an operator end. */
  readonly ends: ReadonlyMap<string, bigint>;
}

/** Changed configurations that are kept beside the list of all; with more of them it is written anew. */
const MOST_CHANGED = 256;

/** Parts of {@link ServiceCandidates}. */
interface CandidateParts {
  /** In store order: by activation, then address. */
  readonly all: readonly StoredCandidate[];
  /** Changes since, by key; undefined: removed. */
  readonly changed: ReadonlyMap<string, StoredCandidate | undefined>;
  /** Number of configurations that begin or end at a height. */
  readonly heights: ReadonlyMap<bigint, number>;
  readonly spans: Map<bigint, Span>;
  readonly walks: Map<bigint, Walk>;
}

/**
 * All configurations of a service, and the sessions that were drawn of those that hold at a height. A change costs the same however
 * many suppliers the service has: it leaves the list of all and the sessions of the spans that it is not in.
 */
class ServiceCandidates {
  readonly #parts: CandidateParts;
  #merged: readonly StoredCandidate[] | undefined;

  private constructor(parts: CandidateParts) {
    this.#parts = parts;
  }

  /** @param all in store order */
  static of(all: readonly StoredCandidate[]): ServiceCandidates {
    const heights = new Map<bigint, number>();
    for (const candidate of all) countHeights(heights, candidate, 1);
    return new ServiceCandidates({ all, changed: new Map(), heights, spans: new Map(), walks: new Map() });
  }

  /** Gas of a walk over the configurations up to a height. */
  walkGas(height: bigint): bigint {
    return walkGas(bounded(this.#parts.walks, MOST_SPANS, height, () => this.#walk(height)));
  }

  /** Suppliers of a session, in its order. */
  draw(preimage: Bytes, height: bigint, { limit, ends }: DrawLimits): readonly Candidate[] {
    const start = this.#startOf(height);
    const span = bounded(this.#parts.spans, MOST_SPANS, start, () => {
      const active = this.#list().filter((candidate) => isActive(candidate, start));
      return new Span(newestOfEach(active, operatorOf));
    });
    return span.without(ends, height).draw(preimage, limit);
  }

  /** The same after changes. A span stays with its sessions when the same candidates are active in it. */
  updated(changes: readonly RawChange[]): ServiceCandidates {
    const changed = new Map(this.#parts.changed);
    const heights = new Map(this.#parts.heights);
    const spans = new Map(this.#parts.spans);
    const walks = new Map(this.#parts.walks);
    for (const change of changes) {
      const key = bytesToText(change.key);
      const oldCandidate = changed.has(key) ? changed.get(key) : this.#listed(key);
      const now = change.value === undefined ? undefined : storedCandidate(change);
      changed.set(key, now);
      countHeights(heights, oldCandidate, -1);
      countHeights(heights, now, 1);
      for (const start of spans.keys()) {
        const wasActive = oldCandidate !== undefined && isActive(oldCandidate, start);
        if (wasActive !== (now !== undefined && isActive(now, start))) spans.delete(start);
      }
      for (const [height, walk] of walks) {
        const next = walkAfter(walk, height, { before: oldCandidate, now });
        if (next === undefined) walks.delete(height);
        else walks.set(height, next);
      }
    }
    const { all } = this.#parts;
    if (changed.size <= MOST_CHANGED) return new ServiceCandidates({ all, changed, heights, spans, walks });
    return new ServiceCandidates({ all: merged(all, changed), changed: new Map(), heights, spans, walks });
  }

  #list(): readonly StoredCandidate[] {
    this.#merged ??= merged(this.#parts.all, this.#parts.changed);
    return this.#merged;
  }

  #listed(key: string): StoredCandidate | undefined {
    const { all } = this.#parts;
    let [low, high] = [0, all.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((all[middle]?.key ?? "") < key) low = middle + 1;
      else high = middle;
    }
    return all[low]?.key === key ? all[low] : undefined;
  }

  #walk(height: bigint): Walk {
    let [bytes, entries] = [0, 0];
    const [first] = this.#list();
    for (const { activationHeight, chargedBytes } of this.#list()) {
      if (activationHeight > height) break;
      bytes += chargedBytes;
      entries++;
    }
    const isEmpty = first === undefined || entries === 0;
    return { firstKey: isEmpty ? "" : first.key, firstBytes: isEmpty ? 0 : first.chargedBytes, bytes, entries };
  }

  // The last height until this one at which a configuration began or ended: candidates are the same since.
  #startOf(height: bigint): bigint {
    let start = 0n;
    for (const changed of this.#parts.heights.keys()) if (changed > start && changed <= height) start = changed;
    return start;
  }
}

function merged(
  all: readonly StoredCandidate[],
  changed: ReadonlyMap<string, StoredCandidate | undefined>,
): readonly StoredCandidate[] {
  if (changed.size === 0) return all;
  const list = all.filter(({ key }) => !changed.has(key));
  const added = [...changed.values()].filter((candidate) => candidate !== undefined);
  added.sort((a, b) => (a.key < b.key ? -1 : 1));
  const both: StoredCandidate[] = [];
  let next = 0;
  for (const candidate of list) {
    for (let one = added[next]; one !== undefined && one.key < candidate.key; one = added[++next]) both.push(one);
    both.push(candidate);
  }
  for (let one = added[next]; one !== undefined; one = added[++next]) both.push(one);
  return both;
}

const candidatesOf = serviceConfigs.derivation<ServiceCandidates>({
  make: (entries) => ServiceCandidates.of(Array.from(entries, storedCandidate)),
  update: (candidates, changes) => candidates.updated(changes),
});

/**
 * The suppliers of a session of a service, in its order: drawn of those whose configuration holds at a height, all of them
 * when they are fewer than the limit.
 */
export function drawSession(
  ctx: Context,
  seed: { readonly serviceId: string; readonly preimage: Bytes; readonly height: bigint },
  limit: number,
): readonly Candidate[] {
  const { serviceId, preimage, height } = seed;
  const candidates = candidatesOf(ctx, endedTextCodec.encode(serviceId));
  return candidates.draw(preimage, height, { limit, ends: getServiceEnds(ctx) });
}

/** Charges the walk over a service's configurations up to a height, by which the real chain draws a session every time. */
export function chargeDrawing(ctx: Context, serviceId: string, height: bigint): void {
  ctx.gas.consume(candidatesOf(ctx, endedTextCodec.encode(serviceId)).walkGas(height), "ValuePerByte");
}

/**
 * The suppliers of a session, in its order: `drawSuppliers` of the protocol, for many candidates of which few are drawn.
 * Weights are hashed from the keys as they are, and only those that can be drawn are put in order.
 */
function drawCandidates(preimage: Bytes, candidates: readonly Candidate[], limit: number): Candidate[] {
  if (candidates.length < limit) return [...candidates];
  const longest = candidates.reduce((most, { operator }) => Math.max(most, operator.length), 0);
  const start = preimage.length + DOT.length;
  const seed = concatBytes(preimage, DOT, new Uint8Array(longest));
  const weights = new BigInt64Array(candidates.length);
  for (const [i, { operator }] of candidates.entries()) {
    seed.set(operator, start);
    const digest = sha3256(seed.subarray(0, start + operator.length));
    weights[i] = new DataView(digest.buffer, digest.byteOffset, digest.byteLength).getBigInt64(0);
  }
  const heaviest = weights.toSorted()[limit - 1] ?? 0n;
  return candidates
    .flatMap((candidate, i) => {
      const weight = weights[i] ?? 0n;
      return weight <= heaviest ? [{ candidate, weight }] : [];
    })
    .sort((a, b) => {
      if (a.weight !== b.weight) return a.weight < b.weight ? -1 : 1;
      return Buffer.compare(a.candidate.operator, b.candidate.operator);
    })
    .slice(0, limit)
    .map(({ candidate }) => candidate);
}
