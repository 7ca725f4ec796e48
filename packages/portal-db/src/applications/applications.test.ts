import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { after, before, suite, test } from "node:test";
import { noMetrics, silentLog } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import pg from "pg";
import { FIXTURE, GATEWAY_PASSWORD, sql, startTestServer, type TestServer } from "../../test/database-fixtures.ts";
import { migratePortalDb } from "../database/migrate.ts";
import type { PortalApplication } from "./application.ts";
import { type ApplicationsOptions, type FoundPortalApplication, PortalApplications } from "./applications.ts";

const hashOf = (key: string): string => createHash("sha256").update(key).digest("hex");

interface Opened extends AsyncDisposable {
  readonly applications: PortalApplications;
  pass(ms: number): void;
}

function isFound(found: FoundPortalApplication): asserts found is PortalApplication {
  assert.equal(typeof found, "object", "it is found");
}

suite("applications by their keys", { timeout: 300_000 }, () => {
  let server: TestServer;
  let owner: string;
  let url: string;
  let made = 0;
  before(async () => {
    server = await startTestServer();
    ({ owner } = await server.database());
    await migratePortalDb({ url: owner, gatewayPassword: GATEWAY_PASSWORD }, { log: silentLog });
    const gateway = new URL(owner);
    gateway.username = "portal_gateway";
    gateway.password = GATEWAY_PASSWORD;
    url = gateway.href;
  });
  after(() => server?.[Symbol.asyncDispose]());

  function open(over: Partial<ApplicationsOptions> = {}): Opened {
    const clock = virtualClock();
    const applications = new PortalApplications(
      { url, flushEveryMs: 3_600_000, timeoutMs: 60_000, ...over },
      { clock, log: silentLog, metrics: noMetrics },
    );
    return {
      applications,
      pass: (ms) => clock.advance(ms),
      [Symbol.asyncDispose]: () => applications[Symbol.asyncDispose](),
    };
  }

  /** An application of an account, by its limits; gives key and id. */
  async function make(account = FIXTURE, limits: Readonly<Record<string, unknown>> = {}) {
    const key = `key ${++made}`;
    const columns = ["portal_account_id", "secret_key_hash", ...Object.keys(limits)];
    const values = [account, hashOf(key), ...Object.values(limits)];
    const [row] = await sql<{ id: string }>(
      owner,
      `insert into portal_applications (${columns.join()}) values (${values.map((_, at) => `$${at + 1}`).join()})
       returning portal_application_id as id`,
      values,
    );
    return { key, id: row?.id ?? "" };
  }

  async function account(plan: string, limits: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const columns = ["portal_plan_type", ...Object.keys(limits)];
    const values = [plan, ...Object.values(limits)];
    const [row] = await sql<{ id: string }>(
      owner,
      `insert into portal_accounts (${columns.join()}) values (${values.map((_, at) => `$${at + 1}`).join()})
       returning portal_account_id as id`,
      values,
    );
    return row?.id ?? "";
  }

  const use = (application: PortalApplication, items = 1): boolean => {
    const { ok } = application.consume(items);
    if (ok) application.served("eth", items);
    else application.refused("eth", items, false);
    return ok;
  };

  test("limits are those of application, account and plan, the strictest of each", async () => {
    await sql(
      owner,
      `insert into portal_plans (portal_plan_type, plan_usage_limit, plan_usage_limit_interval, plan_rate_limit_rps)
       values ('TEN', 10, 'day', 7)`,
    );
    const id = await account("TEN", { portal_account_user_limit_rps: 9, portal_account_user_limit: 8 });
    const { key } = await make(id, { portal_application_user_limit_rps: 20, portal_application_user_limit: 3 });
    const { key: sister } = await make(id);
    await using at = open();
    const found = await at.applications.find(key, true);
    const other = await at.applications.find(sister, true);
    isFound(found);
    isFound(other);
    assert.deepEqual([found.perSecond, found.accountPerSecond], [20, 7]);
    assert.deepEqual([other.perSecond, other.accountPerSecond], [undefined, 7]);
    assert.deepEqual([use(found, 2), use(found, 2), use(found, 1)], [true, false, true], "3 of its own");
    assert.deepEqual([use(other, 5), use(other, 1)], [true, false], "8 of the account with its sister's");
    await at.applications.tick();
    at.pass(5_001);
    await at.applications.find(sister, true);
    await at.applications.tick();
    assert.equal(use(other), false, "and so says the database");
    const [usage] = await sql(
      owner,
      "select calls::int from portal_private.account_usage where portal_account_id = $1",
      [id],
    );
    assert.deepEqual(usage, { calls: 8 });
  });

  test("deleting an application gives no calls of the day, month or year back, also not of those not written yet", async () => {
    await sql(
      owner,
      `insert into portal_plans (portal_plan_type, plan_usage_limit, plan_usage_limit_interval)
       values ('DAILY', 4, 'day'), ('FOUR', 4, 'month'), ('YEARLY', 4, 'year')`,
    );
    for (const plan of ["DAILY", "FOUR", "YEARLY"]) {
      const owned = await account(plan);
      const first = await make(owned);
      await using at = open();
      const found = await at.applications.find(first.key, true);
      isFound(found);
      assert.ok(use(found, 2));
      await at.applications.tick();
      assert.ok(use(found, 1));
      await sql(owner, "delete from portal_applications where portal_application_id = $1", [first.id]);
      await at.applications.tick();
      const { key } = await make(owned);
      const fresh = await at.applications.find(key, true);
      isFound(fresh);
      assert.deepEqual([use(fresh, 2), use(fresh, 1), use(fresh, 1)], [false, true, false], plan);
    }
  });

  test("an application that is gone gets no row of usage, and holds nothing else up", async () => {
    const [gone, kept] = [await make(), await make()];
    await using at = open();
    for (const { key } of [gone, kept]) {
      const found = await at.applications.find(key, true);
      isFound(found);
      use(found);
    }
    await sql(owner, "delete from portal_applications where portal_application_id = $1", [gone.id]);
    await at.applications.tick();
    const rows = await sql(
      owner,
      "select portal_application_id as id, calls::int from portal_application_usage where portal_application_id = any ($1)",
      [[gone.id, kept.id]],
    );
    assert.deepEqual(rows, [{ id: kept.id, calls: 1 }]);
  });

  test("gateways that write the same rows at once lose nothing and do not stand in each other's way", async () => {
    const accounts = [await account("UNLIMITED"), await account("UNLIMITED"), await account("UNLIMITED")];
    const keys: string[] = [];
    for (let left = 30; left > 0; left--) keys.push((await make(accounts[left % 3])).key);
    const gateways = [open(), open(), open(), open()];
    for (const [at, { applications }] of gateways.entries()) {
      const order = at % 2 === 0 ? keys : keys.toReversed();
      const found = await Promise.all(order.map(async (key) => applications.find(key, true)));
      for (const one of found) {
        isFound(one);
        use(one, 2);
      }
    }
    for (let round = 0; round < 5; round++) await Promise.all(gateways.map(({ applications }) => applications.tick()));
    await Promise.all(gateways.map((gateway) => gateway[Symbol.asyncDispose]()));
    const [sum] = await sql(
      owner,
      "select sum(calls)::int as calls from portal_private.account_usage where portal_account_id = any ($1)",
      [accounts],
    );
    assert.deepEqual(sum, { calls: 30 * 4 * 2 });
  });

  test("of several with one hash it is the oldest: nobody takes another's place", async () => {
    const { key, id } = await make();
    await sql(
      owner,
      "insert into portal_applications (portal_application_id, portal_account_id, secret_key_hash) values ('0', $1, $2)",
      [FIXTURE, hashOf(key)],
    );
    await using at = open();
    const found = await at.applications.find(key, true);
    isFound(found);
    assert.equal(found.id, id);
  });

  test("a key is asked for once, whoever waits; what is unknown is remembered; what may not be asked is not", async () => {
    const { key } = await make();
    await using at = open({ maxWaiting: 1 });
    const both = await Promise.all([at.applications.find(key, true), at.applications.find(key, true)]);
    assert.ok(typeof both[0] === "object" && both[0] === both[1]);
    assert.equal(await at.applications.find("nobody's", false), "unasked");
    assert.equal(await at.applications.find("nobody's", true), "unknown");
    assert.equal(at.applications.find("nobody's", false), "unknown", "known to be nobody's, at once");
    at.pass(5_001);
    assert.equal(await at.applications.find("nobody's", false), "unasked");
    assert.equal(await at.applications.find("", true), "unknown");
    assert.equal(await at.applications.find("x".repeat(513), true), "unknown");
    // One is being looked up, one waits, and for the third there is no place.
    const many = await Promise.all(["a", "b", "c"].map(async (one) => at.applications.find(one, true)));
    assert.deepEqual(many, ["unknown", "unknown", "unavailable"]);
  });

  test("a key that was used only in the millisecond of its look-up is refreshed too", async () => {
    const { key, id } = await make();
    await using at = open();
    const found = await at.applications.find(key, true);
    isFound(found);
    await sql(
      owner,
      "update portal_applications set portal_application_user_limit_rps = 7 where portal_application_id = $1",
      [id],
    );
    at.pass(5_000);
    await at.applications.tick();
    assert.equal(found.perSecond, 7);
  });

  test("what is remembered is bounded", async () => {
    const keys = [(await make()).key, (await make()).key, (await make()).key];
    await using at = open({ maxKeys: 2, maxUsageRows: 1 });
    const found: FoundPortalApplication[] = [];
    for (const key of keys) found.push(await at.applications.find(key, true));
    assert.equal(await at.applications.find(keys[0] ?? "", false), "unasked", "the oldest was forgotten");
    assert.equal(typeof (await at.applications.find(keys[2] ?? "", false)), "object");
    for (const one of found) {
      isFound(one);
      assert.ok(use(one), "a call is served even when it cannot be counted");
    }
  });

  test("a database that hangs costs one time-out; then known keys go on, and unknown ones fail at once", async (context) => {
    const sockets = new Set<Socket>();
    const swallowed = Promise.withResolvers<void>();
    let hangs = false;
    let begun = 0;
    const between = createServer((near) => {
      begun++;
      const far = connect(Number(new URL(url).port), "127.0.0.1");
      for (const socket of [near, far]) sockets.add(socket.on("error", () => undefined));
      near.on("data", (data) => (hangs ? swallowed.resolve() : far.write(data))).on("close", () => far.destroy());
      far.on("data", (data) => hangs || near.write(data)).on("close", () => near.destroy());
    });
    between.listen(0, "127.0.0.1");
    await once(between, "listening");
    const to = new URL(url);
    to.port = String((between.address() as AddressInfo).port);
    const { key } = await make();
    try {
      // The driver's time-outs, which no server has a part in, pass when the test says so.
      context.mock.timers.enable({ apis: ["setTimeout"] });
      await using at = open({ url: to.href, timeoutMs: 60_000 });
      const found = await at.applications.find(key, true);
      isFound(found);
      hangs = true;
      at.pass(10_001);
      const hanging = at.applications.find("some key", true);
      await swallowed.promise;
      context.mock.timers.tick(60_000);
      assert.equal(await hanging, "unavailable");
      const before = begun;
      assert.equal(await at.applications.find("other key", true), "unavailable");
      assert.equal(await at.applications.find(key, true), found);
      assert.equal(begun, before, "after a failure it is left alone for a while");
      at.pass(1_001);
      hangs = false;
      assert.equal(await at.applications.find("other key", true), "unknown");
    } finally {
      for (const socket of sockets) socket.destroy();
      between.close();
    }
  });

  test("the role of the gateway writes usage and nothing else", async () => {
    for (const text of [
      "update portal.portal_applications set secret_key_hash = null",
      "delete from portal.portal_application_usage",
      "insert into portal.networks values ('x')",
      "select * from portal.portal_users",
      "select * from portal_private.audit",
      "set role portal_admin",
    ]) {
      await assert.rejects(sql(url, text), { code: "42501" }, text);
    }
  });

  test("keys are found by an index", async () => {
    const client = new pg.Client({ connectionString: owner });
    await client.connect();
    // A table as small as this one is quicker read as a whole.
    await client.query("set enable_seqscan = off");
    const { rows } = await client.query<{ "QUERY PLAN": string }>(
      `explain select 1 from portal.portal_applications a
       where a.secret_key_hash = any (array['a', 'b']) and a.deleted_at is null`,
    );
    await client.end();
    assert.match(rows.map((row) => row["QUERY PLAN"]).join("\n"), /portal_applications_secret/);
  });
});
