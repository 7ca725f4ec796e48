import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { AppError, isAppError, type Log, noMetrics, silentLog, systemClock } from "@turnpike/base";
import pg from "pg";
import {
  ASSET,
  claimed,
  LEDGER,
  NETWORK,
  newClaim,
  newPayer,
  openLedger,
  PATIENT,
  sql,
  testServer,
} from "../../test/ledger-fixtures.ts";
import { type Database, openDatabase } from "./database.ts";
import { Holder } from "./holder.ts";
import { migrate } from "./migrate.ts";
import { assertSoleSeller, receiverName } from "./receivers.ts";
import { ledgerStatements } from "./statements.ts";

const server = testServer();

/** Rows of `holders` without a database: what the statements of a holder do to them. */
function standInDatabase() {
  const rows = new Map<string, readonly string[]>();
  const database: Database = {
    async run<Row extends object>(statement: { readonly name: string }, values: readonly unknown[]) {
      const name = String(values[0]);
      const row = rows.get(name);
      let found: readonly object[] = row === undefined ? [] : [{ id: name }];
      if (statement.name === "register") rows.set(name, values[2] as readonly string[]);
      else if (statement.name === "retire") rows.delete(name);
      else if (statement.name === "sell" && row !== undefined) rows.set(name, values[1] as readonly string[]);
      else if (statement.name === "renew" && row !== undefined) {
        found = [{ network: null, relayer: null, epoch: null, sells: row.length > 0 }];
      }
      return found as readonly Row[];
    },
    async [Symbol.asyncDispose]() {},
  };
  return { rows, database };
}

/** A holder that never renews by itself; what its looks for other ledgers find is up to the test. */
function openHolder(
  database: Database,
  look: () => Promise<void>,
  schema = "ledger",
  sells: readonly string[] = ["a receiver"],
): Promise<Holder> {
  return Holder.open(
    { ttlMs: 600_000, heartbeatMs: 3_600_000, statementTimeoutMs: 60_000, sells },
    { database, statements: ledgerStatements(schema), log: silentLog, metrics: noMetrics, assertSoleSeller: look },
  );
}

function openRenewals(url: string): Database {
  return openDatabase(
    { pool: "renewals", url, poolSize: 1, queueLimit: 16, silenceMarginMs: 500, forceSync: false, ...PATIENT },
    { clock: systemClock, log: silentLog, metrics: noMetrics },
  );
}

/** Whose turn it is at each step: each way to merge `steps` steps of 0 with as many of 1. */
function interleavings(steps: number): readonly (readonly number[])[] {
  const merged = (left: number, right: number): readonly (readonly number[])[] => {
    if (left === 0 && right === 0) return [[]];
    return [
      ...(left > 0 ? merged(left - 1, right).map((rest) => [0, ...rest]) : []),
      ...(right > 0 ? merged(left, right - 1).map((rest) => [1, ...rest]) : []),
    ];
  };
  return merged(steps, steps);
}

/** Runs steps one after another in `order`; one that has ended is passed over, and after the order's end all run at once. */
function takeTurns(order: readonly number[]) {
  const waiting = new Map<number, () => void>();
  const ended = new Set<number>();
  let at = 0;
  let busy = false;
  const next = (): void => {
    if (busy) return;
    while (at < order.length && ended.has(order[at] ?? -1)) at++;
    const due = at < order.length ? [order[at] ?? -1] : [...waiting.keys()];
    for (const who of due) {
      const go = waiting.get(who);
      if (go === undefined) continue;
      waiting.delete(who);
      busy = at < order.length;
      go();
    }
  };
  return {
    async step<T>(who: number, work: () => Promise<T>): Promise<T> {
      await new Promise<void>((resolve) => {
        waiting.set(who, resolve);
        next();
      });
      try {
        return await work();
      } finally {
        busy = false;
        at++;
        next();
      }
    },
    end(who: number): void {
      ended.add(who);
      next();
    },
  };
}

type Turns = ReturnType<typeof takeTurns>;

/** Each statement is a step. */
function inTurns(database: Database, turns: Turns, who: number): Database {
  return {
    run: (statement, values) => turns.step(who, () => database.run(statement, values)),
    async [Symbol.asyncDispose]() {},
  };
}

const otherSells = (): AppError => new AppError("CONFIG_INVALID", { message: "another ledger sells" });

test("attack: a second ledger of the database that sells for one receiver is refused; other ones are not", async () => {
  const url = await server().database();
  for (const schema of ["second", "ledger_facilitator"]) await migrate(url, { ...LEDGER, schema });
  const [shared, own] = [newPayer(), newPayer()];
  const receiver = { network: NETWORK, asset: ASSET, payTo: shared };
  const receivers = [receiver];
  {
    await using first = await openLedger(url, { receivers });
    await using worker = await openLedger(url, { receivers });
    assert.equal(await worker.livingHolders(), 2, "many processes have one ledger");
    const spelled = { ...receiver, payTo: shared.toUpperCase().replace("0X", "0x") as typeof shared };
    const both = [{ ...receiver, payTo: own }, spelled];
    await assert.rejects(openLedger(url, { schema: "second", receivers: both }), {
      code: "CONFIG_INVALID",
      message: new RegExp(
        `the ledger ledger of this database, sells for ${shared} on ${NETWORK}\\. .*payTo of its own`,
      ),
    });
    await using _other = await openLedger(url, { schema: "second", receivers: [{ ...receiver, payTo: own }] });
    await using _facilitator = await openLedger(url, { schema: "ledger_facilitator" });
    assert.equal(await first.ready(), true);
  }
  await using moved = await openLedger(url, { schema: "second", receivers });
  assert.equal(await moved.livingHolders(), 1, "the first one has ended, and the refused one left nothing");
});

test("attack: of two ledgers that begin to sell for one receiver at once, at most one does", async () => {
  const url = await server().database();
  await migrate(url, { ...LEDGER, schema: "second" });
  for (let round = 0; round < 8; round++) {
    const receivers = [{ network: NETWORK, asset: ASSET, payTo: newPayer() }];
    const opened = await Promise.allSettled([
      openLedger(url, { receivers }),
      openLedger(url, { schema: "second", receivers }),
    ]);
    const sellers = opened.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    assert.ok(sellers.length <= 1, `round ${round}`);
    for (const seller of sellers) await seller[Symbol.asyncDispose]();
  }
});

test("attack: a process that was late claims nothing while another ledger has begun to sell for its receiver", async () => {
  const url = await server().database();
  await migrate(url, { ...LEDGER, schema: "second" });
  const receivers = [{ network: NETWORK, asset: ASSET, payTo: newPayer() }];
  await using late = await openLedger(url, { receivers });
  await claimed(late);
  // As after a pause of the whole process: it counts as dead, and the other one starts.
  await sql(url, "update holders set expires_at = clock_timestamp() - interval '1 second'");
  {
    await using other = await openLedger(url, { schema: "second", receivers });
    for (let times = 0; times < 2; times++) {
      await assert.rejects(late.claim(newClaim()), { code: "LEDGER_UNAVAILABLE" });
    }
    assert.equal(await late.ready(), false);
    assert.ok((await late.leaseRelayer(NETWORK, newPayer(), 0)) !== undefined, "what it has signed is still settled");
    await claimed(other);
    await using worker = await openLedger(url, { schema: "second", receivers });
    await claimed(worker);
  }
  await late.renewLeases();
  await claimed(late);
  assert.equal(await late.ready(), true);
});

test("attack: of two renewals at once the one that ends last does not sell without its receivers in the database", async () => {
  const { rows, database } = standInDatabase();
  let look = async (): Promise<void> => undefined;
  await using late = await openHolder(database, () => look());
  look = () => Promise.reject(otherSells());
  await late.replace(late.current());
  assert.equal(late.maySell(), false);

  const looks: PromiseWithResolvers<void>[] = [];
  look = () => {
    const begun = Promise.withResolvers<void>();
    looks.push(begun);
    return begun.promise;
  };
  // The timer's renewal and the engine's. The other ledger ends after the second one's look and before the first one's.
  const renewals = [late.renew(), late.renew()];
  await setImmediate();
  const [slow, ...others] = looks;
  for (const other of others) other.reject(otherSells());
  await setImmediate();
  look = async () => undefined;
  slow?.resolve();
  await Promise.all(renewals);
  assert.deepEqual([late.maySell(), rows.get(late.current())], [true, ["a receiver"]]);
  assert.equal(others.length, 0, "they look once");
});

test("attack: a look that was begun under a dead registration does not make the next one sell", async () => {
  const { rows, database } = standInDatabase();
  let look = async (): Promise<void> => undefined;
  await using late = await openHolder(database, () => look());
  look = () => Promise.reject(otherSells());
  await late.replace(late.current());
  const slow = Promise.withResolvers<void>();
  look = () => slow.promise;
  const renewal = late.renew();
  await setImmediate();
  look = () => Promise.reject(otherSells());
  await late.replace(late.current());
  look = async () => undefined;
  slow.resolve();
  await renewal;
  assert.deepEqual([late.maySell(), rows.get(late.current())], [false, []]);
});

test("attack: a process whose row names its receivers no more claims nothing, and names them again when it renews", async () => {
  const url = await server().database();
  await migrate(url, { ...LEDGER, schema: "second" });
  const receivers = [{ network: NETWORK, asset: ASSET, payTo: newPayer() }];
  const sells = () => sql<{ named: number }>(url, "select cardinality(sells) as named from holders");
  await using first = await openLedger(url, { receivers });
  await sql(url, "update holders set sells = '{}'");
  await first.renewLeases();
  assert.deepEqual(await sells(), [{ named: 1 }]);
  await claimed(first);

  await sql(url, "update holders set sells = '{}'");
  await using other = await openLedger(url, { schema: "second", receivers });
  await assert.rejects(first.claim(newClaim()), { code: "LEDGER_UNAVAILABLE" });
  assert.equal(await first.ready(), false);
  await claimed(other);
});

test("attack: a refused process that tries again does not keep the other ledger's new processes from starting", async () => {
  const url = await server().database();
  await migrate(url, { ...LEDGER, schema: "second" });
  const receiver = { network: NETWORK, asset: ASSET, payTo: newPayer() };
  const receivers = [receiver];
  const sells = [receiverName(receiver)];
  const started: string[] = [];
  const startWorker = async (): Promise<void> => {
    try {
      await using _worker = await openLedger(url, { schema: "second", receivers });
      started.push("started");
    } catch (error) {
      started.push(String(error));
    }
  };
  let during = async (): Promise<void> => undefined;
  const look = async (): Promise<void> => {
    await during();
    await assertSoleSeller({ url, schema: "ledger", connectTimeoutMs: 60_000, queryTimeoutMs: 60_000 }, sells);
  };
  await using database = openRenewals(url);
  await using late = await openHolder(database, look, "ledger", sells);
  await sql(url, "update holders set expires_at = clock_timestamp() - interval '1 second'");
  await using _other = await openLedger(url, { schema: "second", receivers });
  during = startWorker;
  await late.replace(late.current());
  await late.renew();
  await assert.rejects(openHolder(database, look, "ledger", sells), { code: "CONFIG_INVALID" });
  assert.deepEqual([late.maySell(), started], [false, ["started", "started", "started"]]);
});

test("attack: however the steps of two starters cross, at most one sells", async () => {
  let sold = 0;
  for (const order of interleavings(4)) {
    const turns = takeTurns(order);
    const tables = [standInDatabase(), standInDatabase()] as const;
    const start = async (who: 0 | 1): Promise<Holder | undefined> => {
      const look = async (): Promise<void> => {
        if ([...tables[who === 0 ? 1 : 0].rows.values()].some((row) => row.length > 0)) throw otherSells();
      };
      try {
        return await openHolder(inTurns(tables[who].database, turns, who), () => turns.step(who, look));
      } catch (error) {
        if (!isAppError(error, "CONFIG_INVALID")) throw error;
        return undefined;
      } finally {
        turns.end(who);
      }
    };
    const holders = await Promise.all([start(0), start(1)]);
    const sellers = holders.filter((holder) => holder?.maySell());
    assert.ok(sellers.length <= 1, order.join());
    if (order.join() === "0,0,0,0,1,1,1,1") assert.equal(sellers[0], holders[0]);
    sold += sellers.length;
    for (const holder of holders) await holder?.[Symbol.asyncDispose]();
    for (const { rows } of tables) assert.equal(rows.size, 0, "the refused one leaves nothing");
  }
  assert.ok(sold > 0);
});

test("attack: however the steps of two late processes cross that try to sell again, at most one does", async () => {
  let sold = 0;
  for (const order of interleavings(4)) {
    const turns = takeTurns(order);
    const tables = [standInDatabase(), standInDatabase()] as const;
    let looking: (who: 0 | 1) => Promise<void> = async () => undefined;
    const open = async (who: 0 | 1): Promise<Holder> => {
      const { database } = tables[who];
      const gated = inTurns(database, turns, who);
      let steps = database;
      const holder = await openHolder(
        {
          ...database,
          run: (statement, values) => (statement.name === "sell" ? steps : database).run(statement, values),
        },
        () => looking(who),
      );
      looking = () => Promise.reject(otherSells());
      tables[who].rows.delete(holder.current());
      await holder.replace(holder.current());
      looking = async () => undefined;
      steps = gated;
      return holder;
    };
    await using first = await open(0);
    await using second = await open(1);
    const holders = [first, second] as const;
    assert.deepEqual([first.maySell(), second.maySell()], [false, false]);
    looking = (who) =>
      turns.step(who, async () => {
        if ([...tables[who === 0 ? 1 : 0].rows.values()].some((row) => row.length > 0)) throw otherSells();
      });
    await Promise.all(holders.map((holder, who) => holder.renew().finally(() => turns.end(who))));
    const sellers = holders.filter((holder) => holder.maySell());
    assert.ok(sellers.length <= 1, order.join());
    for (const [who, holder] of holders.entries()) {
      const row = tables[who === 0 ? 0 : 1].rows.get(holder.current());
      assert.equal(row?.length, holder.maySell() ? 1 : 0, "what the row says");
    }
    if (order.join() === "0,0,0,0,1,1,1,1") assert.equal(sellers[0], first);
    sold += sellers.length;
  }
  assert.ok(sold > 0);
});

test("attack: two starters of one database whose looks and writes cross do not both sell", async () => {
  const url = await server().database();
  await migrate(url, { ...LEDGER, schema: "second" });
  // The names of prepared statements are those of a connection.
  await using first = openRenewals(url);
  await using second = openRenewals(url);
  const ledgers = [
    { schema: "ledger", database: first },
    { schema: "second", database: second },
  ] as const;
  const crossings: readonly (readonly [order: string, sellers: readonly string[]])[] = [
    // Both find nothing, then one is through before the other writes.
    ["01001011", ["ledger"]],
    ["10110100", ["second"]],
    // Both find nothing and write: each sees the other.
    ["01010101", []],
    ["10101010", []],
    // One has written before the other's first look.
    ["00101011", ["ledger"]],
    ["11010100", ["second"]],
  ];
  for (const [order, expected] of crossings) {
    const turns = takeTurns(order.split("").map(Number));
    const sells = [receiverName({ network: NETWORK, asset: ASSET, payTo: newPayer() })];
    const opened = await Promise.allSettled(
      ledgers.map(async ({ schema, database }, who) => {
        const looked = { url, schema, connectTimeoutMs: 60_000, queryTimeoutMs: 60_000 };
        const look = () => turns.step(who, () => assertSoleSeller(looked, sells));
        return openHolder(inTurns(database, turns, who), look, schema, sells).finally(() => turns.end(who));
      }),
    );
    const sellers = opened.flatMap((one, who) => (one.status === "fulfilled" ? [ledgers[who]?.schema] : []));
    assert.deepEqual(sellers, expected, order);
    for (const one of opened) {
      if (one.status === "fulfilled") await one.value[Symbol.asyncDispose]();
      else assert.ok(isAppError(one.reason, "CONFIG_INVALID"), String(one.reason));
    }
  }
});

test("a look for other ledgers ends although the database does not answer", async (context) => {
  const url = await server().database();
  await migrate(url, { ...LEDGER, schema: "second" });
  const locker = new pg.Client({ connectionString: url });
  await locker.connect();
  context.mock.timers.enable({ apis: ["setTimeout"] });
  try {
    await locker.query("begin; lock table second.holders in access exclusive mode");
    const opts = { url, schema: "ledger", connectTimeoutMs: 60_000, queryTimeoutMs: 500 };
    const look = assertSoleSeller(opts, ["a receiver"]).then(
      () => "none",
      (error: unknown) => isAppError(error) && error.code,
    );
    await sql(
      url,
      `do $$ begin while not exists (select 1 from pg_locks where not granted and relation = 'second.holders'::regclass
        and database = (select oid from pg_database where datname = current_database()))
        loop perform pg_sleep(0.005); end loop; end $$`,
    );
    context.mock.timers.tick(500);
    await locker.query("rollback");
    assert.equal(await look, "LEDGER_UNAVAILABLE");
  } finally {
    context.mock.timers.reset();
    await locker.end();
  }
});

test("a start that is refused says so although its row cannot be deleted", async () => {
  const { rows, database } = standInDatabase();
  const warnings: unknown[] = [];
  const log: Log = { ...silentLog, warn: (fields) => void warnings.push(fields), child: () => log };
  let looks = 0;
  const start = Holder.open(
    { ttlMs: 600_000, heartbeatMs: 3_600_000, statementTimeoutMs: 60_000, sells: ["a receiver"] },
    {
      database: {
        ...database,
        run: (statement, values) =>
          statement.name === "retire"
            ? Promise.reject(new AppError("LEDGER_UNAVAILABLE"))
            : database.run(statement, values),
      },
      statements: ledgerStatements("ledger"),
      log,
      metrics: noMetrics,
      async assertSoleSeller() {
        if (++looks === 2) throw otherSells();
      },
    },
  );
  await assert.rejects(start, { code: "CONFIG_INVALID" });
  assert.equal(rows.size, 1);
  assert.deepEqual(warnings, [{ code: "LEDGER_UNAVAILABLE" }]);
});

test("of the processes of a ledger one scans a node at a time, and the next goes on where the last one ended", async () => {
  const url = await server().database();
  await using first = await openLedger(url);
  await using second = await openLedger(url);
  const scan = { network: NETWORK, node: "one", receivers: "a" };
  const begun = await Promise.all([first, second, first, second].map((ledger) => ledger.beginScan(scan, 600_000)));
  assert.equal(begun.filter(({ isDue }) => isDue).length, 1);
  assert.ok(begun.every(({ scannedTo, finalBlock }) => scannedTo === undefined && finalBlock === undefined));
  assert.equal(await first.moveCursor(scan, undefined, { scannedTo: undefined, finalBlock: 12n }), true);
  assert.equal(await first.moveCursor(scan, undefined, { scannedTo: 12n, finalBlock: 20n }), true);
  assert.equal(await second.moveCursor(scan, undefined, { scannedTo: 7n, finalBlock: 7n }), false, "moved since");
  const cursor = { scannedTo: 12n, finalBlock: 20n };
  assert.deepEqual(await second.beginScan(scan, 600_000), { ...cursor, isDue: false }, "not due");
  await sql(url, "update foreign_scans set due_at = clock_timestamp() - interval '1 second'");
  assert.deepEqual(await second.beginScan(scan, 0), { ...cursor, isDue: true });
  assert.equal(
    await second.moveCursor(scan, 12n, { scannedTo: undefined, finalBlock: 3n }),
    true,
    "it may begin again",
  );
  const nothing = { isDue: true, scannedTo: undefined, finalBlock: undefined };
  for (const other of [{ node: "two" }, { receivers: "b" }, { network: "eip155:1" as typeof NETWORK }]) {
    assert.deepEqual(await first.beginScan({ ...scan, ...other }, 600_000), nothing);
  }
});
