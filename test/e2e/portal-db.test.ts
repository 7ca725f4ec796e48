import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { PostgrestClient } from "@supabase/postgrest-js";
import { systemClock } from "@turnpike/base";
import { mintToken } from "@turnpike/portal-db";
import { FIXTURE, type PortalRig, startPortalRig } from "./portal-rig.ts";

const HASH = "a".repeat(64);
let made = 0;
const application = (over: { readonly emoji?: string; readonly [name: string]: unknown } = {}) => ({
  portal_account_id: FIXTURE,
  portal_application_name: `e2e ${++made}`,
  secret_key_hash: HASH,
  secret_key_required: true,
  ...over,
});

suite("the management data API", () => {
  let rig: PortalRig;
  // biome-ignore lint/suspicious/noExplicitAny: the client knows no schema of ours
  let admin: PostgrestClient<any, any, any>;
  // biome-ignore lint/suspicious/noExplicitAny: the client knows no schema of ours
  let reader: PostgrestClient<any, any, any>;
  before(async () => {
    rig = await startPortalRig();
    // biome-ignore lint/suspicious/noExplicitAny: the client knows no schema of ours
    const client = async (role: "admin" | "reader"): Promise<PostgrestClient<any, any, any>> =>
      new PostgrestClient(rig.url, { headers: { Authorization: `Bearer ${await rig.token(role)}` } });
    [admin, reader] = [await client("admin"), await client("reader")];
  });
  after(() => rig?.[Symbol.asyncDispose]());

  test("spec 4.5: a reader reads the three tables, an admin makes an application and gets it back in a list", async () => {
    for (const table of ["networks", "organizations", "portal_accounts"]) {
      const answer = await rig.call(`/${table}`);
      assert.equal(answer.status, 200, table);
      assert.ok(answer.body.length > 0, table);
      assert.equal(answer.headers.get("content-type"), "application/json; charset=utf-8");
      assert.match(answer.headers.get("content-range") ?? "", /^0-\d+\/\*$/);
    }
    const body = application();
    const post = { method: "POST", body, headers: { prefer: "return=representation" } };
    const answer = await rig.call("/portal_applications", { as: "admin", ...post });
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.headers.get("preference-applied"), "return=representation");
    assert.equal(answer.body.length, 1);
    assert.equal(answer.body[0].portal_application_name, body.portal_application_name);
    assert.equal("secret_key_hash" in answer.body[0], false);
    assert.equal(answer.body[0].has_secret, true);
    const refused = await rig.call("/portal_applications", { as: "reader", ...post });
    assert.deepEqual([refused.status, refused.body.code], [403, "42501"]);
    const nobody = await rig.call("/portal_accounts", { as: "nobody" });
    assert.deepEqual([nobody.status, nobody.headers.get("www-authenticate")], [401, "Bearer"]);
    assert.deepEqual(Object.keys(nobody.body), ["code", "message", "details", "hint"]);
    assert.equal(nobody.headers.get("proxy-status"), "PostgREST; error=PGRST302");
  });

  test("postgrest-js: single and bulk inserts, filters, order, paging and counts", async () => {
    const rows = [application({ emoji: "🚀" }), application({ emoji: "a,b" }), application({ emoji: 'q"' })];
    const bulk = await admin.from("portal_applications").insert(rows).select("portal_application_name,emoji");
    assert.equal(bulk.error, null, JSON.stringify(bulk.error));
    assert.deepEqual(
      bulk.data?.map((row) => row.emoji),
      rows.map(({ emoji }) => emoji),
    );
    const names = rows.map((row) => row.portal_application_name);
    const page = await reader
      .from("portal_applications")
      .select("portal_application_name", { count: "exact" })
      .in("portal_application_name", names)
      .order("portal_application_name", { ascending: false })
      .range(0, 1);
    assert.deepEqual([page.status, page.count, page.data?.length], [206, 3, 2]);
    assert.equal(page.data?.[0]?.portal_application_name, names.toSorted().at(-1));
    const head = await reader
      .from("portal_applications")
      .select("*", { count: "exact", head: true })
      .in("emoji", ["a,b", 'q"']);
    assert.deepEqual([head.status, head.count, head.data], [200, 2, null]);
    const some = await reader
      .from("portal_applications")
      .select("portal_application_name")
      .or(`portal_application_name.eq."${names[0]}",and(emoji.eq."a,b",secret_key_required.is.true)`)
      .not("portal_application_name", "is", null);
    assert.equal(some.data?.length, 2);
    const one = await reader.from("portal_applications").select().eq("portal_application_name", names[1]).maybeSingle();
    assert.equal(one.data?.emoji, "a,b");
    const none = await reader.from("portal_applications").select().eq("portal_application_name", "nobody").single();
    assert.deepEqual(
      [none.status, none.error?.code, none.error?.details],
      [406, "PGRST116", "The result contains 0 rows"],
    );
    const beyond = await reader.from("networks").select("*", { count: "exact" }).range(50, 60);
    assert.deepEqual([beyond.status, beyond.error?.code], [416, "PGRST103"]);
  });

  test("postgrest-js: upsert, update and delete", async () => {
    const row = { portal_application_id: "e2e-upsert", ...application() };
    const first = await admin.from("portal_applications").upsert(row).select("portal_application_id");
    assert.deepEqual([first.status, first.error], [201, null]);
    const again = await admin
      .from("portal_applications")
      .upsert({ ...row, emoji: "x" })
      .select("emoji");
    assert.deepEqual([again.status, again.data], [200, [{ emoji: "x" }]]);
    const ignored = await admin
      .from("portal_applications")
      .upsert({ ...row, emoji: "y" }, { ignoreDuplicates: true })
      .select();
    assert.deepEqual(ignored.data, []);
    const twice = await admin.from("portal_applications").insert(row);
    assert.deepEqual([twice.status, twice.error?.code], [409, "23505"]);
    const changed = await admin
      .from("portal_applications")
      .update({ emoji: "z" })
      .eq("portal_application_id", "e2e-upsert")
      .select("emoji")
      .single();
    assert.deepEqual(changed.data, { emoji: "z" });
    const gone = await admin
      .from("portal_applications")
      .delete({ count: "exact" })
      .eq("portal_application_id", "e2e-upsert");
    assert.deepEqual([gone.status, gone.count, gone.error], [204, 1, null]);
    const unknown = await admin.from("portal_applications").insert(application({ portal_account_id: "nobody" }));
    assert.deepEqual([unknown.status, unknown.error?.code], [409, "23503"]);
  });

  test("postgrest-js: embedding to one, to many, inner, spread, two levels", async () => {
    const name = application();
    await admin.from("portal_applications").insert(name);
    const up = await reader
      .from("portal_applications")
      .select(
        "portal_application_name,account:portal_accounts!inner(portal_account_id,organizations(organization_name))",
      )
      .eq("portal_application_name", name.portal_application_name)
      .single();
    assert.deepEqual(up.data?.account, {
      portal_account_id: FIXTURE,
      organizations: { organization_name: "Web3 Builders Co" },
    });
    const down = await reader
      .from("portal_accounts")
      .select("portal_account_id,portal_applications(portal_application_name)")
      .eq("portal_applications.portal_application_name", name.portal_application_name)
      .single();
    assert.deepEqual(down.data?.portal_applications, [{ portal_application_name: name.portal_application_name }]);
    const spread = await rig.call(
      "/portal_accounts?select=portal_account_id,...organizations(organization_name)&limit=1",
    );
    assert.deepEqual(spread.body, [{ portal_account_id: FIXTURE, organization_name: "Web3 Builders Co" }]);
    const none = await reader.from("networks").select("network_id,organizations(*)");
    assert.deepEqual([none.status, none.error?.code], [400, "PGRST200"]);
  });

  test("Prefer: echoed in order, the first of a name counts, strict refuses what is unknown", async () => {
    const prefer = (text: string) => ({ headers: { prefer: text } });
    const read = await rig.call(
      "/networks?limit=1",
      prefer("handling=lenient, count=exact, count=planned, foo=bar, tx=rollback"),
    );
    assert.equal(read.headers.get("preference-applied"), "count=exact, handling=lenient");
    assert.equal(read.headers.get("content-range"), "0-0/3");
    const strict = await rig.call("/networks", prefer("handling=strict, foo=bar, return=none"));
    assert.deepEqual([strict.status, strict.body.code], [400, "PGRST122"]);
    assert.equal(strict.body.details, "Invalid preferences: foo=bar, return=none");
    const location = await rig.call("/portal_applications", {
      as: "admin",
      method: "POST",
      body: application(),
      ...prefer("return=headers-only"),
    });
    assert.equal(location.status, 201);
    assert.match(
      location.headers.get("location") ?? "",
      /^\/portal_applications\?portal_application_id=eq\.[0-9a-f-]{36}$/,
    );
    assert.equal(location.text, "");
    assert.equal((await rig.call(location.headers.get("location") ?? "")).body.length, 1);
  });

  test("max-affected and a singular answer take the write back", async () => {
    const [a, b] = [application({ emoji: "max" }), application({ emoji: "max" })];
    await admin.from("portal_applications").insert([a, b]);
    const patch = { as: "admin", method: "PATCH", body: { emoji: "changed" } } as const;
    const most = await rig.call("/portal_applications?emoji=eq.max", {
      ...patch,
      headers: { prefer: "handling=strict, max-affected=1" },
    });
    assert.deepEqual([most.status, most.body.code], [400, "PGRST124"]);
    const object = { accept: "application/vnd.pgrst.object+json" };
    for (const prefer of ["return=representation", "return=minimal"]) {
      const single = await rig.call("/portal_applications?emoji=eq.max", { ...patch, headers: { ...object, prefer } });
      assert.deepEqual([single.status, single.body.code], [406, "PGRST116"]);
    }
    assert.equal((await rig.call("/portal_applications?emoji=eq.max")).body.length, 2);
    const lenient = await rig.call("/portal_applications?emoji=eq.max", {
      ...patch,
      headers: { prefer: "max-affected=1" },
    });
    assert.equal(lenient.status, 204);
  });

  test("Range, its answers, and limits; nothing of it for a write", async () => {
    const range = (text: string, unit = "items") => ({ headers: { range: text, "range-unit": unit } });
    const part = await rig.call("/networks?order=network_id", range("1-1"));
    assert.deepEqual([part.status, part.body.length, part.headers.get("content-range")], [200, 1, "1-1/*"]);
    assert.equal((await rig.call("/networks", range("2-1"))).status, 416);
    assert.equal((await rig.call("/networks", range("bytes=0-1"))).body.length, 3);
    assert.equal((await rig.call("/networks", range("0-0", "bytes"))).body.length, 3);
    assert.equal((await rig.call("/networks?limit=0")).text, "[]");
    assert.equal((await rig.call("/networks?offset=10")).headers.get("content-range"), "*/*");
    const counted = await rig.call("/networks?offset=10", { headers: { prefer: "count=exact" } });
    assert.deepEqual([counted.status, counted.headers.get("content-range")], [416, "*/3"]);
  });

  test("media: CSV both ways, forms, objects, stripped nulls; 406 and 400 for the rest", async () => {
    const accept = (text: string) => ({ headers: { accept: text } });
    const csv = await rig.call("/networks?order=network_id", accept("text/csv"));
    assert.equal(csv.text, "network_id\npocket\npocket-alpha\npocket-beta");
    assert.equal(csv.headers.get("content-type"), "text/csv; charset=utf-8");
    const object = await rig.call("/networks?network_id=eq.pocket", accept("application/vnd.pgrst.object+json"));
    assert.deepEqual(object.body, { network_id: "pocket" });
    const stripped = await rig.call("/portal_plans", accept("application/vnd.pgrst.array+json;nulls=stripped"));
    assert.doesNotMatch(stripped.text, /null/);
    for (const text of ["image/png", "application/openapi+json", "application/vnd.pgrst.plan+json", "text/html;q=0"]) {
      const none = await rig.call("/networks", accept(text));
      assert.deepEqual([none.status, none.body.code], [406, "PGRST107"], text);
      assert.equal(none.body.message, `None of these media types are available: ${text}`);
    }
    const post = { as: "admin", method: "POST", headers: { prefer: "return=representation" } } as const;
    const typed = (type: string) => ({ headers: { ...post.headers, "content-type": type } });
    const rows = await rig.call("/portal_applications?select=portal_application_name,emoji", {
      ...post,
      ...typed("text/csv"),
      body: `portal_account_id,portal_application_name,emoji\n${FIXTURE},"c ""s"", v",NULL\n${FIXTURE},plain,x\n`,
    });
    assert.deepEqual(rows.body, [
      { portal_application_name: 'c "s", v', emoji: null },
      { portal_application_name: "plain", emoji: "x" },
    ]);
    const form = await rig.call("/portal_applications?select=portal_application_name", {
      ...post,
      ...typed("application/x-www-form-urlencoded"),
      body: `portal_account_id=${FIXTURE}&portal_application_name=of+a+form`,
    });
    assert.deepEqual(form.body, [{ portal_application_name: "of a form" }]);
    for (const type of ["text/plain", "application/xml", "multipart/form-data"]) {
      const bad = await rig.call("/portal_applications", { ...post, ...typed(type), body: "x" });
      assert.deepEqual([bad.status, bad.body.code], [400, "PGRST102"], type);
    }
  });

  test("what the description says of types and pages is held: -1, numbers as texts, operators of other types", async () => {
    for (const page of ["limit=-1", "offset=-1"]) {
      const answer = await rig.call(`/networks?${page}`);
      assert.deepEqual([answer.status, answer.body.code], [416, "PGRST103"], page);
    }
    const user = { as: "admin", method: "POST" } as const;
    for (const portal_user_email of [5, true, { a: 1 }, ["x"]]) {
      const answer = await rig.call("/portal_users", { ...user, body: { portal_user_email } });
      assert.deepEqual([answer.status, answer.body.code], [400, "22P02"], JSON.stringify(portal_user_email));
    }
    const patch = { as: "admin", method: "PATCH", body: { emoji: 5 } } as const;
    assert.equal((await rig.call("/portal_applications?portal_application_id=eq.none", patch)).status, 400);
    const like = await rig.call("/portal_plans?plan_usage_limit=like.5*");
    assert.deepEqual([like.status, like.body.code], [400, "42883"], like.text);
  });

  test("the description names the verbs that Allow names, and every status that a write has", async () => {
    const { paths } = (await rig.call("/", { as: "admin" })).body;
    for (const [path, operations] of Object.entries(paths as Record<string, Record<string, { responses: object }>>)) {
      const { headers } = await rig.call(path, { as: "admin", method: "OPTIONS" });
      const verbs = (headers.get("allow") ?? "").toLowerCase().split(",");
      assert.deepEqual(Object.keys(operations).sort(), verbs.filter((verb) => !/options|head/.test(verb)).sort(), path);
    }
    const { post } = paths["/portal_applications"];
    const body = { portal_application_id: "e2e-twice", ...application() };
    const upsert = { as: "admin", method: "POST", body, headers: { prefer: "resolution=merge-duplicates" } } as const;
    for (const status of [201, 200]) {
      const answer = await rig.call("/portal_applications", upsert);
      assert.equal(answer.status, status);
      assert.equal(answer.headers.get("content-type"), null);
      assert.equal(post.responses[status].content, undefined, "no body, and none is described");
    }
  });

  test("verbs: PUT needs the whole key, OPTIONS says what the role may, others are refused", async () => {
    const row = { portal_application_id: "e2e-put", ...application() };
    const put = { as: "admin", method: "PUT", body: row } as const;
    assert.equal((await rig.call("/portal_applications?portal_application_id=eq.e2e-put", put)).status, 201);
    assert.equal((await rig.call("/portal_applications?portal_application_id=eq.e2e-put", put)).status, 204);
    const other = await rig.call("/portal_applications?portal_application_id=eq.other", put);
    assert.deepEqual([other.status, other.body.code], [400, "PGRST115"]);
    const none = await rig.call("/portal_applications?emoji=eq.x", put);
    assert.deepEqual([none.status, none.body.code], [405, "PGRST105"]);
    const verbs = "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE";
    assert.equal(none.headers.get("allow"), verbs);
    // fetch sends no TRACE.
    const unknown = await rig.call("/portal_applications", { as: "admin", method: "PROPFIND" });
    assert.deepEqual([unknown.status, unknown.headers.get("allow")], [405, verbs]);
    for (const [target, wanted] of [
      ["/", "OPTIONS,GET,HEAD"],
      ["/live", "GET,HEAD"],
      ["/no_such_table", "OPTIONS,GET,HEAD"],
    ] as const) {
      const answer = await rig.call(target, { as: "admin", method: "PROPFIND" });
      assert.deepEqual([answer.status, answer.headers.get("allow")], [405, wanted], target);
    }
    const allow = async (as: "admin" | "reader", table: string) =>
      (await rig.call(`/${table}`, { as, method: "OPTIONS" })).headers.get("allow");
    assert.equal(await allow("admin", "portal_applications"), "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE");
    assert.equal(await allow("reader", "portal_applications"), "OPTIONS,GET,HEAD");
    assert.equal(await allow("admin", "networks"), "OPTIONS,GET,HEAD");
    const called = await rig.call("/rpc/gen_salt", { as: "admin", method: "POST", body: {} });
    assert.deepEqual([called.status, called.body.code], [404, "PGRST202"]);
    assert.equal((await rig.call("/rpc/gen_salt", { as: "nobody" })).status, 401);
    const schema = await rig.call("/networks", { headers: { "accept-profile": "portal_private" } });
    assert.deepEqual([schema.status, schema.body.message], [406, "Invalid schema: portal_private"]);
    for (const target of ["/networks/x", "/rpc/x/y", "//networks"]) {
      assert.equal((await rig.call(target)).body.code, "PGRST125", target);
    }
    assert.equal((await rig.call("/", { method: "POST" })).body.code, "PGRST117");
  });

  test("HEAD has the head of the GET, and no length where the rows are not made", async () => {
    const headers = { prefer: "count=exact" };
    const head = await rig.call("/networks?limit=2", { method: "HEAD", headers });
    const get = await rig.call("/networks?limit=2", { headers });
    assert.deepEqual([head.status, head.text], [206, ""]);
    for (const name of ["content-range", "content-type", "preference-applied", "cache-control"]) {
      assert.equal(head.headers.get(name), get.headers.get(name), name);
    }
    assert.equal(head.headers.get("content-length"), null);
    assert.equal(head.headers.get("transfer-encoding"), null);
    const next = await rig.call("/networks?limit=2", { method: "HEAD", headers });
    assert.equal(next.status, 206, "the connection goes on");
  });

  test("OpenAPI 3.1, 3.0 and Swagger 2.0 validate, per role, with an entity tag", async () => {
    for (const [accept, version] of [
      ["*/*", "3.1"],
      ["application/vnd.oai.openapi+json;version=3.0", "3.0"],
      ["application/openapi+json", "2.0"],
    ]) {
      for (const as of ["admin", "reader"] as const) {
        const answer = await rig.call("/", { as, headers: { accept: accept ?? "" } });
        assert.equal(answer.status, 200);
        const validator = new Validator();
        const checked = await validator.validate(structuredClone(answer.body));
        assert.ok(checked.valid, JSON.stringify(checked.errors));
        assert.equal(validator.version, version);
        for (const table of ["networks", "organizations", "portal_accounts", "portal_applications"]) {
          assert.ok(answer.body.paths[`/${table}`].get, table);
        }
        assert.equal(answer.body.paths["/portal_applications"].post === undefined, as === "reader");
        assert.equal(answer.body.paths["/networks"].post, undefined);
        assert.equal(answer.body.paths["/portal_users"] === undefined, as === "reader");
        const etag = answer.headers.get("etag") ?? "";
        const held = await rig.call("/", { as, headers: { accept: accept ?? "", "if-none-match": etag } });
        assert.deepEqual([held.status, held.text], [304, ""]);
      }
    }
    const { body } = await rig.call("/", { as: "admin" });
    const { schemas } = body.components;
    assert.deepEqual(schemas.PortalApplicationsInsert.required, ["portal_account_id"]);
    assert.equal(schemas.PortalApplicationsRow.properties.secret_key_hash, undefined);
    assert.ok(schemas.PortalApplicationsInsert.properties.secret_key_hash);
    assert.equal(schemas.PortalApplicationsUpdate.properties.portal_application_id, undefined);
    assert.equal(schemas.PortalApplicationsRow.properties.created_at.format, "date-time");
    assert.equal((await rig.call("/", { as: "nobody" })).status, 401);
  });

  test("`/live` and `/ready` need no token", async () => {
    assert.equal((await rig.call("/live", { as: "nobody" })).status, 200);
    assert.deepEqual((await rig.call("/ready", { as: "nobody" })).body, { ready: true, missing: [] });
  });

  test("keys change while it runs", async () => {
    const next = { kid: "next", algorithm: "HS256", material: "a-second-key-of-this-test-0123456789abcdef" } as const;
    const options = {
      role: "reader",
      accountId: undefined,
      lifetimeSeconds: 60,
      audience: "postgrest",
      key: next,
    } as const;
    const { token } = await mintToken(options, { clock: systemClock });
    const old = await rig.token("reader");
    assert.equal((await rig.call("/networks", { token })).status, 401);
    await rig.portal.setKeys([rig.key, next]);
    assert.deepEqual(
      [(await rig.call("/networks", { token })).status, (await rig.call("/networks", { token: old })).status],
      [200, 200],
    );
    await rig.portal.setKeys([next]);
    assert.equal((await rig.call("/networks", { token: old })).status, 401);
    await rig.portal.setKeys([rig.key]);
  });
});

test("the switch returns the hash to the admin who has just sent it, and to nobody else", async () => {
  await using rig = await startPortalRig({ revealCreatedHash: true });
  const insert = { as: "admin", method: "POST", headers: { prefer: "return=representation" } } as const;
  const rows = [application(), application({ secret_key_hash: "b".repeat(64) })];
  const answer = await rig.call("/portal_applications", { ...insert, body: rows });
  assert.deepEqual(
    answer.body.map((row: { secret_key_hash: string }) => row.secret_key_hash),
    [HASH, "b".repeat(64)],
  );
  assert.doesNotMatch((await rig.call("/portal_applications", { as: "admin" })).text, /secret_key_hash/);
});
