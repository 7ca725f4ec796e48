import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, suite, test } from "node:test";
import { type Called, FIXTURE as MINE, type PortalRig, startPortalRig } from "./portal-rig.ts";

const THEIRS = "20000000-0000-0000-0000-00000000000b";
/** Stands in every text of the other account. */
const MARK = "zz-theirs";
const APPLICATION = `${MARK}-application`;

suite("two accounts of one management database", () => {
  let rig: PortalRig;
  const tokens: Record<"reader" | "admin", string> = { reader: "", admin: "" };
  before(async () => {
    // One connection: whatever is left on it meets the next request.
    rig = await startPortalRig({ poolSize: 1 });
    for (const role of ["reader", "admin"] as const) tokens[role] = await rig.token(role, MINE);
    await rig.sql("insert into organizations (organization_name) values ($1)", [`${MARK}-organization`]);
    await rig.sql(
      "insert into portal_accounts (portal_account_id, organization_id, portal_plan_type, user_account_name)" +
        " select $1, organization_id, 'UNLIMITED', $2 from organizations where organization_name = $3",
      [THEIRS, `${MARK}-account`, `${MARK}-organization`],
    );
    for (const [user, account, application] of [
      ["mine-user", MINE, "mine-application"],
      [`${MARK}-user`, THEIRS, APPLICATION],
    ]) {
      await rig.sql("insert into portal_users (portal_user_id, portal_user_email) values ($1, $2)", [
        user,
        `${user}@example.test`,
      ]);
      await rig.sql(
        "insert into portal_account_rbac (portal_account_id, portal_user_id, role_name) values ($1, $2, 'o')",
        [account, user],
      );
      await rig.sql("insert into portal_applications (portal_application_id, portal_account_id) values ($1, $2)", [
        application,
        account,
      ]);
      await rig.sql("insert into portal_application_rbac (portal_application_id, portal_user_id) values ($1, $2)", [
        application,
        user,
      ]);
      await rig.sql(
        "insert into portal_application_usage (portal_application_id, day, service_id, calls) values ($1, current_date, 'eth', 7)",
        [application],
      );
    }
    // Enough rows for the planner to know the other account by its statistics.
    await rig.sql(
      "insert into portal_applications (portal_account_id, portal_application_name) select $1, $2::text || n from generate_series(1, 400) n",
      [THEIRS, MARK],
    );
    await rig.sql("analyze");
  });
  after(() => rig?.[Symbol.asyncDispose]());

  const silent = (answer: Called, what: string): void => {
    const heads = JSON.stringify([...answer.headers]);
    assert.ok(!answer.text.includes(MARK) && !answer.text.includes(THEIRS), `${what}: ${answer.text}`);
    assert.ok(!heads.includes(MARK) && !heads.includes(THEIRS), `${what}: ${heads}`);
    assert.ok(answer.status < 500, `${what}: ${answer.text}`);
  };
  const state = async (): Promise<string> =>
    JSON.stringify([
      await rig.sql(
        "select portal_application_id, portal_account_id, emoji, deleted_at from portal_applications order by 1",
      ),
      await rig.sql("select * from portal_account_rbac order by id"),
      await rig.sql("select * from portal_application_rbac order by id"),
      await rig.sql(
        "select portal_account_id, user_account_name, portal_plan_type, deleted_at from portal_accounts order by 1",
      ),
      await rig.sql("select organization_name, deleted_at from organizations order by 1"),
    ]);

  const TABLES = {
    organizations: 1,
    portal_accounts: 1,
    portal_applications: 1,
    portal_account_rbac: 1,
    portal_application_rbac: 1,
    portal_application_usage: 1,
  };

  test("no read crosses, as JSON, CSV and one object", async () => {
    for (const role of ["reader", "admin"] as const) {
      for (const [table, rows] of Object.entries(TABLES)) {
        for (const accept of ["application/json", "text/csv", "application/vnd.pgrst.object+json"]) {
          const answer = await rig.call(`/${table}`, { token: tokens[role], headers: { accept } });
          assert.equal(answer.status, 200, `${table}: ${answer.text}`);
          silent(answer, `${role} ${table} ${accept}`);
          if (accept === "application/json") assert.equal(answer.body.length, rows, table);
        }
      }
    }
    assert.deepEqual((await rig.call("/portal_users?select=portal_user_id", { token: tokens.admin })).body, [
      { portal_user_id: "mine-user" },
    ]);
    assert.equal((await rig.call("/portal_applications?deleted_at=is.null", { token: tokens.reader })).body.length, 1);
  });

  test("no filter, order or embedding says whether a row of the other is there", async () => {
    for (const [there, absent] of [
      [
        `/portal_applications?portal_application_id=eq.${APPLICATION}`,
        "/portal_applications?portal_application_id=eq.x",
      ],
      [
        `/portal_applications?portal_application_name=like.${MARK}*`,
        "/portal_applications?portal_application_name=like.x*",
      ],
      [`/portal_accounts?portal_account_id=in.(${THEIRS})`, "/portal_accounts?portal_account_id=in.(x)"],
      [
        `/portal_plans?select=*,portal_accounts!inner(*)&portal_accounts.portal_account_id=eq.${THEIRS}`,
        "/portal_plans?select=*,portal_accounts!inner(*)&portal_accounts.portal_account_id=eq.x",
      ],
      [`/organizations?organization_name=eq.${MARK}-organization`, "/organizations?organization_name=eq.x"],
      [
        `/portal_application_usage?portal_application_id=eq.${APPLICATION}`,
        "/portal_application_usage?portal_application_id=eq.x",
      ],
      [`/portal_account_rbac?portal_user_id=eq.${MARK}-user`, "/portal_account_rbac?portal_user_id=eq.x"],
    ] as const) {
      const [one, other] = [
        await rig.call(there, { token: tokens.admin }),
        await rig.call(absent, { token: tokens.admin }),
      ];
      assert.deepEqual([one.status, one.body], [200, []], there);
      assert.deepEqual([other.status, other.body], [one.status, one.body], absent);
    }
    for (const target of [
      "/portal_plans?select=*,portal_accounts(*,portal_applications(*,portal_application_usage(*)))",
      "/portal_applications?select=*,portal_accounts(*,organizations(*)),portal_application_rbac(*)",
      "/organizations?select=*,portal_accounts(*,portal_account_rbac(*,portal_users(*)))",
      "/portal_users?select=*,portal_account_rbac(*,portal_accounts(*)),portal_application_rbac(*,portal_applications(*))",
      "/portal_applications?select=portal_application_id,...portal_accounts(user_account_name)&order=portal_accounts(user_account_name)",
    ]) {
      const answer = await rig.call(target, { token: tokens.admin });
      assert.equal(answer.status, 200, answer.text);
      silent(answer, target);
    }
  });

  test("no count crosses: exact, planned and estimated", async () => {
    for (const count of ["exact", "planned", "estimated"]) {
      for (const [target, total] of [
        ["/portal_applications", 1],
        [`/portal_applications?portal_account_id=eq.${THEIRS}`, 0],
        [`/portal_applications?portal_application_name=like.${MARK}*`, 0],
        ["/portal_accounts", 1],
        ["/portal_application_usage", 1],
      ] as const) {
        for (const method of ["GET", "HEAD"]) {
          const answer = await rig.call(target, {
            token: tokens.reader,
            method,
            headers: { prefer: `count=${count}` },
          });
          assert.match(
            answer.headers.get("content-range") ?? "",
            new RegExp(`/${total}$`),
            `${count} ${method} ${target}`,
          );
        }
      }
    }
  });

  test("no insert, upsert, PUT, change or delete crosses, and no refusal tells of a row", async () => {
    const before = await state();
    const body = { portal_application_id: APPLICATION, portal_account_id: MINE, emoji: "x" };
    const by = `portal_application_id=eq.${APPLICATION}`;
    for (const prefer of ["return=representation", "return=headers-only", "return=minimal, count=exact"]) {
      const calls: (readonly [string, string, unknown?, string?])[] = [
        ["POST", "/portal_applications", { portal_account_id: THEIRS }],
        ["POST", "/portal_applications", [{ portal_account_id: MINE }, { portal_account_id: THEIRS }]],
        ["POST", "/portal_applications", body, "resolution=merge-duplicates"],
        ["POST", "/portal_applications", { ...body, portal_account_id: THEIRS }, "resolution=merge-duplicates"],
        ["POST", "/portal_applications", body, "resolution=ignore-duplicates"],
        ["PUT", `/portal_applications?${by}`, body],
        ["PATCH", `/portal_applications?${by}`, { emoji: "x" }],
        ["PATCH", `/portal_applications?${by}`, { deleted_at: "2026-01-01" }],
        ["PATCH", `/portal_applications?portal_application_id=eq.mine-application`, { portal_account_id: THEIRS }],
        ["DELETE", `/portal_applications?${by}`],
        ["DELETE", `/portal_applications?portal_account_id=eq.${THEIRS}`],
        ["PATCH", `/portal_accounts?portal_account_id=eq.${THEIRS}`, { user_account_name: "x" }],
        ["PATCH", `/portal_accounts?portal_account_id=eq.${MINE}`, { portal_plan_type: "UNLIMITED" }],
        ["DELETE", `/portal_accounts?portal_account_id=eq.${MINE}`],
        ["POST", "/portal_accounts", { portal_plan_type: "FREE" }],
        ["PATCH", "/organizations?organization_id=gt.0", { organization_name: "x" }],
        ["DELETE", "/organizations?organization_id=gt.0"],
        ["POST", "/portal_account_rbac", { portal_account_id: MINE, portal_user_id: `${MARK}-user`, role_name: "o" }],
        ["POST", "/portal_application_rbac", { portal_application_id: APPLICATION, portal_user_id: "mine-user" }],
        [
          "POST",
          "/portal_application_rbac",
          { portal_application_id: "mine-application", portal_user_id: `${MARK}-user` },
        ],
        ["DELETE", "/portal_application_rbac?id=gt.1"],
        ["DELETE", `/portal_account_rbac?portal_user_id=eq.${MARK}-user`],
      ];
      for (const [method, target, sent, more] of calls) {
        const headers = { prefer: more === undefined ? prefer : `${more}, ${prefer}` };
        const answer = await rig.call(target, {
          token: tokens.admin,
          method,
          headers,
          ...(sent === undefined ? {} : { body: sent }),
        });
        const what = `${method} ${target} ${headers.prefer}`;
        // what was sent may be said again; what was not, may not
        const said = { ...answer, text: answer.text.replaceAll(APPLICATION, ""), headers: new Headers() };
        if (answer.status >= 400) silent(said, what);
        else {
          assert.ok(answer.text === "" || answer.text === "[]", `${what}: ${answer.text}`);
          assert.match(answer.headers.get("content-range") ?? "*/0", /^\*\/(\*|0)$/, what);
        }
      }
    }
    assert.equal(await state(), before);
  });

  test("a foreign key that fails says the same for a row of the other and for none", async () => {
    const insert = (application: string, user: string) =>
      rig.call("/portal_application_rbac", {
        token: tokens.admin,
        method: "POST",
        body: { portal_application_id: application, portal_user_id: user },
      });
    for (const [there, absent] of [
      [await insert(APPLICATION, "mine-user"), await insert("nobody", "mine-user")],
      [await insert("mine-application", `${MARK}-user`), await insert("mine-application", "nobody")],
    ] as const) {
      assert.deepEqual([there.status, there.body], [absent.status, absent.body]);
      assert.equal(there.status, 403);
    }
    const account = (id: string) =>
      rig.call("/portal_applications", { token: tokens.admin, method: "POST", body: { portal_account_id: id } });
    const [there, absent] = [await account(THEIRS), await account("20000000-0000-0000-0000-0000000000ff")];
    assert.deepEqual([there.status, there.body], [absent.status, absent.body]);
  });

  test("on one connection nothing of a request is left for the next, however the last one ended", async () => {
    const all = await rig.token("admin");
    const endings: (() => Promise<unknown>)[] = [
      () => rig.call("/portal_applications", { token: all }),
      () => rig.call("/portal_applications?deleted_at=not.is.null", { token: all }),
      () => rig.call("/portal_applications?portal_application_user_limit=eq.text", { token: all }),
      () => rig.call("/portal_applications", { token: all, method: "POST", body: { portal_account_id: "nobody" } }),
      () =>
        rig.call("/portal_applications", {
          token: all,
          method: "POST",
          body: [{ portal_account_id: MINE }, { portal_account_id: MINE }],
          headers: { prefer: "return=representation", accept: "application/vnd.pgrst.object+json" },
        }),
      () =>
        rig.call("/portal_applications?portal_application_id=like.*", {
          token: all,
          method: "PATCH",
          body: { emoji: "x" },
          headers: { prefer: "handling=strict, max-affected=1" },
        }),
      () =>
        new Promise((resolve) => {
          const socket = connect(rig.portal.port, "127.0.0.1", () => {
            socket.write(
              `GET /portal_applications HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${all}\r\n\r\n`,
              () => setImmediate(() => socket.destroy()),
            );
          });
          socket.on("close", resolve);
        }),
    ];
    const before = await state();
    for (let at = 0; at < endings.length * 4; at++) {
      await endings[at % endings.length]?.();
      const mine = await rig.call("/portal_applications?select=portal_application_id", { token: tokens.reader });
      assert.deepEqual(
        mine.body,
        [{ portal_application_id: "mine-application" }],
        `after ending ${at % endings.length}`,
      );
      const write = { token: tokens.reader, method: "POST", body: { portal_account_id: MINE } };
      assert.equal((await rig.call("/portal_applications", write)).status, 403);
      const nobody = await rig.call("/portal_applications", { as: "nobody" });
      assert.equal(nobody.status, 401);
    }
    assert.equal(await state(), before);
  });
});
