import assert from "node:assert/strict";
import { suite, type TestContext, test } from "node:test";
import { WriteBufferBudget } from "@turnpike/base";
import type { WebSocket } from "ws";
import { SocketOutbox } from "./socket-outbox.ts";

const TIMEOUT_MS = 10_000;
const LARGE = "x".repeat(100_000);

/** An outbox whose socket writes when the test says so. */
function rig(t: TestContext, maxBytes = 1_000_000) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let nowMs = 0;
  let slow = 0;
  const writes: (() => void)[] = [];
  const budget = new WriteBufferBudget(() => maxBytes);
  const socket = { send: (_: unknown, onWritten: () => void) => void writes.push(onWritten) };
  const outbox = new SocketOutbox(TIMEOUT_MS, {
    socket: socket as unknown as WebSocket,
    reader: { client: "a", connection: socket, close: () => outbox.close() },
    writeBuffer: budget,
    clock: { monotonicMs: () => nowMs },
    onSlow: () => slow++,
  });
  return {
    outbox,
    budget,
    writes,
    isSlow: () => slow > 0,
    pass: (ms: number) => {
      nowMs += ms;
      t.mock.timers.tick(ms);
    },
  };
}

suite("messages to a WebSocket client", () => {
  test("attack: one that reads a message just in time each time is too slow for those behind it", (t: TestContext) => {
    const { outbox, writes, isSlow, pass } = rig(t, 10_000_000);
    for (let at = 0; at < 5; at++) assert.ok(outbox.send(LARGE));
    assert.equal(writes.length, 1, "frames are created in turn");
    pass(TIMEOUT_MS - 1);
    writes.shift()?.();
    assert.ok(!isSlow());
    pass(1);
    assert.ok(isSlow(), "the second was sent at the same time");
  });

  test("one that reads each in time stays, and all bytes are released", async (t: TestContext) => {
    const { outbox, budget, writes, isSlow, pass } = rig(t, 10_000_000);
    for (let at = 0; at < 5; at++) {
      assert.ok(outbox.send(LARGE));
      assert.ok(outbox.send("small"));
      pass(TIMEOUT_MS - 1);
      let isDrained = false;
      const drained = outbox.drained(10).then(() => {
        isDrained = true;
      });
      assert.equal(writes.length, 1);
      writes.shift()?.();
      await drained;
      assert.ok(isDrained);
      writes.shift()?.();
    }
    pass(TIMEOUT_MS);
    assert.ok(!isSlow());
    assert.equal(budget.bytes, 0);
  });

  test("of which one has no room are not sent; the end releases all", (t: TestContext) => {
    const { outbox, budget, writes } = rig(t);
    assert.ok(outbox.send(LARGE));
    assert.ok(outbox.send(LARGE));
    assert.equal(outbox.send(LARGE), false, "beyond a quarter");
    assert.equal(budget.bytes, 200_000);
    outbox.close();
    assert.equal(budget.bytes, 0);
    for (const write of writes) write();
    assert.equal(writes.length, 1);
    assert.ok(outbox.send(LARGE), "nothing is done after the end");
  });
});
