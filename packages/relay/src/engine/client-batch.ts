import type { Clock } from "@turnpike/base";
import { type UpstreamOutcome, withOwnId } from "../answers/upstream-answer.ts";
import type { Attempts } from "./attempts.ts";
import { checkAgainstChain } from "./chain-check.ts";
import type { Forwarder, SharedRead } from "./forwarder.ts";
import { type Job, mayBatch, mayHaveNews } from "./job.ts";
import type { ServiceContext } from "./service-context.ts";
import { sendUpstreamBatches } from "./upstream-batch.ts";

interface BatchModules {
  readonly context: ServiceContext;
  readonly clock: Clock;
  readonly signal: AbortSignal | undefined;
  /** Fires when the relay ends. */
  readonly closing: AbortSignal;
  readonly attempts: Attempts;
  readonly forwarder: Forwarder;
}

/** A place in the batch. */
interface Place {
  readonly index: number;
  readonly job: Job;
}

/** A call that is asked for, and where in the batch an equal one is asked for again. */
interface Asked extends Place {
  /** Undefined: it is by itself. */
  readonly read: SharedRead | undefined;
  /** True where an equal call of another request is in flight. */
  readonly isInFlight: boolean;
  /** Undefined for none, as for almost all. */
  others: Place[] | undefined;
}

const INTERNAL: UpstreamOutcome = { ok: false, code: "INTERNAL", attempts: 0 };
const TOO_LARGE: UpstreamOutcome = { ok: false, code: "ANSWER_TOO_LARGE", attempts: 0 };

/**
 * Most bytes of one batch's answers together; a single answer may be larger. A short batch of equal calls can ask for
 * gigabytes.
 */
const MAX_BATCH_ANSWER_BYTES = 32 * 1_048_576;
/** An answer that is no larger costs no more than its refusal: it is always accepted. */
const SMALL_ANSWER_BYTES = 1_024;

/** Bounds the bytes of the answers to one batch. */
export class BatchBudget {
  #used = 0;
  #isFull = false;

  /** True once an answer was refused: no more calls need be sent. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** False when the answer exceeds the budget: it is then ANSWER_TOO_LARGE. */
  acquire(bytes: number): boolean {
    if (bytes <= SMALL_ANSWER_BYTES) return true;
    if (this.#used > 0 && this.#used + bytes > MAX_BATCH_ANSWER_BYTES) {
      this.#isFull = true;
      return false;
    }
    this.#used += bytes;
    return true;
  }
}

/** Counts an outcome that several calls share once. */
class OutcomeBudget extends BatchBudget {
  #counted: WeakSet<UpstreamOutcome> | undefined;

  /** The outcome, or ANSWER_TOO_LARGE. */
  fit(outcome: UpstreamOutcome): UpstreamOutcome {
    if (!outcome.ok) return outcome;
    const { length } = outcome.body;
    if (length <= SMALL_ANSWER_BYTES || this.#counted?.has(outcome) === true) return outcome;
    if (!this.acquire(length)) return TOO_LARGE;
    this.#counted ??= new WeakSet();
    this.#counted.add(outcome);
    return outcome;
  }

  /** True for a job that is not sent any more. A write always is: its client must learn its result. */
  refuses({ isOnce }: Job): boolean {
    return this.isFull && !isOnce;
  }
}

/**
 * Answers a client's batch: each call from the cache, or by an equal call in flight or in the same batch; the rest goes
 * upstream, in batches where suppliers take them. Answers stand in the order of the jobs. Those over the batch's budget are
 * ANSWER_TOO_LARGE.
 */
export async function forwardBatch(jobs: readonly Job[], modules: BatchModules): Promise<readonly UpstreamOutcome[]> {
  const { forwarder, context, signal } = modules;
  const outcomes: (UpstreamOutcome | undefined)[] = Array.from({ length: jobs.length });
  const budget = new OutcomeBudget();
  const asked: Asked[] = [];
  const shared = new Map<number, Asked>();
  let notInFlight = 0;
  let index = -1;
  for (const job of jobs) {
    index++;
    const read = budget.refuses(job) ? TOO_LARGE : forwarder.lookUp(job);
    if (read === undefined) {
      asked.push({ index, job, read, isInFlight: false, others: undefined });
      notInFlight++;
      continue;
    }
    if ("ok" in read) {
      outcomes[index] = budget.fit(read);
      continue;
    }
    const { key } = read;
    const equal = shared.get(key.hash);
    if (equal?.read?.key.text === key.text) {
      equal.others ??= [];
      equal.others.push({ index, job });
      continue;
    }
    const isInFlight = context.multiplexer.has(key, signal);
    if (!isInFlight) notInFlight++;
    const one: Asked = { index, job, read, isInFlight, others: undefined };
    asked.push(one);
    shared.set(key.hash, one);
  }
  // An answer that comes with others is as slow as the slowest of them, so no call outside of the batch waits for it.
  const isAlone = notInFlight === 1;
  const sent: Asked[] = [];
  const waits: Promise<unknown>[] = [];
  for (const one of asked) {
    const { job, read, isInFlight } = one;
    if (read === undefined || !(isAlone || isInFlight)) {
      sent.push(one);
      continue;
    }
    // A call that the answer in flight does not fit is sent by itself.
    const run = (): Promise<UpstreamOutcome> => (isInFlight ? forwarder.askSuppliers(job) : sendAlone(job));
    const wait = forwarder.multiplex(job, read, run).then((outcome) => answered(one, outcome));
    // It is waited for below; until then a rejection must not count as unhandled.
    wait.catch(() => {});
    waits.push(wait);
  }

  /** Sends a read for which others may wait, too. */
  async function sendAlone(job: Job): Promise<UpstreamOutcome> {
    const [outcome = INTERNAL] = await send([job], modules, budget);
    return outcome;
  }

  /** Puts an answer in its places. Returns a promise while one of them is sent by itself. */
  function answered({ index, others }: Asked, outcome: UpstreamOutcome): Promise<unknown> | undefined {
    outcomes[index] = budget.fit(outcome);
    if (others === undefined) return undefined;
    const again = others.flatMap((other) => repeat(other, outcome) ?? []);
    return again.length === 0 ? undefined : Promise.all(again);
  }

  /** Answers a call with an equal one's answer; the budget is checked before the copy. */
  function repeat({ index, job }: Place, outcome: UpstreamOutcome): Promise<void> | undefined {
    const id = job.call.clientId ?? job.call.id;
    if (!outcome.ok || id === undefined) outcomes[index] = budget.fit(outcome);
    else if (!budget.acquire(outcome.body.length)) outcomes[index] = TOO_LARGE;
    else {
      const own = withOwnId(outcome, id);
      if (own === undefined) {
        return forwarder.askSuppliers(job).then((asked) => {
          outcomes[index] = budget.fit(asked);
        });
      }
      outcomes[index] = own;
    }
    return undefined;
  }

  if (sent.length > 0) {
    const jobsSent = sent.map(({ job }) => job);
    const answers = await send(jobsSent, modules, budget);
    let at = 0;
    for (const one of sent) {
      const outcome = answers[at++] ?? INTERNAL;
      if (one.read !== undefined) forwarder.store(one.job, one.read, outcome);
      const again = answered(one, outcome);
      if (again !== undefined) waits.push(again);
    }
  }
  if (waits.length > 0) await Promise.all(waits);
  return outcomes.map((outcome) => outcome ?? INTERNAL);
}

async function send(
  jobs: readonly Job[],
  modules: BatchModules,
  budget: OutcomeBudget,
): Promise<readonly UpstreamOutcome[]> {
  const { context, clock, signal, closing, attempts, forwarder } = modules;
  let outcomes: readonly UpstreamOutcome[] = [];
  try {
    outcomes = await sendUpstreamBatches(jobs, {
      timeoutMs: context.rules.timeoutMs,
      maxAttempts: context.rules.maxAttempts,
      clock,
      mayBatch: (job) => mayBatch(job) && !forwarder.needsSeveralAnswers(job),
      ended: () => signal?.aborted === true || closing.aborted,
      closing: () => (closing.aborted ? closing : signal),
      order: ({ call, filter, client }) =>
        context.order({ call, filter, client, refs: undefined }).filter(({ family }) => !family.isLegacyRpc),
      async single(job, purpose, before) {
        // Other requests may wait for a call that is sent alone; each has its own budget.
        const isShared = jobs.length === 1;
        if (!isShared && budget.refuses(job)) return TOO_LARGE;
        const outcome = await (forwarder.needsSeveralAnswers(job)
          ? forwarder.askSuppliers(job)
          : forwarder.request(job, {
              purpose,
              ...(before && { asked: new Set([before.operator]), last: before.fallback }),
            }));
        return isShared ? outcome : budget.fit(outcome);
      },
      verify: (target, timeoutMs) => attempts.verify(target, timeoutMs),
      send: (target, call, request) => target.send(call, { ...request, signal }),
      check: (target, job, answer) => checkAgainstChain(target, job, answer, clock.monotonicMs()),
      record: (target, call, startMs, result) => void attempts.record(target, call, startMs, result),
    });
    return outcomes;
  } finally {
    if (jobs.some((job, at) => mayHaveNews(job, outcomes[at]))) context.wrote();
  }
}
