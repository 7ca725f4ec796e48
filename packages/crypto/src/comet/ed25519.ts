import { createPrivateKey, createPublicKey, sign, verify } from "node:crypto";
import { AppError } from "@turnpike/base";
import { sha256 } from "../hash.ts";

// What stands before the 32 bytes in PKCS #8 and in SubjectPublicKeyInfo (RFC 8410).
const PRIVATE_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");
const PUBLIC_HEAD = Buffer.from("302a300506032b6570032100", "hex");

/** Signs with one ed25519 key, which it holds inside. */
export interface Ed25519Signer {
  /** 32 bytes. */
  readonly publicKey: Uint8Array;
  /** The signature (64 bytes, RFC 8032) of a message. */
  sign(message: Uint8Array): Uint8Array;
}

/**
 * A signer from a seed of 32 bytes, or from CometBFT's 64 (seed and public key).
 * @throws AppError CONFIG_INVALID when the length is another, or the public half is not the seed's
 */
export function createEd25519Signer(key: Uint8Array): Ed25519Signer {
  const invalid = (): AppError => new AppError("CONFIG_INVALID", { message: "This is not an ed25519 private key." });
  if (key.length !== 32 && key.length !== 64) throw invalid();
  const der = Buffer.concat([PRIVATE_HEAD, key.subarray(0, 32)]);
  const privateKey = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  der.fill(0);
  const exported = createPublicKey(privateKey).export({ format: "der", type: "spki" });
  const publicKey = Uint8Array.from(exported.subarray(PUBLIC_HEAD.length));
  if (key.length === 64 && Buffer.compare(publicKey, key.subarray(32)) !== 0) throw invalid();
  return { publicKey, sign: (message) => Uint8Array.from(sign(null, message, privateKey)) };
}

/**
 * True when 64 bytes are the signature of a message by this key of 32 bytes (RFC 8032, by OpenSSL). CometBFT's rule
 * (ZIP-215) takes some odd keys and signatures more, which no implementation of the RFC makes.
 */
export function verifyEd25519(message: Uint8Array, signature: Uint8Array, publicKey: Uint8Array): boolean {
  if (signature.length !== 64 || publicKey.length !== 32) return false;
  try {
    const key = createPublicKey({ key: Buffer.concat([PUBLIC_HEAD, publicKey]), format: "der", type: "spki" });
    return verify(null, message, key, signature);
  } catch {
    return false;
  }
}

/** CometBFT's address (20 bytes) of a validator's ed25519 key: the beginning of its SHA-256. */
export function validatorKeyAddress(publicKey: Uint8Array): Uint8Array {
  return sha256(publicKey).slice(0, 20);
}
