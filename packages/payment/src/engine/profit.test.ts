import assert from "node:assert/strict";
import { test } from "node:test";
import { decimalToUnits } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { approximateUsd, isOverShare, PRICE_DECIMALS, usdOfUnits, usdOfWei } from "./profit.ts";

const price = (text: string): bigint => decimalToUnits(text, PRICE_DECIMALS);
const GWEI = 1_000_000_000n;

test("the sale of the security issue: 5 gwei and 63,668 gas are about a dollar for half a cent", () => {
  const cost = usdOfWei(63_668n * 5n * GWEI, price("3200"));
  assert.equal(approximateUsd(cost), 1.018688);
  const sale = usdOfUnits(5_000n, { decimals: 6, priceUsd: price("1") });
  assert.equal(approximateUsd(sale), 0.005);
  assert.equal(isOverShare(cost, sale, 100), true);
  assert.equal(isOverShare(usdOfWei((63_668n * GWEI) / 1_000n, price("3200")), sale, 100), false);
});

test("a cost of exactly the share is not over it; one wei more is", () => {
  const sale = usdOfUnits(4n, { decimals: 6, priceUsd: price("1") });
  const wei = 2_000_000_000_000n;
  assert.equal(isOverShare(usdOfWei(wei, price("1")), sale, 50), false);
  assert.equal(isOverShare(usdOfWei(wei + 1n, price("1")), sale, 50), true);
});

const amount = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n });
const prices = fc.bigInt({ min: 1n, max: 10n ** 19n });
const decimals = fc.nat(36);
const percent = fc.integer({ min: 1, max: 10_000 });

test("property: the comparison is that of exact fractions, for every amount, price and number of places", () => {
  fc.assert(
    fc.property(amount, amount, prices, prices, decimals, percent, (wei, units, coin, token, places, share) => {
      // cost / 10^30 > share/100 * sale / 10^(12 + places), with both sides multiplied out
      const exact = wei * coin * 100n * 10n ** BigInt(12 + places) > units * token * BigInt(share) * 10n ** 30n;
      const cost = usdOfWei(wei, coin);
      const sale = usdOfUnits(units, { decimals: places, priceUsd: token });
      assert.equal(isOverShare(cost, sale, share), exact);
    }),
  );
});

test("property: a dearer fee, a dearer coin or a smaller sale never makes a settlement pay", () => {
  fc.assert(
    fc.property(amount, amount, prices, prices, decimals, percent, (wei, units, coin, token, places, share) => {
      const of = (w: bigint, c: bigint, u: bigint): boolean =>
        isOverShare(usdOfWei(w, c), usdOfUnits(u, { decimals: places, priceUsd: token }), share);
      if (!of(wei, coin, units)) return;
      assert.equal(of(wei + 1n, coin, units), true);
      assert.equal(of(wei, coin + 1n, units), true);
      assert.equal(of(wei, coin, units > 0n ? units - 1n : 0n), true);
    }),
  );
});

test("property: the sum of a batch is the sum of its sales, in whatever order and with tokens of other places", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(amount, prices, decimals), { maxLength: 50 }), (sales) => {
      const each = sales.map(([units, priceUsd, places]) => usdOfUnits(units, { decimals: places, priceUsd }));
      const sum = (all: readonly bigint[]): bigint => all.reduce((a, b) => a + b, 0n);
      assert.equal(sum(each), sum([...each].reverse()));
      for (const [at, [units, priceUsd, places]] of sales.entries()) {
        assert.equal(each[at], (units * priceUsd * 10n ** 36n) / 10n ** BigInt(places));
      }
    }),
  );
});
