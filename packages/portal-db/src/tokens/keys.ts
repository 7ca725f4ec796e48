import { AppError, utf8ToBytes } from "@turnpike/base";
import { importSPKI } from "jose";

/** Signature algorithms of tokens. No other is taken, whatever a token's head says. */
export type TokenAlgorithm = "HS256" | "RS256" | "ES256";

/** One key that tokens are checked with, as configured. */
export interface TokenKeyOptions {
  /** Id that a token names in `kid`. Undefined: of tokens that name none. */
  readonly kid: string | undefined;
  readonly algorithm: TokenAlgorithm;
  /** HS256: the shared secret, at least 32 bytes. RS256 and ES256: the public key, PEM (SPKI). */
  readonly material: string;
}

/** A key that is ready to use. */
export interface TokenKey {
  readonly kid: string | undefined;
  readonly algorithm: TokenAlgorithm;
  readonly key: CryptoKey | Uint8Array;
}

/** Least bytes of a secret (RFC 7518 §3.2: as long as the hash). */
const MIN_SECRET_BYTES = 32;
/** Least bits of an RSA modulus (RFC 7518 §3.3). */
const MIN_RSA_BITS = 2_048;

const refuse = (message: string, cause?: unknown): AppError =>
  new AppError("CONFIG_INVALID", { message, ...(cause === undefined ? {} : { cause }) });

function describe(key: TokenKeyOptions): string {
  return key.kid === undefined ? "The key of tokens" : `The key ${key.kid} of tokens`;
}

async function readKey(options: TokenKeyOptions): Promise<TokenKey> {
  const { kid, algorithm, material } = options;
  if (algorithm === "HS256") {
    const key = utf8ToBytes(material);
    if (key.length < MIN_SECRET_BYTES) throw refuse(`${describe(options)}: a secret needs ${MIN_SECRET_BYTES} bytes.`);
    // A public key is no secret: anyone who has it could sign.
    if (material.includes("-----BEGIN")) throw refuse(`${describe(options)}: a PEM key is no secret of HS256.`);
    return { kid, algorithm, key };
  }
  let key: CryptoKey;
  try {
    key = await importSPKI(material, algorithm);
  } catch (cause) {
    throw refuse(`${describe(options)}: no public key (PEM, SPKI) of ${algorithm}.`, cause);
  }
  const bits = "modulusLength" in key.algorithm ? Number(key.algorithm.modulusLength) : undefined;
  if (bits !== undefined && bits < MIN_RSA_BITS) {
    throw refuse(`${describe(options)}: an RSA key needs ${MIN_RSA_BITS} bits.`);
  }
  return { kid, algorithm, key };
}

/** Reads configured keys. @throws AppError CONFIG_INVALID for none, for a weak one, and for an id that stands twice. */
export async function readTokenKeys(keys: readonly TokenKeyOptions[]): Promise<readonly TokenKey[]> {
  if (keys.length === 0)
    throw refuse("There is no key to check tokens with: set portalDb.jwt.secret or portalDb.jwt.keys.");
  const ids = keys.map(({ kid }) => kid).filter((kid) => kid !== undefined);
  if (new Set(ids).size !== ids.length) throw refuse("portalDb.jwt.keys: an id (kid) stands twice.");
  return Promise.all(keys.map(readKey));
}
