import assert from "node:assert/strict";
import dns from "node:dns";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { AppError, isAppError, noFaults, noMetrics, type SettlementId, silentLog } from "@turnpike/base";
import { startPostgres } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { databasesOn } from "@turnpike/testkit/servers";
import pg from "pg";
import { claimed, LEDGER, newClaim, openLedger, PATIENT, sql, testServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import { createLedger, type LedgerOptions } from "./ledger.ts";
import { migrate } from "./migrate.ts";

const server = testServer();

const unavailable = (unknown?: boolean) => (error: unknown) => {
  assert.ok(isAppError(error, "LEDGER_UNAVAILABLE"), String(error));
  if (unknown !== undefined) assert.equal(error.detail.unknown ?? false, unknown);
  return true;
};

/** What does not wait for anything to run out of time. */
const unavailableAtOnce = (error: unknown) => {
  unavailable()(error);
  assert.ok(error instanceof AppError && error.cause instanceof Error);
  assert.doesNotMatch(error.cause.message, /time-?out/i);
  return true;
};

test("the error of a start without a database names host, port and cause, and no password", async (context) => {
  // Resolvers of some machines take their time to find nothing.
  const lookup = context.mock.method(dns, "lookup", (host: string, ...rest: readonly unknown[]) => {
    const done = rest.at(-1) as (error: Error) => void;
    const message = `getaddrinfo ENOTFOUND ${host}`;
    process.nextTick(done, Object.assign(new Error(message), { code: "ENOTFOUND", hostname: host }));
  });
  const good = new URL(await server().database());
  const cases: readonly [(url: URL) => void, RegExp][] = [
    [(url) => (url.port = "1"), /at 127\.0\.0\.1:1 cannot be reached: nothing listens there/],
    [(url) => (url.hostname = "db.invalid"), /at db\.invalid:\d+ cannot be reached: no machine has this name/],
    [(url) => (url.pathname = "/nothing_here"), /cannot be reached: there is no database of this name/],
    [(url) => (url.password = "sesame"), /cannot be reached: authentication failed/],
  ];
  for (const [change, message] of cases) {
    const url = new URL(good);
    url.hostname = "127.0.0.1";
    change(url);
    const options = { url: url.href, ...LEDGER };
    await assert.rejects(createLedger(options, { log: silentLog, metrics: noMetrics, faults: noFaults }), (error) => {
      assert.ok(isAppError(error, "LEDGER_UNAVAILABLE"), String(error));
      assert.match(error.message, message);
      assert.ok(!`${error.message} ${JSON.stringify(error.detail)}`.includes(url.password));
      return true;
    });
  }
  assert.deepEqual(new Set(lookup.mock.calls.map((call) => call.arguments[0])), new Set(["db.invalid"]));
});

/** Opens a ledger whose limits of time are short: one that its opening reaches is no fault, but the machine's pace. */
function openHasty(url: string, options: Partial<LedgerOptions>): Promise<Ledger> {
  return eventually("it is opened", () =>
    openLedger(url, options).catch((error: unknown) => unavailable()(error) && undefined),
  );
}

/** Claims by such a ledger. */
function claimedHastily(ledger: Ledger): Promise<SettlementId> {
  return eventually("a claim is taken", () =>
    claimed(ledger).catch((error: unknown) => unavailable()(error) && undefined),
  );
}

/** A wire to the database that can go silent or be cut. */
async function openWire(url: string) {
  const target = new URL(url);
  const databasePort = Number(target.port);
  const sockets = new Set<Socket>();
  let silent = false;
  const wire = createServer((client) => {
    const database = connect(databasePort, target.hostname);
    for (const socket of [client, database]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        database.destroy();
      });
    }
    client.on("data", (data) => database.write(data));
    database.on("data", (data) => silent || client.write(data));
  });
  await new Promise<void>((resolve) => wire.listen(0, "127.0.0.1", resolve));
  const address = wire.address();
  target.port = String(typeof address === "object" ? address?.port : address);
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: target.href,
    /** The database hears, but its answers are lost. */
    silence(): void {
      silent = true;
    },
    restore(): void {
      silent = false;
    },
    cut,
    async [Symbol.asyncDispose]() {
      cut();
      await new Promise((resolve) => wire.close(resolve));
    },
  };
}

/** What a call ends with once the database is gone; its sessions outlive a killed server for a moment. */
function refusal(call: () => Promise<unknown>): Promise<Error> {
  return eventually("the call fails", () =>
    call().then(
      () => undefined,
      (error: Error) => error,
    ),
  );
}

test("a database that is not there", async () => {
  const open = (url: string) => openLedger(url);
  await assert.rejects(open("postgres://u:p@127.0.0.1:1/none"), unavailableAtOnce);
  await assert.rejects(migrate("postgres://u:p@127.0.0.1:1/none", { schema: "ledger" }), unavailableAtOnce);
  const wrongDatabase = server().postgres.url.replace(/\/[^/]*$/, "/nowhere");
  await assert.rejects(open(wrongDatabase), unavailableAtOnce);
  await assert.rejects(open(server().postgres.url.replace(/:[^:@]+@/, ":wrong@")), unavailableAtOnce);
});

test("a database that ends: every call says so at once, and it works again after", async () => {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-ledger-"));
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o711);
  const dataDir = join(folder, "data");
  const first = await startPostgres({ dataDir, durable: false });
  const { port } = first;
  const url = (await databasesOn(first.url)).url;
  await migrate(url, { schema: "ledger" });
  await using ledger = await openHasty(url, { heartbeatMs: 50 });
  const id = await claimed(ledger);
  await first.kill();
  const calls = [
    () => ledger.claim(newClaim()),
    () => ledger.get(id),
    () => ledger.release(id, "SERVICE_UNAVAILABLE"),
    () => ledger.releaseOrphans(),
    () => ledger.renewLeases(),
    () => ledger.sums(),
  ];
  for (const call of calls) unavailableAtOnce(await refusal(call));
  assert.equal(await ledger.ready(), false);

  await using _second = await startPostgres({ dataDir, durable: false, port });
  await claimed(ledger);
  assert.notEqual(await ledger.get(id), undefined);
});

test("connections that are cut are replaced", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  await Promise.all(Array.from({ length: 5 }, () => claimed(ledger)));
  const name = new URL(url).pathname.slice(1);
  await sql(
    url,
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and usename = current_user and pid <> pg_backend_pid()",
    [name],
  );
  // what was idle fails at most once for each connection
  for (let i = 0; i < 12 && !(await ledger.ready()); i++);
  await claimed(ledger);
});

test("a commit whose answer is lost is unknown, and can be read again", async (context) => {
  const url = await server().database();
  await using wire = await openWire(url);
  context.mock.timers.enable({ apis: ["setTimeout"] });
  await using ledger = await openLedger(wire.url, { silenceMarginMs: 500, heartbeatMs: 3_600_000 });
  await claimed(ledger);
  const claim = newClaim();
  wire.silence();
  const rejected = assert.rejects(ledger.claim(claim), unavailable(true));
  await sql(
    url,
    "do $$ begin while (select count(*) from payments) < 2 loop perform pg_sleep(0.005); end loop; end $$",
  );
  context.mock.timers.tick(PATIENT.statementTimeoutMs + 500);
  await rejected;
  wire.restore();
  assert.equal((await ledger.find(claim.key))?.state, "claimed", "it was committed");
  context.mock.timers.reset();
});

test("a connection that is cut in a commit is unknown", async () => {
  const url = await server().database();
  await using wire = await openWire(url);
  await using ledger = await openLedger(wire.url, { heartbeatMs: 3_600_000 });
  await claimed(ledger);
  wire.silence();
  const claim = ledger.claim(newClaim());
  setImmediate(wire.cut);
  await assert.rejects(claim, unavailable(true));
  wire.restore();
});

test("a statement that waits too long is ended by the database, and nothing of it stays", async () => {
  const url = await server().database();
  await using ledger = await openHasty(url, { statementTimeoutMs: 200, silenceMarginMs: 60_000 });
  const id = await claimedHastily(ledger);
  // Until the test ends it, so that its lock outlives the statement's time however slow the machine is.
  const holder = sql(url, "begin; select 1 from payments for update; select pg_sleep(600); rollback");
  holder.catch(() => undefined);
  const sleeping = "from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()";
  await eventually("the lock is held", async () => (await sql(url, `select pid ${sleeping}`)).length > 0);
  await assert.rejects(ledger.release(id, "SERVICE_UNAVAILABLE"), unavailable(false));
  await sql(url, `select pg_cancel_backend(pid) ${sleeping}`);
  await assert.rejects(holder, { code: "57014" });
  assert.deepEqual(await sql(url, `select state from payments where id = '${id}'`), [{ state: "claimed" }]);
});

test("more waiting calls than the limit are refused at once", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url, { poolSize: 1, queueLimit: 3 });
  const results = await Promise.allSettled(Array.from({ length: 8 }, () => ledger.claim(newClaim())));
  const refused = results.filter((result) => result.status === "rejected");
  assert.ok(refused.length >= 4, `${refused.length}`);
  for (const result of refused) unavailable(false)(result.reason);
  assert.ok(results.some((result) => result.status === "fulfilled"));
});

test("a URL that turns durable commits off is refused", async () => {
  const url = await server().database();
  const options = encodeURIComponent("-c synchronous_commit=off");
  await assert.rejects(openLedger(`${url}?options=${options}`), (error) => isAppError(error, "CONFIG_INVALID"));
  // the server's own default is off here: the ledger asks for more
  const [row] = await sql<{ sync: string }>(url, "select current_setting('synchronous_commit') as sync");
  assert.equal(row?.sync, "off");
  await using ledger = await openLedger(url);
  assert.equal(await ledger.ready(), true);
});

test("the end of a ledger does not wait for a sum", async () => {
  const url = await server().database();
  // Its last statement waits for the lock as well, as long as a renewal may take: the heartbeat, or half a second.
  const ledger = await openHasty(url, { heartbeatMs: 500 });
  const locker = new pg.Client({ connectionString: url, options: "-c search_path=ledger" });
  await locker.connect();
  try {
    await locker.query("begin; lock table payments in access exclusive mode");
    const sum = assert.rejects(ledger.sums(), unavailable());
    // Copies of one template have the same numbers for their tables, and pg_locks is of the whole server.
    const waiting = `select 1 from pg_locks where not granted and relation = 'payments'::regclass
      and database = (select oid from pg_database where datname = current_database())`;
    await eventually("the sum waits", async () => (await locker.query(waiting)).rows.length > 0);
    await ledger[Symbol.asyncDispose]();
    await sum;
  } finally {
    await locker.end();
  }
});
