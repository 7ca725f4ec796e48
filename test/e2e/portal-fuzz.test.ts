import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { Pool } from "undici";
import { FIXTURE, type PortalRig, startPortalRig } from "./portal-rig.ts";

/** The same requests in every run of `test:all`, for what is asserted of their answers in sum; others every night. */
const SEED = Number(process.env.FUZZ_SEED ?? 1);
const REQUESTS = process.env.FUZZ_SEED === undefined ? 1_500 : 3_000;
const AT_ONCE = 16;

/** Columns of the tables, so that most requests reach the database. */
const TABLES: Readonly<Record<string, readonly string[]>> = {
  networks: ["network_id"],
  organizations: ["organization_id", "organization_name", "deleted_at"],
  portal_plans: ["portal_plan_type", "plan_usage_limit_interval", "plan_application_limit"],
  portal_accounts: ["portal_account_id", "organization_id", "portal_plan_type", "created_at"],
  portal_applications: ["portal_account_id", "emoji", "favorite_service_ids", "secret_key_required", "deleted_at"],
  portal_account_rbac: ["id", "role_name", "user_joined_account"],
};
const PATHS = "|hidden_things|portal_users|audit|nope|constructor|%00|a/b|rpc/now|live|%zz".split("|");
const COLUMNS = ["secret_key_hash", "has_secret", "nope", "__proto__", "portal_accounts.emoji"];
const VALUES = ["eq.1", "eq.a", "not.eq.a", "is.null", "not.is.null", "neq.x", "in.(1,2)", "isdistinct.1", "gte.2020"];
const BAD_VALUES = `is.true|in.(1,"a,b")|like.a*|match.(a+)+$|fts(english).a|cs.{a}|ov.{1,2}|eq(any).{1,2}|eq||nope.1|
  is.null;drop|eq.\u0000|eq.\u{1f600}|not.not.eq.1|(emoji.eq.a,emoji.is.null)|(|eq.${FIXTURE}`.split("|");
const SELECTS = ["*", "*,created_at", "organization_id", "portal_account_id"];
const BAD_SELECTS = `emoji|a:emoji|count()|emoji::text|emoji::regclass|*,portal_accounts(*)|*,portal_applications(*)|
  *,portal_accounts!inner(organizations(*))|...organizations(organization_name)|*,hidden_things(*)|secret_key_hash|
  favorite_service_ids->0|(|*,*|`.split("|");
const PREFERS = ["return=representation", "return=minimal", "return=headers-only", "count=exact", "count=planned"];
const BAD_PREFERS = `count=estimated|resolution=merge-duplicates|resolution=ignore-duplicates|missing=default|
  handling=strict|handling=lenient|max-affected=1|tx=rollback|timezone=UTC|nonsense|return=|=;`.split(/\|\s*/);
const ACCEPTS = ["*/*", "application/json", "text/csv", "application/vnd.pgrst.array+json;nulls=stripped"];
const BAD_ACCEPTS = `application/vnd.pgrst.object+json|application/openapi+json|image/png|application/json;q=0|nonsense|
  text/csv, application/json;q=0.5`.split(/\|\s*/);
const TYPES = ["application/json", "application/json; charset=utf-8"];
const BAD_TYPES = `application/json; charset=latin1|text/csv|application/x-www-form-urlencoded|text/plain|;;|*/*|
  application/vnd.pgrst.object+json|multipart/form-data; boundary=x`.split(/\|\s*/);
const BODIES = [
  `{"portal_account_id":"${FIXTURE}"}`,
  `[{"portal_account_id":"${FIXTURE}","emoji":"a"},{"portal_account_id":"${FIXTURE}","emoji":"b"}]`,
  '{"organization_name":"x"}',
  "{}",
];
const BAD_BODIES = [
  "",
  "[]",
  "null",
  "1",
  "[1]",
  "[[]]",
  "{",
  '"',
  "a,b\n1,2\n",
  "portal_account_id\nx",
  "a=1&a=2",
  "emoji=%zz",
  '{"portal_account_id":"nobody"}',
  '{"organization_name":null}',
  '{"emoji":"\\u0000"}',
  '{"emoji":"\\ud800"}',
  '{"nope":1}',
  '{"__proto__":{}}',
  '{"secret_key_hash":"no"}',
  '{"portal_application_user_limit":1e999}',
  '{"portal_application_user_limit":-1}',
  "\u{feff}{}",
  `[{"portal_account_id":"${FIXTURE}"},{"emoji":"a"}]`,
];
const RANGES = ["0-0", "0-9", "5-2", "-1", "bytes=0-1", "0-", "999999999999999999-", "x"];

const mostly = (good: readonly string[], bad: readonly string[], weight = 6): fc.Arbitrary<string> =>
  fc.oneof({ weight, arbitrary: fc.constantFrom(...good) }, { weight: 1, arbitrary: fc.constantFrom(...bad) });
const maybe = <T>(arbitrary: fc.Arbitrary<T>, weight = 1): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: 20, arbitrary: fc.constant(undefined) }, { weight: 10 * weight, arbitrary });

const queryOf = (columns: readonly string[]): fc.Arbitrary<string> =>
  fc
    .record({
      filters: fc.array(fc.tuple(mostly(columns, [...COLUMNS, "or", "not.and"]), mostly(VALUES, BAD_VALUES)), {
        maxLength: 2,
      }),
      select: maybe(mostly(SELECTS, BAD_SELECTS, 1)),
      order: maybe(
        mostly(columns, ["emoji.desc.nullslast", "secret_key_hash", "portal_accounts(created_at)", ",", "a.b.c"]),
      ),
      limit: maybe(mostly(["0", "1", "7"], ["-1", "x", "99999999999999999999"])),
      offset: maybe(mostly(["0", "1"], ["3", "-1", "99999999999999999999"])),
      columns: maybe(fc.constantFrom("emoji", '"portal_account_id","emoji"', "nope", "secret_key_hash", '"'), 0.2),
      on_conflict: maybe(fc.constantFrom("portal_application_id", "emoji", "nope", ")"), 0.2),
      raw: maybe(fc.constantFrom("%", "a=%ff", "&&&", "=", "select", "?a=eq.1"), 0.2),
    })
    .map(({ filters, raw, ...named }) => {
      const pairs: (readonly [string, string])[] = [...filters];
      for (const [name, value] of Object.entries(named)) if (value !== undefined) pairs.push([name, value]);
      const text = pairs.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`);
      return [...text, ...(raw === undefined ? [] : [raw])].join("&");
    });

const requests = fc
  .oneof(
    { weight: 9, arbitrary: fc.constantFrom(...Object.keys(TABLES), "portal_applications", "organizations") },
    { weight: 1, arbitrary: fc.constantFrom(...PATHS) },
  )
  .chain((path) =>
    fc.record({
      path: fc.constant(path),
      method: fc.constantFrom("GET", "GET", "GET", "HEAD", "POST", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"),
      query: queryOf(Object.hasOwn(TABLES, path) ? (TABLES[path] ?? COLUMNS) : COLUMNS),
      who: fc.constantFrom("reader", "admin", "admin", "admin", "bound"),
      prefer: fc.array(mostly(PREFERS, BAD_PREFERS, 1), { maxLength: 3 }),
      accept: maybe(mostly(ACCEPTS, BAD_ACCEPTS)),
      type: mostly(TYPES, BAD_TYPES),
      range: maybe(fc.constantFrom(...RANGES), 0.5),
      profile: maybe(fc.constantFrom("public", "pg_catalog", ""), 0.1),
      body: mostly(BODIES, BAD_BODIES, 2),
    }),
  );
type Generated = typeof requests extends fc.Arbitrary<infer T> ? T : never;

const CONTENT_TYPES =
  /^(application\/json; charset=utf-8|text\/csv; charset=utf-8|application\/vnd\.pgrst\.(object|array)\+json(;nulls=stripped)?; charset=utf-8|application\/(vnd\.oai\.openapi|openapi)\+json(;version=3\.[01])?; charset=utf-8)$/;

suite("the management data API under requests of all kinds", () => {
  let rig: PortalRig;
  before(async () => {
    rig = await startPortalRig();
    await rig.sql(
      "create table hidden_things (hidden_column integer primary key, hidden_reference integer references organizations)",
    );
    await rig.sql("select pg_notify('portal_reload', '')");
    await rig.portal.reload();
  });
  after(() => rig?.[Symbol.asyncDispose]());

  test(`${REQUESTS} of them: no 5xx, four keys on each error, the right Content-Type, no hidden name`, async () => {
    const tokens = {
      reader: await rig.token("reader"),
      admin: await rig.token("admin"),
      bound: await rig.token("admin", FIXTURE),
    };
    const statuses = new Map<number, number>();
    await using owned = new AsyncDisposableStack();
    const http = owned.adopt(new Pool(rig.url, { connections: AT_ONCE }), (pool) => pool.destroy());

    const check = async (one: Generated): Promise<void> => {
      const what = JSON.stringify(one);
      const hasBody = one.body !== "" && !["GET", "HEAD", "OPTIONS"].includes(one.method);
      const isRead = one.method === "GET" || one.method === "HEAD";
      const headers = {
        authorization: `Bearer ${tokens[one.who as keyof typeof tokens]}`,
        ...(one.prefer.length === 0 ? {} : { prefer: one.prefer.join(", ") }),
        ...(one.accept === undefined ? {} : { accept: one.accept }),
        ...(!hasBody ? {} : { "content-type": one.type }),
        ...(one.range === undefined ? {} : { range: one.range }),
        ...(one.profile === undefined ? {} : { [isRead ? "accept-profile" : "content-profile"]: one.profile }),
      };
      const target = `/${one.path}${one.query === "" ? "" : `?${one.query}`}`;
      const method = one.method as "GET";
      const answer = await http.request({ path: target, method, headers, ...(hasBody ? { body: one.body } : {}) });
      const text = await answer.body.text();
      const { statusCode: status } = answer;
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      assert.ok(status < 500, `${status} ${text} for ${what}`);
      const type = answer.headers["content-type"];
      if (text !== "") assert.match(String(type), CONTENT_TYPES, what);
      if ((status === 204 || status === 304) && text !== "") assert.fail(what);
      if (status >= 400 && one.method !== "HEAD") {
        assert.equal(type, "application/json; charset=utf-8", what);
        const body = JSON.parse(text) as Record<string, unknown>;
        assert.deepEqual(Object.keys(body), ["code", "message", "details", "hint"], what);
        assert.ok(typeof body.code === "string" && typeof body.message === "string" && body.message !== "", text);
        assert.ok(String(answer.headers["proxy-status"]).includes(body.code), what);
      } else if (text !== "" && String(type).includes("json")) JSON.parse(text);
      assert.equal(answer.headers["cache-control"], "no-store", what);
      // a name that was sent may be said again
      const sent = decodeURIComponent(target.replaceAll(/%(?![0-9a-f]{2})|%ff|%zz/gi, "")) + one.body;
      for (const name of [
        "hidden_things",
        "hidden_column",
        "hidden_reference",
        "secret_key_hash",
        "portal_private",
        "portal_authenticator",
        "account_usage",
      ]) {
        // the hash's column is known to who may write it
        if (name === "secret_key_hash" && one.who !== "reader") continue;
        assert.ok(!text.includes(name) || sent.includes(name), `${name} in ${text} for ${what}`);
      }
    };

    const all = fc.sample(requests, { numRuns: REQUESTS, seed: SEED });
    const left = all.values();
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (const one of left) await check(one);
      }),
    );
    const said = JSON.stringify([...statuses].toSorted(([a], [b]) => a - b));
    const good = [...statuses].reduce((sum, [status, count]) => sum + (status < 300 ? count : 0), 0);
    assert.ok(good > REQUESTS / 6, said);
    for (const status of [200, 201, 204, 400, 403, 404, 405, 406]) assert.ok(statuses.has(status), said);
  });

  test("a pattern that runs away is ended, and costs nobody else an answer", async () => {
    await using slow = await startPortalRig({ poolSize: 2, statementTimeoutMs: { reader: 200, admin: 60_000 } });
    const description = Array.from({ length: 250 }, (_, at) => String.fromCodePoint(200 + at)).join("");
    const body = { portal_account_id: FIXTURE, portal_application_description: description };
    await slow.call("/portal_applications", { as: "admin", method: "POST", body });
    const pattern = encodeURIComponent("^(.+)(.+)(.+)(.+)\\1\\2\\3\\4$");
    const answers = await Promise.all(
      Array.from({ length: 3 }, () =>
        slow.call(`/portal_applications?portal_application_description=match.${pattern}`, {
          headers: { prefer: "count=exact" },
        }),
      ),
    );
    for (const { status, body: said } of answers) assert.deepEqual([status, said.code], [500, "57014"]);
    assert.equal((await slow.call("/networks", { as: "admin" })).status, 200);
  });

  test("a foreign key of a hidden table is not told of", async () => {
    const [{ id } = { id: 0 }] = await rig.sql<{ id: number }>(
      "insert into organizations (organization_name) values ('referred to') returning organization_id as id",
    );
    await rig.sql("insert into hidden_things values (1, $1)", [id]);
    const answer = await rig.call(`/organizations?organization_id=eq.${id}`, { as: "admin", method: "DELETE" });
    assert.deepEqual([answer.status, answer.body.code, answer.body.details], [409, "23503", null]);
    assert.doesNotMatch(answer.text, /hidden/);
  });
});
