import type { Bytes } from "@turnpike/chain-store";
import {
  createMessage,
  cryptoMultisigV1,
  decodeMessage,
  encodeMessage,
  findUnknownField,
  signing,
  type tx as txs,
} from "@turnpike/proto";
import { boundsFault } from "../state/read-message.ts";

/** One signature, and the form of the document that it is of. */
export interface SingleSignature {
  readonly kind: "single";
  readonly mode: signing.SignMode;
  readonly signature: Bytes;
}

/** Signatures of members of a multisig key, in the order of its keys. */
export interface MultiSignature {
  readonly kind: "multi";
  /** For each key of the multisig, whether it signed. */
  readonly signed: readonly boolean[];
  readonly parts: readonly SignatureData[];
}

/** What a signer of a transaction gives. */
export type SignatureData = SingleSignature | MultiSignature;

/** A signature, or why its bytes and its mode are none. */
export type ReadSignature =
  | { readonly ok: true; readonly data: SignatureData }
  | { readonly ok: false; readonly fault: string };

// More members than a signature limit that anybody would set: what a bit array may make us look at.
const MOST_BITS = 65_536;

function bitsOf(array: cryptoMultisigV1.CompactBitArray | undefined): boolean[] | undefined {
  const { elems, extraBitsStored } = array ?? { elems: new Uint8Array(0), extraBitsStored: 0 };
  const count = extraBitsStored === 0 ? elems.length * 8 : (elems.length - 1) * 8 + extraBitsStored;
  if (extraBitsStored > 7 || count < 0 || count > MOST_BITS) return undefined;
  return Array.from({ length: count }, (_, i) => (((elems[i >> 3] ?? 0) >> (7 - (i % 8))) & 1) === 1);
}

/** The signature of a signer: the mode that stands in its info, and its bytes. */
export function readSignature(info: txs.ModeInfo | undefined, bytes: Bytes): ReadSignature {
  const sum = info?.sum;
  if (sum?.case === "single") return { ok: true, data: { kind: "single", mode: sum.value.mode, signature: bytes } };
  if (sum?.case !== "multi") return { ok: false, fault: "unexpected ModeInfo data type <nil>" };
  const excess = boundsFault(cryptoMultisigV1.MultiSignatureSchema, bytes);
  if (excess !== undefined) return { ok: false, fault: excess };
  const decoded = decodeMessage(cryptoMultisigV1.MultiSignatureSchema, bytes);
  if (!decoded.ok) return decoded;
  if (findUnknownField(cryptoMultisigV1.MultiSignatureSchema, decoded.message) !== undefined) {
    return { ok: false, fault: "rejecting unrecognized fields found in MultiSignature" };
  }
  const { signatures } = decoded.message;
  const { bitarray, modeInfos } = sum.value;
  const signed = bitsOf(bitarray);
  if (signed === undefined) return { ok: false, fault: "the bit array of a multisignature is not valid" };
  // The SDK panics when there are more modes than signatures, and takes a missing one for no signature.
  if (signatures.length !== modeInfos.length) {
    return { ok: false, fault: `${modeInfos.length} modes for ${signatures.length} signatures of a multisignature` };
  }
  const parts: SignatureData[] = [];
  for (const [i, mode] of modeInfos.entries()) {
    const part = readSignature(mode, signatures[i] ?? new Uint8Array(0));
    if (!part.ok) return part;
    parts.push(part.data);
  }
  return { ok: true, data: { kind: "multi", signed, parts } };
}

/** Bytes of a signature as events show them: those of a multisignature one by one, then all of them together. */
export function signatureBytes(data: SignatureData): Bytes[] {
  if (data.kind === "single") return [data.signature];
  const signatures = data.parts.flatMap(signatureBytes);
  const together = createMessage(cryptoMultisigV1.MultiSignatureSchema, { signatures });
  return [...signatures, encodeMessage(cryptoMultisigV1.MultiSignatureSchema, together)];
}

/** True when a signature of a simulation is still to come. */
export function isIncomplete(data: SignatureData): boolean {
  if (data.kind === "single") return data.signature.length === 0;
  return data.parts.length === 0 || data.parts.some(isIncomplete);
}

/** True when every signature is of the amino form, whose document holds the sequence. */
export function isAminoOnly(data: SignatureData): boolean {
  if (data.kind === "single") return data.mode === signing.SignMode.LEGACY_AMINO_JSON;
  return data.parts.every(isAminoOnly);
}
