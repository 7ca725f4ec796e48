import type { Metrics } from "@turnpike/base";
import type { RelayFlag } from "../types.ts";
import { crossCheck, wantedAnswers } from "./cross-check.ts";
import { flightKey } from "./flights.ts";
import type { Finding } from "./found.ts";
import type { Job } from "./job.ts";
import { askInParts, isForLogs } from "./log-ranges.ts";
import { type PursuitOptions, type PursuitTools, pursue } from "./pursuit.ts";

/** What {@link Answering} works with. */
export interface AnsweringModules {
  readonly pursuit: PursuitTools;
  readonly metrics: Metrics;
  readonly flags: Readonly<Record<RelayFlag, boolean>>;
  /** Largest answer that is made of parts. */
  readonly maxAnswerBytes: number;
  /** The newest block, where it is known. */
  readonly tip: (job: Job) => number | undefined;
  /** An operator gave an answer that most of the others contradict. */
  readonly contradicted: (job: Job, operator: string) => void;
}

/** How a call gets its answer: shared with equal calls, taken apart, compared, and pursued. */
export class Answering {
  readonly #modules: AnsweringModules;

  constructor(modules: AnsweringModules) {
    this.#modules = modules;
  }

  /** Answers a job; equal free reads that are in flight together are one. */
  answer(job: Job): Promise<Finding> {
    const { call, set, isFree, isOnce, signal } = job;
    if (!isFree) return this.#ask(job);
    if (isOnce) return this.#ask(job).finally(() => set.flights.forget());
    const key = flightKey(call);
    if (key === undefined) return this.#ask(job);
    return set.flights.join(key, call.clientId ?? call.id, signal, () => this.#ask(job));
  }

  #ask(job: Job): Promise<Finding> {
    const { flags, metrics, maxAnswerBytes, tip } = this.#modules;
    if (!flags.log_splitting || !isForLogs(job)) return this.#compare(job);
    return askInParts(job, { metrics, maxAnswerBytes, tip, ask: (part) => this.#compare(part) });
  }

  #compare(job: Job): Promise<Finding> {
    const { flags, metrics, pursuit, contradicted } = this.#modules;
    const wanted = wantedAnswers(job, flags.cross_validation);
    if (wanted <= 1) return this.pursue(job);
    return crossCheck({ ...job, mayStream: false }, wanted, {
      metrics,
      contradicted,
      operators: (one) => new Set(pursuit.order(one).map(({ operator }) => operator)).size,
      pursue: (one, options) => this.pursue(one, options),
    });
  }

  /** Asks suppliers until one answers, and nothing else. */
  pursue(job: Job, options?: PursuitOptions): Promise<Finding> {
    return pursue(job, this.#modules.pursuit, options);
  }
}
