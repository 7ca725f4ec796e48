import { type Clock, type Deadlines, hostOf, type Log, type Metrics, type ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { BackendCall, RpcType } from "@turnpike/protocol";
import type { Dispatcher } from "undici";
import { classifyAnswer } from "../answer.ts";
import type { Family } from "../families/family.ts";
import { familyOf } from "../families.ts";
import { classifyFreeAnswer } from "../free-answer.ts";
import type { ServiceMemory } from "../memory.ts";
import type { LatencyBook } from "../quality/latency.ts";
import type { ProbeTarget } from "../quality/prober.ts";
import type { ProbeNeed, SupplierQuality } from "../quality/supplier-quality.ts";
import type { TransportFailure, UpstreamResponse } from "../transport/transport.ts";
import { type AttemptResult, createAnswer } from "../upstream-answer.ts";
import { type StreamSlots, streamHead } from "./answer-pipe.ts";
import { type AttemptHandle, type ByteBudget, exchange, type StreamRules } from "./exchange.ts";
import { supplierTag } from "./filters.ts";
import { Health, type ProbeSeen } from "./health.ts";

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
}

/** What a target works with. */
export interface TargetModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly pool: Dispatcher;
  readonly streams: StreamSlots;
  readonly budget: ByteBudget;
  readonly deadlines: Deadlines;
  /** What was learned of its service, and of itself. */
  readonly memory: ServiceMemory;
  readonly quality: SupplierQuality;
}

/** When large answers are passed on while they arrive. */
export type StreamBounds = Omit<StreamRules, "head">;

/** How an answer is read: for sale, or for the free relay. */
export interface AnswerCheck {
  readonly isFree?: boolean;
  /** Larger answers that are sold are not held against their schema. */
  readonly maxCheckedBytes?: number;
}

const SMALL_BATCH_MS = 300_000;

function basicAuth(url: URL): Readonly<Record<string, string>> {
  if (url.username === "") return {};
  const pair = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return { authorization: `Basic ${Buffer.from(pair).toString("base64")}` };
}

/** One operator's back-end for one way of speaking: sends, and reads what comes back. */
export class Target implements ProbeTarget<ProbeSeen> {
  readonly operator: string;
  readonly rpcType: RpcType;
  readonly tag: string;
  /** Host of its URL. */
  readonly host: string;
  readonly quality: SupplierQuality;
  readonly health: Health;
  readonly family: Family;
  readonly #options: TargetOptions;
  readonly #modules: TargetModules;
  readonly #url: URL;
  readonly #root: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #postHeaders: Readonly<Record<string, string>>;
  #maxBatch = Number.POSITIVE_INFINITY;
  #smallBatchUntilMs = 0;

  constructor(options: TargetOptions, modules: TargetModules) {
    this.#options = options;
    this.#modules = modules;
    this.operator = options.operator;
    this.rpcType = options.rpcType;
    this.tag = supplierTag(options.service.id, options.operator, options.url);
    this.host = hostOf(options.url);
    this.quality = modules.quality;
    this.family = familyOf(options.service, options.rpcType);
    this.health = new Health(options, {
      ...modules,
      view: modules.memory.view,
      distrust: () => modules.memory.cache.dropOperator(options.operator),
      probe: this.family.probe(options.service, options.rpcType),
      ask: (call, signal) => this.ask(call, signal),
    });
    this.#url = new URL(options.url);
    // The root keeps the spelling of the operator's URL, with or without a slash at its end.
    this.#root = `${this.#url.pathname}${this.#url.search}`;
    this.#headers = {
      accept: "application/json",
      "accept-encoding": "identity",
      "user-agent": "turnpike",
      ...basicAuth(this.#url),
      ...options.headers,
    };
    this.#postHeaders = { ...this.#headers, "content-type": "application/json" };
  }

  get service(): Service {
    return this.#options.service;
  }

  get serviceId(): ServiceId {
    return this.#options.service.id;
  }

  /** True while calls may go to it with good hope. */
  get isHealthy(): boolean {
    return this.health.isHealthy && !this.isDrained;
  }

  /** It does not have an operation. */
  lacks(operation: string, nowMs: number): void {
    this.quality.lacks(operation, nowMs);
  }

  get probeKey(): string {
    return this.health.probeKey;
  }

  get isWrongChain(): boolean {
    return this.health.isWrongChain;
  }

  get isVerified(): boolean {
    return this.health.isVerified;
  }

  /** Latencies of its service's good answers. */
  get latency(): LatencyBook {
    return this.#modules.memory.latency;
  }

  /** Taken out of service by hand. */
  get isDrained(): boolean {
    return this.#modules.memory.drained.has(this.operator);
  }

  /** Further behind the others than the service allows. */
  isBehind(nowMs: number): boolean {
    return this.#modules.memory.view.isBehind(this.operator, nowMs);
  }

  #pathOf(call: BackendCall): string {
    if (call.path === "") return this.#root;
    // A query may hold question marks.
    const at = call.path.indexOf("?");
    const [path, query] = at === -1 ? [call.path, ""] : [call.path.slice(0, at), call.path.slice(at + 1)];
    const base = this.#url.pathname.endsWith("/") ? this.#url.pathname.slice(0, -1) : this.#url.pathname;
    const full = path === "" ? this.#url.pathname : `${base}${path}`;
    const queries = [this.#url.search.slice(1), query].filter((part) => part !== "");
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
  ): Promise<UpstreamResponse | TransportFailure> {
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
    return exchange(request, this.#modules);
  }

  /** How a large answer to a call is passed on while it arrives; undefined: it is taken whole. */
  streaming({ id, clientId }: BackendCall): StreamRules | undefined {
    if (id === undefined || this.family.isLegacyRpc) return undefined;
    return {
      ...this.#options.streaming,
      head: (beginning, status) => (status === 200 ? streamHead(beginning, id, clientId) : undefined),
    };
  }

  /** Reads what an exchange came to. */
  read(call: BackendCall, response: UpstreamResponse | TransportFailure, check: AnswerCheck): AttemptResult {
    if (!response.ok) return response;
    const source = { call, response, operator: this.operator };
    const { body, stream } = response;
    if (stream !== undefined) {
      return createAnswer(source, { body, schemaCheck: "unchecked", isError: false, stream });
    }
    const { service, maxCheckedBytes } = this.#options;
    return check.isFree === true && !this.family.isLegacyRpc
      ? classifyFreeAnswer(service, source)
      : classifyAnswer(service, source, check.maxCheckedBytes ?? maxCheckedBytes);
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

  /** Asks one question of ours. Never rejects. */
  async ask(call: BackendCall, signal: AbortSignal): Promise<AttemptResult> {
    const result = await this.exchange(call, call.body, this.#options.probeTimeoutMs, signal);
    return this.read(call, result, { maxCheckedBytes: 0 });
  }

  /** @inheritdoc */
  exchangeProbe(signal: AbortSignal): Promise<ProbeSeen> {
    return this.health.exchange(signal);
  }

  /** @inheritdoc */
  readProbe(seen: ProbeSeen): void {
    this.health.read(seen);
  }

  /** @inheritdoc */
  probeNeed(nowMs: number): ProbeNeed {
    return this.health.probeNeed(nowMs);
  }
}
