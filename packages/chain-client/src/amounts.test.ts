import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { expectedSequence } from "./account-sender.ts";
import { coinAmount, feeAtPrices, parseAmount, parseAmounts, parseGasPrices, usualFee } from "./amounts.ts";
import { unorderedUntil } from "./unordered.ts";

const refused = (work: () => unknown): void =>
  assert.throws(work, (error: Error) => isAppError(error, "USAGE"), "expected a refusal");

suite("amounts", () => {
  test("amounts are whole numbers with a denomination, sorted, each denomination once", () => {
    assert.deepEqual(parseAmount("1000upokt"), { denom: "upokt", amount: 1000n });
    for (const text of ["", "1000", "upokt", "1.5upokt", "-1upokt", "1 upokt", "1up"]) {
      assert.equal(parseAmount(text), undefined, text);
    }
    assert.deepEqual(
      parseAmounts("2upokt, 1aaa").map(({ denom }) => denom),
      ["aaa", "upokt"],
    );
    for (const text of ["", "1upokt,", "1upokt,2upokt", "x"]) refused(() => parseAmounts(text));
  });

  test("attack: the amount of a node's coin is a whole number, or none; nothing throws, however long it is", () => {
    assert.deepEqual(
      [undefined, "", "0", "007"].map((amount) => coinAmount(amount === undefined ? amount : { amount })),
      [0n, 0n, 0n, 7n],
    );
    assert.equal(coinAmount({ amount: "9".repeat(78) }), 10n ** 78n - 1n);
    for (const amount of [
      "much",
      "1.5",
      "-1",
      "+1",
      "0x10",
      "1e3",
      " 1",
      "1\n",
      "9".repeat(79),
      "9".repeat(2_000_000),
    ]) {
      assert.equal(coinAmount({ amount }), undefined, amount.slice(0, 9));
    }
  });

  test("a fee at prices of gas is rounded up", () => {
    assert.deepEqual(feeAtPrices(parseGasPrices("0.000001upokt"), 1n), [{ denom: "upokt", amount: 1n }]);
    assert.deepEqual(feeAtPrices(parseGasPrices("0.000001upokt"), 1_000_001n), [{ denom: "upokt", amount: 2n }]);
    assert.deepEqual(feeAtPrices(parseGasPrices("2upokt"), 3n), [{ denom: "upokt", amount: 6n }]);
    assert.deepEqual(feeAtPrices(parseGasPrices("0upokt"), 3n), [{ denom: "upokt", amount: 0n }]);
    assert.deepEqual(usualFee(0n), [{ denom: "upokt", amount: 1n }]);
    for (const text of ["", ".5upokt", "1,5upokt", "0.1"]) refused(() => parseGasPrices(text));
  });

  test("unordered transactions end two minutes behind the block, at most 9 min 50 s", () => {
    assert.equal(unorderedUntil(5n), 120_000_000_005n);
    assert.equal(unorderedUntil(5n, 60_000), 60_000_000_005n);
    assert.equal(unorderedUntil(0n, 600_000), 590_000_000_000n);
    assert.equal(unorderedUntil(0n, -1), 1_000_000n);
    assert.equal(unorderedUntil(0n, 1_000, 999_999_999), 1_999_999_999n);
  });

  test("the expected sequence is read from the chain's text, and from no other", () => {
    assert.equal(expectedSequence("account sequence mismatch, expected 7, got 6: incorrect account sequence"), 7n);
    assert.equal(expectedSequence("insufficient funds"), undefined);
  });
});
