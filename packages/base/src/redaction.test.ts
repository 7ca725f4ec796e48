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
    ["https://me:se/cr?e#t@gw.example/v1", "https://(password)@gw.example/v1"],
    ["https://me:pa/ss@gw.example", "https://(password)@gw.example"],
    ["https://me:p#w@gw.example", "https://(password)@gw.example"],
    ["https://me:p?w@gw.example", "https://(password)@gw.example"],
    ["https:\\\\me:secret@gw.example", "https://(password)@gw.example"],
    [" https://me:secret\n@gw.example", "https://(password)@gw.example"],
    ["https:/me:secret@gw.example", "(password)@gw.example"],
    ["https:me:secret@gw.example", "(password)@gw.example"],
    ["me:hunter2@gw.example", "(password)@gw.example"],
    ["me:hu//nter2@gw.example", "(password)@gw.example"],
    ["me:hu@nter2@gw.example", "(password)@gw.example"],
    ["me@example.com:hunter2@gw.example", "(password)@gw.example"],
    ["//me:secret@gw.example", "//(password)@gw.example"],
    // A password may have a slash: what stands before the last @ is one.
    ["https://gw.example/@me", "https://(password)@me"],
    ["https://gw.example/v1", "https://gw.example/v1"],
    ["/home/me@example/buyer.key", "/home/me@example/buyer.key"],
    ["/home/me/buyer.key", "/home/me/buyer.key"],
    ["a\u001b[2J\nb", "a\\u001b[2J b"],
  ] as const) {
    assert.equal(redacted(text), shown);
  }
});
