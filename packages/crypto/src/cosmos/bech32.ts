import { AppError } from "@turnpike/base";

const ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const GENERATORS = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3];
// Cosmos takes longer texts than BIP-173 does.
const MOST_CHARACTERS = 1023;
const PRINTABLE = /^[\x21-\x7e]+$/;
const PREFIX = /^[\x21-\x7e]{1,83}$/;

const NO_SUM = [0, 0, 0, 0, 0, 0];
/** The five bits of each character by its code; -1 where it has none. */
const VALUES = Int8Array.from({ length: 128 }, (_, code) => ALPHABET.indexOf(String.fromCharCode(code)));

/** What a bech32 text says. */
export interface Bech32 {
  readonly prefix: string;
  readonly bytes: Uint8Array;
}

// For each of the 32 values of the five bits that leave: the generators that they stand for.
const STEPS = Int32Array.from({ length: 32 }, (_, top) =>
  GENERATORS.reduce((step, generator, i) => (((top >>> i) & 1) === 1 ? step ^ generator : step), 0),
);

const step = (check: number, value: number): number => ((check & 0x1ffffff) << 5) ^ value ^ (STEPS[check >>> 25] ?? 0);

function polymod(values: readonly number[], start: number): number {
  let check = start;
  for (let i = 0; i < values.length; i++) check = step(check, values[i] ?? 0);
  return check;
}

/** The sum over the prefix alone, from which that over the rest goes on. */
function prefixSum(prefix: string): number {
  let check = 1;
  for (let i = 0; i < prefix.length; i++) check = step(check, prefix.charCodeAt(i) >> 5);
  check = step(check, 0);
  for (let i = 0; i < prefix.length; i++) check = step(check, prefix.charCodeAt(i) & 31);
  return check;
}

// Groups bits anew. When reading, what is left over must be fewer than five zero bits.
function regroup(values: ArrayLike<number>, from: number, to: number, pad: boolean): number[] | undefined {
  const groups: number[] = [];
  let bits = 0;
  let held = 0;
  for (let i = 0; i < values.length; i++) {
    held = ((held << from) | (values[i] ?? 0)) & 0xfff;
    bits += from;
    while (bits >= to) {
      bits -= to;
      groups.push((held >> bits) & ((1 << to) - 1));
    }
  }
  const rest = (held << (to - bits)) & ((1 << to) - 1);
  if (pad) {
    if (bits > 0) groups.push(rest);
  } else if (bits >= from || rest !== 0) return undefined;
  return groups;
}

/**
 * Bech32 (BIP-173) of bytes, in lower case.
 * @throws AppError INTERNAL when the prefix is not 1 to 83 printable characters in lower case, or the text is too long
 */
export function encodeBech32(prefix: string, bytes: Uint8Array): string {
  const data = regroup(bytes, 8, 5, true) ?? [];
  if (!PREFIX.test(prefix) || prefix !== prefix.toLowerCase() || prefix.length + data.length + 7 > MOST_CHARACTERS) {
    throw new AppError("INTERNAL", { detail: { prefix, length: bytes.length } });
  }
  let text = `${prefix}1`;
  for (let i = 0; i < data.length; i++) text += ALPHABET.charAt(data[i] ?? 0);
  return text + checksumText(prefix, data);
}

function checksumText(prefix: string, data: readonly number[]): string {
  const check = polymod(NO_SUM, polymod(data, prefixSum(prefix))) ^ 1;
  let text = "";
  for (let shift = 25; shift >= 0; shift -= 5) text += ALPHABET.charAt((check >>> shift) & 31);
  return text;
}

/** The checksum that belongs to a prefix and the data characters behind its `1`, in lower case, all of bech32's alphabet. */
export function bech32Checksum(prefix: string, dataText: string): string {
  return checksumText(
    prefix,
    Array.from(dataText, (character) => ALPHABET.indexOf(character)),
  );
}

/**
 * Reads a bech32 text strictly: one case, at most 1,023 characters, right checksum (not bech32m's), no bits left over.
 * Undefined when it is none.
 */
export function decodeBech32(text: string): Bech32 | undefined {
  if (text.length > MOST_CHARACTERS || !PRINTABLE.test(text)) return undefined;
  if (text !== text.toLowerCase() && text !== text.toUpperCase()) return undefined;
  const lower = text.toLowerCase();
  const split = lower.lastIndexOf("1");
  const prefix = lower.slice(0, Math.max(0, split));
  if (split + 7 > lower.length || !PREFIX.test(prefix)) return undefined;
  const values: number[] = [];
  for (let i = split + 1; i < lower.length; i++) {
    const value = VALUES[lower.charCodeAt(i)] ?? -1;
    if (value < 0) return undefined;
    values.push(value);
  }
  if (polymod(values, prefixSum(prefix)) !== 1) return undefined;
  const bytes = regroup(values.slice(0, -6), 5, 8, false);
  return bytes === undefined ? undefined : { prefix, bytes: Uint8Array.from(bytes) };
}
