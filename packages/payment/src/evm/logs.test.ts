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

/** Numbers logs as a block does: other transactions came before. */
const numbered = (logs: readonly Omit<EvmLog, "index">[]): readonly EvmLog[] =>
  logs.map((log, at) => ({ ...log, index: 7 + at }));
type Bare = Omit<EvmLog, "index">;
const transfer = (value = 5_000n, sender = from, receiver = to, token = asset): Bare => ({
  address: token.toLowerCase() as Hex,
  topics: [TOPIC_TRANSFER, addressToTopic(sender), addressToTopic(receiver)],
  data: `0x${value.toString(16).padStart(64, "0")}`,
});
const used = (n = 1, sender = from, token = asset, topic = TOPIC_AUTHORIZATION_USED): Bare => ({
  address: token.toLowerCase() as Hex,
  topics: [topic, addressToTopic(sender), nonce(n)],
  data: "0x",
});

test("evidence is the asset's Transfer right after its use of this payment's nonce", () => {
  const other = transfer(1n, from, to, to);
  assert.equal(findEvidence(numbered([used(), transfer()]), wanted), 8);
  assert.equal(findEvidence(numbered([used(), other, transfer()]), wanted), 9, "another contract's log in between");
  assert.equal(findEvidence(numbered([used(), transfer()]).toReversed(), wanted), 8, "in the order of their indexes");
  for (const logs of [
    [transfer(), used()],
    [used(), transfer(0n, from, from), transfer()],
    [used(), used(2), transfer()],
    [used(), used(1, from, asset, TOPIC_AUTHORIZATION_CANCELED), transfer()],
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
    assert.equal(findEvidence(numbered(logs), wanted), undefined);
  }
});

test("one transfer is evidence for one payment only", () => {
  const all = [1, 2, 3].map((n) => ({ ...wanted, nonce: nonce(n) }));
  const self = transfer(0n, from, from);
  const match = (...logs: readonly Bare[]) => matchEvidence(numbered(logs), all);
  assert.deepEqual(match(used(1), used(2), transfer()), [undefined, 8 + 1, undefined]);
  assert.deepEqual(match(used(1), transfer(), used(2), transfer()), [8, 10, undefined]);
  assert.deepEqual(match(used(2), transfer()), [undefined, 8, undefined]);
  // Its nonce used as signed, and others with authorizations of the payer's own, of nothing, to itself.
  assert.deepEqual(match(used(2), self, used(1), transfer(), used(3), self), [10, undefined, undefined]);
});

test("logs are read strictly, and removed ones are left out", () => {
  const raw = { address: asset, topics: [TOPIC_TRANSFER], data: "0x", logIndex: "0x1f", removed: false };
  assert.equal(decodeLogs([raw])?.length, 1);
  assert.equal(decodeLogs([raw])?.[0]?.address, asset.toLowerCase());
  assert.equal(decodeLogs([raw])?.[0]?.index, 31);
  assert.deepEqual(decodeLogs([{ ...raw, removed: true }]), []);
  for (const odd of [
    null,
    {},
    [1],
    [{ ...raw, topics: 1 }],
    [{ ...raw, data: "0x1" }],
    [{ ...raw, address: null }],
    [{ ...raw, logIndex: 1 }],
  ]) {
    assert.equal(decodeLogs(odd), undefined);
  }
});
