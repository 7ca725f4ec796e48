import { AppError } from "@turnpike/base";

const ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const GENERATORS = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3];
// Cosmos takes longer texts than BIP-173 does.
const MOST_CHARACTERS = 1023;
const PRINTABLE = /^[\x21-\x7e]+$/;
const PREFIX = /^[\x21-\x7e]{1,83}$/;

/** What a bech32 text says. */
export interface Bech32 {
  readonly prefix: string;
  readonly bytes: Uint8Array;
}

function polymod(values: Iterable<number>): number {
  let check = 1;
  for (const value of values) {
    const top = check >>> 25;
    check = ((check & 0x1ffffff) << 5) ^ value;
    GENERATORS.forEach((generator, i) => {
      if (((top >>> i) & 1) === 1) check ^= generator;
    });
  }
  return check;
}

function* expanded(prefix: string): Generator<number> {
  for (const character of prefix) yield character.charCodeAt(0) >> 5;
  yield 0;
  for (const character of prefix) yield character.charCodeAt(0) & 31;
}

// Groups bits anew. When reading, what is left over must be fewer than five zero bits.
function regroup(values: Iterable<number>, from: number, to: number, pad: boolean): number[] | undefined {
  const groups: number[] = [];
  let bits = 0;
  let held = 0;
  for (const value of values) {
    held = ((held << from) | value) & 0xfff;
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
  const check = polymod([...expanded(prefix), ...data, 0, 0, 0, 0, 0, 0]) ^ 1;
  const sums = [25, 20, 15, 10, 5, 0].map((shift) => (check >>> shift) & 31);
  return `${prefix}1${[...data, ...sums].map((value) => ALPHABET.charAt(value)).join("")}`;
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
  for (const character of lower.slice(split + 1)) {
    const value = ALPHABET.indexOf(character);
    if (value < 0) return undefined;
    values.push(value);
  }
  if (polymod([...expanded(prefix), ...values]) !== 1) return undefined;
  const bytes = regroup(values.slice(0, -6), 5, 8, false);
  return bytes === undefined ? undefined : { prefix, bytes: Uint8Array.from(bytes) };
}
