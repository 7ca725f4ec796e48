import assert from "node:assert/strict";
import { test } from "node:test";
import { ByteBudget } from "./byte-budget.ts";
import { ClientByteBudget } from "./client-byte-budget.ts";
import { clientKey } from "./client-key.ts";

test("a client holds a quarter beyond its first bytes, all together the whole, and what is released is free", () => {
  const whole = new ByteBudget(() => 1_000);
  const budget = new ClientByteBudget(() => 800, whole);
  assert.equal(budget.acquire(["a"], 300), undefined, "the first may be larger");
  assert.equal(budget.acquire(["a"], 1), "each");
  assert.equal(budget.acquire(["b", "payer"], 100), undefined);
  assert.equal(budget.acquire(["c", "payer"], 101), "each", "one payer at two clients");
  assert.equal(budget.acquire(["d"], 401), "all");
  assert.equal(budget.acquire(["d"], 400), undefined);
  assert.equal(whole.acquire(201), false);
  budget.release(["a"], 300);
  assert.equal(budget.acquire(["a"], 200), undefined);
  const bytes = budget.of("e");
  assert.equal(bytes.acquire(101), false);
  assert.equal(bytes.lacking, "all");
  assert.equal(bytes.acquire(100), true);
  bytes.release(100);
  assert.equal(bytes.acquire(100), true);
});

test("attack: the clients of one /48 hold half of all together", () => {
  const budget = new ClientByteBudget(() => 800);
  const results = Array.from({ length: 5 }, (_, at) => budget.acquire([clientKey(`2001:db8:1:${at}::1`)], 100));
  assert.deepEqual(results, [undefined, undefined, undefined, undefined, "each"]);
  assert.equal(budget.acquire([clientKey("2001:db8:2::1")], 100), undefined);
});
