import type { Clock } from "@turnpike/base";
import type { Answering, SharedRead } from "./answering.ts";
import type { Attempts } from "./attempts.ts";
import { relayBatch } from "./batch-relay.ts";
import { checkAgainstChain } from "./chain-check.ts";
import { Flights } from "./flights.ts";
import { type Finding, withOwnId } from "./found.ts";
import type { Job } from "./job.ts";
import { mayBatch, mayHaveNews } from "./sending.ts";
import type { SupplierSet } from "./supplier-set.ts";

/** What {@link answerBatch} works with. */
export interface BatchModules {
  readonly set: SupplierSet;
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

/** A call of a batch that goes upstream, and those who wait for its answer. */
interface Sent extends Place {
  readonly resolve: ((finding: Finding) => void) | undefined;
}

/** A read, and where in the batch it is asked for again. */
interface Equals extends Place {
  readonly read: SharedRead;
  readonly others: Place[];
}

const INTERNAL: Finding = { ok: false, code: "INTERNAL", attempts: 0 };
const TOO_LARGE: Finding = { ok: false, code: "ANSWER_TOO_LARGE", attempts: 0 };

/**
 * Most bytes of one batch's answers together; a single answer that is larger has room by itself. A short batch of equal
 * calls can ask for gigabytes.
 */
export const MAX_BATCH_ANSWER_BYTES = 32 * 1_048_576;
/** An answer that is no larger costs no more than its refusal: so much there is always room for. */
export const SMALL_ANSWER_BYTES = 1_024;

/** The bytes that are left for a batch's answers. */
class Room {
  #used = 0;
  readonly #counted = new WeakSet<Finding>();
  /** Something had no room: nothing more is asked for. */
  isFull = false;

  take(bytes: number): boolean {
    if (bytes <= SMALL_ANSWER_BYTES) return true;
    if (this.#used > 0 && this.#used + bytes > MAX_BATCH_ANSWER_BYTES) {
      this.isFull = true;
      return false;
    }
    this.#used += bytes;
    return true;
  }

  /** The finding, counted once, or that there is no room for it. */
  fit(finding: Finding): Finding {
    if (!finding.ok) return finding;
    const { length } = finding.found.body;
    if (length <= SMALL_ANSWER_BYTES || this.#counted.has(finding)) return finding;
    if (!this.take(length)) return TOO_LARGE;
    this.#counted.add(finding);
    return finding;
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
export async function answerBatch(jobs: readonly Job[], modules: BatchModules): Promise<readonly Finding[]> {
  const { answering } = modules;
  const findings: (Finding | undefined)[] = Array.from({ length: jobs.length });
  const sent: Sent[] = [];
  const joined: Promise<void>[] = [];
  let hasLeft = false;
  const room = new Room();
  const reads = jobs.map((job) => {
    if (room.refuses(job)) return TOO_LARGE;
    const read = answering.look(job);
    return read !== undefined && "ok" in read ? room.fit(read) : read;
  });
  const flights = flightsOf(reads, modules);
  const shared = new Map<string, Equals>();
  for (const [index, job] of jobs.entries()) {
    const read = reads[index];
    if (read === undefined) sent.push({ index, job, resolve: undefined });
    else if ("ok" in read) findings[index] = read;
    else {
      const equal = shared.get(read.key);
      if (equal === undefined) shared.set(read.key, { index, job, read, others: [] });
      else equal.others.push({ index, job });
    }
  }
  for (const equals of shared.values()) joined.push(join(equals));

  async function join({ index, job, read, others }: Equals): Promise<void> {
    const run = (): Promise<Finding> => {
      // Whom the other's answer does not help asks for itself: the batch has left.
      if (hasLeft) return answering.ask(job);
      const { promise, resolve } = Promise.withResolvers<Finding>();
      sent.push({ index, job, resolve });
      return promise;
    };
    const finding = await answering.share(job, read, run, flights);
    findings[index] = room.fit(finding);
    await Promise.all(others.map((other) => repeat(other, finding)));
  }

  /** Answers a call by what an equal one was answered; whether there is room is known before that is copied. */
  async function repeat({ index, job }: Place, finding: Finding): Promise<void> {
    const id = job.call.clientId ?? job.call.id;
    if (!finding.ok || id === undefined) findings[index] = room.fit(finding);
    else if (!room.take(finding.found.body.length)) findings[index] = TOO_LARGE;
    else {
      const found = withOwnId(finding.found, id);
      findings[index] = found === undefined ? room.fit(await answering.ask(job)) : { ok: true, found };
    }
  }

  hasLeft = true;
  if (sent.length > 0) {
    let answers: readonly Finding[] = [];
    try {
      answers = await send(
        sent.map(({ job }) => job),
        modules,
        room,
      );
    } finally {
      for (const [at, { index, resolve }] of sent.entries()) {
        const finding = answers[at] ?? INTERNAL;
        if (resolve === undefined) findings[index] = room.fit(finding);
        else resolve(finding);
      }
    }
  }
  await Promise.all(joined);
  return findings.map((finding) => finding ?? INTERNAL);
}

/**
 * Where the reads of a batch are in flight. An answer that comes with others is as slow as the slowest of them, so nobody
 * outside of the batch waits for it.
 */
function flightsOf(reads: readonly (Finding | SharedRead | undefined)[], { set, signal }: BatchModules): Flights {
  const begun = new Set<unknown>();
  for (const [at, read] of reads.entries()) {
    if (read === undefined) begun.add(at);
    else if (!("ok" in read) && !set.flights.has(read.key, signal)) begun.add(read.key);
  }
  return begun.size > 1 ? new Flights(set.flights) : set.flights;
}

async function send(jobs: readonly Job[], modules: BatchModules, room: Room): Promise<readonly Finding[]> {
  const { set, clock, signal, closing, attempts, answering } = modules;
  let findings: readonly Finding[] = [];
  try {
    findings = await relayBatch(jobs, {
      timeoutMs: set.config.timeoutMs,
      maxAttempts: set.config.maxAttempts,
      clock,
      mayBatch: (job) => mayBatch(job) && !answering.needsCare(job),
      ended: () => signal?.aborted === true || closing.aborted,
      closing: () => (closing.aborted ? closing : signal),
      order: (job) => set.order({ ...job, refs: undefined }).filter(({ family }) => !family.isLegacyRpc),
      async single(job, before) {
        if (room.refuses(job)) return TOO_LARGE;
        const finding = await (answering.needsCare(job)
          ? answering.ask(job)
          : answering.pursue(job, before && { asked: new Set([before.operator]), last: before.error }));
        // What is sent alone others may wait for too, who have room of their own.
        return jobs.length === 1 ? finding : room.fit(finding);
      },
      verify: (target, timeoutMs) => attempts.verify(target, timeoutMs),
      exchange: (target, call, body, timeoutMs, scale) => target.exchange(call, body, timeoutMs, signal, scale),
      check: (target, job, good) => {
        const ended = { kind: "good", good, status: 200, contentType: "application/json" } as const;
        const checked = checkAgainstChain(target, job, ended, clock.monotonicMs());
        return checked.kind === "good" ? checked.good : checked;
      },
      record: (target, call, startMs, result) => void attempts.record(target, call, startMs, result),
    });
    return findings;
  } finally {
    if (jobs.some((job, at) => mayHaveNews(job, findings[at]))) set.wrote();
  }
}
