import { concatBytes, utf8ToBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { sha3256 } from "@turnpike/crypto";
import { bytesToText } from "../../state/bytes.ts";
import { endedTextCodec } from "../../state/codecs.ts";
import type { RawChange, RawEntry } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { iteratorGas } from "../../state/gas.ts";
import { serviceConfigs } from "../supplier/state.ts";
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

/** A configuration as the state has it. */
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

/** Candidates of a height, and of all heights until another configuration begins or ends. */
interface Span {
  readonly candidates: readonly Candidate[];
  /** By limit and preimage. */
  readonly drawn: Map<string, readonly Candidate[]>;
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

/** All configurations of a service, and the sessions that were drawn of those that hold at a height. */
class ServiceCandidates {
  // In store order: by activation, then address.
  readonly #all: readonly StoredCandidate[];
  readonly #spans: Map<bigint, Span>;
  // By the height that was queried.
  readonly #starts = new Map<bigint, bigint>();
  readonly #walkGas = new Map<bigint, bigint>();

  constructor(all: readonly StoredCandidate[], spans: Map<bigint, Span>) {
    this.#all = all;
    this.#spans = spans;
  }

  /** Gas of a walk over the configurations up to a height. */
  walkGas(height: bigint): bigint {
    return bounded(this.#walkGas, MOST_SPANS, height, () => {
      const end = this.#all.findIndex(({ activationHeight }) => activationHeight > height);
      const begun = end === -1 ? this.#all : this.#all.slice(0, end);
      return iteratorGas(begun.map(({ chargedBytes }) => chargedBytes));
    });
  }

  /** Suppliers of a session, in its order. */
  draw(preimage: Bytes, height: bigint, limit: number): readonly Candidate[] {
    const start = bounded(this.#starts, MOST_SPANS, height, () => this.#startOf(height));
    const span = bounded(this.#spans, MOST_SPANS, start, () => ({
      candidates: this.#all.filter((candidate) => isActive(candidate, start)),
      drawn: new Map(),
    }));
    const key = `${limit}/${Buffer.from(preimage).toString("latin1")}`;
    return bounded(span.drawn, MOST_DRAWN, key, () => drawCandidates(preimage, span.candidates, limit));
  }

  /** The same after changes. A span stays with its sessions when the same candidates are active in it. */
  updated(changes: readonly RawChange[]): ServiceCandidates {
    const all: StoredCandidate[] = [];
    const sorted = changes
      .map((change) => ({ key: bytesToText(change.key), change }))
      .sort((a, b) => (a.key < b.key ? -1 : 1));
    const spans = new Map(this.#spans);
    let next = 0;
    const take = (before: StoredCandidate | undefined, change: RawChange): void => {
      const now = change.value === undefined ? undefined : storedCandidate(change);
      if (now !== undefined) all.push(now);
      for (const height of spans.keys()) {
        const wasActive = before !== undefined && isActive(before, height);
        if (wasActive !== (now !== undefined && isActive(now, height))) spans.delete(height);
      }
    };
    for (const candidate of this.#all) {
      let changed = sorted[next];
      for (; changed !== undefined && changed.key < candidate.key; changed = sorted[++next]) {
        take(undefined, changed.change);
      }
      if (changed?.key !== candidate.key) all.push(candidate);
      else {
        take(candidate, changed.change);
        next++;
      }
    }
    for (const { change } of sorted.slice(next)) take(undefined, change);
    return new ServiceCandidates(all, spans);
  }

  // The last height until this one at which a configuration began or ended: candidates are the same since.
  #startOf(height: bigint): bigint {
    let start = 0n;
    for (const { activationHeight, deactivationHeight: end } of this.#all) {
      if (activationHeight > start && activationHeight <= height) start = activationHeight;
      if (end > start && end <= height) start = end;
    }
    return start;
  }
}

const candidatesOf = serviceConfigs.derivation<ServiceCandidates>({
  make: (entries) => new ServiceCandidates(Array.from(entries, storedCandidate), new Map()),
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
  return candidatesOf(ctx, endedTextCodec.encode(serviceId)).draw(preimage, height, limit);
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
