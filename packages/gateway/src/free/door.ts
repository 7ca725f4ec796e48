import type { Clock } from "@turnpike/base";
import { type ErrorCode, errorRow } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { mintFree, mintParsed } from "@turnpike/protocol";
import type { Relay } from "@turnpike/relay";
import { hashRequest } from "../edge/request-hash.ts";
import { type Answer, preflightAnswer } from "../http/answer.ts";
import { type BodyBudget, readBody } from "../http/body.ts";
import type { Desk, Exchange } from "../http/request.ts";
import { sendContinue } from "../http/server.ts";
import type { ParseCall } from "../pipeline.ts";
import { readCall, rpcError } from "./jsonrpc.ts";

/** Options of {@link createFreeDoor}. */
export interface FreeDoorOptions {
  readonly relayDomain: string;
  readonly requestTimeoutMs: number;
  /** Deadline of a call. */
  readonly timeoutMs: number;
}

/** What {@link createFreeDoor} works with. */
export interface FreeDoorModules {
  readonly services: Iterable<Service>;
  readonly relay: Relay;
  readonly parse: ParseCall;
  readonly clock: Clock;
  readonly desk: Desk;
  readonly budget: BodyBudget;
  readonly stopping: AbortSignal;
}

/** The free relay's door: single JSON-RPC reads. Batches, WebSocket, REST paths and limits are not in it yet. */
export interface FreeDoor {
  /** True when requests to this host belong to a chain, whatever their path; `host` as {@link hostName} gives it. */
  isRelayHost(host: string): boolean;
  handleHost(exchange: Exchange, host: string): void;
  /** By path or by header: `id` names the service, `path` is what follows. */
  handleId(exchange: Exchange, id: string, path: string): void;
}

/** The door of the free relay. Every error is a JSON-RPC object with the call's id. */
export function createFreeDoor(opts: FreeDoorOptions, modules: FreeDoorModules): FreeDoor {
  const { relay, parse, clock, desk, budget, stopping } = modules;
  const suffix = `.${opts.relayDomain}`;
  const services = new Map<string, Service>();
  for (const service of modules.services) if (service.free) services.set(service.id, service);

  const serve = async (exchange: Exchange, service: Service | undefined, path: string): Promise<Answer | undefined> => {
    const { req, res } = exchange;
    const limits = {
      maxBytes: service?.maxBodyBytes ?? 65_536,
      timeoutMs: opts.requestTimeoutMs,
      wanted: () => sendContinue(req, res),
    };
    const body = await readBody(req, limits, budget);
    if (!body.ok) return body.reason === "gone" ? undefined : { ...errorAnswer("null", body.reason), close: true };
    try {
      const read = readCall(body.bytes);
      // The host is wrong whatever the body says; the body only gives the id.
      if (service === undefined) {
        return errorAnswer(read.ok ? (read.call.id ?? "null") : read.id, "UNKNOWN_SERVICE");
      }
      if (!read.ok) return rpcAnswer(400, "MALFORMED_REQUEST", rpcError(read.id, read.rpcCode, read.message));
      const { call } = read;
      if (path !== "" && path !== "/") return errorAnswer(call.id ?? "null", "NOT_FOUND");
      // Only reads are offered: without anybody to answer there is nothing to do.
      if (call.id === undefined) return silence();
      return await relayCall(exchange, service, call.id, body.bytes);
    } finally {
      budget.give(body.bytes.length);
    }
  };

  const relayCall = async (exchange: Exchange, service: Service, id: string, body: Uint8Array): Promise<Answer> => {
    const parsed = parse(service, { verb: "POST", appendedPath: "", query: "", body });
    if (!parsed.ok) {
      const { rpc, message } = errorRow(parsed.code);
      const status = parsed.code === "METHOD_NOT_ALLOWED" || parsed.code === "INVALID_PARAMS" ? 200 : 400;
      return rpcAnswer(status, parsed.code, rpcError(id, rpc, parsed.message ?? message));
    }
    // Paths in the place of a method are sold, but their answers are no JSON-RPC.
    if (parsed.call.id === undefined) return errorAnswer(id, "METHOD_NOT_ALLOWED");
    const route = `/relay/${service.id}`;
    const request = mintParsed({
      requestId: exchange.requestId,
      serviceId: service.id,
      call: parsed.call,
      requestHash: hashRequest({ verb: "POST", route, path: "", body }),
    });
    const free = mintFree({ request, deadlineMs: clock.monotonicMs() + opts.timeoutMs });
    const result = await relay.send(free, AbortSignal.any([AbortSignal.timeout(opts.timeoutMs), stopping]));
    return result.ok ? rpcAnswer(200, "ok", result.relayed.body) : errorAnswer(id, result.code);
  };

  const handle = (exchange: Exchange, service: Service | undefined, path: string): void => {
    const label = service?.id ?? "unknown";
    const { method } = exchange.req;
    if (method === "OPTIONS") desk.answer(exchange, "free", label, preflightAnswer("POST, OPTIONS"));
    else if (method === "POST") desk.work(exchange, "free", label, () => serve(exchange, service, path));
    else {
      const answer =
        service === undefined
          ? errorAnswer("null", "UNKNOWN_SERVICE")
          : errorAnswer("null", "VERB_NOT_ALLOWED", ["Allow", "POST, OPTIONS"]);
      desk.answer(exchange, "free", label, answer);
    }
  };

  return {
    isRelayHost: (host) => host.endsWith(suffix),
    handleHost(exchange, host) {
      handle(exchange, services.get(host.slice(0, -suffix.length)), exchange.target.path);
    },
    handleId(exchange, id, path) {
      handle(exchange, services.get(id), path);
    },
  };
}

function errorAnswer(id: string, code: ErrorCode, headers: readonly string[] = []): Answer {
  const { http, rpc, message, advice, retryable } = errorRow(code);
  const wait = retryable && http === 503 ? ["Retry-After", "1"] : [];
  return rpcAnswer(http, code, rpcError(id, rpc, `${message} ${advice}`), [...wait, ...headers]);
}

function rpcAnswer(status: number, result: string, body: Uint8Array | string, headers: readonly string[] = []): Answer {
  return {
    status,
    result,
    contentType: "application/json",
    body,
    headers: ["Cache-Control", "no-store", ...headers],
  };
}

function silence(): Answer {
  return { status: 204, result: "ok", contentType: undefined, body: "" };
}
