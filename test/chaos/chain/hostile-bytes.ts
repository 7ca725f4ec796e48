import type { Chance } from "@turnpike/testkit/chance";

/** Bytes of a number as protobuf has it. @param padding further bytes that say nothing */
export function varint(value: bigint, padding = 0): Uint8Array {
  const bytes: number[] = [];
  let left = BigInt.asUintN(64, value);
  for (; left > 127n; left >>= 7n) bytes.push(Number(left & 127n) | 128);
  bytes.push(Number(left));
  for (let i = 0; i < padding; i++) {
    bytes.push((bytes.pop() ?? 0) | 128);
    bytes.push(0);
  }
  return Uint8Array.from(bytes);
}

/** A field of bytes. */
export function field(number: number, bytes: Uint8Array): Uint8Array {
  return Buffer.concat([varint(BigInt(number * 8 + 2)), varint(BigInt(bytes.length)), bytes]);
}

/** Bytes within field after field, made from the inside out without copying them at every level. */
export function nested(depth: number, inner: Uint8Array, wrap: (innerLength: number) => readonly Uint8Array[]): Buffer {
  const before: Uint8Array[] = [];
  let length = inner.length;
  for (let level = 0; level < depth; level++) {
    const parts = wrap(length);
    for (const part of [...parts].reverse()) {
      before.push(part);
      length += part.length;
    }
  }
  return Buffer.concat([...before.reverse(), inner]);
}

interface Field {
  readonly tag: Uint8Array;
  readonly wireType: number;
  /** Without its length. */
  readonly value: Uint8Array;
}

function readVarint(bytes: Uint8Array, from: number): { readonly value: bigint; readonly to: number } | undefined {
  let value = 0n;
  for (let at = from; at < bytes.length && at < from + 10; at++) {
    const byte = bytes[at] ?? 0;
    value |= BigInt(byte & 127) << BigInt(7 * (at - from));
    if (byte < 128) return { value, to: at + 1 };
  }
  return undefined;
}

/** The fields of a message; undefined where these bytes are none. */
function fieldsOf(bytes: Uint8Array): Field[] | undefined {
  const fields: Field[] = [];
  for (let at = 0; at < bytes.length; ) {
    const tag = readVarint(bytes, at);
    if (tag === undefined) return undefined;
    const wireType = Number(tag.value & 7n);
    const length = wireType === 2 ? readVarint(bytes, tag.to) : undefined;
    const from = length?.to ?? tag.to;
    const number = wireType === 0 ? readVarint(bytes, tag.to)?.to : undefined;
    const to = number ?? (wireType === 1 ? from + 8 : wireType === 5 ? from + 4 : from + Number(length?.value ?? -1n));
    if (to < from || to > bytes.length || tag.value < 8n) return undefined;
    fields.push({ tag: bytes.subarray(at, tag.to), wireType, value: bytes.subarray(from, to) });
    at = to;
  }
  return fields;
}

const bytesOf = ({ tag, wireType, value }: Field): Uint8Array =>
  wireType === 2 ? Buffer.concat([tag, varint(BigInt(value.length)), value]) : Buffer.concat([tag, value]);

const LENGTHS = [-1n, 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 63n, 2n ** 64n - 1n] as const;

function bentField(chance: Chance, one: Field): Uint8Array {
  const { tag, wireType, value } = one;
  const whole = bytesOf(one);
  switch (chance.below(9)) {
    case 0:
      return new Uint8Array(0);
    case 1:
      return Buffer.concat([whole, whole]);
    case 2:
      return Buffer.concat([whole, field(1 + chance.below(20), chance.bytes(chance.below(12)))]);
    case 3: {
      // Another wire type; 3 and 4 are groups, 6 and 7 are none.
      const first = ((tag[0] ?? 0) & ~7) | chance.below(8);
      return Buffer.concat([Uint8Array.of(first), tag.subarray(1), whole.subarray(tag.length)]);
    }
    case 4:
      return Buffer.concat([tag, varint(BigInt(value.length) + chance.pick(LENGTHS)), value]);
    case 5:
      return Buffer.concat([tag, varint(BigInt(value.length), 1 + chance.below(9)), value]);
    case 6:
      return wireType === 0
        ? Buffer.concat([tag, varint(chance.wide())])
        : bytesOf({ ...one, value: chance.bytes(chance.below(40)) });
    case 7:
      return Buffer.concat([whole, varint(chance.wide()), chance.bytes(chance.below(6))]);
    default: {
      if (value.length === 0) return whole;
      const flipped = Uint8Array.from(whole);
      const at = whole.length - 1 - chance.below(value.length);
      flipped[at] = (flipped[at] ?? 0) ^ (1 << chance.below(8));
      return flipped;
    }
  }
}

/** A message with one of its fields bent, however deep it lies; bytes that are no message get a random byte. */
export function bend(chance: Chance, bytes: Uint8Array): Uint8Array {
  const fields = fieldsOf(bytes);
  if (fields === undefined || fields.length === 0) {
    const at = chance.below(bytes.length + 1);
    return Buffer.concat([bytes.subarray(0, at), chance.bytes(1 + chance.below(3)), bytes.subarray(at + 1)]);
  }
  const chosen = chance.below(fields.length);
  return Buffer.concat(
    fields.map((one, at) => {
      if (at !== chosen) return bytesOf(one);
      const isDeeper = one.wireType === 2 && one.value.length > 1 && chance.often(0.7);
      return isDeeper ? bytesOf({ ...one, value: bend(chance, one.value) }) : bentField(chance, one);
    }),
  );
}
