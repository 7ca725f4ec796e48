import assert from "node:assert/strict";
import { test } from "node:test";
import { clientKey } from "./client-key.ts";
import { Places } from "./places.ts";

const MAX = { max: () => 64, maxEach: () => 4 };

/** Takes places until there is none; returns how many, and why there was no more. */
function takeAll(places: Places, keyOf: (at: number) => string): string {
  for (let at = 0; ; at++) {
    const place = places.acquire(keyOf(at));
    if (typeof place === "string") return `${at} ${place}`;
  }
}

test("one client has its places, and gives each back once", () => {
  const places = new Places(MAX);
  assert.equal(
    takeAll(places, () => "192.0.2.1"),
    "4 each",
  );
  const leave = places.acquire("192.0.2.2");
  assert.ok(typeof leave === "function");
  leave();
  assert.equal(
    takeAll(places, () => "192.0.2.2"),
    "4 each",
  );
  assert.equal(
    takeAll(places, (at) => `payer ${at}`),
    "56 all",
  );
});

test("attack: the 65,536 clients of one /48 have four times the places of one, and at most half of all", () => {
  const clientOf = (at: number): string => clientKey(`2001:db8:1:${at.toString(16)}::1`);
  assert.equal(takeAll(new Places(MAX), clientOf), "16 each");
  assert.equal(takeAll(new Places({ max: () => 64, maxEach: () => 16 }), clientOf), "32 each");
  assert.equal(takeAll(new Places({ max: () => 1, maxEach: () => 1 }), clientOf), "1 each");
});
