import assert from "node:assert/strict";
import { constants } from "node:buffer";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { isEngineLimit } from "./engine-limits.ts";

function caught(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return assert.fail("nothing was thrown");
}

const overflow = (): number => 1 + overflow();

// Of the engine that runs this: when its words change, this test says so.
suite("limits of the engine", () => {
  const limits: Readonly<Record<string, () => unknown>> = {
    "the stack": overflow,
    "the length of a text": () => "a".repeat(constants.MAX_STRING_LENGTH).concat("bc"),
    "the length of a repeated text": () => "ab".repeat(constants.MAX_STRING_LENGTH),
    "the size of a number": () => 1n << (1n << 40n),
    "the length of a list": () => {
      const list: unknown[] = [];
      list.length = 2 ** 32;
    },
    "the length of bytes": () => new Uint8Array(2 ** 53 - 1),
    "the operating system": () => readFileSync("/nowhere/at/all"),
  };
  for (const [what, run] of Object.entries(limits)) {
    test(what, () => {
      const error = caught(run);
      assert.ok(isEngineLimit(error), String(error));
    });
  }

  test("what every machine throws alike is none", () => {
    const others: readonly (() => unknown)[] = [
      () => JSON.parse("{"),
      () => BigInt(1.5),
      () => BigInt("x"),
      () => Buffer.alloc(8).writeBigUInt64BE(-1n),
      () => new Date(Number.NaN).toISOString(),
      () => (undefined as unknown as { a: number }).a,
    ];
    for (const run of others) assert.ok(!isEngineLimit(caught(run)), String(caught(run)));
    assert.ok(!isEngineLimit("Maximum call stack size exceeded"));
  });
});
