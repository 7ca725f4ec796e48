import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { FIXTURE, type PortalRig, startPortalRig } from "./portal-rig.ts";

// Cases 1 to 9 of the list of security cases, over HTTP; 10 to 28 stand in portal-db-security.test.ts.
const part = (value: unknown): string =>
  (typeof value === "string" ? Buffer.from(value) : Buffer.from(JSON.stringify(value))).toString("base64url");
const rsa = generateKeyPairSync("rsa", {
  modulusLength: 2_048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});

suite("tokens of the management data API, over HTTP", () => {
  let rig: PortalRig;
  before(async () => {
    rig = await startPortalRig();
  });
  after(() => rig?.[Symbol.asyncDispose]());

  const now = (): number => Math.floor(Date.now() / 1_000);
  const good = (): Record<string, unknown> => ({ role: "reader", aud: "postgrest", iat: now(), exp: now() + 600 });
  const forge = (
    claims: unknown,
    head: unknown = { alg: "HS256" },
    secret = rig.key.material,
    hash = "sha256",
  ): string => {
    const text = `${part(head)}.${part(claims)}`;
    return `${text}.${createHmac(hash, secret).update(text).digest("base64url")}`;
  };
  /** Every refusal looks the same: 401, a challenge, four keys, and nothing of the token or of the database. */
  const refused = async (token: string, code: string, what: string): Promise<void> => {
    const answer = await rig.call("/networks", { token });
    assert.equal(answer.status, 401, `${what}: ${answer.text}`);
    assert.deepEqual(Object.keys(answer.body), ["code", "message", "details", "hint"], what);
    assert.equal(answer.body.code, code, `${what}: ${answer.text}`);
    assert.match(answer.headers.get("www-authenticate") ?? "", /^Bearer error="invalid_token"/, what);
    assert.doesNotMatch(answer.text, /eyJ|portal_|postgres\b/, what);
  };

  test("the forged token of these tests is good when nothing is wrong with it", async () => {
    assert.equal((await rig.call("/networks", { token: forge(good()) })).status, 200);
  });

  test("1. alg none in any spelling", async () => {
    for (const alg of ["none", "NoNe", "NONE", "", null, 0, ["HS256"]]) {
      await refused(`${part({ alg })}.${part(good())}.`, "PGRST301", `no signature, ${String(alg)}`);
      await refused(forge(good(), { alg }), "PGRST301", `signed, ${String(alg)}`);
    }
  });

  test("2. RS256, HS512, embedded jwk and jku, and a kid that is a path", async () => {
    const heads = [
      { alg: "HS256", jwk: { kty: "oct", k: part(rig.key.material) } },
      { alg: "HS256", jku: `${rig.url}/keys` },
      { alg: "HS256", x5u: `${rig.url}/cert` },
      { alg: "HS256", kid: "../../../../dev/null" },
      { alg: "HS256", kid: "' or 1=1--" },
      { alg: "HS256", crit: ["exp"] },
      { alg: "RS256" },
    ];
    for (const head of heads) await refused(forge(good(), head), "PGRST301", JSON.stringify(head));
    await refused(forge(good(), { alg: "HS512" }, rig.key.material, "sha512"), "PGRST301", "HS512");
    await refused(forge(good(), { alg: "HS256", kid: "../../dev/null" }, ""), "PGRST301", "an empty secret");
    await rig.portal.setKeys([rig.key, { kid: "rsa", algorithm: "RS256", material: rsa.publicKey }]);
    await refused(forge(good(), { alg: "HS256", kid: "rsa" }, rsa.publicKey), "PGRST301", "a public key as a secret");
    await refused(forge(good(), { alg: "HS256" }, rsa.publicKey), "PGRST301", "a public key as a secret, no kid");
    await rig.portal.setKeys([rig.key]);
  });

  test("3. a tampered payload, a stripped signature, two and five parts", async () => {
    const token = forge(good());
    const [head = "", payload = "", signature = ""] = token.split(".");
    const bad = [
      `${head}.${part({ ...good(), role: "admin" })}.${signature}`,
      `${head}.${payload}.`,
      `${head}.${payload}`,
      `${head}.${payload}.${signature}.a.b`,
      `${token.slice(0, -4)}AAAA`,
      "..",
      "x".repeat(9_000),
      forge("text"),
    ];
    for (const text of bad) await refused(text, "PGRST301", text.slice(0, 60));
    // the scheme alone, another scheme, and no header: no token at all
    for (const authorization of [undefined, "Basic YTpi", "Bearer", "bearer"]) {
      const headers = authorization === undefined ? {} : { authorization };
      const answer = await fetch(`${rig.url}/networks`, { headers });
      assert.equal(answer.status, 401, String(authorization));
      assert.equal(answer.headers.get("cache-control"), "no-store");
      await answer.text();
    }
  });

  test("4. a wrong, missing, null and empty audience", async () => {
    const { aud: _, ...without } = good();
    await refused(forge(without), "PGRST303", "missing");
    for (const aud of [null, [], "", "other", ["other"], 5, { postgrest: true }, "postgrest "]) {
      await refused(forge({ ...good(), aud }), "PGRST303", JSON.stringify(aud));
    }
  });

  test("5. expired, nbf and iat in the future, exp as text, no exp, too long a life", async () => {
    const { exp: _, ...without } = good();
    await refused(forge(without), "PGRST303", "no exp");
    const times = [
      { exp: now() - 60 },
      { nbf: now() + 60 },
      { iat: now() + 60 },
      { exp: String(now() + 600) },
      { exp: null },
      { exp: 1e300 },
      { exp: now() + 200_000 },
    ];
    for (const over of times) await refused(forge({ ...good(), ...over }), "PGRST303", JSON.stringify(over));
  });

  // Past its end: with a clock of its own in the verifier's test.
  test("6. a remembered token after a change of keys, and one that was taken back", async () => {
    const kept = forge(good());
    assert.equal((await rig.call("/networks", { token: kept })).status, 200);
    await rig.portal.setKeys([{ ...rig.key, material: "another-key-of-this-test-0123456789abcdef" }]);
    await refused(kept, "PGRST301", "after a change of keys");
    await rig.portal.setKeys([rig.key]);
    await rig.sql("insert into portal_private.revoked_tokens (token_id) values ('taken-back')");
    await refused(forge({ ...good(), jti: "taken-back" }), "PGRST303", "taken back");
  });

  test("7. roles postgres, authenticator, anon, and unknown ones", async () => {
    for (const role of ["postgres", "authenticator", "portal_authenticator", "portal_gateway", "anon", "portal_anon"]) {
      await refused(forge({ ...good(), role }), "PGRST303", role);
    }
    for (const role of ["nobody", "Reader", "reader ", "constructor", "__proto__", ""]) {
      await refused(forge({ ...good(), role }), "PGRST303", role);
    }
    const { role: _, ...without } = good();
    await refused(forge(without), "PGRST303", "no role");
  });

  test('8. role "none" does not stay the authenticator', async () => {
    for (const role of ["none", "NONE", "default"]) await refused(forge({ ...good(), role }), "PGRST303", role);
  });

  test("9. a role that is a list, an object or SQL", async () => {
    for (const role of [["admin"], { admin: true }, 1, true, null, "admin; reset role", "admin'--", "admin\u0000"]) {
      await refused(forge({ ...good(), role }), "PGRST303", JSON.stringify(role));
    }
    // nor does any other claim choose one
    for (const claim of ["roles", "user_role", "request.role"]) {
      const token = forge({ ...good(), [claim]: "admin", app_metadata: { role: "admin" } });
      const insert = { token, method: "POST", body: { portal_account_id: FIXTURE } };
      assert.equal((await rig.call("/portal_applications", insert)).status, 403, claim);
    }
  });

  test("an account claim that is none does not come to mean all of them", async () => {
    for (const account_id of [null, "", "x", [FIXTURE], `${FIXTURE} `, 5, {}, true, `${FIXTURE}' or '1'='1`]) {
      await refused(forge({ ...good(), account_id }), "PGRST303", JSON.stringify(account_id));
    }
  });
});
