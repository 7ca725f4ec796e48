import assert from "node:assert/strict";
import { test } from "node:test";
import { base64ToBytes } from "@turnpike/base";
import { bytesOf, readVectors } from "../../test/vectors.ts";
import { sha256 } from "../hash.ts";
import { LAGGED_FIBONACCI_WORDS } from "./lagged-fibonacci-words.ts";
import { GoRandom, goVarint, seededFloat64 } from "./seeded.ts";

test("the 607 words are those of the vectors", () => {
  const words = readVectors<string[]>("go-math-rand-words.json");
  const bytes = Buffer.from(base64ToBytes(LAGGED_FIBONACCI_WORDS) ?? []);
  assert.equal(bytes.length, 8 * 607);
  for (const [i, word] of words.entries()) assert.equal(bytes.readBigInt64BE(i * 8), BigInt(word));
});

test("the dice fall as in all vectors", () => {
  for (const { in: input, float64, varintSeed } of readVectors<{ in: string; float64: string; varintSeed: string }[]>(
    "seeded-float64.json",
  )) {
    assert.equal(goVarint(sha256(bytesOf(input))), BigInt(varintSeed));
    assert.equal(seededFloat64(bytesOf(input)), Number(float64));
    assert.equal(seededFloat64(bytesOf(input).subarray(0, 3), bytesOf(input).subarray(3)), Number(float64));
  }
});

test("varints that do not end, or are too large, are zero, and the largest are read", () => {
  assert.equal(goVarint(new Uint8Array(32).fill(0xff)), 0n);
  assert.equal(goVarint(Uint8Array.of(...new Uint8Array(9).fill(0xff), 2)), 0n);
  assert.equal(goVarint(new Uint8Array(0)), 0n);
  assert.equal(goVarint(Uint8Array.of(0x80)), 0n);
  assert.equal(goVarint(Uint8Array.of(...new Uint8Array(9).fill(0xff), 1)), -(1n << 63n));
  assert.equal(goVarint(Uint8Array.of(0xfe, ...new Uint8Array(8).fill(0xff), 1)), (1n << 63n) - 1n);
});

test("seeds of any size and sign give numbers below one, and seed 1 gives Go's first numbers", () => {
  for (const seed of [0n, -1n, 1n << 63n, -(1n << 63n), 2n ** 31n - 1n, 89_482_311n]) {
    const value = new GoRandom(seed).float64();
    assert.ok(value >= 0 && value < 1);
  }
  assert.equal(new GoRandom(0n).int63(), new GoRandom(2n ** 31n - 1n).int63());
  const random = new GoRandom(1n);
  // What rand.Seed(1) has printed for ever.
  assert.deepEqual([random.int63(), random.int63()], [5_577_006_791_947_779_410n, 8_674_665_223_082_153_551n]);
});

test("the dice, which make two words alone, are the first number of the whole generator", () => {
  for (let i = 0; i < 300; i++) {
    const input = Buffer.from(`dice ${i}`);
    assert.equal(seededFloat64(input), new GoRandom(goVarint(sha256(input))).float64());
  }
});
