import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { ClientQueue } from "./client-queue.ts";

function queueOf(items: Readonly<Record<string, number>>): ClientQueue<string> {
  const queue = new ClientQueue<string>();
  for (const [client, count] of Object.entries(items))
    for (let i = 0; i < count; i++) queue.add(client, `${client}${i}`);
  return queue;
}

function takeAll(queue: ClientQueue<string>): string[] {
  const taken: string[] = [];
  for (let item = queue.take(); item !== undefined; item = queue.take()) taken.push(item);
  return taken;
}

suite("queue of clients", () => {
  test("clients have turns, each client's items their order", () => {
    const queue = queueOf({ a: 4, b: 1, c: 2 });
    assert.equal(queue.peek(), "a0");
    assert.equal(queue.take(), "a0");
    queue.add("d", "d0");
    assert.equal(queue.size, 7);
    assert.deepEqual(takeAll(queue), ["b0", "c0", "a1", "d0", "c1", "a2", "a3"]);
    assert.deepEqual([queue.size, queue.peek()], [0, undefined]);
  });

  test("a client that is alone has all of its items in their order, also many", () => {
    const queue = queueOf({ a: 3_000 });
    assert.deepEqual(
      takeAll(queue),
      Array.from({ length: 3_000 }, (_, i) => `a${i}`),
    );
  });

  test("the client with most items makes room, by its last one; among equals the one that asks", () => {
    const queue = queueOf({ a: 4, b: 1 });
    const dropped: (string | undefined)[] = [];
    for (let i = 0; i < 4; i++) {
      queue.add("c", `c${i}`);
      dropped.push(queue.dropLast("c"));
    }
    assert.deepEqual(dropped, ["a3", "a2", "c2", "c3"]);
    assert.equal(queue.size, 5);
    assert.deepEqual(takeAll(queue), ["a0", "b0", "c0", "a1", "c1"]);
    assert.equal(queueOf({}).dropLast("a"), undefined);
    const single = queueOf({ a: 1 });
    assert.deepEqual([single.dropLast("b"), single.size, single.take()], ["a0", 0, undefined]);
  });

  test("items of a client have an order of their own where the queue has one", () => {
    const queue = new ClientQueue<string>({ compare: (x, y) => x.length - y.length });
    for (const item of ["333", "1", "22", "2b", "4444"]) queue.add("a", item);
    queue.add(undefined, "55555");
    assert.equal(queue.dropLast("b"), "4444");
    assert.deepEqual(takeAll(queue), ["1", "55555", "22", "2b", "333"]);
  });

  test("clearing gives what waits", () => {
    const queue = queueOf({ a: 2, b: 1 });
    queue.take();
    assert.deepEqual(queue.clear().sort(), ["a1", "b0"]);
    assert.equal(queue.size, 0);
  });
});
