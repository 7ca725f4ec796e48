import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { AppError, noMetrics, silentLog } from "@turnpike/base";
import {
  ASSET,
  claimed,
  NETWORK,
  newClaim,
  newPayer,
  openLedger,
  PATIENT,
  sql,
  testServer,
} from "../../test/ledger-fixtures.ts";
import type { Database } from "./database.ts";
import { createHolder, type Holder } from "./holder.ts";
import { migrate } from "./migrate.ts";
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
function openHolder(database: Database, assertSoleSeller: () => Promise<void>): Promise<Holder> {
  return createHolder(
    { ttlMs: 600_000, heartbeatMs: 3_600_000, statementTimeoutMs: 60_000, sells: ["a receiver"] },
    { database, statements: ledgerStatements("ledger"), log: silentLog, metrics: noMetrics, assertSoleSeller },
  );
}

const otherSells = (): AppError => new AppError("CONFIG_INVALID", { message: "another ledger sells" });

test("attack: a second ledger of the database that sells for one receiver is refused; other ones are not", async () => {
  const url = await server().database();
  for (const schema of ["second", "ledger_facilitator"]) await migrate(url, { ...PATIENT, schema });
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
  await migrate(url, { ...PATIENT, schema: "second" });
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
  await migrate(url, { ...PATIENT, schema: "second" });
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
  await migrate(url, { ...PATIENT, schema: "second" });
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

test("of the processes of a ledger one looks for foreign payments at a time, and the next goes on where the last one ended", async () => {
  const url = await server().database();
  await using first = await openLedger(url);
  await using second = await openLedger(url);
  const begun = await Promise.all([first, second, first, second].map((ledger) => ledger.beginLook(NETWORK, 600_000)));
  assert.deepEqual(
    begun.filter((look) => look !== undefined),
    [{ lookedTo: undefined }],
  );
  await first.endLook(NETWORK, 12n);
  await second.endLook(NETWORK, 7n);
  assert.equal(await second.beginLook(NETWORK, 600_000), undefined, "not due");
  await sql(url, "update looks set due_at = clock_timestamp() - interval '1 second'");
  assert.deepEqual(await second.beginLook(NETWORK, 0), { lookedTo: 12n });
});
