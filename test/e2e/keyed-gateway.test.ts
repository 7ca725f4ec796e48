import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { suite, test } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { portalConfig, portalTokens } from "@turnpike/devnet/up";
import { eventually } from "@turnpike/testkit";
import { openTestPostgres } from "@turnpike/testkit/servers";
import { migratePortal, mintPortalToken, startPortal } from "../../apps/turnpike/src/wiring/portal-db.ts";
import { startGround } from "../support/network.ts";
import { PORTAL_PASSWORDS } from "./portal-rig.ts";
import { openGateway, startStandIn } from "./support.ts";
import { startWire } from "./wire.ts";

const POOR = "20000000-0000-0000-0000-00000000000a";
const RIVAL = "20000000-0000-0000-0000-00000000000b";
const newKey = (): string => `tk_${randomBytes(16).toString("hex")}`;

suite("a gateway and a management API, each started from the configuration that `turnpike up` writes", () => {
  test("a keyed call is limited and counted; the database away stops keyed calls alone, and only so long", async () => {
    await using ground = await startGround();
    await using node = await startStandIn();
    await using postgres = await openTestPostgres({ createsRoles: true });
    const ownerUrl = postgres.url;
    const secrets = {
      jwtSecret: randomBytes(32).toString("hex"),
      authenticatorPassword: PORTAL_PASSWORDS.authenticator,
      gatewayPassword: PORTAL_PASSWORDS.gateway,
    };
    const written = portalConfig({ ownerUrl, secrets }, 0);
    const apiConfig = loadConfig({ env: {}, overrides: { localnet: true, portalDb: written } });
    await migratePortal(apiConfig, silentLog);
    await using api = await startPortal(apiConfig, { log: silentLog });
    const { admin } = await portalTokens(secrets, { clock: systemClock });
    const tokenOf = async (accountId: string): Promise<string> => {
      const asked = { role: "reader", accountId, lifetimeSeconds: 600, kid: undefined, privateKey: undefined } as const;
      return (await mintPortalToken(apiConfig, asked)).token;
    };
    const [poor, rival] = [await tokenOf(POOR), await tokenOf(RIVAL)];
    const ask = async (target: string, token: string, body?: unknown): Promise<readonly Record<string, unknown>[]> => {
      const answer = await fetch(`${api.portal.url}${target}`, {
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          prefer: "return=representation",
        },
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      });
      assert.ok(answer.ok, `${target}: ${answer.status}`);
      return (await answer.json()) as readonly Record<string, unknown>[];
    };
    const limit = { portal_account_user_limit: 3, portal_account_user_limit_interval: "month" };
    await ask("/portal_accounts", admin, [
      { portal_account_id: POOR, portal_plan_type: "FREE", ...limit },
      { portal_account_id: RIVAL, portal_plan_type: "UNLIMITED", ...limit, portal_account_user_limit: null },
    ]);
    const make = async (account: string): Promise<string> => {
      const key = newKey();
      const hash = createHash("sha256").update(key).digest("hex");
      await ask("/portal_applications", admin, { portal_account_id: account, secret_key_hash: hash });
      return key;
    };
    const [key, later] = [await make(POOR), await make(RIVAL)];

    await using wire = await startWire(String(written.gatewayUrl));
    const eth = { endpoints: [{ operator: "o", urls: { json_rpc: node.url } }] };
    await using gateway = await openGateway(ground, {
      sections: { suppliers: { eth }, portalDb: { ...written, gatewayUrl: wire.url } },
    });
    const call = async (presented?: string): Promise<number> => {
      const answer = await fetch(`${gateway.url}/relay/${presented === undefined ? "" : `key/${presented}/`}eth`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: '{"jsonrpc":"2.0","id":1,"method":"eth_gasPrice","params":[]}',
      });
      await answer.text();
      return answer.status;
    };
    assert.deepEqual([await call(key), await call(key), await call(key)], [200, 200, 200]);
    assert.deepEqual([await call(key), await call()], [429, 200], "beyond its plan, and without a key");
    const usage = "/portal_application_usage?select=service_id,calls,failed_calls,refused_calls";
    await eventually("the usage is written", async () => (await ask(usage, poor)).length === 1);
    await eventually("all of it", async () => (await ask(usage, poor))[0]?.refused_calls === 1);
    assert.deepEqual(await ask(usage, poor), [{ service_id: "eth", calls: 3, failed_calls: 0, refused_calls: 1 }]);
    assert.deepEqual(await ask(usage, rival), []);

    wire.cut();
    assert.deepEqual([await call(later), await call()], [503, 200]);
    assert.equal(await call(key), 429, "what is known of a key stays known for a while");
    wire.fix();
    await eventually("keys are known again", async () => (await call(later)) === 200);
    assert.equal(await call(newKey()), 401);
    await eventually("its usage is written", async () => (await ask(usage, rival))[0]?.calls === 1);
    assert.equal((await ask(usage, poor))[0]?.calls, 3);
  });
});
