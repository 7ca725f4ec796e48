import type { Address } from "@turnpike/base";
import type { Hex } from "./abi.ts";

/** A signature for a wallet that may not be deployed yet (ERC-6492). */
export interface WrappedSignature {
  /** Contract that deploys the wallet, in lower case. */
  readonly factory: Address;
  readonly factoryCalldata: Hex;
  /** What the wallet is asked about once it is there. */
  readonly signature: Uint8Array;
}

const SUFFIX = Buffer.alloc(32, Buffer.from("6492", "hex"));

/** True when the signature ends as ERC-6492 says. */
export function isErc6492(signature: Uint8Array): boolean {
  return signature.length > 32 && SUFFIX.equals(signature.subarray(signature.length - 32));
}

/** Reads `abi.encode(address factory, bytes calldata, bytes signature)` and the suffix; undefined when it is not that. */
export function unwrapErc6492(signature: Uint8Array): WrappedSignature | undefined {
  if (!isErc6492(signature)) return undefined;
  const body = Buffer.from(signature.buffer, signature.byteOffset, signature.length - 32);
  if (body.length < 96 || !isZero(body, 0, 12)) return undefined;
  const factoryCalldata = bytesAt(body, 32);
  const inner = bytesAt(body, 64);
  if (factoryCalldata === undefined || inner === undefined || inner.length === 0) return undefined;
  return {
    factory: `0x${body.toString("hex", 12, 32)}`,
    factoryCalldata: `0x${factoryCalldata.toString("hex")}`,
    signature: Uint8Array.from(inner),
  };
}

/** The bytes whose offset stands in the word at `head`. */
function bytesAt(body: Buffer, head: number): Buffer | undefined {
  const offset = lengthAt(body, head);
  const length = offset === undefined ? undefined : lengthAt(body, offset);
  if (offset === undefined || length === undefined || offset + 32 + length > body.length) return undefined;
  return body.subarray(offset + 32, offset + 32 + length);
}

function lengthAt(body: Buffer, at: number): number | undefined {
  if (at + 32 > body.length || !isZero(body, at, at + 28)) return undefined;
  return body.readUInt32BE(at + 28);
}

function isZero(bytes: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i] !== 0) return false;
  return true;
}
