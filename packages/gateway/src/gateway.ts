import { AppError, type ClientIpOf, createClientIp, createHostCheck, Deadlines, noTracer } from "@turnpike/base";
import type { Catalogue, Service } from "@turnpike/catalogue";
import { createUnpaidLimit } from "@turnpike/payment";
import type { FreeDoor } from "./free/door.ts";
import { createGeneration, type EdgeParts, drainGeneration, type Generation, type Shared } from "./generation.ts";
import { AccessLog } from "./http/access-log.ts";
import { ByteBudget } from "./http/body.ts";
import { countHosts, headFault, isForRelay, openDoor } from "./http/front.ts";
import { InFlightTracker } from "./http/in-flight-tracker.ts";
import { createPlainListener } from "./http/plain-listener.ts";
import { type AnyRequest, canDiscard, type RequestContext, type ResponseSink } from "./http/request.ts";
import { createRequestIds } from "./http/request-id.ts";
import { RequestObserver, unobservedContext } from "./http/request-observer.ts";
import { closingError, RequestRunner, type RunningCounts, reportRunning } from "./http/request-runner.ts";
import { applyHttpLimits, closeListener, closeServer, createHttpServer, listenOn } from "./http/server.ts";
import { hostName, parseTarget } from "./http/target.ts";
import { WriteBufferBudget } from "./http/write-buffer-budget.ts";
import { createConsumeEvents, createConsumeQuota } from "./keys/consume-quota.ts";
import { CallersInFlight } from "./limits/callers-in-flight.ts";
import { noRateLimits, type RateLimits } from "./limits/types.ts";
import { oldGenerations } from "./metrics.ts";
import { createEdgeGauges } from "./monitoring/edge-gauges.ts";
import { createMetricsServer } from "./monitoring/metrics-server.ts";
import type { Gateway, GatewayModules, GatewayOptions, GatewayParts } from "./types.ts";
import { createSocketCounts } from "./websocket/counts.ts";
import { createWebSocketDoor, type WebSocketDoor } from "./websocket/door.ts";
import { noSubscriptions } from "./websocket/no-subscriptions.ts";

/** How late a body's time-out may come. */
const BODY_STEP_MS = 100;
/** Share of the bytes of request bodies that free calls may hold, so that there is room for paid ones. */
const FREE_SHARE = 0.5;
/** Share of the bytes of answers that wait for their settlement which may wait in write buffers besides. */
const WRITE_BUFFER_SHARE = 0.5;

/** Makes the edges' parts of one configuration. */
export type PartsOf = (publicUrl: string, opts: GatewayOptions, parts: GatewayParts) => EdgeParts;

/** The gateway over given parts; `createGateway` is this with the product's parts. */
export function assembleGateway(
  startOpts: GatewayOptions,
  modules: GatewayModules & { readonly parts: PartsOf },
): Gateway {
  const { payment, clock, log, metrics, random } = modules;
  const running: RunningCounts = { paid: 0, free: 0, discovery: 0, monitoring: 0 };
  const old = new Set<Generation>();
  const counts = createSocketCounts(metrics);
  const gauges = createEdgeGauges(metrics);
  let opts = startOpts;
  let clientIpOf = createClientIp(opts.trustedProxies);
  let draining = false;
  let live: Generation | undefined;
  let webSockets: WebSocketDoor | undefined;
  let gatewayPort = 0;

  const requestId = createRequestIds(random);
  const clientIp: ClientIpOf = (req) => clientIpOf(req);
  const access = new AccessLog(() => opts.accessLog, { log, clock, random });
  const observer = new RequestObserver({ access, tracer: modules.tracer ?? noTracer, clock, clientIp });
  const takesKeys = modules.applications !== undefined;
  const consumeQuota = createConsumeQuota({
    applications: modules.applications,
    clock,
    metrics,
    hashSeed: Buffer.from(random.bytes(4)).readUInt32LE(),
  });
  const inFlight = new CallersInFlight({ maxPerCaller: () => opts.maxConcurrentPerClient, metrics });
  const consumeEvents = createConsumeEvents(modules.applications);
  const budget = new ByteBudget(() => opts.maxBufferedBytes);
  const shared: Shared = {
    payment,
    checks: modules.readiness,
    clock,
    log,
    metrics,
    observer,
    requestId,
    clientIp,
    unpaid: createUnpaidLimit(() => opts.unpaidPerClient, {
      clock,
      ...(modules.clientTokens === undefined ? {} : { shared: modules.clientTokens }),
    }),
    budget,
    freeBudget: new ByteBudget(() => opts.maxBufferedBytes * FREE_SHARE, budget),
    deadlines: new Deadlines({ stepMs: BODY_STEP_MS }, { clock }),
    answers: new ByteBudget(() => opts.maxHeldAnswerBytes),
    writeBuffer: new WriteBufferBudget(() => opts.maxHeldAnswerBytes * WRITE_BUFFER_SHARE),
    running,
    isDraining: () => draining,
    inFlight,
    consumeQuota,
    takesKeys,
  };
  /** For what comes before there is a configuration. */
  const earlyRunner = new RequestRunner(
    { maxConcurrentRequests: () => opts.maxConcurrentRequests },
    { ...shared, tracker: new InFlightTracker() },
  );

  const isFree = (req: AnyRequest): boolean => isForRelay(req, opts.relayDomain);

  const slow = (req: AnyRequest, res: ResponseSink, url: string, context: RequestContext): void => {
    const target = parseTarget(url) ?? { path: "", query: "", authority: undefined };
    const exchange = { req, res, requestId: requestId(req), startMs: clock.monotonicMs(), target, context };
    const fault = headFault(exchange, opts.maxHeaders);
    if (fault === undefined && live !== undefined) openDoor(live.doors, live.runner, exchange);
    else {
      const [group, service] = isFree(req) ? (["free", "unknown"] as const) : (["discovery", ""] as const);
      earlyRunner.respond(exchange, group, service, closingError(exchange, group, fault ?? "NOT_READY"));
    }
  };

  const handle = (req: AnyRequest, res: ResponseSink): void => {
    const url = req.url ?? "";
    const context = observer.onRequest(req);
    const doors = live?.doors;
    const route = context === undefined ? doors?.edge.routes.get(url) : undefined;
    const isUnpaid = route !== undefined && req.method === "POST" && !draining && isPlain(req, opts, doors?.free);
    if (isUnpaid) doors?.edge.unpaid(route, res, requestId(req));
    else slow(req, res, url, context ?? unobservedContext());
  };

  const server = createHttpServer(opts, {
    log,
    requestId,
    handle,
    isFree,
    upgrades: {
      wants: (req) => webSockets?.wants(req) === true,
      take: (req, socket, head) => webSockets?.handleUpgrade(req, socket, head),
    },
  });
  const listener = createPlainListener(
    { maxHeaders: () => opts.maxHeaders, maxHeaderBytes: opts.maxHeaderBytes },
    { server, handle, isReady: () => live !== undefined && !draining, clock },
  );
  const flush = async (): Promise<void> => {
    reportRunning(running, metrics);
    metrics.set(oldGenerations, old.size);
    await gauges.flush(live);
  };
  const { host, metricsHost = host, allowedHosts } = opts;
  const hosts = createHostCheck({ host: metricsHost, allowedHosts });
  const metricsServer = createMetricsServer({ metrics, log, requestId, flush, hosts });

  const build = (parts: GatewayParts): Generation => {
    const publicUrl = opts.publicUrl ?? `http://${hostText(opts.host)}:${gatewayPort}`;
    return createGeneration(opts, parts, modules.parts(publicUrl, opts, parts), shared);
  };

  /** A WebSocket outlives configurations that do not concern it, so its parts are those of the moment. */
  const openSockets = ({ parts }: Generation): WebSocketDoor => {
    const { catalogue, subscriptions = noSubscriptions } = parts;
    const limits = (): RateLimits => live?.parts.limits ?? noRateLimits;
    const liveLimits: RateLimits = {
      take: (request) => limits().take(request),
      consumeEvents: (clientIp, events) => limits().consumeEvents(clientIp, events),
    };
    return createWebSocketDoor(
      { relayDomain: opts.relayDomain, maxHeaders: opts.maxHeaders, limits: opts.webSockets },
      {
        services: catalogue.services.values(),
        subscriptions,
        async calls(...call) {
          const generation = live;
          if (generation === undefined) return { body: "", result: "SHUTTING_DOWN" };
          const reply = generation.socketCalls(...call);
          generation.tracker.track(reply);
          return reply;
        },
        take: consumeQuota(liveLimits),
        consumeEvents: consumeEvents(liveLimits),
        inFlight,
        callTimeoutMs: () => opts.freeTimeoutMs,
        takesKeys,
        clientIp,
        requestId,
        random,
        metrics,
        counts,
        observer,
      },
    );
  };

  const retire = async (generation: Generation, sockets: WebSocketDoor | undefined): Promise<void> => {
    old.add(generation);
    await Promise.all([
      drainGeneration(generation, opts.stallTimeoutMs, log),
      sockets?.close(generation.opts.drainTimeoutMs, "reloaded"),
    ]);
    old.delete(generation);
  };

  return {
    async listen() {
      gatewayPort = await listenOn(listener.net, opts.host, opts.gatewayPort, opts.reusePort);
      const { catalogue, relay, options, subscriptions, limits } = modules;
      const generation = build({
        catalogue,
        relay,
        options,
        ...(subscriptions === undefined ? {} : { subscriptions }),
        ...(limits === undefined ? {} : { limits }),
      });
      webSockets = openSockets(generation);
      live = generation;
      const { metricsPort: wanted, metricsHost = opts.host } = opts;
      const metricsPort = wanted === undefined ? 0 : await listenOn(metricsServer, metricsHost, wanted);
      log.info({ gatewayPort, metricsPort, services: catalogue.services.size }, "listening");
      return { gatewayPort, metricsPort };
    },
    flush,
    replace(nextOpts, parts) {
      const before = live;
      if (before === undefined || draining) throw new AppError(draining ? "SHUTTING_DOWN" : "NOT_READY");
      const beforeOpts = opts;
      // Whatever is wrong with the new ones is thrown here, with nothing changed.
      const nextIp = createClientIp(nextOpts.trustedProxies);
      opts = nextOpts;
      let next: Generation;
      try {
        next = build(parts);
      } catch (error) {
        opts = beforeOpts;
        throw error;
      }
      gauges.take(before);
      clientIpOf = nextIp;
      live = next;
      applyHttpLimits(server, opts);
      const sockets = keepsSockets(before, next) ? undefined : webSockets;
      if (sockets !== undefined) webSockets = openSockets(next);
      return { released: retire(before, sockets) };
    },
    async [Symbol.asyncDispose]() {
      if (draining) return;
      draining = true;
      const closed = [closeListener(listener), closeServer(metricsServer)];
      const generations = live === undefined ? [...old] : [...old, live];
      await Promise.all([
        ...generations.map(({ tracker }) => tracker.drained(opts.drainTimeoutMs)),
        webSockets?.close(opts.drainTimeoutMs),
      ]);
      await Promise.all(generations.map((generation) => drainGeneration(generation, 0, log)));
      listener.closeAllConnections();
      metricsServer.closeAllConnections();
      await Promise.all(closed);
    },
  };
}

/**
 * Services without a family have no WebSockets, and none of them is sold: what is only registered may come and go, and what
 * is sold may change, beside open ones.
 */
function haveSameSockets(before: Catalogue, next: Catalogue): boolean {
  if (before === next) return true;
  const speaking = ({ services }: Catalogue) => [...services.values()].filter(({ families }) => families.length > 0);
  const [old, now] = [speaking(before), speaking(next)];
  return old.length === now.length && old.every((service, at) => isSameButSold(service, now[at]));
}

function isSameButSold(before: Service, next: Service | undefined): boolean {
  if (before === next) return true;
  const keys = (service: Service) => Object.entries(service).filter(([key]) => key !== "paid");
  const others = next === undefined ? undefined : new Map<string, unknown>(keys(next));
  return others?.size === keys(before).length && keys(before).every(([key, value]) => others.get(key) === value);
}

/** True when open WebSockets may stay as they are. */
function keepsSockets(before: Generation, next: Generation): boolean {
  const same = (read: (generation: Generation) => unknown): boolean => read(before) === read(next);
  return (
    same(({ parts }) => parts.subscriptions) &&
    haveSameSockets(before.parts.catalogue, next.parts.catalogue) &&
    same(({ opts }) => opts.relayDomain) &&
    same(({ opts }) => JSON.stringify(opts.webSockets))
  );
}

/** True for a request that is answered with its route's terms whatever else it says. */
function isPlain(req: AnyRequest, opts: GatewayOptions, free: FreeDoor | undefined): boolean {
  const { headers } = req;
  return (
    headers["payment-signature"] === undefined &&
    canDiscard(req) &&
    req.rawHeaders.length <= opts.maxHeaders * 2 &&
    headers.host !== undefined &&
    countHosts(req.rawHeaders) === 1 &&
    free?.isRelayHost(hostName(headers.host)) === false
  );
}

function hostText(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
