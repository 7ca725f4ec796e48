import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { eventually, virtualClock } from "@turnpike/testkit";
import { BatchThreads, type BatchThreadsOptions } from "./batch-threads.ts";
import { silentLog } from "./log.ts";

const script = (code: string): URL =>
  new URL(
    `data:text/javascript,${encodeURIComponent(`
      import { parentPort, threadId } from "node:worker_threads";
      const notices = [];
      // Before all else: what is closed ends.
      parentPort.on("message", (m) => "close" in m && process.exit());
      const answer = (id, bytes) => parentPort.postMessage({ id, results: Uint8Array.from(bytes) });
      ${code}`)}`,
  );
/** Answers each job, a byte, with itself; 255 ends the thread. */
const ECHO = script(`parentPort.on("message", (m) => {
  if ("notice" in m) return notices.push(m.notice);
  if (m.jobs.includes(255)) process.exit(1);
  answer(m.id, m.jobs);
});`);
/** Answers each job with the last notice. */
const NOTICE = script(`parentPort.on("message", (m) => {
  if ("notice" in m) return notices.push(m.notice);
  if (m.jobs.includes(255)) process.exit(1);
  answer(m.id, m.jobs.map(() => notices.at(-1) ?? 0));
});`);
/** Answers nothing. */
const SILENT = script("");
/** Answers nothing, and does not end when it is asked to. */
const STUCK = new URL(
  `data:text/javascript,${encodeURIComponent('import { parentPort } from "node:worker_threads"; parentPort.on("message", () => {});')}`,
);

function make(opts: Partial<BatchThreadsOptions>) {
  const clock = virtualClock();
  const batches: number[] = [];
  const queue: number[] = [];
  let exits = 0;
  const threads = new BatchThreads<number, number>(
    { name: "test", script: ECHO, threads: 1, maxQueued: 100, maxBatch: 8, minBatch: 1, restartMs: 0, ...opts },
    {
      pack(jobs) {
        batches.push(jobs.length);
        return Uint8Array.from(jobs);
      },
      unpack: (results) => [...results],
      log: silentLog,
      clock,
      queued: (jobs) => void queue.push(jobs),
      exited: () => void exits++,
    },
  );
  return {
    threads,
    clock,
    batches,
    queue,
    exits: () => exits,
    all: (jobs: readonly number[]) => Promise.all(jobs.map((job) => threads.run(job))),
  };
}
const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const values = (jobs: readonly number[]) => jobs.map((value) => ({ ok: true, value }));

suite("batch threads", () => {
  test("every job has its own result, many in a message, never more than a batch", async () => {
    const { threads, all, batches, queue } = make({ threads: 2 });
    await using _ = threads;
    assert.deepEqual(await all(numbers(50)), values(numbers(50)));
    assert.ok(batches.every((size) => size <= 8));
    assert.ok(batches.length >= 7 && batches.length < 50);
    assert.equal(queue.at(-1), 0);
    assert.deepEqual(await threads.run(7), { ok: true, value: 7 });
  });

  test("jobs beyond the queue are refused at once, and the queue is free again afterwards", async () => {
    const { threads, all } = make({ maxQueued: 10 });
    await using _ = threads;
    const results = await all(numbers(15));
    assert.deepEqual(results.slice(0, 10), values(numbers(10)));
    assert.ok(results.slice(10).every((result) => !result.ok && result.fault === "overloaded"));
    assert.deepEqual(await all(numbers(10)), values(numbers(10)));
  });

  test("attack: a thread that dies fails what it had; what waited is done by the one that replaces it", async () => {
    const { threads, all, exits } = make({ maxBatch: 4, restartMs: -1 });
    await using _ = threads;
    // Two messages are with the thread, the rest waits here.
    const results = await all([1, 255, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert.ok(results.slice(0, 4).every((result) => !result.ok && result.fault === "lost"));
    assert.deepEqual(results.slice(8), values([9, 10]));
    assert.equal(exits(), 1);
    assert.deepEqual(await all([1, 2]), values([1, 2]));
  });

  test("attack: a thread that dies again and again is started after a pause, and until then jobs are lost at once", async () => {
    const { threads, exits } = make({ restartMs: 1e9 });
    await using _ = threads;
    assert.deepEqual(await threads.run(255), { ok: false, fault: "lost" });
    assert.deepEqual(await threads.run(1), { ok: false, fault: "lost" });
    assert.equal(exits(), 1);
  });

  test("attack: a thread that does not answer is replaced, its jobs are late, and their places free", async () => {
    const { threads, clock, exits } = make({ script: SILENT, timeoutMs: 2_000, maxQueued: 2 });
    await using _ = threads;
    const first = threads.run(1);
    const second = threads.run(2);
    assert.deepEqual(await threads.run(3), { ok: false, fault: "overloaded" });
    // The jobs are with the thread before their time is over.
    await new Promise(setImmediate);
    clock.advance(10_000);
    assert.deepEqual(await Promise.all([first, second]), [
      { ok: false, fault: "late" },
      { ok: false, fault: "late" },
    ]);
    await eventually("the thread is replaced", () => exits() === 1);
    const third = threads.run(3);
    await new Promise(setImmediate);
    clock.advance(10_000);
    assert.deepEqual(await third, { ok: false, fault: "late" });
  });

  test("a notice comes before the jobs behind it, again after a restart, and no more when its handle is disposed", async () => {
    // One thread, so that what answers after a loss is the one that was started again.
    const { threads, all } = make({ script: NOTICE, threads: 1, maxBatch: 1 });
    await using _ = threads;
    const lost = [{ ok: false, fault: "lost" }];
    const restarted = () => eventually("the thread is started again", async () => (await threads.run(1)).ok);
    const handle = threads.retain(5, 9);
    assert.deepEqual(await all(numbers(6)), values(numbers(6).map(() => 5)));
    assert.deepEqual(await all([255]), lost);
    await restarted();
    assert.deepEqual(await all(numbers(6)), values(numbers(6).map(() => 5)));
    handle[Symbol.dispose]();
    assert.deepEqual(await all(numbers(6)), values(numbers(6).map(() => 9)));
    handle[Symbol.dispose]();
    assert.deepEqual(await all([255]), lost);
    await restarted();
    assert.deepEqual(await all(numbers(6)), values(numbers(6).map(() => 0)));
  });

  test("attack: threads that neither answer nor end are replaced so many times only, and closing does not wait for them", async () => {
    const { threads, clock, exits } = make({ script: STUCK, timeoutMs: 2_000, closeMs: 3_000 });
    for (let round = 1; round <= 3; round++) {
      const job = threads.run(1);
      await new Promise(setImmediate);
      clock.advance(10_000);
      // The third finds no thread: one is stuck, and so is its only replacement.
      assert.deepEqual(await job, { ok: false, fault: round < 3 ? "late" : "lost" });
      await eventually("the thread is given up", () => exits() === Math.min(round, 2));
    }
    const closing = threads[Symbol.asyncDispose]();
    clock.advance(10_000);
    await closing;
  });

  test("jobs end with the threads: none hangs, none is begun", async () => {
    const { threads, all } = make({ script: SILENT, timeoutMs: 2_000 });
    const running = all(numbers(30));
    await threads[Symbol.asyncDispose]();
    assert.ok((await running).every((result) => !result.ok && result.fault === "closed"));
    assert.deepEqual(await threads.run(1), { ok: false, fault: "closed" });
  });
});
