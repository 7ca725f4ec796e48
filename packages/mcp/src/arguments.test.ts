import assert from "node:assert/strict";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { canonical, targetOf } from "./arguments.ts";

test("attack: whatever path is taken stays below the service's own address", () => {
  const piece = fc.constantFrom(
    "..",
    ".",
    "%2e",
    "%2E%2e",
    "/",
    "\\",
    "%2f",
    "%5c",
    "?",
    "#",
    "a",
    "%",
    "%41",
    "@",
    ":",
    ";",
    "\u0000",
    "é",
  );
  let taken = 0;
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      let target: string;
      try {
        target = targetOf("eth", pieces.join(""));
      } catch (error) {
        assert.ok(isAppError(error, "BAD_PATH") && error.message.includes("nothing was signed"));
        return;
      }
      taken += 1;
      const url = new URL(`http://gateway.example/v1/${target}`);
      assert.equal(url.host, "gateway.example");
      assert.equal(url.hash, "");
      assert.ok(url.pathname === "/v1/eth" || url.pathname.startsWith("/v1/eth/"), url.href);
      // The request is the one that was written: nothing on the way makes another path of it.
      assert.equal(`${url.pathname}${url.search || (target.includes("?") ? "?" : "")}`, `/v1/${target}`);
    }),
    { numRuns: 2_000 },
  );
  assert.ok(taken > 50);
});

test("the same request in another order is the same text, and keeps its meaning", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const turned = Object.fromEntries(Object.entries(value).reverse());
      const text = JSON.stringify(canonical(value));
      assert.equal(JSON.stringify(canonical(turned)), text);
      assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
    }),
  );
});
