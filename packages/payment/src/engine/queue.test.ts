import assert from "node:assert/strict";
import { test } from "node:test";
import { newPayer, signPayment } from "../../test/engine-fixtures.ts";
import type { PaymentRecord } from "../types.ts";
import { MAX_BATCH_BYTES, type QueueItem, SettleQueue } from "./queue.ts";

const payer = newPayer();
async function item(bytes: number, kind: PaymentRecord["kind"] = "eoa"): Promise<QueueItem> {
  const payment = { ...(await signPayment(payer)), id: "stl_x" as PaymentRecord["id"], kind };
  const answer = { contentType: "application/json", body: new Uint8Array(bytes) };
  return { payment, answer, queuedAtMs: 0, alone: kind !== "eoa", commit: () => undefined, reject: () => undefined };
}

test("a batch ends at its number of payments, or at its bytes", async () => {
  const queue = new SettleQueue();
  const small = await Promise.all(Array.from({ length: 5 }, () => item(10)));
  for (const one of small) queue.push(one);
  assert.equal(queue.takeable(10), 5);
  assert.equal(queue.takeable(3), 3);
  assert.deepEqual(queue.take(3), small.slice(0, 3));

  const half = await item(MAX_BATCH_BYTES / 2);
  for (const one of [half, await item(MAX_BATCH_BYTES / 2), await item(10)]) queue.push(one);
  assert.equal(queue.takeable(10), 10, "no more fits");
  assert.equal(queue.take(10).length, 3);
  assert.equal(queue.take(10).length, 2);
  assert.equal(queue.size, 0);
});

test("an answer larger than a batch goes by itself", async () => {
  const queue = new SettleQueue();
  const [large, next] = [await item(MAX_BATCH_BYTES + 1), await item(1)];
  queue.push(large);
  queue.push(next);
  assert.equal(queue.takeable(10), 10);
  assert.deepEqual(queue.take(10), [large]);
  assert.deepEqual(queue.take(10), [next]);
});

test("payments behind wallets that may not go yet go first", async () => {
  const queue = new SettleQueue();
  const [wallet, first, second] = [await item(1, "erc1271"), await item(1), await item(1)];
  for (const one of [{ ...wallet, queuedAtMs: 1 }, { ...first, queuedAtMs: 2 }, second]) queue.push(one);
  assert.deepEqual([queue.oldestMs(), queue.oldestMs(false)], [1, 2]);
  assert.deepEqual([queue.takeable(10), queue.takeable(10, false)], [10, 2]);
  assert.equal(queue.take(10, false).length, 2);
  assert.deepEqual([queue.oldestMs(false), queue.takeable(10, false), queue.take(10, false).length], [undefined, 0, 0]);
  assert.equal(queue.take(10)[0]?.payment, wallet.payment);
});
