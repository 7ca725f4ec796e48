import { concatBytes, utf8ToBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { sha3256 } from "@turnpike/crypto";
import { endedTextCodec } from "../../state/codecs.ts";
import type { RawEntry } from "../../state/collection.ts";
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

interface StoredCandidate extends Candidate {
  readonly deactivationHeight: bigint;
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

interface Span {
  readonly candidates: readonly Candidate[];
  readonly walkGas: bigint;
  /** By limit and preimage. */
  readonly drawn: Map<string, readonly Candidate[]>;
}

/** All configurations of a service, and the sessions that were drawn of those that hold at a height. */
class ServiceCandidates {
  // In store order: by activation, then address.
  readonly #all: StoredCandidate[] = [];
  readonly #chargedBytes: number[] = [];
  // Heights from which others hold than before.
  readonly #changeHeights: readonly bigint[];
  readonly #spans = new Map<bigint, Span>();

  constructor(entries: Iterable<RawEntry>) {
    const heights = new Set<bigint>();
    for (const { key, value, chargedBytes } of entries) {
      const at = key.indexOf(0) + 1;
      const activationHeight = new DataView(key.buffer, key.byteOffset + at, HEIGHT_BYTES).getBigUint64(0);
      const deactivation = deactivationHeight(value);
      const operator = Uint8Array.from(key.subarray(at + HEIGHT_BYTES));
      this.#all.push({ operator, activationHeight, deactivationHeight: deactivation });
      this.#chargedBytes.push(chargedBytes);
      heights.add(activationHeight).add(deactivation);
    }
    this.#changeHeights = [...heights].sort((a, b) => (a < b ? -1 : 1));
  }

  /** Gas of a walk over the configurations up to a height. */
  walkGas(height: bigint): bigint {
    return this.#span(height).walkGas;
  }

  /** Suppliers of a session, in its order. */
  draw(preimage: Bytes, height: bigint, limit: number): readonly Candidate[] {
    const span = this.#span(height);
    const key = `${limit}/${Buffer.from(preimage).toString("latin1")}`;
    return bounded(span.drawn, MOST_DRAWN, key, () => drawCandidates(preimage, span.candidates, limit));
  }

  #span(height: bigint): Span {
    const since = this.#changeHeights.findLast((changed) => changed <= height) ?? 0n;
    return bounded(this.#spans, MOST_SPANS, since, () => this.#spanAt(height));
  }

  #spanAt(height: bigint): Span {
    const next = this.#all.findIndex(({ activationHeight }) => activationHeight > height);
    const begun = next === -1 ? this.#all : this.#all.slice(0, next);
    const candidates = begun.filter(({ deactivationHeight: end }) => end === 0n || end > height);
    return { candidates, walkGas: iteratorGas(this.#chargedBytes.slice(0, begun.length)), drawn: new Map() };
  }
}

const candidatesOf = serviceConfigs.derivation((entries) => new ServiceCandidates(entries));

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
