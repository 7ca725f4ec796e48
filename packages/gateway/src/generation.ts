import type { ClientIpOf, Clock, Deadlines, Log, RequestId } from "@turnpike/base";
import type { PaymentStage, UnpaidLimit } from "@turnpike/payment";
import { type Documents, discoveryRoutes } from "./discovery/routes.ts";
import { createPaidEdge, type MatchPath } from "./edge/paid-edge.ts";
import type { TermsOf } from "./edge/terms.ts";
import { createFreeDoor } from "./free/door.ts";
import { createRelayCalls } from "./free/relay-calls.ts";
import type { ByteBudget } from "./http/body.ts";
import { InFlightTracker } from "./http/in-flight-tracker.ts";
import type { Doors } from "./http/front.ts";
import type { RequestObserver } from "./http/request-observer.ts";
import { RequestRunner, type RunningCounts } from "./http/request-runner.ts";
import type { WriteBufferBudget } from "./http/write-buffer-budget.ts";
import type { ConsumeQuota } from "./keys/consume-quota.ts";
import type { CallersInFlight } from "./limits/callers-in-flight.ts";
import { noRateLimits, type RateLimits } from "./limits/types.ts";
import { createReadiness, type Readiness } from "./monitoring/readiness.ts";
import { monitoringRoutes } from "./monitoring/routes.ts";
import { createPipeline, type ParseCall } from "./pipeline.ts";
import type { GatewayOptions, GatewayParts, MetricsRegistry, ReadinessCheck } from "./types.ts";
import { createSocketCalls, type SocketCalls } from "./websocket/calls.ts";
import { noSubscriptions } from "./websocket/no-subscriptions.ts";

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
export interface Shared {
  readonly payment: PaymentStage;
  readonly checks: readonly ReadinessCheck[];
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: MetricsRegistry;
  readonly observer: RequestObserver;
  readonly requestId: () => RequestId;
  readonly clientIp: ClientIpOf;
  /** By client: presented payments that do not pay. */
  readonly unpaid: UnpaidLimit;
  /** Bytes of request bodies. */
  readonly budget: ByteBudget;
  /** The part of them that calls of the free relay may take. */
  readonly freeBudget: ByteBudget;
  /** For bodies that do not come. */
  readonly deadlines: Deadlines;
  /** Bytes of answers that wait for their settlement. */
  readonly answers: ByteBudget;
  /** Bytes of large answers that their clients have not read yet. */
  readonly writeBuffer: WriteBufferBudget;
  readonly running: RunningCounts;
  readonly isDraining: () => boolean;
  /** Free calls under way, by whose they are. */
  readonly inFlight: CallersInFlight;
  /** Takes calls from limits as a configuration has them. */
  readonly consumeQuota: (limits: RateLimits) => ConsumeQuota;
  /** True when requests may carry keys of applications. */
  readonly takesKeys: boolean;
}

/** Everything that was built from one configuration, and the work that still uses it. */
export interface Generation {
  readonly opts: GatewayOptions;
  readonly parts: GatewayParts;
  readonly runner: RequestRunner;
  readonly doors: Doors;
  readonly readiness: Readiness;
  readonly socketCalls: SocketCalls;
  readonly tracker: InFlightTracker;
  /** Aborts the requests that are in flight. */
  stop(): void;
}

const CHECK_TIMEOUT_MS = 2_000;
const CHECK_KEEP_MS = 1_000;
/** How long an aborted request may take to release what it holds. */
const ABORT_GRACE_MS = 3_000;

/** Builds the doors of one configuration. */
export function createGeneration(
  opts: GatewayOptions,
  parts: GatewayParts,
  made: EdgeParts,
  shared: Shared,
): Generation {
  const { payment, clock, log, metrics, clientIp, deadlines, requestId, consumeQuota, takesKeys } = shared;
  const { catalogue, relay, subscriptions = noSubscriptions, limits = noRateLimits, options } = parts;
  const { publicUrl, parse, matchPath, termsOf } = made;
  const stopping = new AbortController();
  const stop = stopping.signal;
  const tracker = new InFlightTracker();
  const services = [...catalogue.services.values()];
  const optionsOf = typeof options === "function" ? options : () => options;

  const maxConcurrentRequests = (): number => opts.maxConcurrentRequests;
  const runner = new RequestRunner({ maxConcurrentRequests }, { ...shared, tracker });
  const readiness = createReadiness(
    { checkTimeoutMs: CHECK_TIMEOUT_MS, keepMs: CHECK_KEEP_MS },
    { services: catalogue.services, payment, relay, subscriptions, checks: shared.checks, clock },
  );
  const { answers, freeBudget } = shared;
  const pipeline = createPipeline({
    payment,
    relay,
    optionsOf,
    parse,
    answers,
    clock,
    log,
    metrics,
    stopping: stop,
  });
  const edge = createPaidEdge(opts, { ...shared, publicUrl, services, termsOf, matchPath, pipeline, runner });
  const { relayDomain, requestTimeoutMs, freeTimeoutMs, maxBatchItems } = opts;
  const free = createFreeDoor(
    { relayDomain, requestTimeoutMs, timeoutMs: freeTimeoutMs, maxBatchItems },
    {
      services,
      relay,
      clock,
      runner,
      budget: freeBudget,
      deadlines,
      take: consumeQuota(limits),
      inFlight: shared.inFlight,
      takesKeys,
      clientIp,
      stopping: stop,
    },
  );
  const documents = discoveryRoutes({
    services: catalogue.services,
    documents: made.documents,
    serves: (id) => readiness.serves(id),
    missingMethods: (id) => relay.missingMethods(id),
  });
  const monitoring = monitoringRoutes({ readiness, payment });
  const system = { exact: new Map([...documents, ...monitoring.exact]), folders: monitoring.folders };
  const calls = createRelayCalls({ relay, clock, timeoutMs: freeTimeoutMs, stopping: stop });

  return {
    opts,
    parts,
    runner,
    doors: { edge, free, system },
    readiness,
    socketCalls: createSocketCalls({ calls, relay, subscriptions, requestId }),
    tracker,
    stop: () => stopping.abort(),
  };
}

/** Waits for the requests of a configuration, and aborts those that have not ended within the time. */
export async function drainGeneration(generation: Generation, timeoutMs: number, log: Log): Promise<void> {
  const { tracker } = generation;
  await tracker.drained(timeoutMs);
  if (tracker.size > 0) log.warn({ count: tracker.size }, "requests in flight are given up");
  generation.stop();
  await tracker.drained(ABORT_GRACE_MS);
}
