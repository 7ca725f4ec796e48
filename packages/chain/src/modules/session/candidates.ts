import { concatBytes, utf8ToBytes } from "@turnpike/base";
import { sha3256 } from "@turnpike/crypto";
import type { Context } from "../../state/context.ts";
import type { Bytes } from "../../types.ts";
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

/** The suppliers whose configuration for a service holds at a height, in store order: by activation, then address. */
export function sessionCandidates(ctx: Context, serviceId: string, height: bigint): Candidate[] {
  const serviceBytes = serviceConfigs.keyBytes([serviceId, [0n, ""]]).length - HEIGHT_BYTES;
  const end = serviceConfigs.keyBytes([serviceId, [height + 1n, ""]]);
  const candidates: Candidate[] = [];
  for (const [key, value] of serviceConfigs.rawEntries(ctx, { within: end.subarray(0, serviceBytes), to: end })) {
    const deactivation = deactivationHeight(value);
    if (deactivation !== 0n && deactivation <= height) continue;
    const activation = new DataView(key.buffer, key.byteOffset + serviceBytes, HEIGHT_BYTES).getBigUint64(0);
    candidates.push({ operator: key.subarray(serviceBytes + HEIGHT_BYTES), activationHeight: activation });
  }
  return candidates;
}

/**
 * The suppliers of a session, in its order: `drawSuppliers` of the protocol, for many candidates of which few are drawn.
 * Weights are hashed from the keys as they are, and only those that can be drawn are put in order.
 */
export function drawCandidates(preimage: Bytes, candidates: readonly Candidate[], limit: number): Candidate[] {
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
