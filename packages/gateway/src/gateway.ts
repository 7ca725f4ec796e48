import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { bytesToHex, errorRow, type RequestId } from "@turnpike/base";
import { type Documents, discoveryRoutes } from "./discovery/routes.ts";
import { createPaidEdge, type MatchPath } from "./edge/paid-edge.ts";
import type { TermsOf } from "./edge/terms.ts";
import { createFreeDoor, type FreeDoor } from "./free/door.ts";
import { createRelayCalls } from "./free/relay-calls.ts";
import { type Answer, errorAnswer, writeAnswer } from "./http/answer.ts";
import { createBodyBudget } from "./http/body.ts";
import { createClientIp } from "./http/client-ip.ts";
import { type Doors, headFault, openDoor } from "./http/front.ts";
import { canDiscard, type Desk, type Door, type Exchange, type Slot } from "./http/request.ts";
import { createHttpServer, listenOn } from "./http/server.ts";
import { hostName, parseTarget } from "./http/target.ts";
import { noRateLimits } from "./limits/types.ts";
import { gatewayReady, inFlight, requestSeconds, requestsTotal, serviceReady } from "./metrics.ts";
import { createMetricsServer } from "./monitoring/metrics-server.ts";
import { createReadiness } from "./monitoring/readiness.ts";
import { monitoringRoutes } from "./monitoring/routes.ts";
import { createPipeline, faultFields, type ParseCall } from "./pipeline.ts";
import type { Gateway, GatewayModules, GatewayOptions } from "./types.ts";
import { createSocketCalls } from "./websocket/calls.ts";
import { createWebSocketDoor, type WebSocketDoor } from "./websocket/door.ts";
import { noSubscriptions } from "./websocket/no-subscriptions.ts";

/** What the catalogue and the families do for the edges; made when the public address is known. */
export interface EdgeParts {
  readonly termsOf: TermsOf;
  readonly documents: Documents;
  readonly parse: ParseCall;
  readonly matchPath: MatchPath;
}

const CHECK_TIMEOUT_MS = 2_000;
const CHECK_KEEP_MS = 1_000;
/** How long work that was told to stop may take to release what it holds. */
const ABORT_GRACE_MS = 3_000;

/** The gateway over given parts; `createGateway` is this with the product's parts. */
export function assembleGateway(
  opts: GatewayOptions,
  modules: GatewayModules & { readonly parts: (publicUrl: string) => EdgeParts },
): Gateway {
  const { catalogue, payment, relay, options, clock, log, metrics, random } = modules;
  const limits = modules.limits ?? noRateLimits;
  const clientIp = createClientIp(opts.trustedProxies);
  const stopping = new AbortController();
  const budget = createBodyBudget(opts.maxBufferedBytes);
  const works = new Set<Promise<void>>();
  const working: Record<Door, number> = { paid: 0, free: 0, discovery: 0, monitoring: 0 };
  let draining = false;
  let doors: Doors | undefined;
  let webSockets: WebSocketDoor | undefined;

  const idPrefix = bytesToHex(random.bytes(8));
  let idCount = 0;
  const requestId = (): RequestId => `${idPrefix}-${(++idCount).toString(36)}` as RequestId;

  const readiness = createReadiness(
    { checkTimeoutMs: CHECK_TIMEOUT_MS, keepMs: CHECK_KEEP_MS },
    { services: catalogue.services, payment, relay, checks: modules.readiness, clock },
  );

  const record = (exchange: Exchange, door: Door, service: string, status: number, result: string): void => {
    metrics.count(requestsTotal, { door, service, status: String(status), result });
    metrics.observe(requestSeconds, (clock.monotonicMs() - exchange.startMs) / 1_000, { door, result });
  };

  const desk: Desk = {
    answer(exchange, door, service, answer) {
      const { req, res } = exchange;
      const close = answer.close === true || draining || (!req.complete && !canDiscard(req));
      writeAnswer(res, close ? { ...answer, close } : answer, exchange.requestId, req.method === "HEAD");
      record(exchange, door, service, answer.status, answer.result);
    },
    work(exchange, door, service, work) {
      const isFull = (): boolean => working[door] >= opts.maxConcurrentRequests;
      const shed = draining ? "SHUTTING_DOWN" : isFull() ? "OVERLOADED" : undefined;
      if (shed !== undefined && door !== "monitoring") {
        desk.answer(exchange, door, service, shedAnswer(exchange, door, shed));
        return;
      }
      working[door]++;
      let isInside = true;
      const slot: Slot = {
        async outside(wait) {
          working[door]--;
          isInside = false;
          const result = await wait();
          if (isFull()) return undefined;
          working[door]++;
          isInside = true;
          return result;
        },
      };
      const run = async (): Promise<void> => {
        try {
          const answer = await work(slot);
          if (answer === undefined) record(exchange, door, service, 499, "gone");
          else desk.answer(exchange, door, service, answer);
        } catch (error) {
          log.error({ ...faultFields(error), requestId: exchange.requestId, door, service }, "a request failed");
          desk.answer(exchange, door, service, errorAnswer("INTERNAL", exchange.requestId, { close: true }));
        } finally {
          if (isInside) working[door]--;
        }
      };
      const running = run();
      works.add(running);
      void running.finally(() => works.delete(running));
    },
  };

  const slow = (req: IncomingMessage, res: ServerResponse, url: string): void => {
    const target = parseTarget(url) ?? { path: "", query: "", authority: undefined };
    const exchange = { req, res, requestId: requestId(), startMs: clock.monotonicMs(), target };
    const notReady = doors === undefined ? errorAnswer("NOT_READY", exchange.requestId, { close: true }) : undefined;
    const fault = headFault(exchange, opts.maxHeaders) ?? notReady;
    if (fault !== undefined) desk.answer(exchange, "discovery", "", fault);
    else if (doors !== undefined) openDoor(doors, desk, exchange);
  };

  const handle = (req: IncomingMessage, res: ServerResponse): void => {
    const url = req.url ?? "";
    const route = doors?.edge.routes.get(url);
    const isUnpaid = route !== undefined && req.method === "POST" && !draining && isPlain(req, opts, doors?.free);
    if (isUnpaid) doors?.edge.unpaid(route, res, requestId());
    else slow(req, res, url);
  };

  const server = createHttpServer(opts, {
    log,
    requestId,
    handle,
    upgrades: {
      wants: (req) => webSockets?.wants(req) === true,
      take: (req, socket, head) => webSockets?.handleUpgrade(req, socket, head),
    },
  });
  const flush = async (): Promise<void> => {
    for (const [door, count] of Object.entries(working)) metrics.set(inFlight, count, { door });
    for (const id of catalogue.services.keys())
      metrics.set(serviceReady, readiness.serves(id) ? 1 : 0, { service: id });
    for (const route of doors?.edge.routes.values() ?? []) {
      if (route.unpaid === 0) continue;
      const labels = { door: "paid", service: route.service.id, status: "402", result: "PAYMENT_REQUIRED" };
      metrics.count(requestsTotal, labels, route.unpaid);
      route.unpaid = 0;
    }
    metrics.set(gatewayReady, doors !== undefined && (await readiness.gateway()).length === 0 ? 1 : 0);
  };
  const metricsServer = createMetricsServer({ metrics, log, requestId, flush });

  return {
    async listen() {
      const gatewayPort = await listenOn(server, opts.host, opts.gatewayPort);
      const parts = modules.parts(opts.publicUrl ?? `http://${hostText(opts.host)}:${gatewayPort}`);
      const { parse, matchPath, termsOf } = parts;
      const services = [...catalogue.services.values()];
      const stop = stopping.signal;
      const optionsOf = typeof options === "function" ? options : () => options;
      const answers = createBodyBudget(opts.maxHeldAnswerBytes);
      const sell = createPipeline({ payment, relay, optionsOf, parse, answers, clock, log, metrics, stopping: stop });
      const edge = createPaidEdge(opts, { services, termsOf, matchPath, sell, desk, budget });
      const free = createFreeDoor(
        {
          relayDomain: opts.relayDomain,
          requestTimeoutMs: opts.requestTimeoutMs,
          timeoutMs: opts.freeTimeoutMs,
          maxBatchItems: opts.maxBatchItems,
        },
        { services, relay, clock, desk, budget, limits, clientIp, stopping: stop },
      );
      const { subscriptions = noSubscriptions } = modules;
      const freeCalls = createRelayCalls({ relay, clock, timeoutMs: opts.freeTimeoutMs, stopping: stop });
      webSockets = createWebSocketDoor(
        { relayDomain: opts.relayDomain, limits: opts.webSockets },
        {
          services,
          subscriptions,
          calls: createSocketCalls({ calls: freeCalls, relay, subscriptions, requestId }),
          limits,
          clientIp,
          requestId,
          random,
          metrics,
        },
      );
      const documents = discoveryRoutes({
        services: catalogue.services,
        documents: parts.documents,
        serves: (id) => readiness.serves(id),
      });
      const monitoring = monitoringRoutes({ readiness, payment });
      const system = { exact: new Map([...documents, ...monitoring.exact]), folders: monitoring.folders };
      doors = { edge, free, system };
      const metricsPort = await listenOn(metricsServer, opts.metricsHost ?? opts.host, opts.metricsPort);
      log.info({ gatewayPort, metricsPort, services: catalogue.services.size }, "listening");
      return { gatewayPort, metricsPort };
    },
    async [Symbol.asyncDispose]() {
      if (draining) return;
      draining = true;
      const closed = [closeServer(server), closeServer(metricsServer)];
      await Promise.all([settledWithin(works, opts.drainTimeoutMs), webSockets?.close(opts.drainTimeoutMs)]);
      if (works.size > 0) log.warn({ count: works.size }, "requests in flight are given up");
      stopping.abort();
      await settledWithin(works, ABORT_GRACE_MS);
      server.closeAllConnections();
      metricsServer.closeAllConnections();
      await Promise.all(closed);
    },
  };
}

/** True for a request that is answered with its route's terms whatever else it says. */
function isPlain(req: IncomingMessage, opts: GatewayOptions, free: FreeDoor | undefined): boolean {
  const { headers } = req;
  return (
    headers["payment-signature"] === undefined &&
    canDiscard(req) &&
    req.rawHeaders.length <= opts.maxHeaders * 2 &&
    headers.host !== undefined &&
    free?.isRelayHost(hostName(headers.host)) === false
  );
}

function shedAnswer(exchange: Exchange, door: Door, code: "OVERLOADED" | "SHUTTING_DOWN"): Answer {
  const answer = errorAnswer(code, exchange.requestId, { close: true });
  if (door !== "free") return answer;
  // The call was not read, so its id is not known.
  const { rpc, message } = errorRow(code);
  return { ...answer, body: JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: rpc, message } }) };
}

function hostText(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

async function closeServer(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  await closed;
}

/** Resolves when all of them have ended, or the time is over. */
async function settledWithin(works: ReadonlySet<Promise<void>>, timeoutMs: number): Promise<void> {
  if (works.size === 0) return;
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, timeoutMs);
  await Promise.race([Promise.allSettled(works), late]);
  clearTimeout(timer);
}
