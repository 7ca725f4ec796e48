import assert from "node:assert/strict";
import { test } from "node:test";
import { andThen, withCleanup } from "./maybe-promise.ts";

const fault = new Error("a fault of the test");

test("what is here is gone on with at once, what is promised when it is here", async () => {
  assert.equal(
    andThen(1, (value) => value + 1),
    2,
  );
  const promised = andThen(Promise.resolve(1), (value) => value + 1);
  assert.ok(promised instanceof Promise);
  assert.equal(await promised, 2);
  assert.throws(
    () =>
      andThen(1, () => {
        throw fault;
      }),
    fault,
  );
});

test("a cleanup runs once, after a value, a rejection or a fault, and not before", async () => {
  let cleaned = 0;
  const cleanup = (): void => void cleaned++;
  assert.equal(
    withCleanup(() => "now", cleanup),
    "now",
  );
  assert.equal(cleaned, 1);
  const later = Promise.withResolvers<string>();
  const result = withCleanup(() => later.promise, cleanup);
  assert.equal(cleaned, 1);
  later.resolve("later");
  assert.equal(await result, "later");
  assert.equal(cleaned, 2);
  await assert.rejects(async () => withCleanup(() => Promise.reject(fault), cleanup), fault);
  assert.equal(cleaned, 3);
  assert.throws(
    () =>
      withCleanup(() => {
        throw fault;
      }, cleanup),
    fault,
  );
  assert.equal(cleaned, 4);
});
