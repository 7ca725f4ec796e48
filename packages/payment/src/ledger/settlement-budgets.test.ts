import assert from "node:assert/strict";
import { test } from "node:test";
import { openLedger, sql, testServer } from "../../test/ledger-fixtures.ts";

const server = testServer();

const today = "(clock_timestamp() at time zone 'UTC')::date";

test("a budget is taken in every process of a ledger, all of a sale or none, and given back", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  await using other = await openLedger(url);
  const [payer, seller] = [
    { name: "payer 1", perDay: 2 },
    { name: "seller", perDay: 3 },
  ];
  assert.equal(await ledger.usedUpBudget([payer, seller]), undefined);
  assert.equal(await ledger.takeBudgets([payer, seller]), undefined);
  assert.equal(await other.takeBudgets([payer, seller]), undefined);
  assert.equal(await ledger.takeBudgets([payer, seller]), "payer 1");
  assert.equal(await other.usedUpBudget([payer, seller]), "payer 1");
  assert.equal(
    await ledger.takeBudgets([{ name: "payer 2", perDay: 2 }, seller]),
    undefined,
    "the refusal took nothing",
  );
  assert.equal(await ledger.takeBudgets([{ name: "payer 3", perDay: 2 }, seller]), "seller");
  await other.returnBudgets([payer.name, seller.name]);
  assert.equal(await ledger.takeBudgets([payer, seller]), undefined);
  await ledger.returnBudgets(["payer 4"]);
  assert.equal(await ledger.takeBudgets([]), undefined);
});

test("many at once take a budget exactly, in any order of names", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url, { poolSize: 8 });
  await using other = await openLedger(url, { poolSize: 8 });
  const budgets = ["a", "b", "c"].map((name) => ({ name, perDay: 20 }));
  const results = await Promise.all(
    Array.from({ length: 60 }, (_, at) =>
      (at % 2 ? ledger : other).takeBudgets(at % 3 ? budgets : budgets.toReversed()),
    ),
  );
  assert.equal(results.filter((usedUp) => usedUp === undefined).length, 20);
});

test("a new day begins anew, and rows of earlier days are deleted", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const budget = { name: "payer 1", perDay: 1 };
  assert.equal(await ledger.takeBudgets([budget]), undefined);
  assert.equal(await ledger.takeBudgets([{ name: "payer 2", perDay: 1 }]), undefined);
  await sql(url, `update settlement_budgets set day = ${today} - 1`);
  assert.equal(await ledger.usedUpBudget([budget]), undefined);
  await ledger.returnBudgets([budget.name]);
  assert.equal(await ledger.takeBudgets([budget]), undefined);
  assert.equal(await ledger.takeBudgets([budget]), "payer 1");
  assert.deepEqual(await sql(url, "select name from settlement_budgets"), [{ name: "payer 1" }]);
});
