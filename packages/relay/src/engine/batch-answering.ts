import type { Clock } from "@turnpike/base";
import { type UpstreamOutcome, withOwnId } from "../upstream-answer.ts";
import { AnswerRoom, SMALL_ANSWER_BYTES } from "./answer-room.ts";
import type { Answering, SharedRead } from "./answering.ts";
import type { Attempts } from "./attempts.ts";
import { relayBatch } from "./batch-relay.ts";
import { checkAgainstChain } from "./chain-check.ts";
import type { Job } from "./job.ts";
import { mayBatch, mayHaveNews } from "./sending.ts";
import type { ServiceContext } from "./service-context.ts";

/** What {@link answerBatch} uses. */
export interface BatchModules {
  readonly context: ServiceContext;
  readonly clock: Clock;
  readonly signal: AbortSignal | undefined;
  /** Fires when the relay ends. */
  readonly closing: AbortSignal;
  readonly attempts: Attempts;
  readonly answering: Answering;
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

/** The room for a batch's outcomes. */
class OutcomeRoom extends AnswerRoom {
  #counted: WeakSet<UpstreamOutcome> | undefined;

  /** The outcome, counted once, or that there is no room for it. */
  fit(outcome: UpstreamOutcome): UpstreamOutcome {
    if (!outcome.ok) return outcome;
    const { length } = outcome.body;
    if (length <= SMALL_ANSWER_BYTES || this.#counted?.has(outcome) === true) return outcome;
    if (!this.take(length)) return TOO_LARGE;
    this.#counted ??= new WeakSet();
    this.#counted.add(outcome);
    return outcome;
  }

  /** True for a job that is not begun any more. A write is: its client must learn what became of it. */
  refuses({ isOnce }: Job): boolean {
    return this.isFull && !isOnce;
  }
}

/**
 * Answers a client's batch: each call by what is kept, or by an equal call that is in flight or in the same batch; the
 * rest goes upstream, together where that is right. Answers stand in the order of the jobs. Those that there is no room
 * for are ANSWER_TOO_LARGE.
 */
export async function answerBatch(jobs: readonly Job[], modules: BatchModules): Promise<readonly UpstreamOutcome[]> {
  const { answering, context, signal } = modules;
  const outcomes: (UpstreamOutcome | undefined)[] = Array.from({ length: jobs.length });
  const room = new OutcomeRoom();
  const asked: Asked[] = [];
  const shared = new Map<number, Asked>();
  let notInFlight = 0;
  let index = -1;
  for (const job of jobs) {
    index++;
    const read = room.refuses(job) ? TOO_LARGE : answering.look(job);
    if (read === undefined) {
      asked.push({ index, job, read, isInFlight: false, others: undefined });
      notInFlight++;
      continue;
    }
    if ("ok" in read) {
      outcomes[index] = room.fit(read);
      continue;
    }
    const { key } = read;
    const equal = shared.get(key.hash);
    if (equal?.read?.key.text === key.text) {
      equal.others ??= [];
      equal.others.push({ index, job });
      continue;
    }
    const isInFlight = context.flights.has(key, signal);
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
    // Whom the answer that is in flight does not help asks for itself.
    const run = (): Promise<UpstreamOutcome> => (isInFlight ? answering.ask(job) : sendAlone(job));
    const wait = answering.share(job, read, run).then((outcome) => answered(one, outcome));
    // It is waited for below; until then a rejection must not count as unhandled.
    wait.catch(() => {});
    waits.push(wait);
  }

  /** Sends a read for which others may wait, too. */
  async function sendAlone(job: Job): Promise<UpstreamOutcome> {
    const [outcome = INTERNAL] = await send([job], modules, room);
    return outcome;
  }

  /** Takes an answer to its places. Gives a promise while one of them asks for itself. */
  function answered({ index, others }: Asked, outcome: UpstreamOutcome): Promise<unknown> | undefined {
    outcomes[index] = room.fit(outcome);
    if (others === undefined) return undefined;
    const again = others.flatMap((other) => repeat(other, outcome) ?? []);
    return again.length === 0 ? undefined : Promise.all(again);
  }

  /** Answers a call by what an equal one was answered; whether there is room is known before that is copied. */
  function repeat({ index, job }: Place, outcome: UpstreamOutcome): Promise<void> | undefined {
    const id = job.call.clientId ?? job.call.id;
    if (!outcome.ok || id === undefined) outcomes[index] = room.fit(outcome);
    else if (!room.take(outcome.body.length)) outcomes[index] = TOO_LARGE;
    else {
      const own = withOwnId(outcome, id);
      if (own === undefined) {
        return answering.ask(job).then((asked) => {
          outcomes[index] = room.fit(asked);
        });
      }
      outcomes[index] = own;
    }
    return undefined;
  }

  if (sent.length > 0) {
    const jobsSent = sent.map(({ job }) => job);
    const answers = await send(jobsSent, modules, room);
    let at = 0;
    for (const one of sent) {
      const outcome = answers[at++] ?? INTERNAL;
      if (one.read !== undefined) answering.keep(one.job, one.read, outcome);
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
  room: OutcomeRoom,
): Promise<readonly UpstreamOutcome[]> {
  const { context, clock, signal, closing, attempts, answering } = modules;
  let outcomes: readonly UpstreamOutcome[] = [];
  try {
    outcomes = await relayBatch(jobs, {
      timeoutMs: context.rules.timeoutMs,
      maxAttempts: context.rules.maxAttempts,
      clock,
      mayBatch: (job) => mayBatch(job) && !answering.needsCare(job),
      ended: () => signal?.aborted === true || closing.aborted,
      closing: () => (closing.aborted ? closing : signal),
      order: ({ call, filter, client }) =>
        context.order({ call, filter, client, refs: undefined }).filter(({ family }) => !family.isLegacyRpc),
      async single(job, purpose, before) {
        // What is sent alone others may wait for too, who have room of their own.
        const isShared = jobs.length === 1;
        if (!isShared && room.refuses(job)) return TOO_LARGE;
        const outcome = await (answering.needsCare(job)
          ? answering.ask(job)
          : answering.request(job, {
              purpose,
              ...(before && { asked: new Set([before.operator]), last: before.fallback }),
            }));
        return isShared ? outcome : room.fit(outcome);
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
