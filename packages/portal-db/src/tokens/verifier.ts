import { hash } from "node:crypto";
import type { Clock } from "@turnpike/base";
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from "jose";
import type { ErrorBody } from "../errors.ts";
import { failure } from "../failures.ts";
import type { Caller } from "../types.ts";
import type { TokenKey } from "./keys.ts";
import { ACCOUNT_ID, roleOf } from "./roles.ts";

interface TokenVerifierOptions {
  readonly keys: readonly TokenKey[];
  /** What `aud` must name. */
  readonly audience: string;
  /** Longest time between a token's making and its end. */
  readonly maxLifetimeSeconds: number;
  /** Tokens that are remembered as good; 1,000 by default. */
  readonly maxCached?: number;
}

interface TokenVerifierModules {
  readonly clock: Clock;
  /** Whether the token of this id was taken back: its `jti`, else `sha256-` and its fingerprint. */
  readonly isRevoked: (tokenId: string) => Promise<boolean>;
}

/** Who a token authenticates, or why it is refused (401). */
export type TokenVerdict =
  | {
      readonly ok: true;
      readonly caller: Caller;
      /** The same for every spelling of the token: what is counted by token is counted by this. */
      readonly fingerprint: string;
    }
  | { readonly ok: false; readonly error: ErrorBody };

/** Clocks may differ by this much. */
const SKEW_SECONDS = 30;
const MAX_TOKEN_CHARS = 8_192;
/** As long an id the list of revoked tokens takes: a longer one could not be taken back. */
const MAX_CLAIM_CHARS = 255;
/** Header members by which a token names its own key; ours come from the configuration alone. */
const KEY_HEADS = ["jwk", "jku", "x5u", "x5c", "x5t", "x5t#S256"];

const refused = (code: string, message: string): TokenVerdict => ({ ok: false, error: failure(401, code, message) });
const MALFORMED = refused("PGRST301", "JWT cannot be read");
const UNVERIFIED = refused("PGRST301", "No suitable key or wrong key type");
const ANONYMOUS = refused("PGRST302", "Anonymous access is disabled");
const badClaim = (message: string): TokenVerdict => refused("PGRST303", message);

/** The token of a header; undefined when there is none. The scheme's letter case does not count. */
function bearerOf(authorization: string | undefined): string | undefined {
  return /^bearer +([^\s]+) *$/i.exec(authorization ?? "")?.[1];
}

/**
 * Of what is signed alone. One signature has several spellings: base64url of 32 bytes leaves two bits over, and of an ES256
 * signature (r, s) the pair (r, n − s) is one, too.
 */
const fingerprintOf = (token: string): string => hash("sha256", token.slice(0, token.lastIndexOf(".")), "hex");

interface Good {
  readonly caller: Caller;
  readonly fingerprint: string;
  /** Seconds since the epoch. */
  readonly exp: number;
}

function refusalOf(error: unknown): TokenVerdict {
  if (error instanceof errors.JWTExpired) return badClaim("JWT expired");
  if (error instanceof errors.JWTClaimValidationFailed) {
    if (error.claim === "aud") return badClaim("JWT not in audience");
    if (error.claim === "nbf" && error.reason === "check_failed") return badClaim("JWT not yet valid");
    return badClaim(`JWT claim ${error.claim} is missing or not valid`);
  }
  return UNVERIFIED;
}

/** Text of a claim that goes on to the database; undefined for everything else. */
function shortText(value: unknown): string | undefined {
  return typeof value === "string" && value.length > 0 && value.length <= MAX_CLAIM_CHARS ? value : undefined;
}

/** The caller of claims whose signature, audience and times are good. A token without an id is known by its fingerprint. */
function callerOf(payload: JWTPayload, fingerprint: string): Caller | string {
  if (payload.role === undefined) return "JWT claim role is missing";
  const role = roleOf(payload.role);
  if (role === undefined) return "JWT claim role is not allowed";
  const account = payload.account_id;
  // A claim that says nothing must not come to mean every account.
  if (account !== undefined && !(typeof account === "string" && ACCOUNT_ID.test(account))) {
    return "JWT claim account_id is not the id of an account";
  }
  const tokenId = payload.jti;
  if (tokenId !== undefined && shortText(tokenId) === undefined) return "JWT claim jti is not valid";
  const [sub, email] = [shortText(payload.sub), shortText(payload.email)];
  return Object.freeze({
    role,
    accountId: account,
    tokenId: tokenId ?? `sha256-${fingerprint}`,
    claims: Object.freeze({
      role,
      ...(account === undefined ? {} : { account_id: account }),
      ...(tokenId === undefined ? {} : { jti: tokenId }),
      ...(sub === undefined ? {} : { sub }),
      ...(email === undefined ? {} : { email }),
    }),
  });
}

/**
 * Checks bearer tokens (RFC 7519): signature by a configured key of the token's algorithm and `kid`, `aud` and `exp`
 * required, bounded lifetime, role by an allow-list, `account_id`, and that the token was not taken back. What was found
 * good is remembered by the whole token, never beyond its end and never across {@link TokenVerifier.setKeys}.
 */
export class TokenVerifier {
  readonly #audience: string;
  readonly #maxLifetimeSeconds: number;
  readonly #maxCached: number;
  readonly #modules: TokenVerifierModules;
  #keys: readonly TokenKey[];
  #good = new Map<string, Good>();

  constructor(
    { keys, audience, maxLifetimeSeconds, maxCached = 1_000 }: TokenVerifierOptions,
    modules: TokenVerifierModules,
  ) {
    this.#keys = keys;
    this.#audience = audience;
    this.#maxLifetimeSeconds = maxLifetimeSeconds;
    this.#maxCached = maxCached;
    this.#modules = modules;
  }

  /** Reads an `Authorization` header. Rejects when it cannot be learned whether the token was taken back. */
  async verify(authorization: string | undefined): Promise<TokenVerdict> {
    if (authorization === undefined || authorization === "") return ANONYMOUS;
    const token = bearerOf(authorization);
    if (token === undefined || token.length > MAX_TOKEN_CHARS) return MALFORMED;
    const cache = this.#good;
    let found = cache.get(token);
    if (found !== undefined && this.#nowSeconds() >= found.exp + SKEW_SECONDS) {
      cache.delete(token);
      return badClaim("JWT expired");
    }
    if (found === undefined) {
      const checked = await this.#check(token);
      if ("ok" in checked) return checked;
      found = checked;
    }
    const { tokenId } = found.caller;
    if (tokenId !== undefined && (await this.#modules.isRevoked(tokenId))) {
      cache.delete(token);
      return badClaim("JWT was revoked");
    }
    // Most recent last. A map that new keys have replaced is garbage, with what is written to it.
    cache.delete(token);
    cache.set(token, found);
    if (cache.size > this.#maxCached) {
      const [oldest] = cache.keys();
      if (oldest !== undefined) cache.delete(oldest);
    }
    return { ok: true, caller: found.caller, fingerprint: found.fingerprint };
  }

  /** Replaces the keys; nothing that the old ones vouched for stays good by them. */
  setKeys(keys: readonly TokenKey[]): void {
    this.#keys = keys;
    this.#good = new Map();
  }

  async #check(token: string): Promise<Good | TokenVerdict> {
    let head: Readonly<Record<string, unknown>>;
    try {
      head = decodeProtectedHeader(token);
    } catch {
      return MALFORMED;
    }
    if (token.split(".").length !== 3) return MALFORMED;
    if (KEY_HEADS.some((name) => Object.hasOwn(head, name))) return UNVERIFIED;
    const fitting = this.#keys.filter(
      ({ kid, algorithm }) => algorithm === head.alg && (head.kid === undefined || kid === head.kid),
    );
    let last: TokenVerdict = UNVERIFIED;
    for (const key of fitting) {
      try {
        return await this.#checkBy(key, token);
      } catch (error) {
        last = refusalOf(error);
        if (last !== UNVERIFIED) return last;
      }
    }
    return last;
  }

  /** Rejects with the library's error when the key has not signed it, or a claim is not as it must be. */
  async #checkBy({ key, algorithm }: TokenKey, token: string): Promise<Good | TokenVerdict> {
    const { payload } = await jwtVerify(token, key, {
      algorithms: [algorithm],
      audience: this.#audience,
      clockTolerance: SKEW_SECONDS,
      requiredClaims: ["exp", "aud"],
      currentDate: new Date(this.#modules.clock.nowMs()),
    });
    const fault = this.#timeFault(payload);
    if (fault !== undefined) return badClaim(fault);
    const fingerprint = fingerprintOf(token);
    const caller = callerOf(payload, fingerprint);
    if (typeof caller === "string") return badClaim(caller);
    return { caller, fingerprint, exp: payload.exp ?? 0 };
  }

  #timeFault({ exp, iat }: JWTPayload): string | undefined {
    if (typeof exp !== "number" || !Number.isFinite(exp)) return "JWT claim exp is missing or not valid";
    if (iat !== undefined && (typeof iat !== "number" || !Number.isFinite(iat))) return "JWT claim iat is not valid";
    if (iat !== undefined && iat > this.#nowSeconds() + SKEW_SECONDS) return "JWT issued at future";
    const made = iat ?? this.#nowSeconds();
    return exp - made > this.#maxLifetimeSeconds + (iat === undefined ? SKEW_SECONDS : 0)
      ? `JWT is valid for longer than ${this.#maxLifetimeSeconds} seconds`
      : undefined;
  }

  #nowSeconds(): number {
    return this.#modules.clock.nowMs() / 1_000;
  }
}
