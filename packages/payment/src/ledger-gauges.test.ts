import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Address,
  AppError,
  type Labels,
  type MetricSpec,
  type NetworkId,
  noMetrics,
  silentLog,
} from "@turnpike/base";
import { startLedgerGauges } from "./ledger-gauges.ts";
import type { LedgerSums } from "./ledger-types.ts";

const NETWORK = "eip155:84532" as NetworkId;
const ASSET = "0x036cbd53842c5426634e7929541ec2318f3dcf7e" as Address;

function sumsWith(owed: number): LedgerSums {
  const none = { count: 0, value: 0n };
  return {
    network: NETWORK,
    asset: ASSET,
    states: {
      claimed: none,
      released: none,
      signed: { count: 2, value: 2_000n },
      submitted: none,
      settled: none,
      failed: none,
      owed: { count: owed, value: BigInt(owed) * 1_000n },
      disputed: none,
    },
  };
}

test("the gauges follow the sums of the ledger, also after a failure and down to zero", async () => {
  const gauges = new Map<string, number>();
  const third = Promise.withResolvers<void>();
  let reads = 0;
  const ledger = {
    async sums() {
      reads++;
      if (reads === 2) throw new AppError("LEDGER_UNAVAILABLE");
      if (reads === 4) third.resolve();
      return [sumsWith(reads === 1 ? 1 : 0)];
    },
  };
  const metrics = {
    ...noMetrics,
    set(spec: MetricSpec, value: number, labels: Labels = {}) {
      if (reads === 1) gauges.set([`first:${spec.name}`, labels.state].join(" "), value);
      gauges.set([spec.name, labels.state].join(" "), value);
    },
  };
  const clock = { nowMs: () => 5_000, monotonicMs: () => 0 };
  {
    await using _watch = startLedgerGauges({ everyMs: 1 }, { ledger, clock, log: silentLog, metrics });
    await third.promise;
  }
  assert.equal(gauges.get("first:turnpike_ledger_payments owed"), 1);
  assert.equal(gauges.get("first:turnpike_ledger_value_units owed"), 1_000);
  assert.equal(gauges.get("turnpike_ledger_payments owed"), 0);
  assert.equal(gauges.get("turnpike_ledger_payments signed"), 2);
  assert.equal(gauges.get("turnpike_ledger_value_units signed"), 2_000);
  assert.equal(gauges.get("turnpike_ledger_payments disputed"), 0);
  assert.equal(gauges.get("turnpike_ledger_books_timestamp_seconds "), 5);
});

test("a slow sum is followed by a longer pause", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let nowMs = 0;
  let reads = 0;
  const ledger = {
    async sums() {
      reads++;
      nowMs += 1_000;
      return [];
    },
  };
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs };
  await using _watch = startLedgerGauges({ everyMs: 1 }, { ledger, clock, log: silentLog, metrics: noMetrics });
  for (let read = 1; read <= 3; read++) {
    // What follows a sum takes some turns of the event loop, of which none waits for anything outside.
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(reads, read);
    context.mock.timers.tick(19_999);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(reads, read, "a sum of one second lets twenty pass");
    context.mock.timers.tick(1);
  }
});
