import assert from "node:assert/strict";
import { test } from "node:test";
import type { NetworkId } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { matchOption, paymentOption } from "./option.ts";

const network = {
  network: "eip155:84532" as NetworkId,
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  name: "USDC",
  version: "2",
  decimals: 6,
  maxTimeoutSeconds: 60,
} as const;
const option = paymentOption(network, "0.005000");
const other = paymentOption({ ...network, network: "eip155:8453" as NetworkId, name: "USD Coin" }, "0.005");
const plain = (): Record<string, unknown> => JSON.parse(JSON.stringify(option)) as Record<string, unknown>;

test("an option is the price in the token's units", () => {
  assert.deepEqual(plain(), {
    scheme: "exact",
    network: "eip155:84532",
    amount: "5000",
    asset: network.asset,
    payTo: network.payTo,
    maxTimeoutSeconds: 60,
    extra: { name: "USDC", version: "2" },
  });
  assert.equal(paymentOption({ ...network, decimals: 18 }, "0.005").amount, "5000000000000000");
  for (const price of ["0", "0.000000", "-1", "x", "0.0000001"]) {
    assert.throws(() => paymentOption(network, price), { code: "CONFIG_INVALID" });
  }
});

test("an equal option is found among several, with additions in extra alone", () => {
  assert.equal(matchOption(plain(), [other, option]), option);
  assert.equal(matchOption({ ...plain(), extra: { ...option.extra, more: [1] } }, [other, option]), option);
  assert.equal(matchOption({ ...plain(), more: 1 }, [option]), undefined);
  assert.equal(matchOption(plain(), []), undefined);
});

test("any other value of any member is another option", () => {
  for (const key of Object.keys(plain())) {
    const { [key]: _, ...without } = plain();
    assert.equal(matchOption(without, [option]), undefined, key);
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        fc.pre(JSON.stringify(value) !== JSON.stringify(plain()[key]));
        assert.equal(matchOption({ ...plain(), [key]: value }, [option]), undefined);
      }),
      { numRuns: 200 },
    );
  }
  assert.equal(matchOption({ ...plain(), asset: network.asset.toLowerCase() }, [option]), undefined);
  assert.equal(matchOption({ ...plain(), payTo: network.payTo.toLowerCase() }, [option]), undefined);
  assert.equal(matchOption({ ...plain(), maxTimeoutSeconds: "60" }, [option]), undefined);
  assert.equal(matchOption({ ...plain(), extra: { name: "USDC" } }, [option]), undefined);
  assert.equal(matchOption({ ...plain(), extra: { name: "usdc", version: "2" } }, [option]), undefined);
});

test("members of a prototype do not count", () => {
  const accepted = Object.create(plain()) as Record<string, unknown>;
  assert.equal(matchOption(accepted, [option]), undefined);
  const extra = Object.create(option.extra) as object;
  assert.equal(matchOption({ ...plain(), extra }, [option]), undefined);
});
