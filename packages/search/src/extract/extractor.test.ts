import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { isAppError, type Log, silentLog } from "@turnpike/base";
import type { Extracted, Extractor } from "../types.ts";
import { type ExtractorOptions, WorkerExtractor } from "./extractor.ts";

const SCRIPT = new URL("../../test/extract/worker.ts", import.meta.url);

const TIMEOUT_MS = 60_000;

const create = (opts: Partial<ExtractorOptions> = {}, log: Log = silentLog): Extractor =>
  new WorkerExtractor({ script: SCRIPT, timeoutMs: TIMEOUT_MS, maxPageBytes: 5_242_880, ...opts }, { log });

/**
 * Lets no time pass but by `pass`, which lets it pass until a thread was ended with its page: one page's time at every
 * turn, from when its thread has said that it has begun.
 */
function holdTime(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let ended = 0;
  const log: Log = { ...silentLog, debug: () => ended++ };
  const pass = async (): Promise<void> => {
    for (const before = ended; ended === before; ) {
      t.mock.timers.tick(TIMEOUT_MS);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  // To start a thread may take as long as it does.
  return { log, pass, opts: { startMs: 1_000_000_000 } };
}

const order = (text: string) => ({
  url: "https://a.example/",
  contentType: "text/plain",
  modified: undefined,
  body: Buffer.from(text),
});

const outcome = (extracted: Extracted): string => (extracted.ok ? extracted.text : extracted.reason);

describe("extraction threads", () => {
  for (const [what, reason, opts] of [
    ["heap", "too_large", { maxHeapMb: 32 }],
    ["buffers", "too_large", { maxHeapMb: 64 }],
    ["exit", "broken", {}],
    ["throw", "broken", {}],
  ] as const) {
    it(`end with a page that does: ${what}; pages after and beside it are read`, async () => {
      await using extractor = create({ workers: 2, ...opts });
      const all = ["a", what, "b", "c"].map((text) => extractor.extract(order(text)));
      assert.deepEqual((await Promise.all(all)).map(outcome), ["a", reason, "b", "c"]);
      assert.equal(outcome(await extractor.extract(order("later"))), "later");
    });
  }

  for (const what of ["loop", "hang"]) {
    it(`end with a page that does: ${what}; pages after and beside it are read`, async (t) => {
      const { log, pass, opts } = holdTime(t);
      await using extractor = create({ workers: 2, ...opts }, log);
      const late = extractor.extract(order(what));
      const read = ["a", "b", "c"].map((text) => extractor.extract(order(text)));
      assert.deepEqual((await Promise.all(read)).map(outcome), ["a", "b", "c"]);
      await pass();
      assert.equal(outcome(await late), "timed_out");
      assert.equal(outcome(await extractor.extract(order("later"))), "later");
    });
  }

  it("refuse what is too large or empty without reading it", async () => {
    await using extractor = create({ maxPageBytes: 4 });
    assert.equal(outcome(await extractor.extract(order("12345"))), "too_large");
    assert.equal(outcome(await extractor.extract(order(""))), "empty");
    assert.equal(outcome(await extractor.extract(order("1234"))), "1234");
  });

  it("take no more than their queue holds", async (t) => {
    const { log, pass, opts } = holdTime(t);
    await using extractor = create({ workers: 1, maxQueued: 2, ...opts }, log);
    const held = [extractor.extract(order("hang")), extractor.extract(order("a")), extractor.extract(order("b"))];
    await assert.rejects(extractor.extract(order("c")), (error) => isAppError(error, "OVERLOADED"));
    await pass();
    assert.deepEqual((await Promise.all(held)).map(outcome), ["timed_out", "a", "b"]);
  });

  it("stop waiting when the caller does", async (t) => {
    const { log, pass, opts } = holdTime(t);
    await using extractor = create({ workers: 1, ...opts }, log);
    const gone = new AbortController();
    const reading = extractor.extract(order("hang"), gone.signal);
    const waiting = extractor.extract(order("a"), gone.signal);
    const other = extractor.extract(order("b"));
    gone.abort(new RangeError("enough"));
    await assert.rejects(reading, RangeError);
    await assert.rejects(waiting, RangeError);
    await pass();
    assert.equal(outcome(await other), "b");
    await assert.rejects(extractor.extract(order("c"), gone.signal), RangeError);
  });

  it("fail what is under way when they are closed", async () => {
    const extractor = create({ workers: 1 });
    const pages = [extractor.extract(order("loop")), extractor.extract(order("a"))];
    const settled = Promise.allSettled(pages);
    await extractor[Symbol.asyncDispose]();
    for (const result of await settled) {
      assert.equal(result.status, "rejected");
      assert.ok(isAppError(result.reason, "SHUTTING_DOWN"));
    }
    await assert.rejects(extractor.extract(order("b")), (error) => isAppError(error, "SHUTTING_DOWN"));
  });

  it("take the bytes of a view alone, and leave them to their owner", async () => {
    await using extractor = create();
    const whole = Buffer.from("xxwordxx");
    const view = whole.subarray(2, 6);
    assert.equal(outcome(await extractor.extract({ ...order(""), body: view })), "word");
    assert.equal(view.toString(), "word");
  });
});
