import assert from "node:assert/strict";
import { suite, type TestContext, test } from "node:test";
import { WriteBufferBudget } from "@turnpike/base";
import type { WebSocket } from "ws";
import { RPC_BOUNDS } from "./bounds.ts";
import { SocketOutbox } from "./socket-outbox.ts";

const TIMEOUT_MS = RPC_BOUNDS.writeTimeoutMs;
const MIB = 1024 * 1024;
const LARGE = "x".repeat(100_000);

/** An outbox whose socket writes when the test says so. */
function rig(t: TestContext, maxBytes = 1_000_000) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let nowMs = 0;
  let slow = 0;
  const writes: (() => void)[] = [];
  const budget = new WriteBufferBudget(() => maxBytes);
  const frames: { readonly data: string | Buffer; readonly isLast: boolean }[] = [];
  const socket = {
    send: (data: string | Buffer, { fin = true }: { readonly fin?: boolean }, onWritten: () => void) => {
      frames.push({ data, isLast: fin });
      writes.push(onWritten);
    },
  };
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
    frames,
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

  test("one that reads a long one steadily stays, however long it takes", (t: TestContext) => {
    const { outbox, budget, writes, frames, isSlow, pass } = rig(t, 256 * MIB);
    const text = `${"é".repeat(20 * MIB)}x`;
    assert.ok(outbox.send(text));
    assert.ok(outbox.send("next"));
    let seconds = 0;
    while (writes.length > 0) {
      pass(1_000);
      seconds++;
      writes.shift()?.();
    }
    assert.ok(seconds > 40, `${seconds}`);
    assert.ok(!isSlow());
    assert.equal(budget.bytes, 0);
    const next = frames.pop();
    assert.deepEqual([next?.data, next?.isLast], ["next", true]);
    assert.equal(
      frames.findIndex(({ isLast }) => isLast),
      frames.length - 1,
    );
    assert.equal(Buffer.concat(frames.map(({ data }) => Buffer.from(data))).toString(), text);
  });

  test("attack: one that reads some of a long one just in time each time is too slow", (t: TestContext) => {
    const { outbox, writes, isSlow, pass } = rig(t, 256 * MIB);
    assert.ok(outbox.send("x".repeat(40 * MIB)));
    for (let at = 0; at < 7; at++) {
      pass(TIMEOUT_MS / 8);
      writes.shift()?.();
    }
    assert.ok(!isSlow());
    pass(TIMEOUT_MS / 8);
    assert.ok(isSlow(), "less than 8 MiB");
  });

  test("one is being read when its rate is a tenth of it a second", (t: TestContext) => {
    const { outbox, writes, pass } = rig(t, 256 * MIB);
    assert.ok(outbox.send("x".repeat(40 * MIB)));
    assert.ok(!outbox.isReading());
    for (const [fragments, isReading] of [
      [2, false],
      [5, true],
      [0, false],
    ] as const) {
      for (let second = 0; second < 3; second++) {
        pass(1_000);
        for (let at = 0; at < fragments; at++) writes.shift()?.();
      }
      assert.equal(outbox.isReading(), isReading, `${fragments}`);
    }
  });

  test("all bytes are released when a socket that closes reports later frames first", (t: TestContext) => {
    const { outbox, budget, writes } = rig(t, 256 * MIB);
    assert.ok(outbox.send("x".repeat(MIB + 1)));
    assert.ok(outbox.send(LARGE));
    writes.shift()?.();
    assert.equal(writes.length, 2, "the end of the first, and the second");
    writes.pop()?.();
    assert.equal(budget.bytes, MIB + 1);
    outbox.close();
    assert.equal(budget.bytes, 0);
  });
});
