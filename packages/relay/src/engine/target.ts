import { type Clock, JsonCheck, type Log, type Metrics, type ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { BackendCall, RpcType } from "@turnpike/protocol";
import { parseAnswer } from "../answers/parsed-answer.ts";
import { scanAnswer } from "../answers/scanned-answer.ts";
import { type AttemptResult, createAnswer } from "../answers/upstream-answer.ts";
import type { Family } from "../families/family.ts";
import { familyOf } from "../families/registry.ts";
import type { ServiceMemory } from "../memory.ts";
import type { LatencyTracker } from "../quality/latency.ts";
import type { ProbeTarget } from "../quality/prober.ts";
import type { ProbeNeed, SupplierQuality } from "../quality/supplier-quality.ts";
import { type DropReason, isDropReason } from "../suppliers/supplier-set.ts";
import type {
  SendHandle,
  SendPurpose,
  StreamRules,
  SupplierEndpoint,
  TransportFailure,
  UpstreamResponse,
} from "../transport/transport.ts";
import { supplierTag } from "./filters.ts";
import { Health, type ProbeSeen } from "./health.ts";

interface TargetOptions {
  readonly service: Service;
  readonly endpoint: SupplierEndpoint;
  readonly maxAnswerBytes: number;
  readonly maxCheckedBytes: number;
  readonly probeTimeoutMs: number;
  readonly streaming: StreamBounds;
}

interface TargetModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** What was learned of its service, and of itself. */
  readonly memory: ServiceMemory;
  readonly quality: SupplierQuality;
  /** Takes its endpoint out of the service's suppliers. */
  readonly drop: (endpoint: SupplierEndpoint, reason: DropReason) => void;
}

/** When large answers are passed on while they arrive. */
export type StreamBounds = Omit<StreamRules, "head" | "malformed">;

/** How a call is sent. */
export interface TargetRequest {
  readonly purpose: SendPurpose;
  readonly body: Uint8Array | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  /** Multiplies the largest answer that is taken. */
  readonly scale?: number;
  readonly handle?: SendHandle;
  readonly stream?: StreamRules | undefined;
}

/** How an answer is read: for sale, or for the free relay. */
export interface AnswerCheck {
  readonly isFree?: boolean;
  /** Larger answers that are sold are not held against their schema. */
  readonly maxCheckedBytes?: number;
}

const ID = String.raw`("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|null)`;
const VERSION = String.raw`"jsonrpc"\s*:\s*"2\.0"`;
const BEGINNING = new RegExp(
  String.raw`^\s*\{\s*(?:${VERSION}\s*,\s*"id"\s*:\s*${ID}|"id"\s*:\s*${ID}\s*,\s*${VERSION})\s*,\s*"result"\s*:\s*[[{"]`,
);
/** Members before the result are read in so many bytes. */
const BEGINNING_BYTES = 4_096;

const SMALL_BATCH_MS = 300_000;

/** One endpoint of a service as the engine sees it: sends, reads what comes back, and what is known of it. */
export class Target implements ProbeTarget<ProbeSeen> {
  readonly operator: string;
  readonly rpcType: RpcType;
  readonly tag: string;
  readonly quality: SupplierQuality;
  readonly health: Health;
  readonly family: Family;
  /** Where it is reached now. Another one of the same back-end may take its place, as with each session. */
  endpoint: SupplierEndpoint;
  readonly #options: TargetOptions;
  readonly #modules: TargetModules;
  #maxBatch = Number.POSITIVE_INFINITY;
  #smallBatchUntilMs = 0;

  constructor(options: TargetOptions, modules: TargetModules) {
    const { service, endpoint } = options;
    this.#options = options;
    this.#modules = modules;
    this.endpoint = endpoint;
    this.operator = endpoint.operator;
    this.rpcType = endpoint.rpcType;
    this.tag = supplierTag(service.id, endpoint.operator, endpoint.label);
    this.quality = modules.quality;
    this.family = familyOf(service, endpoint.rpcType);
    this.health = new Health(options, {
      ...modules,
      view: modules.memory.view,
      onWrongChain: () => modules.memory.cache.dropOperator(endpoint.operator),
      probe: this.family.probe(service, endpoint.rpcType),
      ask: (call, signal) => this.ask(call, signal),
    });
  }

  get service(): Service {
    return this.#options.service;
  }

  get serviceId(): ServiceId {
    return this.#options.service.id;
  }

  /** What logs and the admin API show of where it is. */
  get label(): string {
    return this.endpoint.label;
  }

  /** See `SupplierEndpoint`. */
  get isPaid(): boolean {
    return this.endpoint.isPaid === true;
  }

  /** See `SupplierEndpoint`. */
  get isReserve(): boolean {
    return this.endpoint.isReserve === true;
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
  get latency(): LatencyTracker {
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

  /** Sends a call. Never rejects. */
  async send(
    call: BackendCall,
    { purpose, body, timeoutMs, signal, scale = 1, handle, stream }: TargetRequest,
  ): Promise<UpstreamResponse | TransportFailure> {
    const { endpoint } = this;
    const response = await endpoint.transport.send(endpoint, {
      purpose,
      method: call.verb,
      path: call.path,
      headers: call.headers,
      body,
      timeoutMs,
      maxResponseBytes: this.#options.maxAnswerBytes * scale,
      signal,
      handle,
      stream,
    });
    if (!response.ok && isDropReason(response.reason)) this.#modules.drop(endpoint, response.reason);
    return response;
  }

  /** How a large answer to a call is passed on while it arrives; undefined: it is taken whole. */
  streaming({ id, clientId }: BackendCall): StreamRules | undefined {
    if (id === undefined || this.family.isLegacyRpc) return undefined;
    return {
      ...this.#options.streaming,
      head: (beginning, status) => (status === 200 ? streamHead(beginning, id, clientId) : undefined),
      malformed: () => this.quality.failed(this.#modules.clock.monotonicMs(), "not_json", 0),
    };
  }

  /** Reads what a call came to. */
  read(call: BackendCall, response: UpstreamResponse | TransportFailure, check: AnswerCheck): AttemptResult {
    if (!response.ok) return response;
    const source = { call, response, operator: this.operator };
    const { body, stream } = response;
    if (stream !== undefined) {
      return createAnswer(source, { body, schemaCheck: "unchecked", isError: false, stream });
    }
    const { service, maxCheckedBytes } = this.#options;
    return check.isFree === true && !this.family.isLegacyRpc
      ? scanAnswer(service, source)
      : parseAnswer(service, source, check.maxCheckedBytes ?? maxCheckedBytes);
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
    const timeoutMs = this.#options.probeTimeoutMs;
    const response = await this.send(call, { purpose: "probe", body: call.body, timeoutMs, signal });
    return this.read(call, response, { maxCheckedBytes: 0 });
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

/**
 * The beginning of a JSON-RPC result with the client's own id; undefined when it is not known to answer this call before
 * its end: then the answer has to be taken whole.
 */
function streamHead(beginning: Buffer, wantedId: string, clientId: string | undefined): Uint8Array | undefined {
  const text = beginning.toString("latin1", 0, BEGINNING_BYTES);
  const found = BEGINNING.exec(text);
  const raw = found?.[1] ?? found?.[2];
  if (raw === undefined || raw !== Buffer.from(wantedId).toString("latin1")) return undefined;
  // A text that is malformed already is taken whole, so that another supplier can be asked.
  if (!new JsonCheck().write(beginning)) return undefined;
  if (clientId === undefined) return beginning;
  const at = text.indexOf(raw, text.indexOf('"id"') + 4);
  return Buffer.concat([beginning.subarray(0, at), Buffer.from(clientId), beginning.subarray(at + raw.length)]);
}
