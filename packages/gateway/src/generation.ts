import type { ClientIpOf, Clock, Deadlines, Log, RequestId } from "@turnpike/base";
import type { PaymentStage, UnpaidLimit } from "@turnpike/payment";
import { type Documents, discoveryRoutes } from "./discovery/routes.ts";
import { createPaidEdge, type MatchPath } from "./edge/paid-edge.ts";
import type { TermsOf } from "./edge/terms.ts";
import { createFreeDoor } from "./free/door.ts";
import { createRelayCalls } from "./free/relay-calls.ts";
import type { BodyBudget } from "./http/body.ts";
import { createDesk, type Working } from "./http/desk.ts";
import type { Doors } from "./http/front.ts";
import type { Desk } from "./http/request.ts";
import type { Unsent } from "./http/unsent.ts";
import { Works } from "./http/works.ts";
import type { ConsumeQuota } from "./keys/consume-quota.ts";
import type { CallersInFlight } from "./limits/callers-in-flight.ts";
import { noRateLimits, type RateLimits } from "./limits/types.ts";
import { createReadiness, type Readiness } from "./monitoring/readiness.ts";
import { monitoringRoutes } from "./monitoring/routes.ts";
import type { Watch } from "./monitoring/watch.ts";
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
  readonly watch: Watch;
  readonly requestId: () => RequestId;
  readonly clientIp: ClientIpOf;
  /** By client: presented payments that do not pay. */
  readonly unpaid: UnpaidLimit;
  /** Bytes of request bodies. */
  readonly budget: BodyBudget;
  /** The part of them that calls of the free relay may take. */
  readonly freeBudget: BodyBudget;
  /** For bodies that do not come. */
  readonly deadlines: Deadlines;
  /** Bytes of answers that wait for their settlement. */
  readonly answers: BodyBudget;
  /** Bytes of large answers that are written and not sent yet. */
  readonly unsent: Unsent;
  readonly working: Working;
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
  readonly desk: Desk;
  readonly doors: Doors;
  readonly readiness: Readiness;
  readonly socketCalls: SocketCalls;
  /** Work that has not ended. */
  readonly works: Works;
  /** Tells the work to stop. */
  stop(): void;
}

const CHECK_TIMEOUT_MS = 2_000;
const CHECK_KEEP_MS = 1_000;
/** How long work that was told to stop may take to release what it holds. */
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
  const works = new Works();
  const services = [...catalogue.services.values()];
  const optionsOf = typeof options === "function" ? options : () => options;

  const desk = createDesk({ ...shared, works, maxConcurrentRequests: () => opts.maxConcurrentRequests });
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
  const edge = createPaidEdge(opts, { ...shared, publicUrl, services, termsOf, matchPath, pipeline, desk });
  const { relayDomain, requestTimeoutMs, freeTimeoutMs, maxBatchItems } = opts;
  const free = createFreeDoor(
    { relayDomain, requestTimeoutMs, timeoutMs: freeTimeoutMs, maxBatchItems },
    {
      services,
      relay,
      clock,
      desk,
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
    desk,
    doors: { edge, free, system },
    readiness,
    socketCalls: createSocketCalls({ calls, relay, subscriptions, requestId }),
    works,
    stop: () => stopping.abort(),
  };
}

/** Lets the work of a configuration end: within the time, and after that by being told to stop. */
export async function endWork(generation: Generation, timeoutMs: number, log: Log): Promise<void> {
  const { works } = generation;
  await works.settled(timeoutMs);
  if (works.size > 0) log.warn({ count: works.size }, "requests in flight are given up");
  generation.stop();
  await works.settled(ABORT_GRACE_MS);
}
