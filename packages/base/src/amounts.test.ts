import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { decimalToUnits, unitsToDecimal } from "./amounts.ts";
import { isAppError } from "./errors.ts";

suite("amounts", () => {
  test("turns the price of a call into units of the token", () => {
    assert.equal(decimalToUnits("0.005000", 6), 5000n);
    assert.equal(decimalToUnits("0.005", 18), 5_000_000_000_000_000n);
    assert.equal(decimalToUnits("1", 0), 1n);
    assert.equal(decimalToUnits("1.000", 0), 1n);
    assert.equal(unitsToDecimal(5000n, 6), "0.005000");
    assert.equal(unitsToDecimal(-5000n, 6), "-0.005000");
    assert.equal(unitsToDecimal(7n, 0), "7");
  });

  test("property: units survive their decimal text, also beyond 2^53", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }), fc.nat(36), (units, decimals) => {
        assert.equal(decimalToUnits(unitsToDecimal(units, decimals), decimals), units);
      }),
    );
  });

  test("refuses what is no decimal, and what would have to be rounded", () => {
    for (const text of ["", " 1", "1 ", "+1", "-1", "01", ".5", "1.", "1e3", "0x1", "1,5", "NaN", "1.0.0", "١"]) {
      assert.throws(
        () => decimalToUnits(text, 6),
        (error) => isAppError(error, "CONFIG_INVALID"),
        JSON.stringify(text),
      );
    }
    assert.throws(() => decimalToUnits("0.0000001", 6), /cannot be paid/);
  });
});
