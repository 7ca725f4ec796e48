import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { after, before, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { superuserUrl } from "@turnpike/testkit/servers";
import {
  caller,
  openPool,
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
import { runWithRole, type SessionOptions } from "./session.ts";

// Whatever ends a batch, the next one on the same connection finds nothing of it, and nothing of a failed one is stored.

const OPTS: SessionOptions = { statementTimeoutMs: 60_000, lockTimeoutMs: 60_000, isWrite: true };
const INSERT = statement("insert into organizations (organization_name) values ('leak')");
const STATE = statement(
  `select current_user as who, current_setting('request.jwt.claims', true) as claims,
     current_setting('request.deleted', true) as deleted, current_setting('search_path') as path,
     current_setting('statement_timeout') as time, current_setting('lock_timeout') as lock,
     current_setting('transaction_read_only') as only`,
);

interface State {
  readonly who: string;
  readonly claims: string;
  readonly deleted: string;
  readonly path: string;
  readonly time: string;
  readonly lock: string;
  readonly only: string;
}

let server: TestServer;
let owner: string;
let url: string;
before(async () => {
  server = await startTestServer();
  ({ owner, url } = await server.database());
});
after(() => server?.[Symbol.asyncDispose]());

/** The connection itself, outside any request. */
async function assertBare(pool: RolePool): Promise<void> {
  const { rows } = await pool.connections.query<State>(STATE.text);
  const bare = { who: "portal_authenticator", path: '"$user", public', time: "0", lock: "0", only: "off" };
  assert.deepEqual(
    { ...rows[0], claims: rows[0]?.claims || "", deleted: rows[0]?.deleted || "" },
    {
      ...bare,
      claims: "",
      deleted: "",
    },
  );
  assert.equal(pool.connections.waitingCount, 0);
  assert.equal(pool.connections.idleCount, pool.connections.totalCount);
}

/** What a request sees is its own, from its first statement to its last. */
function assertOwn(who: Caller, opts: SessionOptions, rows: readonly object[] | undefined): void {
  const [state] = (rows ?? []) as readonly State[];
  assert.equal(state?.who, `portal_${who.role}`);
  const claims = JSON.parse(state.claims);
  assert.equal(claims.jti, who.tokenId);
  assert.equal(claims.account_id, who.accountId);
  assert.equal(state.deleted, opts.showsDeleted === true ? "shown" : "");
  assert.equal(state.only, opts.isWrite ? "off" : "on");
  assert.equal(state.time, opts.statementTimeoutMs === 60_000 ? "1min" : `${opts.statementTimeoutMs}ms`);
}

const stored = async (): Promise<number> =>
  (await sql(owner, "select from organizations where organization_name = 'leak'")).length;

const writer = caller("admin");

test("a statement's time is up, or it is cancelled: the batch is taken back and its connection is clean and used again", async (context) => {
  // Of the time-outs only the server's may pass.
  context.mock.timers.enable({ apis: ["setTimeout"] });
  await using pool = openPool(url, { poolSize: 1 });
  const pid = async () =>
    (await pool.connections.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid;
  const first = await pid();
  for (const isWrite of [true, false]) {
    const batch = isWrite ? [INSERT, SLEEP, INSERT] : [STATE, SLEEP];
    const hurried = { ...OPTS, isWrite, showsDeleted: true, statementTimeoutMs: 30 };
    await assert.rejects(runWithRole(pool, writer, hurried, batch), sqlState("57014", /timeout/));
    await assertBare(pool);
    const running = runWithRole(pool, writer, { ...OPTS, isWrite, showsDeleted: true }, batch);
    const refused = assert.rejects(running, sqlState("57014", /user request/));
    await sql(superuserUrl(owner), "select pg_cancel_backend($1)", [await sleeper(owner)]);
    await refused;
    await assertBare(pool);
    const reader = caller("reader");
    const opts = { ...OPTS, isWrite: false };
    const [seen] = await runWithRole(pool, reader, opts, [STATE]);
    assertOwn(reader, opts, seen);
  }
  assert.equal(await pid(), first);
  assert.equal(await stored(), 0);
});

test("an abort at any moment of a batch gives its connection up, and the statement ends on the server", {
  timeout: 60_000,
}, async () => {
  await using pool = openPool(url, { poolSize: 1 });
  const gone = new TypeError("the client has gone");
  for (const moment of ["sent", "running", "answered"] as const) {
    for (const isWrite of [true, false]) {
      const aborter = new AbortController();
      // not by its time
      const opts = { ...OPTS, isWrite, showsDeleted: true, signal: aborter.signal, statementTimeoutMs: 600_000 };
      // a first one, so that the connection is there and what follows is sent in the same turn
      await runWithRole(pool, caller("reader"), { ...OPTS, isWrite: false }, [STATE]);
      const batch = isWrite ? [INSERT, SLEEP] : [STATE, SLEEP];
      const running = runWithRole(pool, writer, opts, batch);
      running.catch(() => undefined);
      if (moment === "sent") void setImmediate().then(() => aborter.abort(gone));
      else {
        const pid = await sleeper(owner);
        // the answer and the abort race
        if (moment === "answered") void sql(superuserUrl(owner), "select pg_cancel_backend($1)", [pid]);
        aborter.abort(gone);
      }
      await assert.rejects(running, (error) => error === gone);
      await assertBare(pool);
      await untilNoneSleeps(owner);
    }
  }
  assert.equal(await stored(), 0);
});

test("a statement that begins only after it was asked to end is asked again", { timeout: 60_000 }, async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let isHeld = false;
  const held: Buffer[] = [];
  const sent = Promise.withResolvers<void>();
  let first: Socket | undefined;
  const sockets = new Set<Socket>();
  const early = Promise.withResolvers<void>();
  const cancelled = Promise.withResolvers<void>();
  // holds back what the first connection sends; other connections ask to cancel, and get through
  const proxy = createServer((inner) => {
    const outer = connect(server.port, "127.0.0.1");
    for (const socket of [inner, outer]) sockets.add(socket.on("error", () => undefined));
    outer.on("data", (bytes) => {
      inner.write(bytes);
      if (bytes.includes("57014")) cancelled.resolve();
    });
    if (first === undefined) {
      first = outer;
      inner.on("data", (bytes) => {
        if (!isHeld) return void outer.write(bytes);
        held.push(Buffer.from(bytes));
        sent.resolve();
      });
    } else {
      inner.pipe(outer);
      outer.on("close", early.resolve);
    }
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const address = proxy.address();
  const through = new URL(url);
  through.port = String(typeof address === "object" ? address?.port : "");
  const pool = openPool(through.href, { poolSize: 1 });
  try {
    await runWithRole(pool, writer, OPTS, [STATE]);
    isHeld = true;
    const aborter = new AbortController();
    const opts = { ...OPTS, signal: aborter.signal, statementTimeoutMs: 600_000 };
    const running = runWithRole(pool, writer, opts, [SLEEP]);
    running.catch(() => undefined);
    await sent.promise;
    aborter.abort(new TypeError("the client has gone"));
    await assert.rejects(running, /has gone/);
    await early.promise;
    first?.write(Buffer.concat(held));
    await sleeper(owner);
    // It is time to ask again.
    context.mock.timers.tick(300);
    await cancelled.promise;
  } finally {
    for (const socket of sockets) socket.destroy();
    await pool[Symbol.asyncDispose]();
    proxy.close();
  }
});

test("a backend that is ended, and a connection that is cut, take their batch with them and nothing else", async () => {
  const { port } = server;
  const sockets = new Set<Socket>();
  const proxy = createServer((inner) => {
    const outer = connect(port, "127.0.0.1");
    for (const socket of [inner, outer]) sockets.add(socket.on("error", () => undefined));
    inner.pipe(outer).pipe(inner);
    // also when it is reset, which a pipe does not pass on
    inner.on("close", () => outer.destroy());
    outer.on("close", () => inner.destroy());
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const address = proxy.address();
  const through = new URL(url);
  through.port = String(typeof address === "object" ? address?.port : "");
  try {
    await using pool = openPool(through.href, { poolSize: 1 });
    for (const isWrite of [true, false]) {
      const batch = isWrite ? [INSERT, SLEEP] : [STATE, SLEEP];
      for (const how of ["ended", "cut"]) {
        const running = runWithRole(pool, writer, { ...OPTS, isWrite, showsDeleted: true }, batch);
        const refused = assert.rejects(running, /terminat|closed|ECONNRESET|not queryable/iu);
        const pid = await sleeper(owner);
        if (how === "cut") for (const socket of sockets) socket.destroy();
        await sql(superuserUrl(owner), "select pg_terminate_backend($1)", [pid]);
        await refused;
        await assertBare(pool);
      }
    }
  } finally {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  }
  await untilNoneSleeps(owner);
  assert.equal(await stored(), 0);
});

test("callers that share few connections never see each other's role and settings, whatever ends their batches", async (context) => {
  // Of the time-outs only the server's may pass.
  context.mock.timers.enable({ apis: ["setTimeout"] });
  await using pool = openPool(url, { poolSize: 3, queueLimit: 1_000 });
  const roles = ["anon", "reader", "admin"] as const;
  const ends = ["well", "error", "syntax", "value", "late", "abort"] as const;
  let well = 0;
  let ended = 0;
  const aborts: { readonly after: number; readonly aborter: AbortController }[] = [];
  // Batches begin in their order: an abort that comes after so many others have ended finds its own batch waiting for a
  // connection, just begun, or asleep.
  const goOn = (): void => {
    ended++;
    for (const { after, aborter } of aborts) if (ended >= after) aborter.abort(new TypeError("aborted"));
  };
  await Promise.all(
    Array.from({ length: 240 }, async (_, index) => {
      const accountId = index % 2 === 0 ? undefined : `account ${index}`;
      const who = { ...caller(roles[index % 3] ?? "anon", accountId), tokenId: `token ${index}` };
      const aborter = new AbortController();
      const opts: SessionOptions = {
        ...OPTS,
        isWrite: index % 5 < 2,
        showsDeleted: index % 7 < 3,
        signal: aborter.signal,
        ...(ends[index % 6] === "late" ? { statementTimeoutMs: 25 } : {}),
      };
      const bad = {
        well: statement("select 1"),
        error: statement("select 1 / 0"),
        syntax: statement(`selec ${index}`),
        value: statement("select $1::uuid", ["none"]),
        late: SLEEP,
        abort: SLEEP,
      }[ends[index % 6] ?? "well"];
      const running = runWithRole(pool, who, opts, [STATE, bad, STATE]).finally(goOn);
      switch (ends[index % 6]) {
        case "well": {
          const [first, , last] = await running;
          assertOwn(who, opts, first);
          assertOwn(who, opts, last);
          well++;
          return;
        }
        case "abort":
          aborts.push({ after: Math.max(1, index - 6 + (index % 7)), aborter });
          return assert.rejects(running, /aborted/);
        case "late":
          return assert.rejects(running, sqlState("57014"));
        default:
          return assert.rejects(running, sqlState({ 1: "22012", 2: "42601", 3: "22P02" }[index % 6] ?? ""));
      }
    }),
  );
  assert.equal(well, 40);
  await untilNoneSleeps(owner);
  await Promise.all(Array.from({ length: 6 }, () => pool.connections.query(STATE.text))).then((all) => {
    for (const { rows } of all) assert.equal(rows[0]?.who, "portal_authenticator");
  });
  await assertBare(pool);
});
