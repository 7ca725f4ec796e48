import assert from "node:assert/strict";
import { createHash, createHmac, generateKeyPairSync, sign } from "node:crypto";
import { suite, test } from "node:test";
import type { Clock } from "@turnpike/base";
import { readTokenKeys, type TokenKeyOptions } from "./keys.ts";
import { mintToken } from "./mint.ts";
import { createRevocationCheck } from "./revocations.ts";
import { TokenVerifier } from "./verifier.ts";

const SECRET = "5f0e9d8c7b6a5948372615049382716051423324150617283940516273849506";
const ACCOUNT = "10000000-0000-0000-0000-000000000004";
const START_MS = 1_800_000_000_000;
const NOW = START_MS / 1_000;
const hmacKey: TokenKeyOptions = { kid: undefined, algorithm: "HS256", material: SECRET };
const rsa = generateKeyPairSync("rsa", {
  modulusLength: 2_048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});
const ec = generateKeyPairSync("ec", {
  namedCurve: "P-256",
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});

interface TestClock extends Clock {
  ms: number;
}
const clockAt = (ms = START_MS): TestClock => ({
  ms,
  nowMs() {
    return this.ms;
  },
  monotonicMs() {
    return this.ms;
  },
});

async function verifier(
  keys: readonly TokenKeyOptions[] = [hmacKey],
  modules: { readonly clock?: Clock; readonly isRevoked?: (id: string) => Promise<boolean> } = {},
): Promise<TokenVerifier> {
  return new TokenVerifier(
    { keys: await readTokenKeys(keys), audience: "postgrest", maxLifetimeSeconds: 86_400 },
    { clock: modules.clock ?? clockAt(), isRevoked: modules.isRevoked ?? (() => Promise.resolve(false)) },
  );
}

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const good = { role: "reader", aud: "postgrest", iat: NOW, exp: NOW + 600 };

/** A token with any head and claims, signed with HMAC. */
function forge(claims: unknown, head: unknown = { alg: "HS256" }, secret = SECRET, hash = "sha256"): string {
  const text = `${part(head)}.${part(claims)}`;
  return `${text}.${createHmac(hash, secret).update(text).digest("base64url")}`;
}

/** `role`, or the code and message of the refusal. */
async function outcome(of: TokenVerifier, token: string | undefined): Promise<string> {
  const verdict = await of.verify(token === undefined ? undefined : `Bearer ${token}`);
  return verdict.ok ? verdict.caller.role : `${verdict.error.status} ${verdict.error.code} ${verdict.error.message}`;
}

suite("tokens", () => {
  test("a good token is taken, by its short and its long role, whatever the scheme's letter case", async () => {
    const of = await verifier();
    for (const [claim, role] of [
      ["reader", "reader"],
      ["admin", "admin"],
      ["portal_db_reader", "reader"],
      ["portal_db_admin", "admin"],
    ]) {
      assert.equal(await outcome(of, forge({ ...good, role: claim })), role);
    }
    assert.equal((await of.verify(`bEaReR  ${forge(good)}`)).ok, true);
    assert.match(await outcome(of, undefined), /^401 PGRST302/);
    assert.match(await outcome(of, ""), /^401 PGRST301/);
  });

  test("case 1: alg none in any spelling", async () => {
    const of = await verifier();
    for (const alg of ["none", "NoNe", "", null, undefined, 1]) {
      const text = `${part({ alg })}.${part(good)}`;
      assert.match(await outcome(of, `${text}.`), /^401 PGRST301/, String(alg));
      assert.match(await outcome(of, forge(good, { alg })), /^401 PGRST301/, String(alg));
    }
  });

  test("case 2: algorithm confusion, embedded keys and a kid that is a path", async () => {
    const of = await verifier([{ kid: "rsa", algorithm: "RS256", material: rsa.publicKey }, hmacKey]);
    // the public key taken for a secret
    assert.match(await outcome(of, forge(good, { alg: "HS256", kid: "rsa" }, rsa.publicKey)), /^401 PGRST301/);
    assert.match(await outcome(of, forge(good, { alg: "RS256", kid: "rsa" }, rsa.publicKey)), /^401 PGRST301/);
    assert.match(await outcome(of, forge(good, { alg: "HS512" }, SECRET, "sha512")), /^401 PGRST301/);
    for (const head of [
      { alg: "HS256", jwk: { kty: "oct", k: "QUFB" } },
      { alg: "HS256", jku: "http://127.0.0.1/keys" },
      { alg: "HS256", x5u: "http://127.0.0.1/cert" },
      { alg: "HS256", kid: "../../../../dev/null" },
      { alg: "HS256", kid: "'; drop table x" },
      { alg: "HS256", kid: 5 },
      { alg: "HS256", crit: ["b64"], b64: false },
    ]) {
      assert.match(await outcome(of, forge(good, head)), /^401 PGRST301/, JSON.stringify(head));
    }
    await assert.rejects(readTokenKeys([{ ...hmacKey, material: rsa.publicKey }]), /no secret/);
  });

  test("case 3: a tampered payload, no signature, two or five parts, garbage", async () => {
    const of = await verifier();
    const token = forge(good);
    const [head = "", , signature = ""] = token.split(".");
    const bad = [
      `${head}.${part({ ...good, role: "admin" })}.${signature}`,
      token.slice(0, token.lastIndexOf(".") + 1),
      token.slice(0, token.lastIndexOf(".")),
      `${token}.a.b`,
      `${token.slice(0, -4)}AAAA`,
      "garbage",
      "..",
      `${"a".repeat(9_000)}.b.c`,
      forge("text"),
      forge([good]),
      forge(null),
    ];
    for (const text of bad) assert.match(await outcome(of, text), /^401 PGRST301/, text.slice(0, 40));
  });

  test("case 4: a wrong audience, and one that is missing, null or empty", async () => {
    const of = await verifier();
    const { aud: _, ...without } = good;
    for (const claims of [without, ...[null, [], "", "other", ["other"], 5, {}].map((aud) => ({ ...good, aud }))]) {
      assert.match(await outcome(of, forge(claims)), /^401 PGRST303/, JSON.stringify(claims));
    }
    assert.equal(await outcome(of, forge({ ...good, aud: ["other", "postgrest"] })), "reader");
  });

  test("case 5: expired, not yet valid, issued in the future, without an end or with one that is no number", async () => {
    const of = await verifier();
    const { exp: _, ...without } = good;
    const table: [unknown, RegExp][] = [
      [{ ...good, exp: NOW - 31 }, /JWT expired/],
      [{ ...good, exp: NOW - 29 }, /^reader$/],
      [{ ...good, nbf: NOW + 31 }, /JWT not yet valid/],
      [{ ...good, nbf: NOW + 29 }, /^reader$/],
      [{ ...good, iat: NOW + 31 }, /JWT issued at future/],
      [{ ...good, iat: NOW + 29 }, /^reader$/],
      [without, /PGRST303/],
      [{ ...good, exp: String(NOW + 600) }, /PGRST303/],
      [{ ...good, exp: null }, /PGRST303/],
      [{ ...good, exp: 1e300 }, /valid for longer/],
      [{ ...good, exp: NOW + 86_401 }, /valid for longer/],
      [{ role: "reader", aud: "postgrest", exp: NOW + 90_000 }, /valid for longer/],
      [{ ...good, iat: NOW - 90_000 }, /valid for longer/],
    ];
    for (const [claims, wanted] of table)
      assert.match(await outcome(of, forge(claims)), wanted, JSON.stringify(claims));
  });

  test("case 6: what is remembered ends with the token, and with its key", async () => {
    const clock = clockAt();
    const of = await verifier([hmacKey], { clock });
    const token = forge(good);
    assert.equal(await outcome(of, token), "reader");
    clock.ms += 629_000;
    assert.equal(await outcome(of, token), "reader");
    clock.ms += 2_000;
    assert.match(await outcome(of, token), /JWT expired/);

    const other = await verifier();
    assert.equal(await outcome(other, token), "reader");
    other.setKeys(await readTokenKeys([{ ...hmacKey, material: "another-key-that-is-long-enough-0123456789" }]));
    assert.match(await outcome(other, token), /^401 PGRST301/);
  });

  test("cases 7 to 9: roles that are not on the list, `none`, and claims that are no text", async () => {
    const of = await verifier();
    const roles = [
      "postgres",
      "authenticator",
      "anon",
      "portal_admin",
      "portal_authenticator",
      "nobody",
      "none",
      "",
      "Reader",
      "constructor",
      "__proto__",
      ["admin"],
      { admin: true },
      null,
      1,
      "admin; reset role",
      "admin\u0000",
    ];
    for (const role of roles)
      assert.match(await outcome(of, forge({ ...good, role })), /^401 PGRST303/, JSON.stringify(role));
    const { role: _, ...without } = good;
    assert.match(await outcome(of, forge(without)), /^401 PGRST303/);
  });

  test("an account claim is the id of one; what says nothing does not mean all", async () => {
    const of = await verifier();
    const verdict = await of.verify(`Bearer ${forge({ ...good, account_id: ACCOUNT })}`);
    assert.ok(verdict.ok);
    assert.equal(verdict.caller.accountId, ACCOUNT);
    assert.deepEqual(verdict.caller.claims, { role: "reader", account_id: ACCOUNT });
    for (const account_id of [null, "", "x", [ACCOUNT], `${ACCOUNT} `, ACCOUNT.slice(1), 5, {}, true]) {
      assert.match(await outcome(of, forge({ ...good, account_id })), /^401 PGRST303/, JSON.stringify(account_id));
    }
  });

  test("keys of three kinds by their kid; a token without one is tried with those of its algorithm", async () => {
    const keys: TokenKeyOptions[] = [
      hmacKey,
      { kid: "rsa", algorithm: "RS256", material: rsa.publicKey },
      { kid: "ec", algorithm: "ES256", material: ec.publicKey },
      { kid: "next", algorithm: "HS256", material: "another-key-that-is-long-enough-0123456789" },
    ];
    const of = await verifier(keys);
    const mint = async (key: TokenKeyOptions): Promise<string> => {
      const options = { role: "admin", accountId: undefined, lifetimeSeconds: 60, audience: "postgrest", key } as const;
      return (await mintToken(options, { clock: clockAt() })).token;
    };
    const signing = [
      hmacKey,
      { kid: "rsa", algorithm: "RS256", material: rsa.privateKey } as const,
      { kid: "ec", algorithm: "ES256", material: ec.privateKey } as const,
      keys[3] ?? hmacKey,
      { kid: undefined, algorithm: "ES256", material: ec.privateKey } as const,
    ];
    for (const key of signing) assert.equal(await outcome(of, await mint(key)), "admin", `${key.algorithm} ${key.kid}`);
    assert.match(await outcome(of, await mint({ ...hmacKey, kid: "next" })), /^401 PGRST301/);
  });

  test("a token that was taken back is refused, also a remembered one; an unknown answer is not taken for no", async () => {
    let revoked = false;
    let asked = 0;
    const clock = clockAt();
    const find = (): Promise<boolean> => {
      asked++;
      return Promise.resolve(revoked);
    };
    const of = await verifier([hmacKey], {
      clock,
      isRevoked: createRevocationCheck({ keptMs: 2_000 }, { clock, find }),
    });
    const token = forge({ ...good, jti: "id" });
    assert.equal(await outcome(of, token), "reader");
    revoked = true;
    assert.equal(await outcome(of, token), "reader");
    assert.equal(asked, 1);
    clock.ms += 2_001;
    assert.match(await outcome(of, token), /^401 PGRST303 JWT was revoked/);
    // A longer id does not fit into the list of what was taken back.
    assert.match(await outcome(of, forge({ ...good, jti: "i".repeat(256) })), /^401 PGRST303 JWT claim jti/);
    const broken = await verifier([hmacKey], { isRevoked: () => Promise.reject(new TypeError("no database")) });
    await assert.rejects(broken.verify(`Bearer ${token}`), /no database/);
  });

  test("other spellings of a signature are the same token to the limits", async () => {
    const ecKey: TokenKeyOptions = { kid: "ec", algorithm: "ES256", material: ec.publicKey };
    const of = await verifier([hmacKey, ecKey]);
    const hmac = forge(good);
    // 43 characters hold 258 bits, two more than the signature.
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const last = alphabet.indexOf(hmac.at(-1) ?? "");
    const spelled = [0, 1, 2, 3].map((bits) => hmac.slice(0, -1) + alphabet[(last & ~3) | bits]);
    assert.equal(new Set(spelled).size, 4);
    // SEC 1 §4.1.4 asks only for s mod n: its negative is as good.
    const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
    const text = `${part({ alg: "ES256", kid: "ec" })}.${part(good)}`;
    const signature = sign("sha256", Buffer.from(text), { key: ec.privateKey, dsaEncoding: "ieee-p1363" });
    const negative = order - BigInt(`0x${signature.subarray(32).toString("hex")}`);
    const flipped = Buffer.concat([
      signature.subarray(0, 32),
      Buffer.from(negative.toString(16).padStart(64, "0"), "hex"),
    ]);
    const twins = [signature, flipped].map((bytes) => `${text}.${bytes.toString("base64url")}`);
    for (const tokens of [spelled, twins]) {
      const fingerprints = await Promise.all(
        tokens.map(async (token) => {
          const verdict = await of.verify(`Bearer ${token}`);
          return verdict.ok ? verdict.fingerprint : verdict.error.message;
        }),
      );
      assert.match(fingerprints[0] ?? "", /^[0-9a-f]{64}$/);
      assert.deepEqual(new Set(fingerprints).size, 1, fingerprints.join(" "));
    }
    assert.match(await outcome(of, `${hmac.slice(0, -10)}AAAAAAAAAA`), /^401/, "what is known is the whole token");
  });

  test("a token without jti is taken back by what is signed, in every spelling", async () => {
    const revoked = new Set<string>();
    const of = await verifier([hmacKey], { isRevoked: (id) => Promise.resolve(revoked.has(id)) });
    const token = forge(good);
    const verdict = await of.verify(`Bearer ${token}`);
    const id = `sha256-${createHash("sha256")
      .update(token.slice(0, token.lastIndexOf(".")))
      .digest("hex")}`;
    assert.equal(verdict.ok && verdict.caller.tokenId, id);
    revoked.add(id);
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const other = token.slice(0, -1) + alphabet[alphabet.indexOf(token.at(-1) ?? "") ^ 1];
    for (const text of [token, other]) assert.match(await outcome(of, text), /^401 PGRST303 JWT was revoked/);
    assert.equal(await outcome(of, forge({ ...good, sub: "another" })), "reader");
  });

  test("weak keys are refused", async () => {
    await assert.rejects(readTokenKeys([]), /no key/);
    await assert.rejects(readTokenKeys([{ ...hmacKey, material: "short" }]), /32 bytes/);
    await assert.rejects(readTokenKeys([{ kid: "a", algorithm: "RS256", material: "nonsense" }]), /no public key/);
    await assert.rejects(readTokenKeys([{ kid: "a", algorithm: "RS256", material: ec.publicKey }]), /no public key/);
    const twice = { ...hmacKey, kid: "a" };
    await assert.rejects(readTokenKeys([twice, twice]), /twice/);
  });
});
