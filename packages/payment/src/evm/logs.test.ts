import assert from "node:assert/strict";
import { test } from "node:test";
import type { Hex } from "./abi.ts";
import {
  addressToTopic,
  decodeLogs,
  type EvmLog,
  findEvidence,
  matchEvidence,
  TOPIC_AUTHORIZATION_CANCELED,
  TOPIC_AUTHORIZATION_USED,
  TOPIC_TRANSFER,
} from "./logs.ts";

const asset: Hex = `0x${"aA".repeat(20)}`;
const from: Hex = `0x${"bB".repeat(20)}`;
const to: Hex = `0x${"cC".repeat(20)}`;
const nonce = (n: number): Hex => `0x${n.toString(16).padStart(64, "0")}`;
const wanted = { asset, from, to, value: 5_000n, nonce: nonce(1) };

const transfer = (value = 5_000n, sender = from, receiver = to, token = asset): EvmLog => ({
  address: token.toLowerCase() as Hex,
  topics: [TOPIC_TRANSFER, addressToTopic(sender), addressToTopic(receiver)],
  data: `0x${value.toString(16).padStart(64, "0")}`,
});
const used = (n = 1, sender = from, token = asset, topic = TOPIC_AUTHORIZATION_USED): EvmLog => ({
  address: token.toLowerCase() as Hex,
  topics: [topic, addressToTopic(sender), nonce(n)],
  data: "0x",
});

test("evidence is both events, of the asset, for this payment", () => {
  assert.equal(findEvidence([used(), transfer()], wanted), true);
  assert.equal(findEvidence([transfer(), used()], wanted), true);
  for (const logs of [
    [],
    [used()],
    [transfer()],
    [used(2), transfer()],
    [used(1, to), transfer()],
    [used(1, from, to), transfer()],
    [used(1, from, asset, TOPIC_AUTHORIZATION_CANCELED), transfer()],
    [used(), transfer(4_999n)],
    [used(), transfer(5_000n, to)],
    [used(), transfer(5_000n, from, from)],
    [used(), transfer(5_000n, from, to, to)],
    [used(), { ...transfer(), data: "0x" as Hex }],
    [used(), { ...transfer(), topics: [...transfer().topics, nonce(1)] }],
  ]) {
    assert.equal(findEvidence(logs, wanted), false);
  }
});

test("one transfer is not evidence for two payments of a batch", () => {
  const both = [wanted, { ...wanted, nonce: nonce(2) }];
  assert.deepEqual(matchEvidence([used(1), used(2), transfer()], both), [true, false]);
  assert.deepEqual(matchEvidence([used(1), transfer(), used(2), transfer()], both), [true, true]);
  assert.deepEqual(matchEvidence([used(2), transfer()], both), [false, true]);
});

test("logs are read strictly, and removed ones are left out", () => {
  const raw = { address: asset, topics: [TOPIC_TRANSFER], data: "0x", removed: false };
  assert.equal(decodeLogs([raw])?.length, 1);
  assert.equal(decodeLogs([raw])?.[0]?.address, asset.toLowerCase());
  assert.deepEqual(decodeLogs([{ ...raw, removed: true }]), []);
  for (const odd of [null, {}, [1], [{ ...raw, topics: 1 }], [{ ...raw, data: "0x1" }], [{ ...raw, address: null }]]) {
    assert.equal(decodeLogs(odd), undefined);
  }
});
