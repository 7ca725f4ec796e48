import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { isAppError, noFaults, noMetrics, silentLog } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import { claimed, LEDGER, NETWORK, openLedger, RELAYER, sql, testServer } from "../../test/ledger-fixtures.ts";
import { inspectLedger } from "./doctor.ts";
import { createLedger } from "./ledger.ts";
import { ledgerObjects, migrate } from "./migrate.ts";

const server = testServer();

const refusalOf = async (work: () => Promise<unknown>): Promise<string> => {
  const error: unknown = await work().catch((reason: unknown) => reason);
  assert.ok(isAppError(error, "LEDGER_SCHEMA"), String(error));
  return error.message;
};

test("schema.json is what the migrations make (else: npm run generate)", async () => {
  const empty = await server().postgres.createDatabase("defined");
  const text = await readFile(new URL("../../migrations/schema.json", import.meta.url), "utf8");
  const objects = await ledgerObjects(empty, "ledger");
  assert.deepEqual(objects, JSON.parse(text));
  assert.deepEqual(await sql(empty, "select from pg_namespace where nspname = 'ledger'"), [], "nothing stays");
  for (const kind of ["table ", "column ", "constraint ", "index ", "trigger ", "function ", "view ", "type "]) {
    assert.ok(
      Object.keys(objects).some((name) => name.startsWith(kind)),
      kind,
    );
  }
});

test("a migrated ledger is whole under any plain name of its schema, by any search path", async () => {
  const url = await server().postgres.createDatabase("names");
  for (const schema of ["user", "payments"]) {
    await migrate(url, { ...LEDGER, schema });
    assert.deepEqual(await inspectLedger(url, { ...LEDGER, schema }), [], schema);
    const inPath = new URL(url);
    inPath.searchParams.set("options", `-c search_path="${schema}"`);
    assert.deepEqual(await inspectLedger(inPath.href, { ...LEDGER, schema }), [], `${schema} in the search path`);
  }
});

test("what a backup that was restored in part lacks is named at the start, by migrate and by the doctor", async () => {
  const cases = [
    ["drop function lease_relayer", "missing", "function lease_relayer("],
    ["drop trigger payments_guard on payments", "missing", "trigger payments.payments_guard"],
    ["drop index payments_evidence", "missing", "index payments.payments_evidence"],
    ["alter table payments drop constraint evidence_where_paid", "missing", "constraint payments.evidence_where_paid"],
    ["drop table foreign_scans cascade", "missing", "table foreign_scans"],
    ["alter table payments drop column final cascade", "missing", "column payments.final"],
    ["drop view books cascade", "missing", "view books"],
    ["alter table payments alter column signature drop not null", "different", "column payments.signature"],
    ["alter table payments disable trigger payments_guard", "different", "trigger payments.payments_guard"],
    ["alter function prune_released(interval, integer) security invoker", "different", "function prune_released("],
    ["alter function holder_lives(text) set search_path to public", "different", "function holder_lives("],
    [
      "create or replace function retire(p_holder text, p_reason text) returns void language plpgsql as $$ begin end $$",
      "different",
      "function retire(",
    ],
  ] as const;
  for (const kind of ["missing", "different"]) {
    const url = await server().database();
    const ofKind = cases.filter((one) => one[1] === kind);
    for (const [bend] of ofKind) await sql(url, bend);
    const faults = await inspectLedger(url, LEDGER);
    for (const [bend, , object] of ofKind) {
      const fault = faults.find(({ what }) => what.startsWith(object));
      assert.equal(fault?.kind, kind, `${bend}: ${JSON.stringify(faults)}`);
      assert.match(fault.cure, /restore the backup into an empty database/);
    }
    const named = new RegExp(`not whole: ${kind}: `);
    assert.match(await refusalOf(() => openLedger(url)), named);
    assert.match(await refusalOf(() => migrate(url, LEDGER)), named);
  }
});

test("the cure that is given for a disabled trigger and for a sequence that is behind is enough", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  await claimed(ledger);
  await claimed(ledger);
  await sql(url, "alter table payments disable trigger payments_guard");
  const [disabled] = await inspectLedger(url, LEDGER);
  await sql(url, /alter table [^;]*/.exec(disabled?.cure ?? "")?.[0] ?? "");
  assert.deepEqual(await inspectLedger(url, LEDGER), []);

  await sql(url, "select setval(pg_get_serial_sequence('payments', 'seq'), 1)");
  const [behind] = await inspectLedger(url, LEDGER);
  assert.deepEqual([behind?.kind, behind?.what], ["sequence", "payments.seq would be given twice"]);
  await sql(url, behind?.cure ?? "");
  assert.deepEqual(await inspectLedger(url, LEDGER), []);
  await claimed(ledger);
});

test("tables without the list of migrations are named as a backup that was restored in part", async () => {
  const url = await server().database();
  await sql(url, "delete from migrations");
  assert.match(
    await refusalOf(() => migrate(url, LEDGER)),
    /0001-tables\.sql makes an object that exists.*"holders" already exists/,
  );
  const [version] = await inspectLedger(url, LEDGER);
  assert.equal(version?.kind, "version");
});

test("an open ledger is not ready while its tables are not whole, and says by a call what the database lacks", async () => {
  const url = await server().database();
  const clock = virtualClock();
  await using ledger = await createLedger(
    { url, ...LEDGER },
    { clock, log: silentLog, metrics: noMetrics, faults: noFaults },
  );
  assert.equal(await ledger.ready(), true);
  await sql(url, "alter function lease_relayer rename to lease_relayer_of_a_backup");
  await assert.rejects(ledger.leaseRelayer(NETWORK, RELAYER, 0), (error) => {
    assert.ok(isAppError(error, "LEDGER_SCHEMA"));
    assert.match(String(error.detail.reason), /function ledger\.lease_relayer\(.* does not exist/);
    assert.doesNotMatch(error.message, /lease_relayer/, "a client does not see it");
    return true;
  });
  clock.advance(30_000);
  assert.equal(await ledger.ready(), false);
  await sql(url, "alter function lease_relayer_of_a_backup rename to lease_relayer");
  assert.equal(await ledger.ready(), true);
});
