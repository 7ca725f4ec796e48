import type { Clock, Log, Metrics, ServiceId } from "@turnpike/base";
import type { UpstreamAnswer, UpstreamOutcome } from "../answers/upstream-answer.ts";
import { type CallKey, callKey } from "../cache/call-key.ts";
import type { CacheMiss } from "../cache/types.ts";
import type { RelayFlag } from "../types.ts";
import { crossCheck, requiredAnswers } from "./cross-check.ts";
import { firstParam, untagFilterId } from "./filters.ts";
import { type Job, mayHaveNews } from "./job.ts";
import { isLogQuery, splitLogs } from "./log-splitting.ts";
import { OversizedAnswers, type RetryOptions, type RetryTools, requestWithRetries } from "./retrying-request.ts";

interface ForwarderModules {
  readonly retries: RetryTools;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly flags: Readonly<Record<RelayFlag, boolean>>;
  /** Largest answer that is made of parts. */
  readonly maxAnswerBytes: number;
}

/** A read that may be shared with equal ones, and cached. */
export interface SharedRead {
  readonly key: CallKey;
  /** Set when its answer may be cached. */
  readonly miss: CacheMiss | undefined;
}

/** The client has no filter of this id: the error of nodes, so that its library makes a new one. It is not charged. */
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

const DISAGREED_LOG_MS = 60_000;

/** Gets the answer to a call: from the cache, from an equal call in flight, or from suppliers, split, compared and retried. */
export class Forwarder {
  readonly #modules: ForwarderModules;
  /** When it was last logged of a service that its suppliers disagree. */
  readonly #disagreedMs = new Map<ServiceId, number>();

  constructor(modules: ForwarderModules) {
    this.#modules = modules;
  }

  /** Free reads are answered from the cache; equal ones in flight share one upstream request. */
  forward(job: Job): Promise<UpstreamOutcome> | UpstreamOutcome {
    if (job.isOnce) return this.#once(job);
    const read = this.lookUp(job);
    if (read === undefined) return this.askSuppliers(job);
    if ("ok" in read) return read;
    return this.multiplex(job, read, () => this.askSuppliers(job));
  }

  async #once(job: Job): Promise<UpstreamOutcome> {
    let outcome: UpstreamOutcome | undefined;
    try {
      outcome = await this.askSuppliers(job);
      return outcome;
    } finally {
      if (mayHaveNews(job, outcome)) job.context.wrote();
    }
  }

  /** The cached answer to a free read, or its key for {@link multiplex}; undefined: it shares nothing. */
  lookUp(job: Job): UpstreamAnswer | SharedRead | undefined {
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

  /** Joins an equal read that is in flight, or runs this one and caches its answer. */
  multiplex(job: Job, read: SharedRead, run: () => Promise<UpstreamOutcome>): Promise<UpstreamOutcome> {
    const { call, context, signal } = job;
    return context.multiplexer.join(read.key, call.clientId ?? call.id, signal, run, (outcome) =>
      this.store(job, read, outcome),
    );
  }

  /** Caches the answer to a read, where that is allowed. */
  store({ context }: Job, { miss }: SharedRead, outcome: UpstreamOutcome): void {
    if (outcome.ok && miss !== undefined) context.memory.cache.put(miss, outcome);
  }

  /** Without cache and multiplexing: splits a log query, compares, retries. */
  askSuppliers(job: Job): Promise<UpstreamOutcome> {
    const { flags, metrics, clock, maxAnswerBytes } = this.#modules;
    if (!flags.log_splitting || !isLogQuery(job)) return this.#compare(job);
    return splitLogs(job, {
      metrics,
      maxAnswerBytes,
      tip: ({ context }) => context.memory.view.newest(clock.monotonicMs()),
      ask: (part) => this.#compare(part),
    });
  }

  /** True for a job that may need more than one supplier's good answer. */
  needsSeveralAnswers(job: Job): boolean {
    const { flags } = this.#modules;
    return (flags.log_splitting && isLogQuery(job)) || requiredAnswers(job, flags.cross_validation) > 1;
  }

  #compare(job: Job): Promise<UpstreamOutcome> {
    const { flags, metrics, clock } = this.#modules;
    const wanted = requiredAnswers(job, flags.cross_validation);
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
      disagreed: ({ context, call }, operators) => this.#logDisagreed(context.service.id, call.operation, operators),
    });
  }

  /** Who disagrees, so that an operator can find out who is wrong; once a minute a service, as clients may repeat the call. */
  #logDisagreed(service: ServiceId, operation: string, operators: readonly string[]): void {
    const nowMs = this.#modules.clock.monotonicMs();
    if (nowMs - (this.#disagreedMs.get(service) ?? Number.NEGATIVE_INFINITY) < DISAGREED_LOG_MS) return;
    this.#disagreedMs.set(service, nowMs);
    this.#modules.log.warn({ service, operation, operators }, "suppliers disagree, and there is no majority");
  }

  /** Asks one supplier after another until one answers. */
  request(job: Job, options?: RetryOptions): Promise<UpstreamOutcome> {
    const isOwn = job.filter !== "use" || untagFilterId(job.client, firstParam(job.call)) !== undefined;
    if (!isOwn) return Promise.resolve(noFilter(job));
    return requestWithRetries(job, this.#modules.retries, options);
  }
}
