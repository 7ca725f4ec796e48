import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { EventLoopQueue } from "./event-loop-queue.ts";

suite("event loop queue", () => {
  test("pieces run in their order, one a turn, and faults are their own", async () => {
    const queue = new EventLoopQueue();
    const ran: number[] = [];
    const pieces = Array.from({ length: 50 }, (_, i) =>
      queue.run(() => {
        ran.push(i);
        if (i === 3) throw new TypeError("three");
        return i % 2 === 0 ? i : Promise.resolve(i);
      }),
    );
    // The first had nothing before it.
    assert.deepEqual([ran, queue.waiting], [[0], 49]);
    const others: number[] = [];
    const beside = (async () => {
      while (ran.length < 50) {
        others.push(ran.length);
        await nextTurn();
      }
    })();
    const settled = await Promise.allSettled(pieces);
    await beside;
    assert.deepEqual(
      settled.map((one) => (one.status === "fulfilled" ? one.value : "fault")),
      Array.from({ length: 50 }, (_, i) => (i === 3 ? "fault" : i)),
    );
    assert.deepEqual(
      ran,
      Array.from({ length: 50 }, (_, i) => i),
    );
    // What else there is to do came between all of them.
    assert.ok(others.length >= 45, `${others.length}`);
    assert.equal(queue.waiting, 0);
    await nextTurn();
    assert.equal(await queue.run(() => "again"), "again");
  });

  test("what waits is bounded, and room comes back", async () => {
    const queue = new EventLoopQueue({ maxWaiting: 3 });
    for (let round = 0; round < 10; round++) {
      const pieces = Array.from({ length: 10 }, (_, i) => queue.run(() => i));
      assert.deepEqual(await Promise.all(pieces), [0, 1, 2, 3, ...Array.from({ length: 6 }, () => undefined)]);
      await nextTurn();
    }
  });

  test("attack: one client's flood neither holds up another's question nor takes its room", async () => {
    const queue = new EventLoopQueue({ maxWaiting: 100 });
    const order: string[] = [];
    const ask = (client: string): Promise<string | undefined> =>
      queue.run(() => {
        order.push(client);
        return client;
      }, client);
    const flood = Array.from({ length: 500 }, () => ask("a"));
    const [first, second] = [await Promise.all([ask("b"), ask("b")]), ask("b")];
    assert.deepEqual(first, ["b", "b"]);
    assert.ok(order.length <= 6, order.join());
    assert.equal(await second, "b");
    const answers = await Promise.all(flood);
    assert.equal(answers.filter((answer) => answer === undefined).length, 401);
  });
});
