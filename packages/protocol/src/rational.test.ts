import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { readSpec } from "../test/records.ts";
import {
  addRational,
  ceilRational,
  compareRational,
  decimalToRational,
  divideRational,
  float64ToDecimal,
  float64ToRational,
  floorRational,
  multiplyRational,
  rational,
  scaleCeil,
  scaleFloor,
} from "./rational.ts";

const big = fc.bigInt({ min: -(1n << 300n), max: 1n << 300n });
const anyRational = fc
  .tuple(
    big,
    big.filter((den) => den !== 0n),
  )
  .map(([num, den]) => rational(num, den));

suite("rational", () => {
  test("fractions are in lowest terms with a positive denominator", () => {
    assert.deepEqual(rational(6n, -4n), { num: -3n, den: 2n });
    assert.deepEqual(rational(0n, -7n), { num: 0n, den: 1n });
    assert.throws(() => rational(1n, 0n), { code: "INTERNAL" });
  });

  test("floor and ceil round towards their own side, below zero too", () => {
    assert.deepEqual([floorRational(rational(-1n, 3n)), ceilRational(rational(-1n, 3n))], [-1n, 0n]);
    assert.deepEqual([floorRational(rational(1n, 3n)), ceilRational(rational(1n, 3n))], [0n, 1n]);
    assert.deepEqual([floorRational(rational(9n, 3n)), ceilRational(rational(9n, 3n))], [3n, 3n]);
  });

  test("arithmetic obeys the laws of fractions", () => {
    fc.assert(
      fc.property(anyRational, anyRational, anyRational, (a, b, c) => {
        assert.deepEqual(addRational(a, b), addRational(b, a));
        assert.deepEqual(
          multiplyRational(a, addRational(b, c)),
          addRational(multiplyRational(a, b), multiplyRational(a, c)),
        );
        if (b.num !== 0n) assert.deepEqual(multiplyRational(divideRational(a, b), b), a);
        assert.equal(compareRational(a, b), -compareRational(b, a) + 0);
        assert.ok(compareRational(rational(floorRational(a)), a) <= 0);
        assert.ok(compareRational(rational(ceilRational(a)), a) >= 0);
      }),
    );
  });

  test("scaling rounds once", () => {
    const third = rational(1n, 3n);
    assert.deepEqual([scaleFloor(10n, third), scaleCeil(10n, third), scaleCeil(9n, third)], [3n, 4n, 3n]);
  });

  test("decimal texts are read exactly, others not at all", () => {
    assert.deepEqual(decimalToRational("0.975"), { num: 39n, den: 40n });
    assert.deepEqual(decimalToRational("-12.50"), { num: -25n, den: 2n });
    assert.deepEqual(decimalToRational("1.5e-7"), { num: 3n, den: 20_000_000n });
    assert.deepEqual(decimalToRational("2E+3"), { num: 2000n, den: 1n });
    for (const text of ["", ".", "1.", ".5", "1e", "0x10", "1_0", "NaN", "Infinity", " 1", "1e99999"]) {
      assert.equal(decimalToRational(text), undefined, text);
    }
  });

  test("a float64 prints as Go prints it", () => {
    const { float64Text } = readSpec<{ float64Text: [string, string][] }>("go-numbers.json");
    assert.ok(float64Text.length > 400);
    for (const [bits, text] of float64Text) {
      const view = new DataView(new ArrayBuffer(8));
      view.setBigUint64(0, BigInt(`0x${bits}`));
      assert.equal(float64ToDecimal(view.getFloat64(0)), text, bits);
    }
  });

  test("a float64 parameter is its decimal text, not the binary fraction", () => {
    assert.deepEqual(float64ToRational(0.1), { num: 1n, den: 10n });
    assert.deepEqual(float64ToRational(1e-6), { num: 1n, den: 1_000_000n });
    assert.deepEqual(float64ToRational(1e-7), { num: 1n, den: 10_000_000n });
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      assert.throws(() => float64ToRational(value), { code: "INTERNAL" });
    }
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        const text = float64ToDecimal(value);
        assert.doesNotMatch(text, /e/i);
        assert.ok(Object.is(Number(text), value));
      }),
    );
  });
});
