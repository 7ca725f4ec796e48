import { AppError } from "@turnpike/base";
import { curve } from "../curve.ts";
import { sha256 } from "../hash.ts";
import { compressPoint } from "../ring/points.ts";
import { bytesToNumber, numberToBytes32, ORDER } from "../scalars.ts";

/** Compressed public key (33 bytes) of a private key. @throws AppError CONFIG_INVALID when it is none */
export function cosmosPublicKey(key: Uint8Array): Uint8Array {
  const point = key.length === 32 ? curve.publicKey(key) : undefined;
  if (point === undefined) {
    throw new AppError("CONFIG_INVALID", { message: "This is not a private key of secp256k1." });
  }
  return compressPoint(point);
}

/** True for 33 bytes that are a compressed public key of secp256k1. */
export function isCosmosPublicKey(publicKey: Uint8Array): boolean {
  return publicKey.length === 33 && curve.point(publicKey) !== undefined;
}

/**
 * Signs bytes as Cosmos does: SHA-256 of them, RFC 6979, low s; r and s in 64 bytes.
 * @throws AppError CONFIG_INVALID when the key is not a private key
 */
export function cosmosSign(message: Uint8Array, key: Uint8Array): Uint8Array {
  cosmosPublicKey(key);
  return Uint8Array.from(curve.sign(sha256(message), key).signature);
}

/** True when 64 bytes are the signature of these bytes by this key (33 bytes). A high s is refused. */
export function cosmosVerify(message: Uint8Array, signature: Uint8Array, publicKey: Uint8Array): boolean {
  return cosmosVerifyDigest(sha256(message), signature, publicKey);
}

/** As {@link cosmosVerify}, by the SHA-256 of the bytes. */
export function cosmosVerifyDigest(digest: Uint8Array, signature: Uint8Array, publicKey: Uint8Array): boolean {
  return signature.length === 64 && publicKey.length === 33 && curve.verify(digest, signature, publicKey);
}

/** The private key that Cosmos makes of a text (`GenPrivKeyFromSecret`): SHA-256 modulo the order less one, plus one. */
export function privateKeyFromSecret(secret: Uint8Array): Uint8Array {
  return numberToBytes32((bytesToNumber(sha256(secret)) % (ORDER - 1n)) + 1n);
}
