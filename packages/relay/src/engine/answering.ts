import type { Clock, Log, Metrics, ServiceId } from "@turnpike/base";
import { type CallKey, callKey } from "../cache/call-key.ts";
import type { CacheMiss } from "../cache/types.ts";
import type { RelayFlag } from "../types.ts";
import type { UpstreamAnswer, UpstreamOutcome } from "../upstream-answer.ts";
import { crossCheck, wantedAnswers } from "./cross-check.ts";
import { firstParam, untagFilterId } from "./filters.ts";
import type { Job } from "./job.ts";
import { askInParts, isForLogs } from "./log-ranges.ts";
import { OversizedAnswers, type RetryOptions, type RetryTools, requestWithRetries } from "./retrying-request.ts";
import { mayHaveNews } from "./sending.ts";

/** What {@link Answering} uses. */
export interface AnsweringModules {
  readonly retries: RetryTools;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly flags: Readonly<Record<RelayFlag, boolean>>;
  /** Largest answer that is made of parts. */
  readonly maxAnswerBytes: number;
}

/** A read that may be shared with equal ones, and kept. */
export interface SharedRead {
  readonly key: CallKey;
  /** Nothing is kept for it, but its answer may be. */
  readonly miss: CacheMiss | undefined;
}

/** The client has no filter of this id: said as nodes say it, so that its library makes a new one. Nobody pays for it. */
function noFilter({ call, isFree }: Job): UpstreamOutcome {
  if (!isFree) return { ok: false, code: "NO_SUPPLIERS", attempts: 0 };
  const body = `{"jsonrpc":"2.0","id":${call.clientId ?? call.id},"error":{"code":-32000,"message":"filter not found"}}`;
  return {
    ok: true,
    status: 200,
    contentType: "application/json",
    body: Buffer.from(body),
    schemaCheck: "unchecked",
    operator: "",
    isError: true,
  };
}

const TELL_EVERY_MS = 60_000;

/** How a call gets its answer: kept, shared with equal calls, taken apart, compared, or asked for with retries. */
export class Answering {
  readonly #modules: AnsweringModules;
  /** When it was last said of a service that its suppliers disagree. */
  readonly #toldMs = new Map<ServiceId, number>();

  constructor(modules: AnsweringModules) {
    this.#modules = modules;
  }

  /** Answers a job. Free reads are answered from what is kept; equal ones that are in flight together are one. */
  answer(job: Job): Promise<UpstreamOutcome> | UpstreamOutcome {
    if (job.isOnce) return this.#once(job);
    const read = this.look(job);
    if (read === undefined) return this.ask(job);
    if ("ok" in read) return read;
    return this.share(job, read, () => this.ask(job));
  }

  async #once(job: Job): Promise<UpstreamOutcome> {
    let outcome: UpstreamOutcome | undefined;
    try {
      outcome = await this.ask(job);
      return outcome;
    } finally {
      if (mayHaveNews(job, outcome)) job.context.wrote();
    }
  }

  /** Looks a free read up: its kept answer, or how it is shared; undefined: it is by itself. */
  look(job: Job): UpstreamAnswer | SharedRead | undefined {
    const { call, context, traits, refs, isFree, isOnce } = job;
    if (!isFree || isOnce) return undefined;
    const key = callKey(call);
    if (key === undefined) return undefined;
    const rule = traits?.cache;
    if (rule === undefined || rule.by === "never" || !this.#modules.flags.cache) return { key, miss: undefined };
    const id = call.clientId ?? call.id;
    const kept = context.memory.cache.get({ key, rule, refs, id }, this.#modules.clock.monotonicMs());
    return kept?.kind === "hit" ? kept.answer : { key, miss: kept };
  }

  /** Joins equal reads that are in flight, or runs this one and keeps its answer. */
  share(job: Job, read: SharedRead, run: () => Promise<UpstreamOutcome>): Promise<UpstreamOutcome> {
    const { call, context, signal } = job;
    return context.flights.join(read.key, call.clientId ?? call.id, signal, run, (outcome) =>
      this.keep(job, read, outcome),
    );
  }

  /** Keeps the answer to a read, where it may be kept. */
  keep({ context }: Job, { miss }: SharedRead, outcome: UpstreamOutcome): void {
    if (outcome.ok && miss !== undefined) context.memory.cache.put(miss, outcome);
  }

  /** Asks suppliers, whatever is kept or in flight. */
  ask(job: Job): Promise<UpstreamOutcome> {
    const { flags, metrics, clock, maxAnswerBytes } = this.#modules;
    if (!flags.log_splitting || !isForLogs(job)) return this.#compare(job);
    return askInParts(job, {
      metrics,
      maxAnswerBytes,
      tip: ({ context }) => context.memory.view.newest(clock.monotonicMs()),
      ask: (part) => this.#compare(part),
    });
  }

  /** True for a job that needs more than one supplier's good answer, or may. */
  needsCare(job: Job): boolean {
    const { flags } = this.#modules;
    return (flags.log_splitting && isForLogs(job)) || wantedAnswers(job, flags.cross_validation) > 1;
  }

  #compare(job: Job): Promise<UpstreamOutcome> {
    const { flags, metrics, clock } = this.#modules;
    const wanted = wantedAnswers(job, flags.cross_validation);
    if (wanted <= 1) return this.request(job);
    const oversized = new OversizedAnswers(this.#modules.retries);
    return crossCheck({ ...job, mayStream: false }, wanted, {
      metrics,
      operators: ({ context }) => context.fit(job),
      request: (one, options) => this.request(one, { ...options, oversized }),
      contradicted({ context, call }, operator) {
        context.memory.cache.dropOperator(operator);
        for (const target of context.all()) {
          if (target.operator !== operator || target.rpcType !== call.rpcType) continue;
          target.quality.failed(clock.monotonicMs(), "minority");
          return;
        }
      },
      disagreed: ({ context, call }, operators) => this.#tellDisagreed(context.service.id, call.operation, operators),
    });
  }

  /** Says who disagrees, so that an operator can find out who is wrong; once a minute for each service, as buyers can ask on. */
  #tellDisagreed(service: ServiceId, operation: string, operators: readonly string[]): void {
    const nowMs = this.#modules.clock.monotonicMs();
    if (nowMs - (this.#toldMs.get(service) ?? Number.NEGATIVE_INFINITY) < TELL_EVERY_MS) return;
    this.#toldMs.set(service, nowMs);
    this.#modules.log.warn({ service, operation, operators }, "suppliers disagree, and nobody can tell who is right");
  }

  /** Asks suppliers until one answers, and nothing else. */
  request(job: Job, options?: RetryOptions): Promise<UpstreamOutcome> {
    const isOwn = job.filter !== "use" || untagFilterId(job.client, firstParam(job.call)) !== undefined;
    if (!isOwn) return Promise.resolve(noFilter(job));
    return requestWithRetries(job, this.#modules.retries, options);
  }
}
