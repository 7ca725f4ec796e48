import {
  type ClientIpOf,
  type Clock,
  clientKey,
  type ErrorCode,
  faultFields,
  type Log,
  type MaybePromise,
  type Metrics,
  type WriteBufferBudget,
} from "@turnpike/base";
import { gatewayLimitedTotal, gatewayRequestSeconds, gatewayRequestsTotal } from "../metrics/gateway-metrics.ts";
import { type Answer, errorAnswer, writeAnswer } from "./answer.ts";
import type { InFlightTracker } from "./in-flight-tracker.ts";
import { canDiscard, type Exchange, type RouteGroup } from "./request.ts";
import type { RequestObserver, ResponseSummary } from "./request-observer.ts";
import { codeAnswer } from "./rpc-answer.ts";
import type { Streamed } from "./stream-body.ts";

/** Running requests of each route group, over all configurations. */
export type RunningCounts = Record<RouteGroup, number>;

/** What the runners of all configurations share, but for `tracker`, which is of one. */
interface RequestRunnerModules {
  readonly running: RunningCounts;
  /** Bytes of large answers that their clients have not read yet. */
  readonly writeBuffer: WriteBufferBudget;
  readonly clientIp: ClientIpOf;
  readonly tracker: InFlightTracker;
  readonly isDraining: () => boolean;
  readonly observer: RequestObserver;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Smaller answers are not counted: a client that reads nothing has few of them. */
const LARGE_BYTES = 65_536;

/** A running request's slot among the concurrent ones of its route group. */
export class RequestSlot {
  readonly exchange: Exchange;
  readonly group: RouteGroup;
  /** As metrics call it. */
  readonly service: string;
  readonly #running: RunningCounts;
  readonly #max: () => number;
  #isHeld = true;

  /** Acquires the slot, whether or not one is free. */
  constructor(exchange: Exchange, group: RouteGroup, service: string, running: RunningCounts, max: () => number) {
    this.exchange = exchange;
    this.group = group;
    this.service = service;
    this.#running = running;
    this.#max = max;
    running[group]++;
  }

  /** Releases the slot while the client is waited for: a slow sender must not keep others from running. */
  release(): void {
    if (this.#isHeld) this.#running[this.group]--;
    this.#isHeld = false;
  }

  /** Acquires a slot again; false when there is none left. */
  acquire(): boolean {
    if (this.#running[this.group] >= this.#max()) return false;
    this.#running[this.group]++;
    this.#isHeld = true;
    return true;
  }
}

/** Runs the handlers of one configuration: bounds how many at once, writes their answers, and counts and logs them. */
export class RequestRunner {
  readonly #max: () => number;
  readonly #modules: RequestRunnerModules;

  constructor(
    opts: {
      /** Most running requests of each route group. */
      readonly maxConcurrentRequests: () => number;
    },
    modules: RequestRunnerModules,
  ) {
    this.#max = opts.maxConcurrentRequests;
    this.#modules = modules;
  }

  /** Writes an answer, and counts it. */
  respond(exchange: Exchange, group: RouteGroup, service: string, answer: Answer): void {
    void this.#write(exchange, group, service, answer);
  }

  /** Logs and traces a response that a handler has written and counted itself. */
  recordResponse(exchange: Exchange, group: RouteGroup, service: string, summary: ResponseSummary): void {
    this.#modules.observer.onResponse(exchange, group, service, summary);
  }

  /**
   * Runs a handler, which may go on after its client has left. Each group but monitoring has its own limit of concurrent
   * requests, so that free calls cannot take the place of paid ones. An answer of `undefined` writes nothing; a
   * rejection, or what the handler throws, becomes 500 INTERNAL.
   */
  run(
    exchange: Exchange,
    group: RouteGroup,
    service: string,
    handler: (slot: RequestSlot) => MaybePromise<Answer | undefined>,
  ): void {
    const { running, tracker, isDraining } = this.#modules;
    const shed = isDraining() ? "SHUTTING_DOWN" : running[group] >= this.#max() ? "OVERLOADED" : undefined;
    if (shed !== undefined && group !== "monitoring") {
      this.respond(exchange, group, service, closingError(exchange, group, shed));
      return;
    }
    const slot = new RequestSlot(exchange, group, service, running, this.#max);
    tracker.begin();
    let answer: MaybePromise<Answer | undefined>;
    try {
      answer = handler(slot);
    } catch (error) {
      this.#fail(slot, error);
      return;
    }
    if (!(answer instanceof Promise)) this.#finish(slot, answer);
    else {
      answer.then(
        (made) => this.#finish(slot, made),
        (error: unknown) => this.#fail(slot, error),
      );
    }
  }

  #finish(slot: RequestSlot, answer: Answer | undefined): void {
    const { exchange, group, service } = slot;
    let rest: Promise<void> | undefined;
    try {
      if (answer === undefined) this.#record(exchange, group, service, { status: 499, result: "gone", bytes: 0 });
      else rest = this.#write(exchange, group, service, answer);
    } catch (error) {
      this.#fail(slot, error);
      return;
    }
    if (rest === undefined) {
      this.#end(slot);
      return;
    }
    // A client that reads slowly holds no slot, but its supplier is still needed.
    slot.release();
    rest.then(
      () => this.#end(slot),
      (error: unknown) => this.#fail(slot, error),
    );
  }

  #fail(slot: RequestSlot, error: unknown): void {
    const { exchange, group, service } = slot;
    const { requestId } = exchange;
    try {
      this.#modules.log.error({ ...faultFields(error), requestId, door: group, service }, "a request failed");
      this.respond(exchange, group, service, closingError(exchange, group, "INTERNAL"));
    } finally {
      this.#end(slot);
    }
  }

  #end(slot: RequestSlot): void {
    slot.release();
    this.#modules.tracker.end();
  }

  /** Returns a promise for a body that is still on its way. */
  #write(exchange: Exchange, group: RouteGroup, service: string, made: Answer): Promise<void> | undefined {
    const { req, res, requestId } = exchange;
    let answer = made;
    if (!this.#hasRoom(exchange, group, made)) {
      this.#modules.metrics.count(gatewayLimitedTotal, { limit: "unread" });
      answer = closingError(exchange, group, "OVERLOADED");
    }
    const { status, result, body } = answer;
    const close = answer.close === true || this.#modules.isDraining() || (!req.complete && !canDiscard(req));
    const rest = writeAnswer(res, close ? { ...answer, close } : answer, requestId, req.method === "HEAD");
    if (rest !== undefined) {
      return rest.then(({ bytes, broken }: Streamed) =>
        this.#record(exchange, group, service, { status, result: broken ?? result, bytes }),
      );
    }
    this.#record(exchange, group, service, { status, result, bytes: body.length });
    return undefined;
  }

  /**
   * False when there is no room for an answer that its client may not read. What was just paid for is delivered; a copy of
   * it costs nothing, so it has to find room.
   */
  #hasRoom({ req, res }: Exchange, group: RouteGroup, { body, isStored }: Answer): boolean {
    if (body.length < LARGE_BYTES || res.headersSent || req.method === "HEAD") return true;
    const { writeBuffer, clientIp } = this.#modules;
    return writeBuffer.acquire(res, body.length, clientKey(clientIp(req)), group === "paid" && isStored !== true);
  }

  #record(exchange: Exchange, group: RouteGroup, service: string, summary: ResponseSummary): void {
    const { metrics, clock, observer } = this.#modules;
    const { status, result } = summary;
    metrics.count(gatewayRequestsTotal, { door: group, service, status: String(status), result });
    metrics.observe(gatewayRequestSeconds, (clock.monotonicMs() - exchange.startMs) / 1_000, { door: group, result });
    observer.onResponse(exchange, group, service, summary);
  }
}

/** An error in its route group's own form, with which its connection ends. On the free relay the call's id is not known. */
export function closingError({ requestId }: Exchange, group: RouteGroup, code: ErrorCode): Answer {
  return group === "free" ? codeAnswer("null", code, { close: true }) : errorAnswer(code, requestId, { close: true });
}
