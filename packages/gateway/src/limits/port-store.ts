import type { Log, Metrics } from "@turnpike/base";
import { gatewayLimitStoreFailuresTotal } from "../metrics/gateway-metrics.ts";
import type { Port } from "../sharing/worker-bus.ts";
import { type ConsumeMessage, type RequestWire, readVerdict, readVerdicts, requestToWire } from "./consume-messages.ts";
import type { LimitStore, StoreLimit, StoreVerdict } from "./types.ts";

interface PendingRequest {
  readonly limits: number;
  readonly resolve: (verdict: StoreVerdict | undefined) => void;
}

/** A message without an answer yet. */
interface SentMessage {
  readonly requests: readonly PendingRequest[];
  readonly timer: NodeJS.Timeout;
}

/** Messages without an answer after which nothing is asked until one comes. */
const MAX_FAILURES = 3;
const PROBE_MS = 1_000;
/** Requests in one message; more are not counted there. */
const MAX_IN_MESSAGE = 10_000;

/**
 * Asks the counts that the primary of this machine holds. All requests of one iteration of the event loop go in one message.
 * A primary that leaves three messages unanswered is not asked until it answers one of the probes, one a second.
 */
export class PortStore implements LimitStore {
  readonly #timeoutMs: number;
  readonly #modules: { readonly port: Port; readonly log: Log; readonly metrics: Metrics };
  readonly #sent = new Map<number, SentMessage>();
  readonly #unsubscribe: () => void;
  #nextId = 1;
  #requests: RequestWire[] = [];
  #notes: RequestWire[] = [];
  #pending: PendingRequest[] = [];
  #flushing: NodeJS.Immediate | undefined;
  #probing: NodeJS.Timeout | undefined;
  #failures = 0;
  #isDisposed = false;

  /** `timeoutMs` is the longest wait for one answer. */
  constructor(
    opts: { readonly timeoutMs: number },
    modules: { readonly port: Port; readonly log: Log; readonly metrics: Metrics },
  ) {
    this.#timeoutMs = opts.timeoutMs;
    this.#modules = modules;
    this.#unsubscribe = modules.port.subscribe((message) => this.#onMessage(message));
  }

  isUp(): boolean {
    return !this.#isDisposed && this.#failures < MAX_FAILURES;
  }

  consume(limits: readonly StoreLimit[], items: number): Promise<StoreVerdict | undefined> {
    if (this.#isDisposed || this.#requests.length >= MAX_IN_MESSAGE) return Promise.resolve(undefined);
    this.#requests.push(requestToWire(limits, items));
    const { promise, resolve } = Promise.withResolvers<StoreVerdict | undefined>();
    this.#pending.push({ limits: limits.length, resolve });
    this.#scheduleFlush();
    return promise;
  }

  /** Counts items that another store served, without asking. */
  note(limits: readonly StoreLimit[], items: number): void {
    if (this.#isDisposed || this.#notes.length >= MAX_IN_MESSAGE) return;
    this.#notes.push(requestToWire(limits, items));
    this.#scheduleFlush();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    clearImmediate(this.#flushing);
    clearInterval(this.#probing);
    this.#unsubscribe();
    const unanswered = [...this.#sent.keys()].flatMap((id) => this.#endMessage(id));
    for (const { resolve } of [...this.#pending, ...unanswered]) resolve(undefined);
  }

  #scheduleFlush(): void {
    this.#flushing ??= setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#flushing = undefined;
    const id = this.#nextId++;
    const pending = this.#pending;
    const message: ConsumeMessage = { to: "limits", id, requests: this.#requests, notes: this.#notes };
    this.#requests = [];
    this.#notes = [];
    this.#pending = [];
    if (!this.#modules.port.send(message)) {
      this.#onFailure(pending, "end");
      return;
    }
    if (pending.length === 0) return;
    // What has arrived is read before the time-out counts: that this process was busy is not the primary's fault.
    const onTimeout = (): void => {
      if (this.#sent.has(id)) this.#onFailure(this.#endMessage(id), "timeout");
    };
    this.#sent.set(id, { requests: pending, timer: setTimeout(() => setImmediate(onTimeout), this.#timeoutMs) });
  }

  #onMessage(message: unknown): void {
    const reply = readVerdicts(message);
    if (reply === undefined) return;
    if (this.#failures >= MAX_FAILURES) this.#modules.log.info({}, "the primary answers again: limits are shared");
    this.#failures = 0;
    clearInterval(this.#probing);
    this.#probing = undefined;
    for (const [at, { limits, resolve }] of this.#endMessage(reply.id).entries()) {
      resolve(readVerdict(reply.verdicts[at], limits));
    }
  }

  #onFailure(lost: readonly PendingRequest[], cause: string): void {
    const { log, metrics } = this.#modules;
    if (lost.length > 0) metrics.count(gatewayLimitStoreFailuresTotal, { cause });
    if (++this.#failures === MAX_FAILURES) {
      log.warn({ cause }, "the primary does not answer: limits are applied without it");
    }
    if (this.#failures >= MAX_FAILURES) this.#probing ??= setInterval(() => this.#probe(), PROBE_MS).unref();
    for (const { resolve } of lost) resolve(undefined);
  }

  /** Sends an empty message, to see whether it is answered. */
  #probe(): void {
    this.#modules.port.send({ to: "limits", id: this.#nextId++, requests: [], notes: [] } satisfies ConsumeMessage);
  }

  #endMessage(id: number): readonly PendingRequest[] {
    const sent = this.#sent.get(id);
    this.#sent.delete(id);
    clearTimeout(sent?.timer);
    return sent?.requests ?? [];
  }
}

/**
 * A store that falls back to a second one while the first fails: limits that a deployment shares become those that a machine
 * shares, as long as `mayFallBack`. What the first one served is noted in the second. Disposes neither.
 */
export function withFallback(first: LimitStore, second: PortStore, mayFallBack: () => boolean): LimitStore {
  const isSecond = (): boolean => mayFallBack() && second.isUp();
  return {
    isUp: () => first.isUp() || isSecond(),
    async consume(limits, items) {
      const verdict = first.isUp() ? await first.consume(limits, items) : undefined;
      if (verdict === undefined) return isSecond() ? second.consume(limits, items) : undefined;
      if (verdict.refusedBy === -1) second.note(limits, items);
      return verdict;
    },
    async [Symbol.asyncDispose]() {},
  };
}
