import {
  ByteBudget,
  ClientByteBudget,
  type ClientIpOf,
  type Clock,
  Deadlines,
  type Log,
  noTracer,
  Places,
  type Random,
  WriteBufferBudget,
} from "@turnpike/base";
import type { Catalogue, Service } from "@turnpike/catalogue";
import { type PaymentStage, UnpaidLimit } from "@turnpike/payment";
import type { Subscriptions } from "@turnpike/relay";
import type { MetricsRegistry } from "@turnpike/telemetry";
import { type Documents, discoveryRoutes } from "./discovery/routes.ts";
import { type MatchPath, PaidHandler } from "./edge/paid-handler.ts";
import { type ParseCall, Pipeline } from "./edge/pipeline.ts";
import type { TermsOf } from "./edge/terms.ts";
import { FreeHandler } from "./free/free-handler.ts";
import { RelayCalls } from "./free/relay-calls.ts";
import { AccessLog } from "./http/access-log.ts";
import { InFlightTracker } from "./http/in-flight-tracker.ts";
import { createRequestIds } from "./http/request-id.ts";
import { RequestObserver } from "./http/request-observer.ts";
import { RequestRunner, type RunningCounts } from "./http/request-runner.ts";
import { CallQuotas } from "./keys/call-quotas.ts";
import { CallersInFlight } from "./limits/callers-in-flight.ts";
import { noRateLimits } from "./limits/types.ts";
import { Readiness, type ReadinessCheck } from "./monitoring/readiness.ts";
import { monitoringRoutes } from "./monitoring/routes.ts";
import type { Handlers } from "./router.ts";
import type { GatewayModules, GatewayOptions, GatewayParts } from "./types.ts";
import { WebSocketCalls } from "./websocket/websocket-calls.ts";

/** What the catalogue and the families do for the edges; made when the public address is known. */
export interface EdgeParts {
  /** Address that clients use, without a trailing slash. */
  readonly publicUrl: string;
  readonly termsOf: TermsOf;
  readonly documents: Documents;
  readonly parse: ParseCall;
  readonly matchPath: MatchPath;
}

/** What all configurations of a running gateway have in common. */
export interface SharedModules {
  readonly payment: PaymentStage;
  readonly checks: readonly ReadinessCheck[];
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: MetricsRegistry;
  readonly random: Random;
  readonly observer: RequestObserver;
  /** The client's own id of a request, or a new one. */
  readonly requestId: ReturnType<typeof createRequestIds>;
  readonly clientIp: ClientIpOf;
  /** By client: presented payments that do not pay. */
  readonly unpaid: UnpaidLimit;
  /** Bytes of request bodies of paid calls, in total and by client. */
  readonly paidBudget: ClientByteBudget;
  /** The part of them that calls of the free relay may take. */
  readonly freeBudget: ByteBudget;
  /** For bodies that do not come. */
  readonly deadlines: Deadlines;
  /** Bytes of answers that wait for their settlement, in total, by client and by payer. */
  readonly answers: ClientByteBudget;
  /** Bytes of large answers that their clients have not read yet. */
  readonly writeBuffer: WriteBufferBudget;
  readonly running: RunningCounts;
  readonly isDraining: () => boolean;
  /** Paid calls under way, by client. */
  readonly paidPlaces: Places;
  /** Free calls under way, by whose they are. */
  readonly inFlight: CallersInFlight;
  readonly quotas: CallQuotas;
  /** True when requests may carry keys of applications. */
  readonly takesKeys: boolean;
}

/** How late a body's time-out may come. */
const BODY_STEP_MS = 100;
/** Share of the bytes of request bodies that free calls may hold, so that there is room for paid ones. */
const FREE_SHARE = 0.5;
/** Share of the paid calls under way that one client may have, and how many it may have in any case. */
const PAID_CLIENT_SHARE = 0.25;
const MIN_PAID_PLACES = 8;
/** Bytes that may wait in write buffers, as a share of those that may wait for their settlement. */
const WRITE_BUFFER_SHARE = 0.5;

/** Makes {@link SharedModules}; what `live` returns may change. */
export function createSharedModules(
  live: {
    readonly opts: () => GatewayOptions;
    readonly clientIp: ClientIpOf;
    readonly isDraining: () => boolean;
  },
  modules: GatewayModules,
): SharedModules {
  const { opts, clientIp } = live;
  const { applications, clientTokens, clock, log, metrics, random, tracer = noTracer } = modules;
  const access = new AccessLog(() => opts().accessLog, { log, clock, random });
  const budget = new ByteBudget(() => opts().maxBufferedBytes);
  const hashSeed = Buffer.from(random.bytes(4)).readUInt32LE();
  return {
    ...live,
    payment: modules.payment,
    checks: modules.readiness,
    clock,
    log,
    metrics,
    random,
    observer: new RequestObserver({ access, tracer, clock, clientIp }),
    requestId: createRequestIds(random),
    unpaid: new UnpaidLimit(() => opts().unpaidPerClient, {
      clock,
      ...(clientTokens === undefined ? {} : { shared: clientTokens }),
    }),
    paidBudget: new ClientByteBudget(() => opts().maxBufferedBytes, budget),
    freeBudget: new ByteBudget(() => opts().maxBufferedBytes * FREE_SHARE, budget),
    deadlines: new Deadlines({ stepMs: BODY_STEP_MS }, { clock }),
    answers: new ClientByteBudget(() => opts().maxHeldAnswerBytes),
    writeBuffer: new WriteBufferBudget(() => opts().maxHeldAnswerBytes * WRITE_BUFFER_SHARE),
    running: { paid: 0, free: 0, discovery: 0, monitoring: 0 },
    paidPlaces: new Places({
      max: () => opts().maxConcurrentRequests,
      maxEach: () =>
        Math.min(
          opts().maxConcurrentPerClient,
          Math.max(MIN_PAID_PLACES, Math.floor(opts().maxConcurrentRequests * PAID_CLIENT_SHARE)),
        ),
    }),
    inFlight: new CallersInFlight({ maxConcurrentPerClient: () => opts().maxConcurrentPerClient, metrics }),
    quotas: new CallQuotas({ hashSeed }, { applications, clock, metrics }),
    takesKeys: applications !== undefined,
  };
}

const CHECK_TIMEOUT_MS = 2_000;
const CHECK_KEEP_MS = 1_000;
/** How long an aborted request may take to release what it holds. */
const ABORT_GRACE_MS = 3_000;

/** A relay whose suppliers have no WebSockets. */
export const noSubscriptions: Subscriptions = {
  offers: () => false,
  subscribe: async () => ({ ok: false, code: "NO_SUPPLIERS" }),
  call: async () => ({ kind: "lost" }),
  pair: async () => undefined,
  async [Symbol.asyncDispose]() {},
};

/** Everything that is built from one configuration, and the requests that still use it. */
export class Generation {
  readonly opts: GatewayOptions;
  readonly parts: GatewayParts;
  readonly runner: RequestRunner;
  readonly handlers: Handlers;
  readonly readiness: Readiness;
  readonly subscriptions: Subscriptions;
  readonly socketCalls: WebSocketCalls;
  readonly tracker = new InFlightTracker();
  readonly #stopping = new AbortController();
  readonly #log: Log;

  constructor(opts: GatewayOptions, parts: GatewayParts, made: EdgeParts, shared: SharedModules) {
    const { payment, clock, log } = shared;
    const { relay, subscriptions = noSubscriptions, limits = noRateLimits, options } = parts;
    const { services } = parts.catalogue;
    const list = [...services.values()];
    const stopping = this.#stopping.signal;
    this.opts = opts;
    this.parts = parts;
    this.subscriptions = subscriptions;
    this.#log = log;
    this.runner = new RequestRunner(
      { maxConcurrentRequests: () => opts.maxConcurrentRequests },
      { ...shared, tracker: this.tracker },
    );
    this.readiness = new Readiness(
      { checkTimeoutMs: CHECK_TIMEOUT_MS, keepMs: CHECK_KEEP_MS },
      { services, payment, relay, subscriptions, checks: shared.checks, clock },
    );
    const optionsOf = typeof options === "function" ? options : () => options;
    const pipeline = new Pipeline({ ...shared, relay, optionsOf, parse: made.parse, stopping });
    const paid = new PaidHandler(opts, { ...shared, ...made, services: list, pipeline, runner: this.runner });
    const { relayDomain, requestTimeoutMs, upstreamTimeoutMs, maxBatchItems } = opts;
    const free = new FreeHandler(
      { relayDomain, requestTimeoutMs, upstreamTimeoutMs, maxBatchItems },
      {
        ...shared,
        services: list,
        relay,
        runner: this.runner,
        budget: shared.freeBudget,
        consumeQuota: (request) => shared.quotas.consume(limits, request),
        stopping,
      },
    );
    const discovery = discoveryRoutes({
      services,
      documents: made.documents,
      serves: (id) => this.readiness.serves(id),
      missingMethods: (id) => relay.missingMethods(id),
    });
    const monitoring = monitoringRoutes({ readiness: this.readiness, payment });
    const system = { exact: new Map([...discovery, ...monitoring.exact]), folders: monitoring.folders };
    this.handlers = { paid, free, system };
    const calls = new RelayCalls({ upstreamTimeoutMs }, { relay, clock, stopping });
    this.socketCalls = new WebSocketCalls({ calls, relay, subscriptions, requestId: shared.requestId });
  }

  /** Waits for the requests in flight, and aborts those that have not ended within the time. */
  async drain(timeoutMs: number): Promise<void> {
    await this.tracker.drained(timeoutMs);
    if (this.tracker.size > 0) this.#log.warn({ count: this.tracker.size }, "requests in flight are given up");
    this.#stopping.abort();
    await this.tracker.drained(ABORT_GRACE_MS);
  }
}

/** True when open WebSockets may stay as they are while one configuration replaces another. */
export function keepsWebSockets(before: Generation, next: Generation): boolean {
  return (
    before.parts.subscriptions === next.parts.subscriptions &&
    before.opts.relayDomain === next.opts.relayDomain &&
    JSON.stringify(before.opts.webSockets) === JSON.stringify(next.opts.webSockets) &&
    haveSameSocketServices(before.parts.catalogue, next.parts.catalogue)
  );
}

/**
 * Services without a family have no WebSockets, and none of them is sold: what is only registered may come and go, and what
 * is sold may change, beside open ones.
 */
function haveSameSocketServices(before: Catalogue, next: Catalogue): boolean {
  if (before === next) return true;
  const withFamilies = ({ services }: Catalogue) =>
    [...services.values()].filter(({ families }) => families.length > 0);
  const [old, now] = [withFamilies(before), withFamilies(next)];
  return old.length === now.length && old.every((service, at) => isSameButSold(service, now[at]));
}

function isSameButSold(before: Service, next: Service | undefined): boolean {
  if (before === next) return true;
  const keys = (service: Service) => Object.entries(service).filter(([key]) => key !== "paid");
  const others = next === undefined ? undefined : new Map<string, unknown>(keys(next));
  return others?.size === keys(before).length && keys(before).every(([key, value]) => others.get(key) === value);
}
