import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { after, before, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { isAppError } from "@turnpike/base";
import { superuserUrl } from "@turnpike/testkit/servers";
import {
  as,
  caller,
  FIXTURE,
  openPool,
  PASSWORD,
  SLEEP,
  sleeper,
  sql,
  sqlState,
  startTestServer,
  statement,
  type TestServer,
  untilNoneSleeps,
} from "../../test/database-fixtures.ts";
import type { Caller } from "../types.ts";
import type { RolePool } from "./pool.ts";
import { readWithRole, type SessionOptions, withRole } from "./session.ts";

let server: TestServer;
let owner: string;
let url: string;
before(async () => {
  server = await startTestServer();
  ({ owner, url } = await server.database());
});
after(() => server?.[Symbol.asyncDispose]());

const READ: SessionOptions = { statementTimeoutMs: 60_000, lockTimeoutMs: 60_000, isWrite: false };
const WRITE: SessionOptions = { ...READ, isWrite: true };
const INSERT = statement("insert into organizations (organization_name) values ('session')");

interface State {
  readonly user: string;
  readonly session: string;
  readonly claims: string | null;
  readonly deleted: string | null;
  readonly path: string;
  readonly timeout: string;
  readonly locks: string;
}
const STATE = statement(
  `select current_user as user, session_user as session,
     current_setting('request.jwt.claims', true) as claims, current_setting('request.deleted', true) as deleted,
     current_setting('search_path') as path, current_setting('statement_timeout') as timeout,
     current_setting('lock_timeout') as locks`,
);

/** That the next user of the pool's one connection finds nothing of the last one. */
async function assertClean(pool: RolePool, user = "portal_authenticator"): Promise<void> {
  const { rows } = await pool.connections.query<State>(STATE.text);
  const [state] = rows;
  assert.deepEqual(
    { ...state, claims: state?.claims || null, deleted: state?.deleted || null },
    {
      user,
      session: user,
      claims: null,
      deleted: null,
      path: '"$user", public',
      timeout: "0",
      locks: "0",
    },
  );
  assert.equal(pool.connections.waitingCount, 0);
  assert.equal(pool.connections.idleCount, pool.connections.totalCount);
}

const organizations = async (): Promise<number> =>
  (await sql(owner, "select from organizations where organization_name = 'session'")).length;

test("a transaction runs as the caller's role with its claims, time-outs and path, and leaves none of them", async () => {
  await using pool = openPool(url, { poolSize: 1 });
  const hostile = {
    ...caller("admin", FIXTURE),
    claims: { account_id: FIXTURE, sub: "'; drop schema portal; -- \\' é 🙂" },
  };
  const opts = { ...WRITE, statementTimeoutMs: 4_321, lockTimeoutMs: 1_234, showsDeleted: true };
  const [state] = await withRole(pool, hostile, opts, (session) => session.run<State>(STATE));
  assert.deepEqual(JSON.parse(state?.claims ?? ""), {
    ...hostile.claims,
    role: "admin",
    jti: "token of admin",
  });
  assert.deepEqual(
    { ...state, claims: "" },
    {
      user: "portal_admin",
      session: "portal_authenticator",
      claims: "",
      deleted: "shown",
      path: "portal, pg_temp",
      timeout: "4321ms",
      locks: "1234ms",
    },
  );
  await assertClean(pool);
  const [[read]] = (await readWithRole(pool, caller("reader"), READ, [STATE])) as [[State]];
  assert.equal(read.user, "portal_reader");
  await assertClean(pool);
});

test("reads cannot write, and a rollback takes back what was written", async () => {
  await using pool = openPool(url, { poolSize: 1 });
  const before = await organizations();
  await assert.rejects(
    withRole(pool, caller("admin"), READ, (session) => session.run(INSERT)),
    sqlState("25006"),
  );
  await assert.rejects(readWithRole(pool, caller("admin"), READ, [INSERT]), sqlState("25006"));
  const value = await withRole(pool, caller("admin"), WRITE, async (session) => {
    await session.run(INSERT);
    session.rollback();
    return "too many";
  });
  assert.equal(value, "too many");
  await assert.rejects(
    withRole(pool, caller("admin"), WRITE, async (session) => {
      await session.run(INSERT);
      throw new TypeError("not so");
    }),
    /not so/,
  );
  assert.equal(await organizations(), before);
  await assertClean(pool);
  await withRole(pool, caller("admin"), WRITE, (session) => session.run(INSERT));
  assert.equal(await organizations(), before + 1);
});

test("no role but the three can be asked for, and nothing is sent for another", async () => {
  await using pool = openPool(url, { poolSize: 1 });
  for (const role of ["none", "postgres", "portal_admin", "authenticator", "constructor", "__proto__", ""]) {
    const who = { ...caller("reader"), role: role as Caller["role"] };
    await assert.rejects(as(pool, who, "select 1"), (error) => isAppError(error, "INTERNAL"), role);
    await assert.rejects(readWithRole(pool, who, READ, [STATE]), (error) => isAppError(error, "INTERNAL"), role);
  }
  assert.equal(pool.connections.totalCount, 0);
});

test("claims that disagree with the caller, or that the database cannot read, are refused before anything is sent", async () => {
  await using pool = openPool(url, { poolSize: 1 });
  const who = caller("admin", FIXTURE);
  const unequal = [{ account_id: "another" }, {}, { account_id: [FIXTURE] }, { account_id: null }];
  for (const claims of unequal) {
    await assert.rejects(as(pool, { ...who, claims }, "select 1"), (error) => isAppError(error, "INTERNAL"));
  }
  const bound = { ...caller("admin"), claims: { account_id: FIXTURE } };
  await assert.rejects(as(pool, bound, "select 1"), (error) => isAppError(error, "INTERNAL"));
  for (const sub of ["a\0b", "\ud800", "x".repeat(9_000)]) {
    const claims = { account_id: FIXTURE, sub };
    await assert.rejects(as(pool, { ...who, claims }, "select 1"), (error) => isAppError(error, "MALFORMED_REQUEST"));
  }
  for (const statementTimeoutMs of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    await assert.rejects(
      withRole(pool, who, { ...READ, statementTimeoutMs }, (session) => session.run(STATE)),
      (error) => isAppError(error, "INTERNAL"),
    );
  }
  assert.equal(pool.connections.totalCount, 0);
});

test("after an error of any kind the connection is clean and used again", async (context) => {
  // Of the time-outs only the server's may pass.
  context.mock.timers.enable({ apis: ["setTimeout"] });
  await using pool = openPool(url, { poolSize: 1 });
  const pid = async () =>
    (await pool.connections.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid;
  const first = await pid();
  for (const text of ["select 1/0", "selec", "select * from portal.nothing", "insert into networks values ('x')"]) {
    await assert.rejects(as(pool, caller("admin"), text));
    await assertClean(pool);
    await assert.rejects(readWithRole(pool, caller("admin"), READ, [STATE, statement(text), STATE]));
    await assertClean(pool);
  }
  await assert.rejects(
    withRole(pool, caller("reader"), { ...READ, statementTimeoutMs: 20 }, (session) => session.run(SLEEP)),
    sqlState("57014"),
  );
  await assertClean(pool);
  assert.equal(await pid(), first);
});

test("an error that the work swallows does not pass for a commit", async () => {
  await using pool = openPool(url, { poolSize: 1 });
  const before = await organizations();
  await assert.rejects(
    withRole(pool, caller("admin"), WRITE, async (session) => {
      await session.run(INSERT);
      await session.run(statement("select 1/0")).catch(() => undefined);
    }),
    sqlState("22012"),
  );
  assert.equal(await organizations(), before);
  await assertClean(pool);
});

test("a wait for a lock ends after its time", async () => {
  await using pool = openPool(url, { poolSize: 2 });
  const text = `update portal_accounts set internal_account_name = 'x' where portal_account_id = '${FIXTURE}'`;
  await withRole(pool, caller("admin"), WRITE, async (session) => {
    await session.run(statement(text));
    const opts = { ...WRITE, lockTimeoutMs: 20 };
    await assert.rejects(
      withRole(pool, caller("admin"), opts, (other) => other.run(statement(text))),
      sqlState("55P03"),
    );
    session.rollback();
  });
  await assertClean(pool);
});

test("statements after the end of a transaction are refused", async () => {
  await using pool = openPool(url, { poolSize: 1 });
  const late = await withRole(pool, caller("admin"), WRITE, (session) => Promise.resolve(() => session.run(STATE)));
  await assert.rejects(late(), (error) => isAppError(error, "INTERNAL"));
  await assertClean(pool);
});

test("a transaction that cannot begin says why, and nothing after it runs", async () => {
  // A role of this file alone, that may become no other: those of the API are used by other files at the same time.
  const stranger = new URL(url);
  stranger.username = `stranger_${randomBytes(6).toString("hex")}`;
  await sql(superuserUrl(owner), `create role ${stranger.username} login password '${PASSWORD}'`);
  try {
    await using pool = openPool(stranger.href, { poolSize: 1 });
    await assert.rejects(as(pool, caller("anon"), "select 1"), sqlState("42501", /set role/));
    await assert.rejects(readWithRole(pool, caller("anon"), READ, [STATE]), sqlState("42501", /set role/));
    await assertClean(pool, stranger.username);
  } finally {
    await sql(superuserUrl(owner), `drop role ${stranger.username}`);
  }
});

test("an aborted statement ends on the server, its connection goes, and nothing of it is stored", async () => {
  await using pool = openPool(url, { poolSize: 1 });
  const before = await organizations();
  for (const isRead of [true, false]) {
    const aborter = new AbortController();
    const gone = new TypeError("the client has gone");
    const opts = { ...WRITE, signal: aborter.signal };
    const running = isRead
      ? readWithRole(pool, caller("reader"), opts, [STATE, SLEEP])
      : withRole(pool, caller("admin"), opts, async (session) => {
          await session.run(INSERT);
          await session.run(SLEEP);
        });
    running.catch(() => undefined);
    await sleeper(owner);
    aborter.abort(gone);
    await assert.rejects(running, (error) => error === gone);
    await assertClean(pool);
    await untilNoneSleeps(owner);
  }
  assert.equal(await organizations(), before);
});

test("an abort before and during the wait for a connection takes none", async () => {
  await using pool = openPool(url, { poolSize: 1 });
  await assert.rejects(
    withRole(pool, caller("reader"), { ...READ, signal: AbortSignal.abort() }, (session) => session.run(STATE)),
    { name: "AbortError" },
  );
  assert.equal(pool.connections.totalCount, 0);
  const aborter = new AbortController();
  await withRole(pool, caller("reader"), READ, async (session) => {
    await session.run(STATE);
    let ran = false;
    const waiting = withRole(pool, caller("admin"), { ...READ, signal: aborter.signal }, () => {
      ran = true;
      return Promise.resolve();
    });
    aborter.abort();
    await assert.rejects(waiting, { name: "AbortError" });
    assert.equal(ran, false);
  });
  await assertClean(pool);
});

test("an abort after the end changes nothing", async () => {
  await using pool = openPool(url, { poolSize: 1 });
  const aborter = new AbortController();
  await withRole(pool, caller("reader"), { ...READ, signal: aborter.signal }, (session) => session.run(STATE));
  const [before] = (await pool.connections.query<{ pid: number }>("select pg_backend_pid() as pid")).rows;
  aborter.abort();
  const [after] = (await pool.connections.query<{ pid: number }>("select pg_backend_pid() as pid")).rows;
  assert.deepEqual(after, before);
});

test("a connection that is lost fails its request and nobody else's", async () => {
  await using pool = openPool(url, { poolSize: 1 });
  const pid = statement("select pg_backend_pid() as pid");
  await assert.rejects(
    withRole(pool, caller("admin"), WRITE, async (session) => {
      const [row] = await session.run<{ pid: number }>(pid);
      await sql(superuserUrl(owner), "select pg_terminate_backend($1)", [row?.pid]);
      await session.run(INSERT);
    }),
    /terminat|closed|ECONNRESET|not queryable/i,
  );
  await assertClean(pool);
  const running = readWithRole(pool, caller("reader"), READ, [SLEEP]);
  running.catch(() => undefined);
  await sql(superuserUrl(owner), "select pg_terminate_backend($1)", [await sleeper(owner)]);
  await assert.rejects(running);
  await assertClean(pool);
});

test("a server that falls silent is not waited for", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { port } = server;
  const sockets: Socket[] = [];
  let isSilent = false;
  const asked = Promise.withResolvers<void>();
  const proxy = createServer((inner) => {
    const outer = connect(port, "127.0.0.1");
    for (const socket of [inner, outer]) sockets.push(socket.on("error", () => undefined));
    inner.on("data", (bytes) => (isSilent ? asked.resolve() : outer.write(bytes)));
    outer.on("data", (bytes) => isSilent || inner.write(bytes));
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const address = proxy.address();
  const through = new URL(url);
  through.port = String(typeof address === "object" ? address?.port : "");
  const pool = openPool(through.href, { poolSize: 1 });
  try {
    await as(pool, caller("reader"), "select 1");
    isSilent = true;
    let isOver = false;
    const waiting = withRole(pool, caller("reader"), { ...READ, statementTimeoutMs: 10_000 }, (session) =>
      session.run(STATE),
    ).finally(() => {
      isOver = true;
    });
    const refused = assert.rejects(waiting, (error) => isAppError(error, "PORTAL_DB_UNAVAILABLE"));
    await asked.promise;
    // The server has the statement's own time to end it.
    context.mock.timers.tick(10_000);
    await setImmediate();
    assert.equal(isOver, false);
    context.mock.timers.tick(2_000);
    await refused;
    assert.equal(pool.connections.totalCount, 0);
  } finally {
    for (const socket of sockets) socket.destroy();
    await pool[Symbol.asyncDispose]();
    proxy.close();
  }
});

test("more requests than may wait are refused at once", async () => {
  await using pool = openPool(url, { poolSize: 1, queueLimit: 2 });
  await withRole(pool, caller("reader"), READ, async (session) => {
    await session.run(STATE);
    const results = Array.from({ length: 4 }, () => as(pool, caller("reader"), "select 1"));
    await Promise.all(
      results.slice(2).map((one) => assert.rejects(one, (error) => isAppError(error, "PORTAL_DB_UNAVAILABLE"))),
    );
    void Promise.allSettled(results);
  });
});

test("callers that share few connections never see each other, whatever ends their transactions", async () => {
  await using pool = openPool(url, { poolSize: 3, queueLimit: 1_000 });
  const roles = ["anon", "reader", "admin"] as const;
  const ends = ["commit", "error", "rollback", "throw", "abort", "read"] as const;
  await Promise.all(
    Array.from({ length: 180 }, async (_, index) => {
      const accountId = index % 2 === 0 ? undefined : `account ${index}`;
      const who = caller(roles[index % 3] ?? "anon", accountId);
      const end = ends[(index * 7) % 6 === 0 ? 4 : (index * 5 + (index >> 3)) % 6];
      const aborter = new AbortController();
      const check = (state: State | undefined): void => {
        assert.equal(state?.user, `portal_${who.role}`);
        assert.equal(JSON.parse(state?.claims ?? "").account_id, accountId);
        assert.equal(state?.deleted || undefined, accountId === undefined ? undefined : "shown");
      };
      const opts = { ...WRITE, showsDeleted: accountId !== undefined, signal: aborter.signal };
      if (end === "read") {
        const [rows] = await readWithRole(pool, who, opts, [STATE]);
        check((rows as State[])[0]);
        return;
      }
      const running = withRole(pool, who, opts, async (session) => {
        check((await session.run<State>(STATE))[0]);
        if (end === "error") await session.run(statement("select 1/0"));
        if (end === "rollback") session.rollback();
        if (end === "throw") throw new TypeError("thrown");
        if (end === "abort") {
          aborter.abort(new TypeError("aborted"));
          await session.run(SLEEP);
        }
      });
      if (end === "error") await assert.rejects(running, sqlState("22012"));
      else if (end === "throw") await assert.rejects(running, /thrown/);
      else if (end === "abort") await assert.rejects(running, /aborted/);
      else await running;
    }),
  );
  await untilNoneSleeps(owner);
  await assertClean(pool);
});
