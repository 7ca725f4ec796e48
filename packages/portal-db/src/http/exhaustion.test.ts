import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { after, before, suite, test } from "node:test";
import { type Metrics, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { superuserUrl } from "@turnpike/testkit/servers";
import pg from "pg";
import { caller, FIXTURE, openPool, sql, startTestServer, type TestServer } from "../../test/database-fixtures.ts";
import { readRoleViews } from "../database/role-views.ts";
import { runWithRole, withRole } from "../database/session.ts";
import { portalInFlight, portalRequestsTotal } from "../metrics.ts";
import { type PortalDb, type PortalDbOptions, startPortalDb } from "../portal-db.ts";
import { planRequest } from "../sql/plan-request.ts";
import { mintToken } from "../tokens/mint.ts";
import type { Plan, TableRequest } from "../types.ts";
import { databaseFailure } from "./database-failure.ts";
import { readPreferences } from "./preferences.ts";
import { namesDeleted } from "./read-plans.ts";
import { runPlan } from "./run-plan.ts";

const KEY = { kid: undefined, algorithm: "HS256", material: "k".repeat(16) + "e".repeat(16) } as const;

interface Rig extends AsyncDisposable {
  readonly portal: PortalDb;
  readonly token: string;
  readonly owner: pg.Client;
  /** Requests that are being answered, as the metrics have it. */
  inFlight(): number;
  /** The statuses of the requests for a table that are over, as the metrics have them. */
  statuses(table: string): readonly string[];
  /** Another token of the same rights. */
  otherToken(): Promise<string>;
  /** The status of a read. */
  status(target: string, token?: string): Promise<number>;
  /** A connection that has sent this much of a request. */
  open(head: string): Promise<Socket>;
}

const runnable = (request: TableRequest, plan: Plan) => ({ request, plan, showsDeleted: namesDeleted(request) });

/** The server's ends of connections on which a request has come, until this is disposed of. */
function serverSockets(port: number): Disposable & { of(client: Socket): Socket | undefined } {
  const sockets = new Set<Socket>();
  const listener = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket };
    if (socket.localPort === port) sockets.add(socket);
  };
  subscribe("http.server.request.start", listener);
  return {
    of: ({ localPort }) => [...sockets].find(({ remotePort }) => remotePort === localPort),
    [Symbol.dispose]: () => void unsubscribe("http.server.request.start", listener),
  };
}

suite("what callers cannot use up", { timeout: 300_000 }, () => {
  let server: TestServer;
  let ownerUrl: string;
  let url: string;
  before(async () => {
    server = await startTestServer();
    ({ owner: ownerUrl, url } = await server.database());
  });
  after(() => server?.[Symbol.asyncDispose]());

  const start = async (over: Partial<PortalDbOptions> = {}): Promise<Rig> => {
    await using stack = new AsyncDisposableStack();
    let inFlight = 0;
    const ended: { readonly table: string | undefined; readonly status: string | undefined }[] = [];
    const metrics: Metrics = {
      ...noMetrics,
      set: (spec, value) => {
        if (spec === portalInFlight) inFlight = value;
      },
      count: (spec, labels) => {
        if (spec === portalRequestsTotal) ended.push({ table: labels?.table, status: labels?.status });
      },
    };
    const portal = stack.use(
      await startPortalDb(
        {
          host: "127.0.0.1",
          port: 0,
          databaseUrl: url,
          poolSize: 4,
          maxRows: 1_000,
          maxBodyBytes: 1_048_576,
          maxHeaderBytes: 65_536,
          requestTimeoutMs: 60_000,
          statementTimeoutMs: { reader: 60_000, admin: 60_000 },
          lockTimeoutMs: 60_000,
          connectTimeoutMs: 60_000,
          maxConnections: 100,
          maxInFlight: 2,
          maxInFlightPerToken: 100,
          corsOrigins: [],
          perTokenPerSecond: 10_000,
          refusedPerAddressPerSecond: 10_000,
          revealCreatedHash: false,
          auditDays: 365,
          keys: [KEY],
          audience: "postgrest",
          maxLifetimeSeconds: 86_400,
          ...over,
        },
        { clock: systemClock, log: silentLog, metrics },
      ),
    );
    const mint = async (lifetimeSeconds: number): Promise<string> => {
      const options = {
        role: "admin",
        accountId: undefined,
        lifetimeSeconds,
        audience: "postgrest",
        key: KEY,
      } as const;
      return (await mintToken(options, { clock: systemClock })).token;
    };
    const token = await mint(600);
    const owner = new pg.Client({ connectionString: superuserUrl(ownerUrl) });
    await owner.connect();
    stack.defer(() => owner.end());
    const owned = stack.move();
    return {
      portal,
      token,
      owner,
      inFlight: () => inFlight,
      statuses: (table) => ended.filter((one) => one.table === table).map(({ status }) => String(status)),
      otherToken: () => mint(601),
      async status(target, own = token) {
        const answer = await fetch(`${portal.url}${target}`, { headers: { authorization: `Bearer ${own}` } });
        await answer.text();
        return answer.status;
      },
      async open(head) {
        const socket = connect(portal.port, "127.0.0.1");
        socket.on("error", () => undefined);
        await once(socket, "connect");
        socket.write(head.replace("TOKEN", token));
        return socket;
      },
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  };

  /** Waits until so many statements wait for a lock. */
  const untilWaiting = (count: number, { owner }: Rig): Promise<boolean> =>
    eventually(`${count} statements that wait`, async () => {
      // Within a transaction the first look is kept.
      await owner.query("select pg_stat_clear_snapshot()");
      const found = await owner.query(
        `select from pg_stat_activity
         where usename = 'portal_authenticator' and wait_event_type = 'Lock' and datname = current_database()`,
      );
      return found.rows.length === count;
    });
  const untilInFlight = (count: number, rig: Rig): Promise<boolean> =>
    eventually(`${count} requests in flight`, () => rig.inFlight() === count);

  test("clients that go away while their statement runs leave room for others", async () => {
    await using rig = await start();
    await rig.owner.query("begin; lock table portal.networks in access exclusive mode");
    const sockets = [
      await rig.open("GET /networks HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer TOKEN\r\n\r\n"),
      await rig.open("GET /networks HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer TOKEN\r\n\r\n"),
    ];
    await untilWaiting(2, rig);
    assert.equal(await rig.status("/networks"), 503, "both places are taken");
    for (const socket of sockets) socket.destroy();
    await untilWaiting(0, rig);
    await rig.owner.query("rollback");
    await untilInFlight(0, rig);
    assert.equal(await rig.status("/networks"), 200);
  });

  test("attack: slow calls of one token hold half of the connections at most, and others are answered", async () => {
    await using rig = await start({ maxInFlight: 20 });
    const other = await rig.otherToken();
    await rig.owner.query("begin; lock table portal.networks in access exclusive mode");
    const slow = Array.from({ length: 8 }, () => rig.status("/networks"));
    await untilInFlight(8, rig);
    await untilWaiting(2, rig);
    assert.equal(await rig.status("/organizations", other), 200);
    await rig.owner.query("rollback");
    assert.deepEqual(
      await Promise.all(slow),
      Array.from({ length: 8 }, () => 200),
      "those that waited had their turn",
    );
    await untilInFlight(0, rig);
  });

  test("attack: one token does not take all places: over its own it gets 429, and others are answered", async () => {
    // Eight connections: one token has half of them, so that each of its three statements runs, and can be seen.
    await using rig = await start({ poolSize: 8, maxInFlight: 20, maxInFlightPerToken: 3 });
    const other = await rig.otherToken();
    await rig.owner.query("begin; lock table portal.networks in access exclusive mode");
    const slow = Array.from({ length: 3 }, () => rig.status("/networks"));
    // A request that is in flight may not have its place yet: that comes after its token is verified. One that runs has.
    await untilWaiting(3, rig);
    assert.equal(await rig.status("/organizations"), 429);
    assert.equal(await rig.status("/organizations", other), 200);
    await rig.owner.query("rollback");
    assert.deepEqual(await Promise.all(slow), [200, 200, 200]);
    await untilInFlight(0, rig);
    assert.equal(await rig.status("/organizations"), 200);
  });

  test("clients that go away in the midst of a body leave room for others", async () => {
    await using rig = await start();
    const head =
      "POST /organizations HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer TOKEN\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
    for (let at = 0; at < 3; at++) {
      const socket = await rig.open(head);
      await untilInFlight(1, rig);
      socket.destroy();
      await untilInFlight(0, rig);
    }
    assert.equal(await rig.status("/networks"), 200);
  });

  test("clients that go away with requests queued on one connection leave room for others", async () => {
    await using rig = await start({ maxInFlight: 4 });
    const one = "GET /networks HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer TOKEN\r\n\r\n".replace(
      "TOKEN",
      rig.token,
    );
    for (let round = 0; round < 2; round++) {
      await rig.owner.query("begin; lock table portal.networks in access exclusive mode");
      const socket = await rig.open(one.repeat(4));
      // Two run, as one token has half of the connections; two wait for them.
      await untilWaiting(2, rig);
      socket.destroy();
      await rig.owner.query("rollback");
      await untilInFlight(0, rig);
    }
    assert.equal(await rig.status("/networks"), 200);
  });

  test("an answer that nobody reads does not stay for good", async () => {
    const requestTimeoutMs = 600_000;
    await using rig = await start({ requestTimeoutMs });
    using accepted = serverSockets(rig.portal.port);
    await rig.owner.query(
      `insert into portal.portal_applications (portal_account_id, portal_application_description)
        select '${FIXTURE}', repeat('x', 250) from generate_series(1, 200)`,
    );
    // More than the buffers of a connection hold.
    const target = "/portal_applications?select=*,portal_accounts(portal_applications(*))&limit=80";
    const sockets: Socket[] = [];
    for (let at = 0; at < 2; at++) {
      const socket = await rig.open(`GET ${target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer TOKEN\r\n\r\n`);
      socket.pause();
      sockets.push(socket);
    }
    const ends = (): readonly Socket[] => sockets.flatMap((socket) => accepted.of(socket) ?? []);
    await eventually("both answers stand still", () => {
      const still = ends().filter(({ timeout, writableLength }) => timeout === requestTimeoutMs && writableLength > 0);
      return still.length === 2;
    });
    assert.equal(await rig.status("/networks"), 503, "both places are taken");
    assert.deepEqual(rig.statuses("portal_applications"), []);
    // From here on these two, and no other connection, may stand still for a short time only.
    for (const end of ends()) end.setTimeout(50);
    // Given up by the server: their clients have neither read nor closed anything.
    await eventually("both are over", () => rig.statuses("portal_applications").length === 2);
    assert.deepEqual(rig.statuses("portal_applications"), ["499", "499"]);
    await untilInFlight(0, rig);
    assert.equal(await rig.status("/networks"), 200);
    for (const socket of sockets) socket.destroy();
  });

  test("a write whose answer is too large is not done, whatever it writes and however it is asked for", async () => {
    await using pool = openPool(url);
    const { admin } = await readRoleViews(pool);
    const times = { statementTimeoutMs: 60_000, lockTimeoutMs: 60_000 };
    const outcome = async (change: Partial<TableRequest>, maxAnswerBytes: number): Promise<string> => {
      const verb = change.verb ?? "POST";
      const request: TableRequest = {
        verb,
        table: "organizations",
        query: "",
        rows: undefined,
        preferences: readPreferences("return=representation", verb).preferences,
        range: undefined,
        media: "json",
        stripsNulls: false,
        ...change,
      };
      const planned = planRequest(request, admin, { maxRows: 10, maxAnswerBytes });
      assert.ok(planned.ok);
      try {
        const result = await runPlan(runnable(request, planned.plan), caller("admin"), {
          database: {
            all: (who, opts, statements) => runWithRole(pool, who, { ...opts, ...times }, statements),
            write: (who, opts, work) => withRole(pool, who, { ...opts, ...times }, work),
          },
          signal: new AbortController().signal,
          maxRows: 10,
        });
        return result.ok ? String(result.answer.status) : result.error.code;
      } catch (error) {
        return databaseFailure(error).code;
      }
    };
    const names = (): Promise<object[]> =>
      sql(ownerUrl, "select organization_name as name from organizations order by 1");
    const before = await names();
    const rows = { rows: [{ organization_name: "x".repeat(60) }, { organization_name: "y".repeat(60) }], isList: true };
    const renamed = { rows: [{ organization_name: "z".repeat(60) }], isList: false };
    assert.equal(await outcome({ rows }, 300), "ANSWER_TOO_LARGE");
    assert.equal(await outcome({ rows, media: "csv" }, 300), "ANSWER_TOO_LARGE");
    assert.equal(
      await outcome({ verb: "PATCH", rows: renamed, query: "organization_id=gt.0" }, 300),
      "ANSWER_TOO_LARGE",
    );
    assert.equal(await outcome({ verb: "DELETE", query: "organization_name=like.Web3*" }, 20), "ANSWER_TOO_LARGE");
    assert.equal(
      await outcome({ rows: renamed, media: "object" }, 20),
      "ANSWER_TOO_LARGE",
      "looked at before the commit",
    );
    const query = "select=organization_id,portal_accounts(*,portal_applications(*))";
    assert.equal(
      await outcome({ verb: "PATCH", rows: renamed, query: `organization_id=gt.0&${query}` }, 400),
      "ANSWER_TOO_LARGE",
    );
    assert.deepEqual(await names(), before);
    const quiet = readPreferences("return=minimal", "POST").preferences;
    assert.equal(await outcome({ rows, preferences: quiet }, 0), "201", "nothing is asked back");
    assert.equal(await outcome({ rows }, 10_000), "201");
  });

  test("an answer of lists in lists that is too large is refused in the database", async () => {
    await using pool = openPool(url);
    const { reader } = await readRoleViews(pool);
    const request: TableRequest = {
      verb: "GET",
      table: "portal_plans",
      query: "select=*,portal_accounts(*)",
      rows: undefined,
      preferences: readPreferences(undefined, "GET").preferences,
      range: undefined,
      media: "json",
      stripsNulls: false,
    };
    const status = async (maxAnswerBytes: number): Promise<number> => {
      const planned = planRequest(request, reader, { maxRows: 10, maxAnswerBytes });
      assert.ok(planned.ok);
      const result = await runPlan(runnable(request, planned.plan), caller("reader"), {
        database: {
          all: (who, opts, statements) =>
            runWithRole(pool, who, { ...opts, statementTimeoutMs: 60_000, lockTimeoutMs: 60_000 }, statements),
          write: () => assert.fail("this is a read"),
        },
        signal: new AbortController().signal,
        maxRows: 10,
      });
      return result.ok ? result.answer.status : result.error.status;
    };
    assert.deepEqual([await status(100), await status(100_000)], [400, 200]);
  });

  test("a list of revocations that cannot be read holds nobody up for longer than a statement", async () => {
    await using rig = await start({ poolSize: 1, statementTimeoutMs: { reader: 300, admin: 300 } });
    await rig.owner.query("begin; lock table portal_private.revoked_tokens in access exclusive mode");
    assert.equal(await rig.status("/networks"), 503);
    await rig.owner.query("rollback");
    await eventually("an answer", async () => (await rig.status("/networks")) === 200);
  });
});
