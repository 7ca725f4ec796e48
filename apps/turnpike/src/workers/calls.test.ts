import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, isAppError } from "@turnpike/base";
import { portPair } from "../../../../packages/gateway/test/sharing/ports.ts";
import { createCalls } from "./calls.ts";

const codeIs = (code: string, text: RegExp) => (error: unknown) =>
  isAppError(error) && error.code === code && text.test(error.message);

test("calls go both ways, and errors come back as they were", async () => {
  const [a, b] = portPair();
  const one = createCalls(a, { double: (body) => Number(body) * 2, quiet: () => undefined });
  const two = createCalls(b, {
    fail() {
      throw new AppError("CONFIG_INVALID", { message: "a: wrong", detail: { faults: ["a: wrong"] } });
    },
    burst() {
      throw new TypeError("burst");
    },
    never: () => new Promise(() => {}),
  });
  assert.deepEqual(await Promise.all([1, 2, 3].map((n) => two.call("double", n, 60_000))), [2, 4, 6]);
  assert.equal(await two.call("quiet", {}, 60_000), null);
  const failure = one.call("fail", {}, 60_000);
  await assert.rejects(failure, codeIs("CONFIG_INVALID", /^a: wrong$/));
  await assert.rejects(failure, (error) => isAppError(error) && JSON.stringify(error.detail.faults) === '["a: wrong"]');
  await assert.rejects(one.call("burst", {}, 60_000), codeIs("INTERNAL", /burst/));
  await assert.rejects(one.call("toString", {}, 60_000), codeIs("INTERNAL", /no call/));
  await assert.rejects(one.call("never", {}, 10), codeIs("PART_FAILED", /did not answer never within 10 ms/));
  const waiting = one.call("never", {}, 60_000);
  one.close();
  await assert.rejects(waiting, codeIs("PART_FAILED", /ended before/));
  a.isOpen = false;
  await assert.rejects(one.call("fail", {}, 60_000), codeIs("PART_FAILED", /cannot be reached/));
});

test("what is no message of theirs is left alone", async () => {
  const [a, b] = portPair();
  const calls = createCalls(a, { echo: (body) => body });
  const other = createCalls(b, {});
  for (const nonsense of [
    null,
    1,
    "x",
    {},
    { to: "call" },
    { to: "call", id: 3 },
    { to: "answer", id: 1 },
    { to: "answer", id: 9, value: 1 },
  ]) {
    b.send(nonsense);
  }
  assert.equal(await other.call("echo", "after all that", 60_000), "after all that");
  assert.equal(a.sent.length, 1, "the answer to that, and nothing before it");
  calls.close();
  other.close();
});
