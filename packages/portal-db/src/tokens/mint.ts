import { randomUUID } from "node:crypto";
import { AppError, type Clock, utf8ToBytes } from "@turnpike/base";
import { importPKCS8, SignJWT } from "jose";
import type { TokenAlgorithm } from "./keys.ts";
import { ACCOUNT_ID } from "./roles.ts";

export interface MintOptions {
  readonly role: "reader" | "admin";
  /** Account whose rows alone the token reaches; undefined: all. */
  readonly accountId: string | undefined;
  readonly lifetimeSeconds: number;
  readonly audience: string;
  /** Key to sign with. `material`: the secret of HS256, else a private key (PEM, PKCS #8). */
  readonly key: { readonly kid: string | undefined; readonly algorithm: TokenAlgorithm; readonly material: string };
}

/** A new token. */
export interface MintedToken {
  readonly token: string;
  /** Its `jti`, by which it can be taken back. */
  readonly id: string;
  readonly expiresAtMs: number;
}

/** Makes a token. @throws AppError USAGE for an account that is none, CONFIG_INVALID for a key that cannot sign. */
export async function mintToken(opts: MintOptions, modules: { readonly clock: Clock }): Promise<MintedToken> {
  const { role, accountId, lifetimeSeconds, audience, key } = opts;
  if (accountId !== undefined && !ACCOUNT_ID.test(accountId)) {
    throw new AppError("USAGE", { message: "The account must be the id of one, a UUID in lower case." });
  }
  const signer = await signerOf(key);
  const now = Math.floor(modules.clock.nowMs() / 1_000);
  const id = randomUUID();
  const expires = now + lifetimeSeconds;
  const token = await new SignJWT({ role, ...(accountId === undefined ? {} : { account_id: accountId }) })
    .setProtectedHeader({ alg: key.algorithm, typ: "JWT", ...(key.kid === undefined ? {} : { kid: key.kid }) })
    .setAudience(audience)
    .setIssuedAt(now)
    .setExpirationTime(expires)
    .setJti(id)
    .sign(signer);
  return { token, id, expiresAtMs: expires * 1_000 };
}

async function signerOf(key: MintOptions["key"]): Promise<CryptoKey | Uint8Array> {
  if (key.algorithm === "HS256") return utf8ToBytes(key.material);
  try {
    return await importPKCS8(key.material, key.algorithm);
  } catch (cause) {
    throw new AppError("CONFIG_INVALID", {
      message: `The key to sign with is no private key (PEM, PKCS #8) of ${key.algorithm}.`,
      cause,
    });
  }
}
