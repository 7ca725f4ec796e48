import { concatBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { isCosmosPublicKey, publicKeyToAddressBytes, sha256 } from "@turnpike/crypto";
import {
  type Any,
  createMessage,
  cryptoMultisig,
  cryptoSecp256k1,
  decodeMessage,
  packAny,
  typeUrlOf,
} from "@turnpike/proto";
import { bytesToText } from "../../state/bytes.ts";
import { readMessage } from "../../state/read-message.ts";

/** One key: 33 bytes. */
export interface SingleKey {
  readonly kind: "single";
  readonly key: Bytes;
}

/** Keys of which as many as the threshold says sign together. A key may be a multisig itself. */
export interface MultisigKey {
  readonly kind: "multisig";
  readonly threshold: number;
  readonly keys: readonly AccountKey[];
}

/** A public key of an account. */
export type AccountKey = SingleKey | MultisigKey;

const SINGLE_URL = typeUrlOf(cryptoSecp256k1.PubKeySchema);
const MULTISIG_URL = typeUrlOf(cryptoMultisig.LegacyAminoPubKeySchema);
// As deep as the SDK unpacks.
const DEEPEST_KEY = 10;
// Each costs a square root before a fee is paid. The signature limit of the parameters is 7 unless it was changed.
const MAX_KEYS = 128;
const ADDRESS_BYTES = 20;

/** What amino writes before the bytes of a secp256k1 key, their length included, and before those of a multisig key. */
const AMINO_SINGLE = Uint8Array.of(0xeb, 0x5a, 0xe9, 0x87, 0x21);
const AMINO_MULTISIG = Uint8Array.of(0x22, 0xc1, 0xf7, 0xe2);

/** True for the types of keys that {@link readAccountKey} reads. */
export function isKnownKeyType({ typeUrl }: Any): boolean {
  return typeUrl === SINGLE_URL || typeUrl === MULTISIG_URL;
}

/** Keys that are remembered as points of the curve: some 2 MB. */
const MOST_KNOWN = 16_384;
const known = new Set<string>();

// Whether 33 bytes are a point takes a square root, and the keys of those who send are read again and again.
function isKnownPoint(key: Bytes): boolean {
  const text = bytesToText(key);
  if (known.has(text)) return true;
  if (!isCosmosPublicKey(key)) return false;
  for (const oldest of known) {
    if (known.size < MOST_KNOWN) break;
    known.delete(oldest);
  }
  known.add(text);
  return true;
}

// What was read of an `Any` that nothing changes: the state gives the same object until its account is written.
const read = new WeakMap<Any, AccountKey>();

/** The key of an `Any`, which is not to be changed afterwards; undefined when it is no key that an account can have here. */
export function readAccountKey(any: Any): AccountKey | undefined {
  const kept = read.get(any);
  if (kept !== undefined) return kept;
  const key = readKey(any, 0, { left: MAX_KEYS });
  if (key !== undefined) read.set(any, key);
  return key;
}

function readKey(any: Any, depth: number, room: { left: number }): AccountKey | undefined {
  if (room.left <= 0) return undefined;
  room.left--;
  if (any.typeUrl === SINGLE_URL) {
    const decoded = decodeMessage(cryptoSecp256k1.PubKeySchema, any.value);
    return decoded.ok && isKnownPoint(decoded.message.key) ? { kind: "single", key: decoded.message.key } : undefined;
  }
  if (any.typeUrl !== MULTISIG_URL || depth >= DEEPEST_KEY) return undefined;
  const decoded = readMessage(cryptoMultisig.LegacyAminoPubKeySchema, any.value);
  if (!decoded.ok) return undefined;
  const { threshold, publicKeys } = decoded.message;
  // A threshold of 0 would let everybody spend, a larger one than there are keys no one.
  if (threshold < 1 || threshold > publicKeys.length) return undefined;
  const keys: AccountKey[] = [];
  for (const member of publicKeys) {
    const key = readKey(member, depth + 1, room);
    if (key === undefined) return undefined;
    keys.push(key);
  }
  return { kind: "multisig", threshold, keys };
}

/** The `Any` of a key. */
export function packAccountKey(key: AccountKey): Any {
  if (key.kind === "single") {
    return packAny(cryptoSecp256k1.PubKeySchema, createMessage(cryptoSecp256k1.PubKeySchema, { key: key.key }));
  }
  const message = createMessage(cryptoMultisig.LegacyAminoPubKeySchema, {
    threshold: key.threshold,
    publicKeys: key.keys.map(packAccountKey),
  });
  return packAny(cryptoMultisig.LegacyAminoPubKeySchema, message);
}

function varint(value: number): Bytes {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80);
  return Uint8Array.from(bytes.concat(rest));
}

/** Bytes of a key in amino's binary form, which addresses of multisig keys are made of. */
export function aminoKeyBytes(key: AccountKey): Bytes {
  if (key.kind === "single") return concatBytes(AMINO_SINGLE, key.key);
  const members = key.keys.map((member) => {
    const bytes = aminoKeyBytes(member);
    return concatBytes(Uint8Array.of(0x12), varint(bytes.length), bytes);
  });
  return Buffer.concat([AMINO_MULTISIG, Uint8Array.of(0x08), varint(key.threshold), ...members]);
}

/** Address bytes of the account of a key. */
export function accountKeyAddress(key: AccountKey): Bytes {
  return key.kind === "single"
    ? publicKeyToAddressBytes(key.key)
    : sha256(aminoKeyBytes(key)).subarray(0, ADDRESS_BYTES);
}

/** How many single keys a key consists of. */
export function countKeys(key: AccountKey): number {
  return key.kind === "single" ? 1 : key.keys.reduce((sum, member) => sum + countKeys(member), 0);
}
