import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isAppError, silentLog } from "@turnpike/base";
import type { Extracted, Extractor } from "../types.ts";
import { createExtractor, type ExtractorOptions } from "./extractor.ts";

const SCRIPT = new URL("../../test/extract/worker.ts", import.meta.url);

const create = (opts: ExtractorOptions = {}): Extractor =>
  createExtractor({ script: SCRIPT, timeoutMs: 60_000, ...opts }, { log: silentLog });

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
    ["loop", "timed_out", { timeoutMs: 1_000 }],
    ["hang", "timed_out", { timeoutMs: 1_000 }],
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

  it("refuse what is too large or empty without reading it", async () => {
    await using extractor = create({ maxBodyBytes: 4 });
    assert.equal(outcome(await extractor.extract(order("12345"))), "too_large");
    assert.equal(outcome(await extractor.extract(order(""))), "empty");
    assert.equal(outcome(await extractor.extract(order("1234"))), "1234");
  });

  it("take no more than their queue holds", async () => {
    await using extractor = create({ workers: 1, maxQueued: 2, timeoutMs: 1_000 });
    const held = [extractor.extract(order("hang")), extractor.extract(order("a")), extractor.extract(order("b"))];
    await assert.rejects(extractor.extract(order("c")), (error) => isAppError(error, "OVERLOADED"));
    assert.deepEqual((await Promise.all(held)).map(outcome), ["timed_out", "a", "b"]);
  });

  it("stop waiting when the caller does", async () => {
    await using extractor = create({ workers: 1, timeoutMs: 1_000 });
    const gone = new AbortController();
    const reading = extractor.extract(order("hang"), gone.signal);
    const waiting = extractor.extract(order("a"), gone.signal);
    const other = extractor.extract(order("b"));
    gone.abort(new RangeError("enough"));
    await assert.rejects(reading, RangeError);
    await assert.rejects(waiting, RangeError);
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
