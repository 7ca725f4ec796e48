import assert from "node:assert/strict";
import { test } from "node:test";
import { Deadlines, noMetrics } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import type { GoodAnswer } from "../answer.ts";
import { ChainView } from "../chain-view/chain-view.ts";
import type { AttemptHandle } from "./exchange.ts";
import type { FoundAnswer } from "./found.ts";
import type { Job } from "./job.ts";
import { type PursuitTools, pursue } from "./pursuit.ts";
import type { AttemptResult, Target } from "./target.ts";

const set = {
  service: { id: "eth" },
  config: { maxAttempts: 3, timeoutMs: 10_000 },
  memory: { view: new ChainView() },
};

const job = (): Job =>
  ({
    set,
    call: { id: "1", operation: "eth_getBalance" },
    isOnce: false,
    isFree: true,
    signal: undefined,
    deadlineMs: 10_000,
  }) as unknown as Job;

const good = (): AttemptResult => ({
  kind: "good",
  status: 200,
  contentType: "application/json",
  good: {
    kind: "good",
    schemaCheck: "unchecked",
    isError: false,
    body: Buffer.from("1"),
    result: undefined,
  } satisfies GoodAnswer,
});

const behind = (operator: string, tipBlocks: number): AttemptResult => ({
  kind: "bad",
  blame: "chain",
  reason: "behind",
  stale: { operator, tipBlocks, isError: false, status: 200 } as FoundAnswer,
});

const HEDGE_MS = 50;

interface Asked {
  readonly operator: string;
  readonly handle: AttemptHandle;
  answer(result: AttemptResult): void;
}

/** Two suppliers whose answers a test gives; the second is asked beside the first after {@link HEDGE_MS}. */
function scene() {
  const asked: Asked[] = [];
  const lost: string[] = [];
  const both = Promise.withResolvers<void>();
  const clock = virtualClock();
  const tools: PursuitTools = {
    clock,
    metrics: noMetrics,
    closing: new AbortController().signal,
    deadlines: new Deadlines({ stepMs: 1 }, { clock }),
    order: () => ["a", "b"].map((operator) => ({ operator }) as Target),
    attempt: ({ operator }, _job, _shareMs, handle) => {
      const { promise, resolve } = Promise.withResolvers<AttemptResult>();
      handle.cancel = () => resolve({ kind: "bad", blame: "client", reason: "aborted" });
      asked.push({ operator, handle, answer: resolve });
      if (asked.length === 2) both.resolve();
      return promise;
    },
    lost: ({ operator }) => lost.push(operator),
    hedgeDelayMs: () => HEDGE_MS,
    takeHedge: () => true,
  };
  return { asked, lost, both: both.promise, clock, tools };
}

const operatorOf = (finding: Awaited<ReturnType<typeof pursue>>): string =>
  finding.ok ? finding.found.operator : finding.code;

test("who hangs has lost to the one who was asked later; the other way round nobody has", async () => {
  for (const winner of [0, 1]) {
    const { asked, lost, both, clock, tools } = scene();
    const finding = pursue(job(), tools);
    assert.equal(asked.length, 1);
    clock.advance(HEDGE_MS + 2);
    await both;
    asked[winner]?.answer(good());
    assert.equal(operatorOf(await finding), winner === 0 ? "a" : "b");
    assert.deepEqual(lost, winner === 1 ? ["a"] : []);
    assert.equal(asked[1 - winner]?.handle.isOver, true);
  }
});

test("when all are behind, the newest answer is given", async () => {
  for (const [first, second, given] of [
    [5, 7, "b"],
    [7, 5, "a"],
  ] as const) {
    const { asked, both, tools } = scene();
    const finding = pursue(job(), { ...tools, hedgeDelayMs: () => undefined });
    asked[0]?.answer(behind("a", first));
    await both;
    asked[1]?.answer(behind("b", second));
    assert.equal(operatorOf(await finding), given);
  }
});
