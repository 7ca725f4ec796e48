import type { Clock } from "@turnpike/base";
import { AnswerRoom, SMALL_ANSWER_BYTES } from "./answer-room.ts";
import type { Answering, SharedRead } from "./answering.ts";
import type { Attempts } from "./attempts.ts";
import { relayBatch } from "./batch-relay.ts";
import { checkAgainstChain } from "./chain-check.ts";
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

/** A call that is asked for, and where in the batch an equal one is asked for again. */
interface Asked extends Place {
  /** Undefined: it is by itself. */
  readonly read: SharedRead | undefined;
  readonly others: Place[];
}

const INTERNAL: Finding = { ok: false, code: "INTERNAL", attempts: 0 };
const TOO_LARGE: Finding = { ok: false, code: "ANSWER_TOO_LARGE", attempts: 0 };

/** The room for a batch's findings. */
class FindingRoom extends AnswerRoom {
  readonly #counted = new WeakSet<Finding>();

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
  const { answering, set, signal } = modules;
  const findings: (Finding | undefined)[] = Array.from({ length: jobs.length });
  const room = new FindingRoom();
  const asked: Asked[] = [];
  const shared = new Map<string, Asked>();
  for (const [index, job] of jobs.entries()) {
    const read = room.refuses(job) ? TOO_LARGE : answering.look(job);
    if (read !== undefined && "ok" in read) {
      findings[index] = room.fit(read);
      continue;
    }
    const equal = read === undefined ? undefined : shared.get(read.key);
    if (equal !== undefined) {
      equal.others.push({ index, job });
      continue;
    }
    const one = { index, job, read, others: [] };
    asked.push(one);
    if (read !== undefined) shared.set(read.key, one);
  }
  const isInFlight = asked.map(({ read }) => read !== undefined && set.flights.has(read.key, signal));
  // An answer that comes with others is as slow as the slowest of them, so nobody outside of the batch waits for it.
  const isAlone = isInFlight.filter((is) => !is).length === 1;
  const sent: Asked[] = [];
  const waits: Promise<unknown>[] = [];
  for (const [at, one] of asked.entries()) {
    const { job, read } = one;
    const isJoined = isInFlight[at] === true;
    if (read === undefined || !(isAlone || isJoined)) {
      sent.push(one);
      continue;
    }
    // Whom the answer that is in flight does not help asks for itself.
    const run = (): Promise<Finding> => (isJoined ? answering.ask(job) : sendAlone(job));
    const wait = answering.share(job, read, run).then((finding) => answered(one, finding));
    // It is waited for below; what goes wrong until then must not be nobody's.
    wait.catch(() => {});
    waits.push(wait);
  }

  /** Sends a read for which others may wait, too. */
  async function sendAlone(job: Job): Promise<Finding> {
    const [finding = INTERNAL] = await send([job], modules, room);
    return finding;
  }

  /** Takes an answer to its places. Gives a promise while one of them asks for itself. */
  function answered({ index, others }: Asked, finding: Finding): Promise<unknown> | undefined {
    findings[index] = room.fit(finding);
    const again = others.flatMap((other) => repeat(other, finding) ?? []);
    return again.length === 0 ? undefined : Promise.all(again);
  }

  /** Answers a call by what an equal one was answered; whether there is room is known before that is copied. */
  function repeat({ index, job }: Place, finding: Finding): Promise<void> | undefined {
    const id = job.call.clientId ?? job.call.id;
    if (!finding.ok || id === undefined) findings[index] = room.fit(finding);
    else if (!room.take(finding.found.body.length)) findings[index] = TOO_LARGE;
    else {
      const found = withOwnId(finding.found, id);
      if (found === undefined) {
        return answering.ask(job).then((own) => {
          findings[index] = room.fit(own);
        });
      }
      findings[index] = { ok: true, found };
    }
    return undefined;
  }

  if (sent.length > 0) {
    const jobsSent = sent.map(({ job }) => job);
    const answers = await send(jobsSent, modules, room);
    for (const [at, one] of sent.entries()) {
      const finding = answers[at] ?? INTERNAL;
      if (one.read !== undefined) answering.keep(one.job, one.read, finding);
      const again = answered(one, finding);
      if (again !== undefined) waits.push(again);
    }
  }
  await Promise.all(waits);
  return findings.map((finding) => finding ?? INTERNAL);
}

async function send(jobs: readonly Job[], modules: BatchModules, room: FindingRoom): Promise<readonly Finding[]> {
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
        // What is sent alone others may wait for too, who have room of their own.
        const isShared = jobs.length === 1;
        if (!isShared && room.refuses(job)) return TOO_LARGE;
        const finding = await (answering.needsCare(job)
          ? answering.ask(job)
          : answering.pursue(job, before && { asked: new Set([before.operator]), last: before.error }));
        return isShared ? finding : room.fit(finding);
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
