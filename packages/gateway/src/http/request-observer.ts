import {
  type ClientIpOf,
  type Clock,
  noSpan,
  noTracer,
  type RequestId,
  type Span,
  type Tracer,
  truncateIp,
} from "@turnpike/base";
import type { AccessLog } from "./access-log.ts";
import type { AnyRequest, Exchange, RequestContext, RouteGroup } from "./request.ts";

/** A finished response, for logs and traces. */
export interface ResponseSummary {
  readonly status: number;
  /** `ok` or an error code. */
  readonly result: string;
  /** Of the answer's body. */
  readonly bytes: number;
}

/** The context of a request that is neither sampled nor traced. */
export function unobservedContext(): RequestContext {
  return { operation: undefined, span: noSpan, isSampled: false };
}

/** Writes the access log and the spans of requests. */
export class RequestObserver {
  readonly #access: AccessLog;
  readonly #tracer: Tracer;
  readonly #clock: Clock;
  readonly #clientIp: ClientIpOf;

  constructor(modules: {
    readonly access: AccessLog;
    readonly tracer: Tracer;
    readonly clock: Clock;
    readonly clientIp: ClientIpOf;
  }) {
    this.#access = modules.access;
    this.#tracer = modules.tracer;
    this.#clock = modules.clock;
    this.#clientIp = modules.clientIp;
  }

  /** The context of a request that is sampled or traced; undefined for all others. Called once a request. */
  onRequest(req: AnyRequest): RequestContext | undefined {
    const isSampled = this.#access.sample();
    const span = this.#tracer === noTracer ? noSpan : this.#startSpan(req);
    return isSampled || span !== noSpan ? { operation: undefined, span, isSampled } : undefined;
  }

  /** A request was answered, or (`gone`) its client left. */
  onResponse(exchange: Exchange, group: RouteGroup, service: string, { status, result, bytes }: ResponseSummary): void {
    const { req, requestId, startMs, context } = exchange;
    const { span, operation } = context;
    if (span !== noSpan) {
      const name = operation === undefined ? {} : { "turnpike.operation": operation };
      span.set({
        "turnpike.door": group,
        "turnpike.service": service,
        "turnpike.result": result,
        "http.response.status_code": status,
        ...name,
      });
      if (status >= 500) span.fail(result);
      span.end();
    }
    this.#access.write(context.isSampled, status, () => ({
      requestId,
      door: group,
      service,
      operation,
      verb: req.method,
      status,
      result,
      durationMs: Math.round((this.#clock.monotonicMs() - startMs) * 1_000) / 1_000,
      bytes,
      client: truncateIp(this.#clientIp(req)),
      traceId: span.traceId,
    }));
  }

  /** An upgrade to a WebSocket was accepted (101) or refused. */
  onUpgrade(req: AnyRequest, requestId: RequestId, service: string, { status, result, bytes }: ResponseSummary): void {
    this.#access.write(this.#access.sample(), status, () => ({
      requestId,
      door: "free",
      service,
      operation: undefined,
      verb: "UPGRADE",
      status,
      result,
      durationMs: 0,
      bytes,
      client: truncateIp(this.#clientIp(req)),
      traceId: undefined,
    }));
  }

  #startSpan(req: AnyRequest): Span {
    const header = req.headers.traceparent;
    const attributes = { "http.request.method": req.method ?? "" };
    return this.#tracer.start(`HTTP ${req.method}`, typeof header === "string" ? header : undefined, attributes);
  }
}
