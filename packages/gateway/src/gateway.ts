import { AppError, type ClientIpOf, connectionCounts, createClientIp, listenOn } from "@turnpike/base";
import type { FastListener } from "@turnpike/http1";
import { MetricsServer } from "@turnpike/telemetry";
import { DeferredSamples } from "./deferred-samples.ts";
import { createSharedModules, type EdgeParts, Generation, keepsWebSockets, type SharedModules } from "./generation.ts";
import { InFlightTracker } from "./http/in-flight-tracker.ts";
import { closeListener, createPlainListener } from "./http/plain-listener.ts";
import { type AnyRequest, headFault, type RequestContext, type ResponseSink } from "./http/request.ts";
import { unobservedContext } from "./http/request-observer.ts";
import { closingError, RequestRunner } from "./http/request-runner.ts";
import { HttpServer } from "./http/server.ts";
import { parseTarget } from "./http/target.ts";
import { noRateLimits, type RateLimits } from "./limits/types.ts";
import { isForRelay, isPlainUnpaid, routeRequest } from "./router.ts";
import type { Gateway, GatewayModules, GatewayOptions, GatewayParts } from "./types.ts";
import { WebSocketCounts } from "./websocket/counts.ts";
import { WebSocketHandler } from "./websocket/websocket-handler.ts";

/** Makes the edges' parts of one configuration. */
export type PartsOf = (publicUrl: string, opts: GatewayOptions, parts: GatewayParts) => EdgeParts;

/** The gateway over given parts; `createGateway` is this with the product's parts. */
export class GatewayServer implements Gateway {
  readonly #modules: GatewayModules & { readonly parts: PartsOf };
  readonly #shared: SharedModules;
  readonly #deferred: DeferredSamples;
  readonly #socketCounts: WebSocketCounts;
  readonly #server: HttpServer;
  readonly #listener: FastListener;
  readonly #metricsServer: MetricsServer;
  /** Answers what comes before there is a configuration, and what none can serve. */
  readonly #earlyRunner: RequestRunner;
  /** Replaced configurations that requests still use. */
  readonly #old = new Set<Generation>();
  #opts: GatewayOptions;
  #clientIpOf: ClientIpOf;
  #isDraining = false;
  #live: Generation | undefined;
  #webSockets: WebSocketHandler | undefined;
  #port = 0;

  constructor(opts: GatewayOptions, modules: GatewayModules & { readonly parts: PartsOf }) {
    this.#opts = opts;
    this.#modules = modules;
    this.#clientIpOf = createClientIp(opts.trustedProxies);
    const { metrics, log, clock } = modules;
    this.#shared = createSharedModules(
      {
        opts: () => this.#opts,
        clientIp: (req) => this.#clientIpOf(req),
        isDraining: () => this.#isDraining,
      },
      modules,
    );
    const { requestId } = this.#shared;
    this.#deferred = new DeferredSamples(metrics);
    this.#socketCounts = new WebSocketCounts(metrics);
    this.#earlyRunner = new RequestRunner(
      { maxConcurrentRequests: () => this.#opts.maxConcurrentRequests },
      { ...this.#shared, tracker: new InFlightTracker() },
    );
    const handle = (req: AnyRequest, res: ResponseSink): void => this.#handle(req, res);
    this.#server = new HttpServer(opts, {
      log,
      requestId,
      handle,
      isFree: (req) => isForRelay(req, this.#opts.relayDomain),
      upgrades: {
        wants: (req) => this.#webSockets?.wants(req) === true,
        handle: (req, socket, head) => this.#webSockets?.handleUpgrade(req, socket, head),
      },
      ...connectionCounts("gateway", metrics),
    });
    this.#listener = createPlainListener(
      { maxHeaders: () => this.#opts.maxHeaders, maxHeaderBytes: opts.maxHeaderBytes },
      { server: this.#server, handle, isReady: () => this.#live !== undefined && !this.#isDraining, clock },
    );
    const { host, metricsHost = host, allowedHosts } = opts;
    this.#metricsServer = new MetricsServer(
      { host: metricsHost, allowedHosts },
      { metrics, log, requestId, flush: () => this.flush() },
    );
  }

  async listen(): Promise<{ readonly gatewayPort: number; readonly metricsPort: number }> {
    const { host, port, metricsPort, reusePort } = this.#opts;
    this.#port = await listenOn(this.#listener.net, host, port, reusePort);
    const generation = this.#build(this.#modules);
    this.#webSockets = this.#openWebSockets(generation);
    this.#live = generation;
    const ports = {
      gatewayPort: this.#port,
      metricsPort: metricsPort === undefined ? 0 : await this.#metricsServer.listen(metricsPort),
    };
    this.#shared.log.info({ ...ports, services: this.#modules.catalogue.services.size }, "listening");
    return ports;
  }

  flush(): Promise<void> {
    return this.#deferred.flush(this.#live, this.#shared.running, this.#old.size);
  }

  replace(nextOpts: GatewayOptions, parts: GatewayParts): { readonly released: Promise<void> } {
    const before = this.#live;
    if (before === undefined || this.#isDraining) throw new AppError(this.#isDraining ? "SHUTTING_DOWN" : "NOT_READY");
    const beforeOpts = this.#opts;
    // Whatever is wrong with the new ones is thrown here, with nothing changed.
    const nextIp = createClientIp(nextOpts.trustedProxies);
    this.#opts = nextOpts;
    let next: Generation;
    try {
      next = this.#build(parts);
    } catch (error) {
      this.#opts = beforeOpts;
      throw error;
    }
    this.#deferred.collectUnpaid(before);
    this.#clientIpOf = nextIp;
    this.#live = next;
    this.#server.setLimits(nextOpts);
    const sockets = keepsWebSockets(before, next) ? undefined : this.#webSockets;
    if (sockets !== undefined) this.#webSockets = this.#openWebSockets(next);
    return { released: this.#retire(before, sockets) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isDraining) return;
    this.#isDraining = true;
    const { shutdownTimeoutMs } = this.#opts;
    const closed = [closeListener(this.#listener), this.#metricsServer.close()];
    const generations = this.#live === undefined ? [...this.#old] : [...this.#old, this.#live];
    await Promise.all([
      ...generations.map(({ tracker }) => tracker.drained(shutdownTimeoutMs)),
      this.#webSockets?.close(shutdownTimeoutMs),
    ]);
    await Promise.all(generations.map((generation) => generation.drain(0)));
    this.#listener.closeAllConnections();
    await Promise.all([...closed, this.#metricsServer[Symbol.asyncDispose]()]);
  }

  /** Answers an unpaid request on the shortest way, without an {@link Exchange}; all others are routed. */
  #handle(req: AnyRequest, res: ResponseSink): void {
    const url = req.url ?? "";
    const { observer, requestId } = this.#shared;
    const context = observer.onRequest(req);
    const handlers = this.#live?.handlers;
    if (context === undefined && handlers !== undefined && req.method === "POST" && !this.#isDraining) {
      const route = handlers.paid.routes.get(url);
      if (route !== undefined && isPlainUnpaid(req, this.#opts.maxHeaders, handlers.free)) {
        handlers.paid.answerUnpaid(route, res, requestId(req));
        return;
      }
    }
    this.#route(req, res, url, context ?? unobservedContext());
  }

  #route(req: AnyRequest, res: ResponseSink, url: string, context: RequestContext): void {
    const target = parseTarget(url) ?? { path: "", query: "", authority: undefined };
    const { requestId, clock } = this.#shared;
    const exchange = { req, res, requestId: requestId(req), startMs: clock.monotonicMs(), target, context };
    const fault = headFault(exchange, this.#opts.maxHeaders);
    const live = this.#live;
    if (fault === undefined && live !== undefined) routeRequest(live.handlers, live.runner, exchange);
    else {
      const isFree = isForRelay(req, this.#opts.relayDomain);
      const [group, service] = isFree ? (["free", "unknown"] as const) : (["discovery", ""] as const);
      this.#earlyRunner.respond(exchange, group, service, closingError(exchange, group, fault ?? "NOT_READY"));
    }
  }

  #build(parts: GatewayParts): Generation {
    const { host, publicUrl = `http://${host.includes(":") ? `[${host}]` : host}:${this.#port}` } = this.#opts;
    return new Generation(this.#opts, parts, this.#modules.parts(publicUrl, this.#opts, parts), this.#shared);
  }

  /** A WebSocket outlives configurations that do not concern it, so it reads its limits and calls from the live one. */
  #openWebSockets({ parts, opts, subscriptions }: Generation): WebSocketHandler {
    const limits = (): RateLimits => this.#live?.parts.limits ?? noRateLimits;
    const { quotas } = this.#shared;
    return new WebSocketHandler(
      { relayDomain: opts.relayDomain, maxHeaders: opts.maxHeaders, limits: opts.webSockets },
      {
        ...this.#shared,
        services: parts.catalogue.services.values(),
        subscriptions,
        relayCalls: async (...call) => {
          const generation = this.#live;
          if (generation === undefined) return { body: "", result: "SHUTTING_DOWN" };
          const reply = generation.socketCalls.relay(...call);
          generation.tracker.track(reply);
          return reply;
        },
        consumeQuota: (request) => quotas.consume(limits(), request),
        consumeEvents: (request) => quotas.consumeEvents(limits(), request),
        callTimeoutMs: () => this.#opts.upstreamTimeoutMs,
        counts: this.#socketCounts,
      },
    );
  }

  /** Waits until nothing uses a replaced configuration any more. */
  async #retire(generation: Generation, sockets: WebSocketHandler | undefined): Promise<void> {
    this.#old.add(generation);
    await Promise.all([
      generation.drain(this.#opts.stallTimeoutMs),
      sockets?.close(generation.opts.shutdownTimeoutMs, "reloaded"),
    ]);
    this.#old.delete(generation);
  }
}
