import assert from "node:assert/strict";
import { test } from "node:test";
import { Deadlines, noMetrics } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import type { AttemptResult, UpstreamAnswer } from "../answers/upstream-answer.ts";
import { ChainView } from "../chain-view/chain-view.ts";
import type { SendHandle } from "../transport/transport.ts";
import type { Job } from "./job.ts";
import { type RetryTools, requestWithRetries } from "./retrying-request.ts";
import type { Target } from "./target.ts";

const context = {
  service: { id: "eth" },
  rules: { maxAttempts: 3, timeoutMs: 10_000 },
  memory: { view: new ChainView() },
};

const job = (): Job =>
  ({
    context,
    call: { id: "1", operation: "eth_getBalance" },
    isOnce: false,
    isFree: true,
    signal: undefined,
    deadlineMs: 10_000,
  }) as unknown as Job;

const good = (operator: string): AttemptResult => ({
  ok: true,
  status: 200,
  contentType: "application/json",
  schemaCheck: "unchecked",
  isError: false,
  operator,
  body: Buffer.from("1"),
});

const behind = (operator: string, tipBlocks: number): AttemptResult => ({
  ok: false,
  blame: "chain",
  reason: "behind",
  fallback: { ok: true, operator, tipBlocks, isError: false, status: 200, lastResort: "behind" } as UpstreamAnswer,
});

const HEDGE_MS = 50;

interface Asked {
  readonly operator: string;
  readonly handle: SendHandle;
  answer(result: AttemptResult): void;
}

/** Two suppliers whose answers a test gives; the second is asked beside the first after {@link HEDGE_MS}. */
function scene() {
  const asked: Asked[] = [];
  const lost: string[] = [];
  const oversized: string[] = [];
  const both = Promise.withResolvers<void>();
  const clock = virtualClock();
  const tools: RetryTools = {
    clock,
    metrics: noMetrics,
    closing: new AbortController().signal,
    deadlines: new Deadlines({ stepMs: 1 }, { clock }),
    order: () => ["a", "b"].map((operator) => ({ operator }) as Target),
    attempt: ({ operator }, _job, _purpose, _shareMs, handle) => {
      const { promise, resolve } = Promise.withResolvers<AttemptResult>();
      handle.cancel = () => resolve({ ok: false, blame: "client", reason: "aborted" });
      asked.push({ operator, handle, answer: resolve });
      if (asked.length === 2) both.resolve();
      return promise;
    },
    lost: ({ operator }) => lost.push(operator),
    oversized: ({ operator }) => oversized.push(operator),
    hedgeDelayMs: () => HEDGE_MS,
    acquireHedge: () => true,
  };
  return { asked, lost, oversized, both: both.promise, clock, tools };
}

const operatorOf = (outcome: Awaited<ReturnType<typeof requestWithRetries>>): string =>
  outcome.ok ? outcome.operator : outcome.code;

test("who hangs has lost to the one who was asked later; the other way round nobody has", async () => {
  for (const winner of [0, 1]) {
    const { asked, lost, both, clock, tools } = scene();
    const outcome = requestWithRetries(job(), tools);
    assert.equal(asked.length, 1);
    clock.advance(HEDGE_MS + 2);
    await both;
    asked[winner]?.answer(good(winner === 0 ? "a" : "b"));
    assert.equal(operatorOf(await outcome), winner === 0 ? "a" : "b");
    assert.deepEqual(lost, winner === 1 ? ["a"] : []);
    assert.equal(asked[1 - winner]?.handle.isOver, true);
  }
});

test("too large an answer is its supplier's fault only where another one answers within the limit", async () => {
  const tooLarge: AttemptResult = { ok: false, blame: "supplier", reason: "too_large" };
  const revert: AttemptResult = { ...(good("b") as UpstreamAnswer), isError: true };
  for (const [second, code, held] of [
    [good("b"), "b", ["a"]],
    [tooLarge, "ANSWER_TOO_LARGE", []],
    [revert, "b", []],
  ] as const) {
    const { asked, oversized, both, tools } = scene();
    const outcome = requestWithRetries(job(), { ...tools, hedgeDelayMs: () => undefined });
    asked[0]?.answer(tooLarge);
    await both;
    asked[1]?.answer(second);
    assert.equal(operatorOf(await outcome), code);
    assert.deepEqual(oversized, held);
  }
});

test("when all are behind, the newest answer is given", async () => {
  for (const [first, second, given] of [
    [5, 7, "b"],
    [7, 5, "a"],
  ] as const) {
    const { asked, both, tools } = scene();
    const outcome = requestWithRetries(job(), { ...tools, hedgeDelayMs: () => undefined });
    asked[0]?.answer(behind("a", first));
    await both;
    asked[1]?.answer(behind("b", second));
    assert.equal(operatorOf(await outcome), given);
  }
});

test("a hedge that there were no means for takes nothing from the call: its supplier is asked when the first fails", async () => {
  for (const isFirstOver of [false, true]) {
    const { asked, both, clock, tools } = scene();
    const outcome = requestWithRetries(
      { ...job(), context: { ...context, rules: { ...context.rules, maxAttempts: 2 } } } as unknown as Job,
      tools,
    );
    clock.advance(HEDGE_MS + 2);
    await both;
    const failed: AttemptResult = { ok: false, blame: "wire", reason: "connection" };
    const refused: AttemptResult = { ok: false, blame: "client", reason: "overloaded", isNotSent: true };
    asked[isFirstOver ? 0 : 1]?.answer(isFirstOver ? failed : refused);
    await new Promise(setImmediate);
    asked[isFirstOver ? 1 : 0]?.answer(isFirstOver ? refused : failed);
    await new Promise(setImmediate);
    assert.equal(asked[2]?.operator, "b");
    asked[2]?.answer(good("b"));
    assert.equal(operatorOf(await outcome), "b");
  }
});
