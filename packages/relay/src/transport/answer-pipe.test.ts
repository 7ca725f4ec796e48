import assert from "node:assert/strict";
import { test } from "node:test";
import { AnswerPipe } from "./answer-pipe.ts";

const rules = { afterBytes: 1, maxBytes: 1_000, timeoutMs: 60_000, head: () => undefined };

function scene() {
  const seen = { isAborted: false, isOver: false };
  const faults: string[] = [];
  const source = {
    pause() {},
    resume() {},
    abort() {
      seen.isAborted = true;
    },
  };
  const pipe = new AnswerPipe({ ...rules, malformed: () => faults.push("malformed") }, source, Buffer.from("{"), () => {
    seen.isOver = true;
  });
  return { pipe, seen, faults };
}

test("an answer that nobody reads lets its supplier go when it is left, begun or not", async () => {
  for (const isBegun of [false, true]) {
    const { pipe, seen } = scene();
    const reader = pipe[Symbol.asyncIterator]();
    pipe.push(Buffer.from('"a":1'));
    if (isBegun) assert.equal(Buffer.from((await reader.next()).value as Uint8Array).toString(), "{");
    assert.equal((await reader.return?.())?.done, true);
    await new Promise(setImmediate);
    assert.deepEqual(seen, { isAborted: true, isOver: true });
  }
});

test("an answer that has ended well aborts nothing", async () => {
  const { pipe, seen } = scene();
  pipe.push(Buffer.from('"a":1}'));
  pipe.end();
  const texts: string[] = [];
  for await (const chunk of pipe) texts.push(Buffer.from(chunk).toString());
  await new Promise(setImmediate);
  assert.equal(texts.join(""), '{"a":1}');
  assert.deepEqual(seen, { isAborted: false, isOver: true });
});

test("who reads too slowly is cut off, also when the supplier has said all", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { pipe, seen } = scene();
  pipe.push(Buffer.from('"a":1}'));
  pipe.end();
  t.mock.timers.tick(rules.timeoutMs);
  await new Promise(setImmediate);
  assert.deepEqual(seen, { isAborted: false, isOver: true });
});

test("an answer that turns out not to be JSON is broken off before that part, and is its supplier's fault", async () => {
  const parts: readonly (readonly string[])[] = [
    ['"a":"b', "c\u0001", '"}'],
    ['"a":1', ",}"],
    ['"a":1', "}", "}"],
    ['"a":[', "1"],
    ['"a":"', Buffer.from([0xff]).toString("latin1"), '"}'],
  ];
  for (const chunks of parts) {
    const { pipe, faults } = scene();
    for (const chunk of chunks) pipe.push(Buffer.from(chunk, "latin1"));
    pipe.end();
    const texts: string[] = [];
    await assert.rejects(async () => {
      for await (const chunk of pipe) texts.push(Buffer.from(chunk).toString());
    });
    assert.deepEqual(faults, ["malformed"], chunks.join());
    assert.ok(!texts.join("").includes("}"), texts.join(""));
  }
});
