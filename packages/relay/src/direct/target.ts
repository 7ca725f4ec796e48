import type { Clock, Log, Metrics, ServiceId } from "@turnpike/base";
import { hostOf } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { BackendCall, RpcType } from "@turnpike/protocol";
import type { Dispatcher } from "undici";
import { type BadAnswer, classifyAnswer, type GoodAnswer } from "../answer.ts";
import type { Family, Probe } from "../families/family.ts";
import { familyOf } from "../families.ts";
import { classifyFreeAnswer } from "../free-answer.ts";
import { HEALTHY, PROBES } from "../metrics.ts";
import { streamHead } from "./answer-pipe.ts";
import {
  type AttemptHandle,
  type ByteBudget,
  type ExchangeFault,
  type ExchangeResult,
  exchange,
  type StreamRules,
} from "./exchange.ts";
import { supplierTag } from "./filters.ts";
import type { FoundAnswer } from "./found.ts";
import { Quality, type QualityOptions } from "./quality.ts";

/** One way of speaking to one operator of one service. */
export interface TargetOptions {
  readonly service: Service;
  readonly operator: string;
  readonly rpcType: RpcType;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly maxAnswerBytes: number;
  readonly maxCheckedBytes: number;
  readonly probeTimeoutMs: number;
  readonly streaming: StreamBounds;
  readonly quality: QualityOptions;
}

/** What a target works with. */
export interface TargetModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly pool: Dispatcher;
  readonly budget: ByteBudget;
}

/** How one attempt ended. */
export type AttemptResult =
  | { readonly kind: "good"; readonly good: GoodAnswer; readonly status: number; readonly contentType: string }
  | FailedAttempt;

/** A failed attempt; status and type of the answer, where there was one. */
export interface FailedAttempt extends BadAnswer {
  /** A good answer from behind: it is given when nobody has a newer one. */
  readonly stale?: FoundAnswer;
  readonly status?: number;
  readonly contentType?: string;
}

/** When large answers are passed on while they arrive. */
export type StreamBounds = Omit<StreamRules, "head">;

/** How an answer is read: for sale, or for the free relay. */
export interface AnswerCheck {
  readonly isFree?: boolean;
  /** A large answer may be passed on while it arrives. */
  readonly mayStream?: boolean;
  /** Larger answers that are sold are not held against their schema. */
  readonly maxCheckedBytes?: number;
}

const NO_BYTES = new Uint8Array(0);
const SMALL_BATCH_MS = 300_000;

/** An exchange without an answer, as a failed attempt. */
export function faultOf(fault: ExchangeFault): BadAnswer {
  const { reason, isUnsent } = fault;
  return { kind: "bad", blame: BLAME[reason], reason, ...(isUnsent ? { isUnsent } : {}) };
}

const BLAME = { timeout: "wire", connection: "wire", overloaded: "client", aborted: "client" } as const;

function basicAuth(url: URL): Readonly<Record<string, string>> {
  if (url.username === "") return {};
  const pair = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return { authorization: `Basic ${Buffer.from(pair).toString("base64")}` };
}

/** Sends, probes, and remembers how it went. */
export class Target {
  readonly operator: string;
  readonly rpcType: RpcType;
  readonly tag: string;
  readonly quality: Quality;
  readonly family: Family;
  readonly #options: TargetOptions;
  readonly #modules: TargetModules;
  readonly #probe: Probe | undefined;
  readonly #url: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #postHeaders: Readonly<Record<string, string>>;
  #maxBatch = Number.POSITIVE_INFINITY;
  #smallBatchUntilMs = 0;
  #chain: "unknown" | "right" | "wrong" = "unknown";
  #isUp: boolean | undefined;
  #heightBlocks: number | undefined;
  #probing: Promise<void> | undefined;
  #probeRounds = 0;

  constructor(options: TargetOptions, modules: TargetModules) {
    this.#options = options;
    this.#modules = modules;
    this.operator = options.operator;
    this.rpcType = options.rpcType;
    this.tag = supplierTag(options.service.id, options.operator, options.url);
    this.quality = new Quality(options.quality);
    this.family = familyOf(options.service, options.rpcType);
    this.#probe = this.family.probe(options.service, options.rpcType);
    this.#url = new URL(options.url);
    this.#headers = {
      accept: "application/json",
      "accept-encoding": "identity",
      "user-agent": "turnpike",
      ...basicAuth(this.#url),
      ...options.headers,
    };
    this.#postHeaders = { ...this.#headers, "content-type": "application/json" };
  }

  get serviceId(): ServiceId {
    return this.#options.service.id;
  }

  /** It was seen to serve another chain: no call may go to it. */
  get isWrongChain(): boolean {
    return this.#chain === "wrong";
  }

  /** Calls may go to it without a probe before. */
  get isVerified(): boolean {
    return this.#probe?.isRequired !== true || this.#chain === "right";
  }

  /** The last probe or call went well; without a probe, its breaker is closed. */
  get isHealthy(): boolean {
    if (this.#chain === "wrong") return false;
    if (this.#probe === undefined) return this.#isUp ?? !this.quality.isOpen(this.#modules.clock.monotonicMs());
    return this.#isUp === true;
  }

  get hasProbe(): boolean {
    return this.#probe !== undefined;
  }

  /** Height at the last probe. */
  get heightBlocks(): number | undefined {
    return this.#heightBlocks;
  }

  #pathOf(call: BackendCall): string {
    const [path = "", query] = call.path.split("?", 2);
    const base = this.#url.pathname.endsWith("/") ? this.#url.pathname.slice(0, -1) : this.#url.pathname;
    // The root keeps the spelling of the operator's URL, with or without a slash at its end.
    const full = path === "" ? this.#url.pathname : `${base}${path}`;
    const queries = [this.#url.search.slice(1), query ?? ""].filter((part) => part !== "");
    return queries.length === 0 ? full : `${full}?${queries.join("&")}`;
  }

  /** Sends bytes to the root, or to a call's own path. Never rejects. `scale` multiplies the largest answer that is taken. */
  exchange(
    call: BackendCall,
    body: Uint8Array | undefined,
    timeoutMs: number,
    signal: AbortSignal | undefined,
    scale = 1,
    handle?: AttemptHandle,
    stream?: StreamRules,
  ): Promise<ExchangeResult> {
    const maxAnswerBytes = this.#options.maxAnswerBytes * scale;
    const base = body === undefined ? this.#headers : this.#postHeaders;
    const headers = call.headers === undefined ? base : { ...base, ...call.headers };
    const request = {
      verb: call.verb,
      path: this.#pathOf(call),
      headers,
      body,
      timeoutMs,
      maxAnswerBytes,
      signal,
      handle,
      stream,
    };
    return exchange(this.#modules.pool, request, this.#modules.budget);
  }

  /** Sends one call and classifies what comes back. Never rejects; records nothing but health. */
  async attempt(
    call: BackendCall,
    body: Uint8Array | undefined,
    timeoutMs: number,
    signal: AbortSignal | undefined,
    check: AnswerCheck = {},
    handle?: AttemptHandle,
  ): Promise<AttemptResult & { readonly retryAfterMs?: number | undefined }> {
    const { service } = this.#options;
    const { id } = call;
    const stream: StreamRules | undefined =
      check.mayStream === true && id !== undefined && !this.family.isLegacyRpc
        ? {
            ...this.#options.streaming,
            head: (beginning, status) => (status === 200 ? streamHead(beginning, id, call.clientId) : undefined),
          }
        : undefined;
    const result = await this.exchange(call, body, timeoutMs, signal, 1, handle, stream);
    if (!result.ok) return faultOf(result);
    if ("streamed" in result) {
      const { status, contentType, body: bytes } = result.streamed;
      const whole = { schemaCheck: "unchecked", isError: false, body: NO_BYTES, result: undefined } as const;
      return { kind: "good", good: { kind: "good", ...whole, stream: bytes }, status, contentType };
    }
    const { answer, retryAfterMs } = result;
    const read =
      check.isFree === true && !this.family.isLegacyRpc
        ? classifyFreeAnswer(service, call, answer)
        : classifyAnswer(service, call, answer, check.maxCheckedBytes ?? this.#options.maxCheckedBytes);
    const { status, contentType } = answer;
    if (read.kind === "bad") return { ...read, status, contentType, retryAfterMs };
    return { kind: "good", good: read, status, contentType };
  }

  /** True while it is thought to take a batch of so many calls. */
  takesBatch(size: number): boolean {
    return size <= this.#maxBatch || this.#modules.clock.monotonicMs() >= this.#smallBatchUntilMs;
  }

  /** It refused a batch of so many calls: for some minutes it gets smaller ones. */
  refusedBatch(size: number): void {
    this.#maxBatch = Math.floor(size / 2);
    this.#smallBatchUntilMs = this.#modules.clock.monotonicMs() + SMALL_BATCH_MS;
  }

  /** A call went well. */
  markUp(): void {
    this.#setUp(true);
  }

  /** Probes once; a second caller waits for the same probe. Never rejects. */
  probe(signal: AbortSignal): Promise<void> {
    this.#probing ??= this.#runProbe(signal).finally(() => {
      this.#probing = undefined;
    });
    return this.#probing;
  }

  async #runProbe(signal: AbortSignal): Promise<void> {
    const { clock, metrics } = this.#modules;
    const { service, probeTimeoutMs } = this.#options;
    const round = this.#probeRounds++;
    const steps = (this.#probe?.steps ?? []).filter(({ every = 1 }) => round % every === 0);
    for (let step = steps.shift(); step !== undefined; step = steps.shift()) {
      const startMs = clock.monotonicMs();
      const result = await this.attempt(step.call, step.call.body, probeTimeoutMs, signal, { maxCheckedBytes: 0 });
      if (signal.aborted) return;
      const nowMs = clock.monotonicMs();
      if (result.kind === "bad" || result.good.isError) {
        if (step.isOptional === true) continue;
        if (step.instead !== undefined && !(result.kind === "bad" && result.blame === "wire")) {
          steps.unshift(step.instead);
          continue;
        }
        metrics.count(PROBES, {
          service: service.id,
          result: result.kind === "bad" && result.blame === "wire" ? "unreachable" : "bad",
        });
        if (result.kind === "good" || result.blame === "wire" || result.blame === "supplier")
          this.quality.failed(nowMs);
        this.#setUp(false);
        return;
      }
      const reading = step.read(result.good.result);
      if (!reading.ok) {
        if (step.isOptional === true) continue;
        if (step.instead !== undefined) {
          steps.unshift(step.instead);
          continue;
        }
        metrics.count(PROBES, {
          service: service.id,
          result: reading.reason === "wrong_chain" ? "wrong_chain" : "bad",
        });
        if (reading.reason === "wrong_chain") this.#setChain("wrong");
        else this.quality.failed(nowMs);
        this.#setUp(false);
        return;
      }
      this.quality.good(nowMs, nowMs - startMs);
      if (reading.heightBlocks !== undefined) this.#heightBlocks = reading.heightBlocks;
    }
    metrics.count(PROBES, { service: service.id, result: "good" });
    this.#setChain("right");
    this.#setUp(true);
  }

  #setChain(chain: "right" | "wrong"): void {
    if (chain === this.#chain) return;
    const wasWrong = this.#chain === "wrong";
    this.#chain = chain;
    if (chain === "wrong") this.#modules.log.error(this.#fields(), "supplier serves another chain and is not used");
    else if (wasWrong) this.#modules.log.info(this.#fields(), "supplier serves the right chain again");
  }

  #setUp(isUp: boolean): void {
    if (isUp === this.#isUp) return;
    const isFirst = this.#isUp === undefined;
    this.#isUp = isUp;
    this.#modules.metrics.set(HEALTHY, isUp ? 1 : 0, {
      service: this.#options.service.id,
      operator: this.operator,
      rpc_type: this.rpcType,
    });
    if (!isUp) this.#modules.log.warn(this.#fields(), "supplier is down");
    else if (!isFirst) this.#modules.log.info(this.#fields(), "supplier is up");
  }

  #fields(): Readonly<Record<string, unknown>> {
    const { service, url } = this.#options;
    return { service: service.id, operator: this.operator, rpcType: this.rpcType, host: hostOf(url) };
  }
}
