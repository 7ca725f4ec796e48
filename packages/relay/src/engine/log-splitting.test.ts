import assert from "node:assert/strict";
import { test } from "node:test";
import { logRange } from "./log-splitting.ts";

test("the blocks of a question for logs", () => {
  const cases: readonly (readonly [unknown, unknown])[] = [
    [[{ fromBlock: "0x1", toBlock: "0xa" }], { from: 1, to: 10, isOpen: false }],
    [[{ fromBlock: "earliest", toBlock: "latest" }], { from: 0, to: 100, isOpen: true }],
    [[{ fromBlock: "0x1" }], { from: 1, to: 100, isOpen: true }],
    [[{ fromBlock: "0x5", toBlock: "0x5" }], undefined],
    [[{ fromBlock: "0x6", toBlock: "0x5" }], undefined],
    [[{ fromBlock: "safe", toBlock: "0x5" }], undefined],
    [[{ toBlock: "0x5" }], undefined],
    [[{ blockHash: "0x00" }], undefined],
    [[], undefined],
    [undefined, undefined],
    [{ fromBlock: "0x1" }, undefined],
  ];
  for (const [params, wanted] of cases) assert.deepEqual(logRange(params, 100), wanted, JSON.stringify(params));
  assert.equal(logRange([{ fromBlock: "0x1" }], undefined), undefined);
});
