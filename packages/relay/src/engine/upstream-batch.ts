import { AppError, type Clock } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import type { AttemptResult, FailedAttempt, UpstreamAnswer, UpstreamOutcome } from "../answers/upstream-answer.ts";
import type { FailureReason } from "../families/family.ts";
import { takeNext } from "../quality/selection.ts";
import { retryAfterMsOf, type TransportFailure, type UpstreamResponse } from "../transport/transport.ts";
import { joinBatch, readBatch } from "./batch-codec.ts";
import type { Job } from "./job.ts";
import { callFailureCode, type Tally } from "./retrying-request.ts";
import type { Target, TargetRequest } from "./target.ts";

/** A call's attempt within a batch: who was asked, and the answer that the client may get as a last resort. */
export interface EarlierAttempt {
  readonly operator: string;
  readonly fallback: UpstreamAnswer | undefined;
}

export interface BatchTools {
  /** Longest time for one attempt. */
  readonly timeoutMs: number;
  readonly maxAttempts: number;
  readonly clock: Clock;
  mayBatch(job: Job): boolean;
  /** True when nothing new may be begun. */
  ended(): boolean;
  /** The signal that says why. */
  closing(): AbortSignal | undefined;
  /** Suppliers for a job like this, the best first. */
  order(job: Job): Target[];
  /** Asks for one call by itself; for the first time, or again after a batch. */
  single(job: Job, purpose: "client" | "retry", before?: EarlierAttempt): Promise<UpstreamOutcome>;
  verify(target: Target, timeoutMs: number): Promise<FailedAttempt | "wrong_chain" | undefined>;
  send(
    target: Target,
    call: BackendCall,
    request: Pick<TargetRequest, "purpose" | "body" | "timeoutMs" | "scale">,
  ): Promise<UpstreamResponse | TransportFailure>;
  /** Holds a good answer against what is known of the chain. */
  check(target: Target, job: Job, answer: UpstreamAnswer): AttemptResult;
  record(target: Target, call: BackendCall, startMs: number, result: AttemptResult): void;
}

/** Calls of one upstream batch. More become several batches. */
const MAX_UPSTREAM_ITEMS = 250;
/** Calls of one client's batch that are in flight by themselves at once. */
const MAX_SINGLES = 16;
/** The answer to a batch may be so many times larger than that to one call. */
const MAX_SCALE = 8;

type Slots = (UpstreamOutcome | undefined)[];
type Indexed = readonly [index: number, job: Job];
type AskSingle = (item: Indexed, purpose: "client" | "retry", before?: EarlierAttempt) => Promise<void>;

/** Runs at most `width` tasks at once. */
function createLimiter(width: number): (task: () => Promise<void>) => Promise<void> {
  const waiting: (() => void)[] = [];
  let active = 0;
  return async (task) => {
    if (active >= width) await new Promise<void>((resolve) => waiting.push(resolve));
    active++;
    try {
      await task();
    } finally {
      active--;
      waiting.shift()?.();
    }
  };
}

/**
 * Sends the calls of a client's batch. Reads of one RPC type go upstream together; filter calls, and what may write, go by
 * themselves. What a supplier leaves out or gets wrong is sent to another, call by call.
 */
export async function sendUpstreamBatches(jobs: readonly Job[], tools: BatchTools): Promise<UpstreamOutcome[]> {
  const results: Slots = Array.from({ length: jobs.length });
  const groups = new Map<string, Indexed[]>();
  const alone: Indexed[] = [];
  let index = -1;
  for (const job of jobs) {
    index++;
    const { rpcType } = job.call;
    if (!tools.mayBatch(job)) alone.push([index, job]);
    else {
      const group = groups.get(rpcType);
      if (group === undefined) groups.set(rpcType, [[index, job]]);
      else group.push([index, job]);
    }
  }
  const limit = createLimiter(MAX_SINGLES);
  const single: AskSingle = ([index, job], purpose, before) =>
    limit(async () => {
      results[index] = await tools.single(job, purpose, before);
    });
  const work: Promise<void>[] = [];
  for (const group of groups.values()) {
    if (group.length === 1) alone.push(...group);
    else {
      for (let from = 0; from < group.length; from += MAX_UPSTREAM_ITEMS) {
        work.push(relayTogether(group.slice(from, from + MAX_UPSTREAM_ITEMS), results, tools, single));
      }
    }
  }
  for (const item of alone) work.push(single(item, "client"));
  await Promise.all(work);
  return results.map((result) => result ?? { ok: false, code: "INTERNAL", attempts: 0 });
}

async function relayTogether(
  items: readonly Indexed[],
  results: Slots,
  tools: BatchTools,
  single: AskSingle,
): Promise<void> {
  const { clock } = tools;
  const [first] = items;
  if (first === undefined) return;
  const [, firstJob] = first;
  const { deadlineMs, call } = firstJob;
  const joined = joinBatch(items.map(([, item]) => item.call));
  const ordered = tools.order(firstJob).filter((target) => target.takesBatch(items.length));
  const all = [...ordered];
  const asked = new Set<string>();
  const tally: Tally = { attempts: 0, failures: [] };
  const failed = (target: Target, startMs: number, result: FailedAttempt): void => {
    tally.failures.push(result);
    tools.record(target, call, startMs, result);
  };
  let isRefused = ordered.length === 0;
  for (let rounds = 0; !isRefused && tally.attempts < tools.maxAttempts && !tools.ended(); ) {
    const startMs = clock.monotonicMs();
    if (startMs >= deadlineMs) break;
    if (ordered.length === 0) {
      // A kept connection may have been closed as the batch was sent: one more round.
      if (rounds++ > 0 || tally.failures.at(-1)?.reason !== "connection") break;
      asked.clear();
      ordered.push(...all);
    }
    const target = takeNext(ordered, asked);
    if (target === undefined) break;
    asked.add(target.operator);
    // Half of what is left stays for those who are asked after this one, or for each call by itself.
    const shareMs = Math.min(tools.timeoutMs, (deadlineMs - startMs) / 2);
    const unverified = await tools.verify(target, shareMs);
    if (unverified === "wrong_chain") continue;
    const purpose = tally.attempts === 0 ? "client" : "retry";
    tally.attempts++;
    if (unverified !== undefined) {
      failed(target, startMs, unverified);
      continue;
    }
    const timeoutMs = shareMs - (clock.monotonicMs() - startMs);
    const scale = Math.min(MAX_SCALE, items.length);
    const response = await tools.send(target, call, { purpose, body: joined.body, timeoutMs, scale });
    if (!response.ok) {
      failed(target, startMs, response);
      // One slow call makes all of them late, whatever supplier is asked.
      if (response.reason === "overloaded" || response.reason === "timeout") break;
      continue;
    }
    if (response.stream !== undefined) throw new AppError("INTERNAL", { message: "A batch was streamed." });
    const pauseMs = retryAfterMsOf(response);
    if (pauseMs !== undefined) target.quality.pause(clock.monotonicMs(), pauseMs);
    const read = readBatch(target.family, joined, response, target.operator);
    if (read.kind === "refused") {
      if (!read.isForBytes) target.refusedBatch(items.length);
      isRefused = true;
    } else if (read.kind === "failed") failed(target, startMs, read.failure);
    else {
      await finish(items, read.answers, { target, startMs, results, tools, single });
      return;
    }
  }
  const hasTime = !tools.ended() && clock.monotonicMs() < deadlineMs;
  if (isRefused || (hasTime && tally.failures.some(({ reason }) => mayBeOneCalls(reason)))) {
    await Promise.all(items.map((item) => single(item, tally.attempts === 0 ? "client" : "retry")));
    return;
  }
  const code = callFailureCode(tally, clock.monotonicMs() >= deadlineMs, tools.closing());
  for (const [index] of items) results[index] = { ok: false, code, attempts: tally.attempts };
}

/** True for a failure of a whole batch that one of its calls may have caused: each by itself may fare better. */
function mayBeOneCalls(reason: FailureReason): boolean {
  return reason === "timeout" || reason === "http_status" || reason === "not_json" || reason === "empty";
}

interface Finishing {
  readonly target: Target;
  readonly startMs: number;
  readonly results: Slots;
  readonly tools: BatchTools;
  readonly single: AskSingle;
}

/** Takes the good answers, and asks others for the rest. One batch is one signal about its supplier. */
async function finish(
  items: readonly Indexed[],
  answers: readonly (AttemptResult | undefined)[],
  { target, startMs, results, tools, single }: Finishing,
): Promise<void> {
  const { operator } = target;
  const again: Promise<void>[] = [];
  let signal: AttemptResult | undefined;
  let signalCall: BackendCall | undefined;
  let at = 0;
  for (const item of items) {
    const [index, job] = item;
    const { call } = job;
    const given = answers[at++];
    const result = given?.ok === true ? tools.check(target, job, given) : given;
    if (result?.ok === true) {
      results[index] = result;
      if (signal?.ok !== false) [signal, signalCall] = [result, call];
      continue;
    }
    if (result !== undefined && (signal?.ok !== false || result.blame === "supplier")) {
      [signal, signalCall] = [result, call];
    }
    again.push(single(item, "retry", { operator, fallback: result?.fallback }));
  }
  if (signal !== undefined && signalCall !== undefined) {
    // Its time says nothing about how long one of its calls takes.
    const call = signal.ok ? { ...signalCall, operation: "batch" } : signalCall;
    tools.record(target, call, startMs, signal);
  }
  await Promise.all(again);
}
