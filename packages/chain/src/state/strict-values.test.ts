import assert from "node:assert/strict";
import { test } from "node:test";
import { createMessage, DurationSchema } from "@turnpike/proto";
import { valueFault } from "./strict-values.ts";

const faultOf = (seconds: bigint, nanos: number): string | undefined =>
  valueFault(DurationSchema, createMessage(DurationSchema, { seconds, nanos }));

test("a duration whose parts have different signs is refused as Go refuses it: no JSON has its form", () => {
  assert.equal(faultOf(1n, -1), "duration: seconds:1 nanos:-1: seconds and nanos have different signs");
  assert.equal(faultOf(-1n, 1), "duration: seconds:-1 nanos:1: seconds and nanos have different signs");
  for (const [seconds, nanos] of [
    [0n, -1],
    [0n, 1],
    [-1n, 0],
    [-1n, -1],
    [1n, 1],
  ] as const) {
    assert.equal(faultOf(seconds, nanos), undefined);
  }
});
