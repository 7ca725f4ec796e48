import type { Clock } from "@turnpike/base";
import type { Answering, SharedRead } from "./answering.ts";
import type { Attempts } from "./attempts.ts";
import { relayBatch } from "./batch-relay.ts";
import { checkAgainstChain } from "./chain-check.ts";
import { Flights } from "./flights.ts";
import type { Finding } from "./found.ts";
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

/** A call of a batch that goes upstream, and those who wait for its answer. */
interface Sent {
  readonly index: number;
  readonly job: Job;
  readonly resolve: ((finding: Finding) => void) | undefined;
}

const INTERNAL: Finding = { ok: false, code: "INTERNAL", attempts: 0 };

/**
 * Answers a client's batch: each call by what is kept, or by an equal call that is in flight or in the same batch; the
 * rest goes upstream, together where that is right. Answers stand in the order of the jobs.
 */
export async function answerBatch(jobs: readonly Job[], modules: BatchModules): Promise<readonly Finding[]> {
  const { answering } = modules;
  const findings: (Finding | undefined)[] = Array.from({ length: jobs.length });
  const sent: Sent[] = [];
  const joined: Promise<void>[] = [];
  let hasLeft = false;
  const reads = jobs.map((job) => answering.look(job));
  const flights = flightsOf(reads, modules);
  for (const [index, job] of jobs.entries()) {
    const read = reads[index];
    if (read === undefined) sent.push({ index, job, resolve: undefined });
    else if ("ok" in read) findings[index] = read;
    else joined.push(join(index, job, read));
  }

  async function join(index: number, job: Job, read: SharedRead): Promise<void> {
    const run = (): Promise<Finding> => {
      // Whom the other's answer does not help asks for itself: the batch has left.
      if (hasLeft) return answering.ask(job);
      const { promise, resolve } = Promise.withResolvers<Finding>();
      sent.push({ index, job, resolve });
      return promise;
    };
    findings[index] = await answering.share(job, read, run, flights);
  }

  hasLeft = true;
  if (sent.length > 0) {
    let answers: readonly Finding[] = [];
    try {
      answers = await send(
        sent.map(({ job }) => job),
        modules,
      );
    } finally {
      for (const [at, { index, resolve }] of sent.entries()) {
        const finding = answers[at] ?? INTERNAL;
        if (resolve === undefined) findings[index] = finding;
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
function flightsOf(reads: readonly ReturnType<Answering["look"]>[], { set, signal }: BatchModules): Flights {
  const begun = new Set<unknown>();
  for (const [at, read] of reads.entries()) {
    if (read === undefined) begun.add(at);
    else if (!("ok" in read) && !set.flights.has(read.key, signal)) begun.add(read.key);
  }
  return begun.size > 1 ? new Flights(set.flights) : set.flights;
}

async function send(jobs: readonly Job[], modules: BatchModules): Promise<readonly Finding[]> {
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
      single: (job, before) =>
        answering.needsCare(job)
          ? answering.ask(job)
          : answering.pursue(job, before && { asked: new Set([before.operator]), last: before.error }),
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
