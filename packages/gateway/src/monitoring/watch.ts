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
import type { AnyRequest, Door, Exchange, Trail } from "../http/request.ts";
import type { AccessLog } from "./access-log.ts";

/** How a request was answered. */
export interface Ending {
  readonly status: number;
  readonly result: string;
  /** Of the answer's body. */
  readonly bytes: number;
}

/** Follows requests for the access log and for traces. */
export interface Watch {
  /** The trail of a request that is logged or traced; undefined for all others. Called once a request. */
  pick(req: AnyRequest): Trail | undefined;
  /** A request of a door was answered, or (`gone`) left. */
  ended(exchange: Exchange, door: Door, service: string, ending: Ending): void;
  /** An upgrade to a WebSocket was taken (101) or refused. */
  upgraded(req: AnyRequest, requestId: RequestId, service: string, ending: Ending): void;
}

/** The trail of a request that nobody follows, unless it fails. */
export function plainTrail(): Trail {
  return { operation: undefined, span: noSpan, isSampled: false };
}

/** Makes a {@link Watch}. */
export function createWatch(modules: {
  readonly access: AccessLog;
  readonly tracer: Tracer;
  readonly clock: Clock;
  readonly clientIp: ClientIpOf;
}): Watch {
  const { access, tracer, clock, clientIp } = modules;

  const begin = (req: AnyRequest): Span => {
    const header = req.headers.traceparent;
    const attributes = { "http.request.method": req.method ?? "" };
    return tracer.start(`HTTP ${req.method}`, typeof header === "string" ? header : undefined, attributes);
  };

  return {
    pick(req) {
      const isSampled = access.picks();
      const span = tracer === noTracer ? noSpan : begin(req);
      return isSampled || span !== noSpan ? { operation: undefined, span, isSampled } : undefined;
    },
    ended({ req, requestId, startMs, trail }, door, service, { status, result, bytes }) {
      const { span, operation } = trail;
      if (span !== noSpan) {
        const name = operation === undefined ? {} : { "turnpike.operation": operation };
        span.set({
          "turnpike.door": door,
          "turnpike.service": service,
          "turnpike.result": result,
          "http.response.status_code": status,
          ...name,
        });
        if (status >= 500) span.fail(result);
        span.end();
      }
      access.ended(trail.isSampled, status, () => ({
        requestId,
        door,
        service,
        operation,
        verb: req.method,
        status,
        result,
        durationMs: Math.round((clock.monotonicMs() - startMs) * 1_000) / 1_000,
        bytes,
        client: truncateIp(clientIp(req)),
        traceId: span.traceId,
      }));
    },
    upgraded(req, requestId, service, { status, result, bytes }) {
      access.ended(access.picks(), status, () => ({
        requestId,
        door: "free",
        service,
        operation: undefined,
        verb: "UPGRADE",
        status,
        result,
        durationMs: 0,
        bytes,
        client: truncateIp(clientIp(req)),
        traceId: undefined,
      }));
    },
  };
}
