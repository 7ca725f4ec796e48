import { accountAddress, cosmosPublicKey, cosmosSign } from "@turnpike/crypto";
import { type Any, createMessage, cryptoSecp256k1, packAny } from "@turnpike/proto";

/** An account's key that signs. */
export interface ChainSigner {
  /** `pokt1…` */
  readonly address: string;
  /** Compressed, 33 bytes. */
  readonly publicKey: Uint8Array;
  /** Signature of these bytes, 64 bytes, in Cosmos' form. */
  sign(bytes: Uint8Array): Uint8Array;
}

/** A signer of a private key (32 bytes). @throws AppError CONFIG_INVALID when it is none */
export function createChainSigner(privateKey: Uint8Array): ChainSigner {
  const publicKey = cosmosPublicKey(privateKey);
  return { address: accountAddress(publicKey), publicKey, sign: (bytes) => cosmosSign(bytes, privateKey) };
}

/** A secp256k1 key as accounts and transactions have it. */
export function packPublicKey(publicKey: Uint8Array): Any {
  return packAny(cryptoSecp256k1.PubKeySchema, createMessage(cryptoSecp256k1.PubKeySchema, { key: publicKey }));
}
