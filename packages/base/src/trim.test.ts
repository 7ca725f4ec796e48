import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { endsInLinearTime } from "@turnpike/testkit";
import { trimEndOf, trimFieldValue } from "./trim.ts";

suite("trim", () => {
  test("takes only the characters, at the end or at both ends", () => {
    assert.equal(trimEndOf("//a//b///", "/"), "//a//b");
    assert.equal(trimEndOf("", "/"), "");
    assert.equal(trimEndOf("///", "/"), "");
    assert.equal(trimFieldValue(" \t a \t b\t "), "a \t b");
    assert.equal(trimFieldValue("\u00a0a\n"), "\u00a0a\n");
  });

  test("long runs inside a text take time that grows with its length", () => {
    const text = `${"\t".repeat(2_000_000)}x${"\t".repeat(2_000_000)}x`;
    endsInLinearTime(() => assert.equal(trimFieldValue(text).length, 2_000_002));
  });
});
