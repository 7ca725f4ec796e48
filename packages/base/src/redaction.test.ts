import assert from "node:assert/strict";
import { test } from "node:test";
import { redacted } from "./redaction.ts";

test("attack: neither a key nor a password of a URL is repeated, and what is no secret is", () => {
  const key = "1234abcd".repeat(8);
  for (const [text, shown] of [
    [`0x${key}`, "(key)"],
    [key.toUpperCase(), "(key)"],
    [`/home/me/0x${key}.key`, "/home/me/(key).key"],
    ["https://me:secret@gw.example/v1", "https://(password)@gw.example/v1"],
    ["http://me:se@cret@gw.example", "http://(password)@gw.example"],
    ["https://gw.example/@me", "https://gw.example/@me"],
    ["/home/me/buyer.key", "/home/me/buyer.key"],
    ["a\u001b[2J\nb", "a\\u001b[2J b"],
  ] as const) {
    assert.equal(redacted(text), shown);
  }
});
