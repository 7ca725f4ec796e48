import { accountAddress, cosmosPublicKey } from "@turnpike/crypto";

/** A key that signs relays: of the gateway, or of an application. */
export interface SigningKey {
  /** Bech32 address of its account. */
  readonly address: string;
  /** 33 bytes. */
  readonly publicKey: Uint8Array;
  /** 32 bytes; never logged. */
  readonly privateKey: Uint8Array;
}

/** The signing key of 32 private bytes. @throws AppError CONFIG_INVALID when they are no key of secp256k1 */
export function signingKey(privateKey: Uint8Array): SigningKey {
  const publicKey = cosmosPublicKey(privateKey);
  return { address: accountAddress(publicKey), publicKey, privateKey };
}
