import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { bumpFees, type FeePolicy, firstFees } from "./fees.ts";

const wei = fc.bigInt({ min: 0n, max: 10n ** 15n });
const policies: fc.Arbitrary<FeePolicy> = fc.record({
  maxFeePerGasWei: fc.bigInt({ min: 1n, max: 10n ** 15n }),
  priorityFeeWei: wei,
  bumpPercent: fc.double({ min: 12.5, max: 200, noNaN: true }),
});

test("first fees are under the cap, over the base fee, and the tip is not over the fee", () => {
  fc.assert(
    fc.property(wei, policies, (baseFee, policy) => {
      const fees = firstFees(baseFee, policy);
      if (fees === undefined) return baseFee >= policy.maxFeePerGasWei;
      const { maxFeePerGas, maxPriorityFeePerGas } = fees;
      return maxFeePerGas <= policy.maxFeePerGasWei && maxFeePerGas >= baseFee && maxPriorityFeePerGas <= maxFeePerGas;
    }),
  );
});

test("each bump raises both fees by at least 12.5 % and never goes over the cap", () => {
  fc.assert(
    fc.property(wei, wei, policies, (before, now, policy) => {
      let last = firstFees(before, policy);
      for (let round = 0; last !== undefined && round < 50; round++) {
        const next = bumpFees(last, now, policy);
        if (next === undefined) break;
        assert.ok(next.maxFeePerGas <= policy.maxFeePerGasWei);
        assert.ok(next.maxPriorityFeePerGas <= next.maxFeePerGas);
        assert.ok(next.maxFeePerGas * 1_000n >= last.maxFeePerGas * 1_125n);
        assert.ok(next.maxPriorityFeePerGas * 1_000n >= last.maxPriorityFeePerGas * 1_125n);
        last = next;
      }
    }),
  );
});
