import assert from "node:assert/strict";
import { test } from "node:test";
import { DEFAULT_QUALITY, Quality } from "./quality.ts";

test("three failures open the breaker; it closes by time and by good answers, and never stays open for long", () => {
  const quality = new Quality(DEFAULT_QUALITY);
  quality.failed(0);
  quality.failed(10);
  assert.equal(quality.isOpen(10), false);
  quality.failed(20);
  assert.equal(quality.isOpen(20), true);
  assert.equal(quality.isOpen(20 + DEFAULT_QUALITY.halfLifeMs), false);
  for (let i = 0; i < 1_000; i++) quality.failed(30_000);
  assert.equal(quality.isOpen(30_000 + 27_000), true);
  assert.equal(quality.isOpen(30_000 + 28_000), false);
  for (let i = 0; i < 3; i++) quality.good(30_000, 5);
  assert.equal(quality.isOpen(30_000), false);
});

test("latency is smoothed; a pause that was asked for is kept, but for a minute at most", () => {
  const quality = new Quality(DEFAULT_QUALITY);
  quality.good(0, 100);
  assert.equal(quality.latencyMs, 100);
  quality.good(1, 200);
  assert.equal(quality.latencyMs, 120);
  quality.restUntil(0, 3_600_000);
  assert.deepEqual([quality.isOpen(59_999), quality.isOpen(60_000)], [true, false]);
});

test("what it lacks is remembered for some minutes, in bounded memory", () => {
  const quality = new Quality(DEFAULT_QUALITY);
  quality.lacks("eth_config", 0);
  assert.deepEqual([quality.isLacking("eth_config", 299_999), quality.isLacking("eth_config", 300_000)], [true, false]);
  assert.equal(quality.isLacking("eth_call", 0), false);
  for (let i = 0; i < 1_000; i++) quality.lacks(`m${i}`, 0);
  assert.equal(quality.isLacking("eth_config", 0), false);
  assert.equal(quality.isLacking("m999", 0), true);
});
