import assert from "node:assert/strict";
import { test } from "node:test";
import { nearest } from "./nearest.ts";

test("the nearest word is found, but for case and dashes, and nothing that is far", () => {
  const known = ["eth", "eth_blockNumber", "eth_getBalance"];
  assert.equal(nearest("etth", known), "eth");
  assert.equal(nearest("ETH_GET-BALANCE", known), "eth_getBalance");
  assert.equal(nearest("eth_getBalanc", known), "eth_getBalance");
  assert.equal(nearest("osmosis", known), undefined);
  assert.equal(nearest("eth", []), undefined);
  assert.equal(nearest("x".repeat(1_000_000), ["x".repeat(1_000_000)]), undefined, "what is long is not compared");
});
