import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { noMetrics, type ServiceId } from "@turnpike/base";
import { ChainView } from "../chain-view/chain-view.ts";
import type { CacheRule } from "../families/method-traits.ts";
import { AnswerCache } from "./answer-cache.ts";
import { type CallKey, callKey } from "./call-key.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const clock = { nowMs: () => 0, monotonicMs: () => 0 };
const MAX_BYTES = 10 * 1_048_576;

function usedBytes(): number {
  collect();
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** Even numbers of [0, 1), the same ones in every run. */
function numbers(): () => number {
  let state = 1;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The key of a call of a client's batch, whose text it is cut out of: what is kept must not hold that text. */
function keyWithin(call: string): CallKey {
  const batch = Buffer.from(`[${call},${"9".repeat(2_048)}]`).toString("latin1");
  const bodyText = batch.slice(1, 1 + call.length);
  const idAt = { start: call.length - 2, end: call.length - 1 };
  const facts = { rpcType: "json_rpc", operation: "m", verb: "POST", path: "", id: "1", params: undefined } as const;
  const key = callKey({ ...facts, body: Buffer.from(call), idAt, bodyText });
  assert.ok(key !== undefined);
  return key;
}

for (const [name, heightBlocks, minBytes, maxBytes] of [
  ["small final answers", 5, 20, 600],
  ["answers of all sizes", 5, 20, 40_000],
  ["answers that are not final", 1_000, 500, 8_000],
] as const) {
  test(`memory stays within the budget, by a third at most: ${name}`, () => {
    const view = new ChainView();
    for (const operator of ["a", "b", "c"]) view.reported(operator, 1_000, 0);
    const cache = new AnswerCache(
      { maxBytes: MAX_BYTES, headAgeMs: 2_000, waitsForSecond: false },
      { clock, metrics: noMetrics, defer: (run) => run() },
    );
    const service = cache.open("eth" as ServiceId, view);
    const refs = [{ height: heightBlocks }];
    const rule: CacheRule = { by: "block", blocks: () => refs };
    const next = numbers();
    const before = usedBytes();
    // Chunks of many answers, as they come from a socket: what is kept must not hold them.
    let chunk = Buffer.alloc(0);
    for (let bytes = 0, round = 0; bytes < MAX_BYTES * 1.5; round++) {
      const key = keyWithin(`{"method":"m","params":["0x${round.toString(16).padStart(40, "0")}"],"id":1}`);
      const got = service.get({ key, rule, refs, id: "1" }, 0);
      assert.equal(got?.kind, "miss");
      if (got?.kind !== "miss") return;
      const text = `{"id":1,"result":"${"x".repeat(minBytes + Math.floor(next() * (maxBytes - minBytes)))}"}`;
      if (chunk.length < text.length) chunk = Buffer.alloc(65_536);
      const body = chunk.subarray(0, chunk.write(text, "latin1"));
      chunk = chunk.subarray(body.length);
      service.put(got, {
        ok: true,
        status: 200,
        contentType: "application/json",
        schemaCheck: "unchecked",
        operator: "a",
        body,
        isError: false,
      });
      bytes += body.length + key.text.length + 400;
      assert.ok(cache.bytes <= MAX_BYTES);
    }
    chunk = Buffer.alloc(0);
    const used = usedBytes() - before;
    assert.ok(cache.bytes > 0.98 * MAX_BYTES);
    const share = used / cache.bytes;
    assert.ok(share > 0.7 && share < 1.3, `${used} bytes used, ${cache.bytes} counted`);
    cache.clear();
    assert.deepEqual([cache.bytes, cache.entries], [0, 0]);
    assert.ok(usedBytes() - before < 0.1 * MAX_BYTES, "what is dropped is freed");
  });
}
