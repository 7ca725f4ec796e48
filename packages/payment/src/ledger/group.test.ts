import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, isAppError } from "@turnpike/base";
import { createGroup } from "./group.ts";

const OPTIONS = { maxBatch: 3, maxRunning: 1, maxWaiting: 100 };
const refusal = (detail: Readonly<Record<string, unknown>>) => new AppError("LEDGER_UNAVAILABLE", { detail });

test("calls that come together share statements, and each gets its own result", async () => {
  const groups: (readonly number[])[] = [];
  const double = createGroup<number, number>(OPTIONS, async (items) => {
    groups.push(items);
    return items.map((item) => item * 2);
  });
  assert.deepEqual(await Promise.all([1, 2, 3, 4, 5].map(double)), [2, 4, 6, 8, 10]);
  assert.deepEqual(groups, [
    [1, 2, 3],
    [4, 5],
  ]);
});

test("what comes while a statement is under way forms the next group", async () => {
  const gate = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  const groups: (readonly number[])[] = [];
  const same = createGroup<number, number>(OPTIONS, async (items) => {
    groups.push(items);
    started.resolve();
    await gate.promise;
    return items;
  });
  const first = same(1);
  await started.promise;
  const others = [same(2), same(3)];
  gate.resolve();
  assert.deepEqual(await Promise.all([first, ...others]), [1, 2, 3]);
  assert.deepEqual(groups, [[1], [2, 3]]);
});

test("a refused statement is tried item by item: only the one in the way fails", async () => {
  const groups: (readonly number[])[] = [];
  const run = createGroup<number, number>(OPTIONS, async (items) => {
    groups.push(items);
    if (items.includes(2)) throw refusal({ sqlState: "40P01", unknown: false });
    return items;
  });
  const results = await Promise.allSettled([1, 2, 3].map(run));
  assert.deepEqual(
    results.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled"],
  );
  assert.deepEqual(groups, [[1, 2, 3], [1], [2], [3]]);
});

for (const detail of [{ sqlState: "57P01", unknown: true }, { unknown: true }, { unknown: false }]) {
  test(`an error with ${JSON.stringify(detail)} is every item's, and nothing is sent again`, async () => {
    let runs = 0;
    const run = createGroup<number, number>(OPTIONS, () => {
      runs++;
      return Promise.reject(refusal(detail));
    });
    for (const result of await Promise.allSettled([1, 2, 3].map(run))) {
      assert.ok(result.status === "rejected" && isAppError(result.reason, "LEDGER_UNAVAILABLE"));
      assert.equal(result.reason.detail.unknown, detail.unknown);
    }
    assert.equal(runs, 1);
  });
}

test("a group with a result too few fails as a whole", async () => {
  const run = createGroup<number, number>(OPTIONS, async (items) => items.slice(1));
  for (const result of await Promise.allSettled([run(1), run(2)])) {
    assert.ok(result.status === "rejected" && isAppError(result.reason, "INTERNAL"));
  }
});

test("more than may wait are refused at once", async () => {
  const run = createGroup<number, number>({ ...OPTIONS, maxWaiting: 2 }, async (items) => items);
  const results = await Promise.allSettled([1, 2, 3].map(run));
  assert.deepEqual(
    results.map(({ status }) => status),
    ["fulfilled", "fulfilled", "rejected"],
  );
});
