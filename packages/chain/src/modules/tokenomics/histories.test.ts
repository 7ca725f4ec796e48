import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { HistoryChain, NAMES, NUM_SENDING_STEPS, type Step } from "../../../test/modules/tokenomics/histories.ts";
import { PARAMS } from "../../../test/modules/tokenomics/params.ts";
import type { ChainEvent } from "../../state/context.ts";

const AMOUNTS = fc.oneof(
  { weight: 6, arbitrary: fc.bigInt({ min: 1n, max: 10n ** 9n }) },
  { weight: 2, arbitrary: fc.bigInt({ min: 0n, max: 12n }) },
  { weight: 1, arbitrary: fc.constantFrom(2n ** 31n - 1n, 2n ** 31n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n) },
);

const STEPS: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    // The last kinds end blocks, as often as anything else is done.
    kind: fc.oneof(
      { weight: 2, arbitrary: fc.nat(NUM_SENDING_STEPS - 1) },
      { weight: 2, arbitrary: fc.constantFrom(0, 1, 2, 3, 16, 17) },
      { weight: 2, arbitrary: fc.constant(NUM_SENDING_STEPS) },
    ),
    who: fc.nat(NAMES.length * 12),
    to: fc.nat(NAMES.length),
    amount: AMOUNTS,
    param: fc.nat(PARAMS.length - 1),
  }),
  { minLength: 30, maxLength: 150, size: "max" },
);

test("no history of messages and parameters stops the chain or loses a coin", () => {
  const seen = new Map<string, number>();
  const count = (events: readonly ChainEvent[]): void => {
    for (const { type } of events) seen.set(type, (seen.get(type) ?? 0) + 1);
  };
  fc.assert(
    fc.property(STEPS, (steps) => {
      const chain = new HistoryChain();
      chain.checkMoney();
      for (const step of steps) count(chain.take(step));
      for (let left = 0; left < 40; left++) count(chain.endCheckedBlock());
    }),
    { numRuns: 20 },
  );
  for (const name of ["ClaimSettled", "ClaimExpired", "SupplierSlashed", "ApplicationReimbursementRequest"]) {
    assert.ok((seen.get(`pocket.tokenomics.Event${name}`) ?? 0) > 0, `no ${name} in any history`);
  }
});
