import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "@turnpike/base";
import { AskQueue } from "./ask-queue.ts";

const forever = new AbortController().signal;

/** A request that lasts until it is ended, or its place is to be released early. */
function asks(queue: AskQueue) {
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  const ask = (payer: string, name: string): Promise<boolean> =>
    queue.run(payer, forever, (signal) => {
      started.push(name);
      return new Promise<boolean>((resolve) => {
        ends.set(name, () => resolve(true));
        signal.addEventListener("abort", () => resolve(false));
      });
    });
  return { started, ask, end: (name: string) => ends.get(name)?.() };
}

test("payers have a share each and are served round-robin", async () => {
  const { started, ask, end } = asks(
    new AskQueue({ maxAtOnce: 3, maxEach: 2, yieldAfterMs: 60_000 }, { clock: systemClock }),
  );
  const names = ["a1", "a2", "a3", "a4", "b1", "b2", "c1"];
  const results = names.map((name) => ask(name.slice(0, 1), name));
  assert.deepEqual(started, [], "it starts in the next turn");
  await Promise.resolve();
  assert.deepEqual(started, ["a1", "a2", "b1"]);
  const order = ["a1", "a2", "b1", "a3", "b2", "c1", "a4"];
  for (const name of order) {
    end(name);
    await new Promise(setImmediate);
  }
  assert.deepEqual(started, order, "a's fourth comes behind those of the others");
  assert.deepEqual(
    await Promise.all(results),
    names.map(() => true),
  );
});

test("attack: requests that stay open give their places up once another payer's waits", async () => {
  const { started, ask, end } = asks(
    new AskQueue({ maxAtOnce: 2, maxEach: 2, yieldAfterMs: 20 }, { clock: systemClock }),
  );
  const held = [ask("a", "a1"), ask("a", "a2")];
  const waiting = ask("b", "b1");
  assert.equal(await held[0], false, "the oldest one");
  assert.deepEqual(started, ["a1", "a2", "b1"]);
  end("b1");
  assert.equal(await waiting, true);
  end("a2");
  assert.equal(await held[1], true, "none waits for its place");
});

test("a request holds its place for a time, which bounds their rate", async () => {
  const queue = new AskQueue({ maxAtOnce: 1, maxEach: 1, yieldAfterMs: 60_000, minHoldMs: 30 }, { clock: systemClock });
  const startedMs: number[] = [];
  const ask = () => queue.run("a", forever, async () => startedMs.push(performance.now()));
  await Promise.all([ask(), ask(), ask()]);
  const [first = 0, , third = 0] = startedMs;
  assert.ok(third - first >= 58, `${third - first} ms`);
});
