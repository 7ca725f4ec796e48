import assert from "node:assert/strict";
import { test } from "node:test";
import { type NetworkId, systemClock } from "@turnpike/base";
import { randomNonce } from "@turnpike/localnet";
import { BackOff } from "./back-off.ts";

const network = "eip155:1" as NetworkId;
const payer = (n: number) => ({ network, from: `0x${n.toString(16).padStart(40, "0")}` }) as const;

test("three failures within ten minutes refuse a payer until the oldest of them is ten minutes ago", () => {
  let nowMs = 1_000_000;
  const backOff = new BackOff({}, { clock: { ...systemClock, monotonicMs: () => nowMs } });
  const upper = { network, from: `0x${"AB".repeat(20)}` } as const;
  const lower = { network, from: `0x${"ab".repeat(20)}` } as const;
  for (const atMs of [0, 60_000, 120_000]) {
    assert.equal(backOff.refuses(lower), false);
    nowMs = 1_000_000 + atMs;
    backOff.failed({ id: randomNonce(), key: upper });
  }
  assert.equal(backOff.refuses(lower), true);
  assert.equal(backOff.refuses({ ...lower, network: "eip155:2" as NetworkId }), false);
  nowMs = 1_000_000 + 599_999;
  assert.equal(backOff.refuses(lower), true);
  nowMs = 1_000_000 + 600_001;
  assert.equal(backOff.refuses(lower), false);
});

test("one claim counts once, however often its settlement was tried", () => {
  const backOff = new BackOff({}, { clock: systemClock });
  for (let i = 0; i < 5; i++) backOff.failed({ id: "stl_1", key: payer(1) });
  assert.equal(backOff.refuses(payer(1)), false);
});

test("the payer that failed first is evicted when it is full", () => {
  const backOff = new BackOff({ maxPayers: 2 }, { clock: systemClock });
  for (const n of [1, 2, 3]) for (let i = 0; i < 3; i++) backOff.failed({ id: randomNonce(), key: payer(n) });
  assert.deepEqual(
    [1, 2, 3].map((n) => backOff.refuses(payer(n))),
    [false, true, true],
  );
});
