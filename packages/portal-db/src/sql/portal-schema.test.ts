import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { as, caller, FIXTURE, openPool, startTestServer, type TestServer } from "../../test/database-fixtures.ts";
import { requestOf, type ShortRequest } from "../../test/films-database.ts";
import type { RolePool } from "../database/pool.ts";
import { type RoleViews, readRoleViews } from "../database/role-views.ts";
import { planRequest } from "./plan-request.ts";

const REPRESENTATION = { return: "representation" } as const;

suite("the portal's own schema", () => {
  let server: TestServer;
  let pool: RolePool;
  let views: RoleViews;
  before(async () => {
    server = await startTestServer();
    pool = openPool((await server.database()).url);
    views = await readRoleViews(pool);
  });
  after(async () => {
    await pool?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  const run = async (role: "reader" | "admin", short: ShortRequest): Promise<unknown> => {
    const result = planRequest(requestOf(short), views[role], { maxRows: 1000 });
    if (!result.ok) return `${result.error.status} ${result.error.code}`;
    const { text, values } = result.plan.main;
    const [row] = await as<{ body: string }>(pool, caller(role), text, values);
    return row === undefined || row.body === "" ? undefined : JSON.parse(row.body);
  };
  const application = (name: string): Readonly<Record<string, unknown>> => ({
    portal_account_id: FIXTURE,
    portal_application_name: name,
    secret_key_hash: "a".repeat(64),
    secret_key_required: true,
  });

  test("the calls of the specification", async () => {
    for (const table of ["networks", "organizations", "portal_accounts"]) {
      const rows = await run("reader", { table, query: "select=*" });
      assert.ok(Array.isArray(rows) && rows.length > 0, table);
    }
    const post = {
      verb: "POST",
      table: "portal_applications",
      body: application("first"),
      prefer: REPRESENTATION,
    } as const;
    const [made] = (await run("admin", post)) as Record<string, unknown>[];
    assert.equal(made?.portal_account_id, FIXTURE);
    assert.equal(made?.secret_key_hash, undefined);
    assert.equal(await run("reader", post), "403 42501");
  });

  test("embedding from application to account to organization, and back", async () => {
    await run("admin", { verb: "POST", table: "portal_applications", body: application("embedded") });
    const query =
      "select=portal_application_name,portal_accounts!inner(portal_account_id,organizations(organization_id))" +
      `&portal_account_id=eq.${FIXTURE}&portal_application_name=eq.embedded`;
    const [row] = (await run("reader", { table: "portal_applications", query })) as Record<string, unknown>[];
    const account = row?.portal_accounts as Record<string, unknown>;
    assert.equal(account.portal_account_id, FIXTURE);
    const back = "select=portal_account_id,portal_applications(portal_application_name)&portal_applications.limit=1";
    const [owner] = (await run("admin", {
      table: "portal_accounts",
      query: `${back}&portal_account_id=eq.${FIXTURE}`,
    })) as Record<string, unknown>[];
    const embedded = owner?.portal_applications;
    assert.ok(Array.isArray(embedded) && embedded.length === 1);
  });

  test("the hash of a secret is reached by no select, filter, order or embedding", async () => {
    for (const role of ["reader", "admin"] as const) {
      for (const query of [
        "select=secret_key_hash",
        "secret_key_hash=like.a*",
        "order=secret_key_hash",
        "or=(secret_key_hash.like.a*)",
        "select=secret_key_hash->>a",
        "select=portal_accounts(portal_applications(secret_key_hash))",
      ]) {
        assert.match(
          String(await run(role, { table: "portal_applications", query })),
          /^(400 42703|403 42501)$/,
          query,
        );
      }
    }
  });

  test("a patch and a delete reach what matches", async () => {
    const table = "portal_applications";
    await run("admin", { verb: "POST", table, body: application("to change") });
    const query = "portal_application_name=eq.to change&select=portal_application_name";
    const body = { portal_application_name: "changed" };
    assert.deepEqual(await run("admin", { verb: "PATCH", table, query, body, prefer: REPRESENTATION }), [body]);
    const gone = { verb: "DELETE", table, query: "portal_application_name=eq.changed", prefer: {} } as const;
    assert.equal(await run("admin", gone), undefined);
    assert.deepEqual(await run("admin", { table, query: "portal_application_name=eq.changed" }), []);
  });

  test("an upsert by the key", async () => {
    const table = "portal_applications";
    const key = { portal_application_id: "20000000-0000-4000-8000-000000000001" };
    const prefer = { ...REPRESENTATION, resolution: "merge-duplicates" } as const;
    const query = "select=portal_application_id,portal_application_name";
    for (const name of ["one", "two"]) {
      const body = { ...key, portal_account_id: FIXTURE, portal_application_name: name };
      assert.deepEqual(await run("admin", { verb: "POST", table, query, body, prefer }), [
        { ...key, portal_application_name: name },
      ]);
    }
  });
});
