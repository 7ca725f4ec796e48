import assert from "node:assert/strict";
import { test } from "node:test";
import type pg from "pg";
import { StatementNames } from "./statement-names.ts";

const connection = (): pg.PoolClient => ({}) as pg.PoolClient;
const named = (names: StatementNames, client: pg.PoolClient, role: string, text: string): string | undefined => {
  names.nameOf(client, role, text);
  names.nameOf(client, role, text);
  return names.nameOf(client, role, text);
};

test("a statement gets a name when it has come three times, one for each role", () => {
  const names = new StatementNames();
  const client = connection();
  assert.equal(names.nameOf(client, "reader", "select 1"), undefined);
  assert.equal(names.nameOf(client, "reader", "select 1"), undefined);
  const name = names.nameOf(client, "reader", "select 1");
  assert.ok(name);
  assert.equal(names.nameOf(connection(), "reader", "select 1"), name);
  const others = [named(names, client, "admin", "select 1"), named(names, client, "reader", "select 2")];
  assert.equal(new Set([name, ...others]).size, 3);
  assert.equal(named(names, client, "reader", "x".repeat(9_000)), undefined);
});

test("a flood of statements makes neither names nor memory without end, and no name is given twice", () => {
  const names = new StatementNames();
  const client = connection();
  for (let n = 0; n < 5_000; n++) assert.equal(names.nameOf(client, "reader", `once ${n}`), undefined);
  assert.equal(names.isFull(client), false);
  const given = new Set<string | undefined>();
  for (let n = 0; n < 600; n++) given.add(named(names, client, "reader", `often ${n}`));
  assert.equal(given.size, 600);
  assert.equal(names.isFull(client), true);
  assert.equal(names.isFull(connection()), false);
});
