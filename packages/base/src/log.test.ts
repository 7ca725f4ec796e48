import assert from "node:assert/strict";
import { test } from "node:test";
import { sameAddress } from "./brand.ts";
import { hostOf } from "./log.ts";

test("only the host of an upstream's URL is logged", () => {
  assert.equal(hostOf("https://user:secret@node.example:8545/v2/api-key?token=1"), "node.example:8545");
  assert.equal(hostOf("not a url with a key"), "invalid-url");
});

test("addresses are the same in any letter case", () => {
  assert.ok(sameAddress("0xAbCd", "0xaBcD"));
  assert.ok(!sameAddress("0xAbCd", "0xAbCe"));
});
