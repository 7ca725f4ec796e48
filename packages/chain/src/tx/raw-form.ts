import type { Bytes } from "@turnpike/chain-store";

const BYTES_TYPE = 2;
const MOST_FIELD = 2n ** 31n - 1n;
const TRUNCATED = "unexpected EOF";

type Varint = { readonly value: bigint; readonly size: number } | { readonly fault: string };

// As Go's protowire: at most ten bytes, the last of which holds one bit.
function readVarint(bytes: Bytes, at: number): Varint {
  let value = 0n;
  for (let i = 0; i < 10; i++) {
    const byte = bytes[at + i];
    if (byte === undefined) return { fault: TRUNCATED };
    if (i === 9 && byte > 1) return { fault: "variable length integer overflow" };
    value |= BigInt(byte & 0x7f) << BigInt(7 * i);
    if (byte < 0x80) return { value, size: i + 1 };
  }
  return { fault: "variable length integer overflow" };
}

const leastSize = (value: bigint): number => Math.max(1, Math.ceil(value.toString(2).length / 7));

/**
 * Why the bytes of a transaction are not of the one form that a transaction has (ADR-027: fields in ascending order, lengths as
 * short as possible), in the words of the SDK; undefined when they are. What the fields hold is not looked at.
 */
export function rawFormFault(bytes: Bytes): string | undefined {
  let last = 0n;
  for (let at = 0; at < bytes.length; ) {
    const tag = readVarint(bytes, at);
    if ("fault" in tag) return `invalid length; ${tag.fault}`;
    const field = tag.value >> 3n;
    const type = Number(tag.value & 7n);
    if (field < 1n || field > MOST_FIELD) return "invalid length; proto: invalid field number";
    if (type !== BYTES_TYPE) return `expected ${BYTES_TYPE} wire type, got ${type}`;
    if (field < last) return `txRaw must follow ADR-027, got tagNum ${field} after tagNum ${last}`;
    last = field;
    const length = readVarint(bytes, at + tag.size);
    if ("fault" in length) return `invalid length; ${length.fault}`;
    const least = leastSize(length.value);
    if (least !== length.size) {
      return `length prefix varint for tagNum ${field} is not as short as possible, read ${length.size}, only need ${least}`;
    }
    at += tag.size + length.size;
    if (length.value > BigInt(bytes.length - at)) return `invalid length; ${TRUNCATED}`;
    at += Number(length.value);
  }
  return undefined;
}
