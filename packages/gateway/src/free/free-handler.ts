import {
  andThen,
  type ByteBudget,
  type ClientIpOf,
  type Clock,
  type Deadlines,
  type MaybePromise,
  withCleanup,
} from "@turnpike/base";
import { isHostLabel, type Service } from "@turnpike/catalogue";
import { isRpcPath, type Relay, takesPaths } from "@turnpike/relay";
import type { Answer } from "../http/answer.ts";
import { readBody } from "../http/body.ts";
import type { Exchange } from "../http/request.ts";
import type { RequestRunner, RequestSlot } from "../http/request-runner.ts";
import { codeAnswer, rpcAnswer, rpcError } from "../http/rpc-answer.ts";
import { sendContinue } from "../http/server.ts";
import type { ConsumeQuota } from "../keys/call-quotas.ts";
import { presentedKey } from "../keys/presented.ts";
import { type CallersInFlight, callerOf, TOO_MANY_AT_ONCE } from "../limits/callers-in-flight.ts";
import { freePreflight, NOT_FREE, refusalAnswer, withHeaders } from "./answers.ts";
import { type RpcBody, readRpcBody } from "./jsonrpc.ts";
import { RelayCalls } from "./relay-calls.ts";

interface FreeHandlerOptions {
  readonly relayDomain: string;
  readonly requestTimeoutMs: number;
  /** Deadline of a call. */
  readonly upstreamTimeoutMs: number;
  /** Most calls of a batch; more are 413. */
  readonly maxBatchItems: number;
}

interface FreeHandlerModules {
  readonly services: Iterable<Service>;
  readonly relay: Relay;
  readonly clock: Clock;
  readonly runner: RequestRunner;
  readonly budget: ByteBudget;
  /** For bodies that do not come. */
  readonly deadlines: Deadlines;
  readonly consumeQuota: ConsumeQuota;
  readonly inFlight: CallersInFlight;
  /** True when requests may carry keys of applications; else what looks like a key is ignored. */
  readonly takesKeys: boolean;
  readonly clientIp: ClientIpOf;
  readonly stopping: AbortSignal;
}

/** A service of the free relay. */
interface FreeService {
  readonly service: Service;
  readonly hasPaths: boolean;
  /** Value of the `Allow` header. */
  readonly verbs: string;
}

const NOT_SERVED = { service: undefined, hasPaths: false, verbs: "POST, OPTIONS" } as const;

/** A request, and its slot among the concurrent ones. */
interface FreeExchange {
  readonly exchange: Exchange;
  readonly slot: RequestSlot;
  /** Of an application; undefined without one. */
  readonly key: string | undefined;
}

const UNKNOWN_MAX_BYTES = 65_536;

/**
 * Handles requests of the free relay: JSON-RPC at the root, and the paths of the families that have some. Every error is a
 * JSON-RPC object with the call's id.
 */
export class FreeHandler {
  readonly takesKeys: boolean;
  readonly #opts: FreeHandlerOptions;
  readonly #modules: FreeHandlerModules;
  readonly #calls: RelayCalls;
  readonly #hostSuffix: string;
  readonly #byId = new Map<string, FreeService>();
  readonly #byHost = new Map<string, FreeService>();

  constructor(opts: FreeHandlerOptions, modules: FreeHandlerModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.takesKeys = modules.takesKeys;
    this.#calls = new RelayCalls({ upstreamTimeoutMs: opts.upstreamTimeoutMs, mayStream: true }, modules);
    this.#hostSuffix = `.${opts.relayDomain.toLowerCase()}`;
    for (const service of modules.services) {
      if (!service.free) continue;
      const hasPaths = takesPaths(service);
      const served = { service, hasPaths, verbs: hasPaths ? "GET, HEAD, POST, OPTIONS" : "POST, OPTIONS" };
      this.#byId.set(service.id, served);
      if (isHostLabel(service.id)) this.#byHost.set(`${service.id}${this.#hostSuffix}`, served);
    }
  }

  /** True when requests to this host belong to a chain, whatever their path; `host` as {@link hostName} gives it. */
  isRelayHost(host: string): boolean {
    return host.endsWith(this.#hostSuffix);
  }

  /** Handles a request to a relay host. */
  handleHost(exchange: Exchange, host: string): void {
    this.#handle(exchange, this.#byHost.get(host), exchange.target.path);
  }

  /** Handles a request by path or header: `id` names the service, `path` follows it, `key` is one that stood in the path. */
  handleId(exchange: Exchange, id: string, path: string, key?: string): void {
    this.#handle(exchange, this.#byId.get(id), path, key);
  }

  #handle(exchange: Exchange, served: FreeService | undefined, path: string, keyInPath?: string): void {
    const { method, headers } = exchange.req;
    const key = this.takesKeys ? presentedKey(exchange.req, keyInPath) : undefined;
    const { service, hasPaths, verbs } = served ?? NOT_SERVED;
    const isRoot = path === "" || path === "/" || isRpcPath(service, path);
    const isRead = method === "GET" || method === "HEAD";
    const label = service?.id ?? "unknown";
    const answer = (made: Answer): void => this.#modules.runner.respond(exchange, "free", label, made);
    const work = (run: (request: FreeExchange) => MaybePromise<Answer | undefined>): void =>
      this.#modules.runner.run(exchange, "free", label, (slot) => run({ exchange, slot, key }));
    if (method === "OPTIONS") answer(freePreflight(verbs, headers["access-control-request-headers"]));
    else if (service === undefined) {
      if (method === "POST")
        work((request) => this.#refuseBody(request, UNKNOWN_MAX_BYTES, "UNKNOWN_SERVICE", NOT_FREE));
      else answer(codeAnswer("null", "UNKNOWN_SERVICE", { message: NOT_FREE }));
    } else if (method === "POST" && isRoot) work((request) => this.#serveRpc(request, service));
    else if (hasPaths && !isRoot && (isRead || method === "POST")) {
      work((request) => this.#servePath(request, service, path));
    } else if (method === "POST") work((request) => this.#refuseBody(request, service.maxBodyBytes, "NOT_FOUND"));
    else answer(codeAnswer("null", "VERB_NOT_ALLOWED", { headers: ["Allow", verbs] }));
  }

  #serveRpc(request: FreeExchange, service: Service): MaybePromise<Answer | undefined> {
    const { maxBatchItems } = this.#opts;
    return this.#withBody(request, service.maxBodyBytes, (bytes) => {
      const { exchange } = request;
      const body = readRpcBody(bytes, maxBatchItems);
      const items = body.kind === "batch" ? body.items.length : 1;
      return this.#withinLimits(request, service, idOf(body), items, (client) => {
        if (body.kind === "too_many") {
          const message = `The batch has ${body.count} calls; at most ${maxBatchItems} are taken.`;
          return codeAnswer("null", "BODY_TOO_LARGE", { message });
        }
        if (body.kind === "refused") {
          const result = body.rpcCode === -32700 ? "INVALID_JSON" : "MALFORMED_REQUEST";
          return rpcAnswer(400, result, rpcError("null", body.rpcCode, body.message));
        }
        const from = { requestId: exchange.requestId, context: exchange.context, client };
        if (body.kind === "single") return this.#calls.single(from, service, body.item);
        return this.#calls.batch(from, service, body.items);
      });
    });
  }

  #servePath(request: FreeExchange, service: Service, path: string): MaybePromise<Answer | undefined> {
    const { exchange } = request;
    const { req, target } = exchange;
    const verb = req.method === "POST" ? "POST" : "GET";
    const height = req.headers["x-cosmos-block-height"];
    const blockHeight = typeof height === "string" ? height : undefined;
    return this.#withBody(request, verb === "POST" ? service.maxBodyBytes : 0, (body) =>
      this.#withinLimits(request, service, "null", 1, (client) => {
        const input = { verb, path, query: target.query, body, blockHeight, accept: req.headers.accept } as const;
        return this.#calls.path({ requestId: exchange.requestId, context: exchange.context, client }, service, input);
      }),
    );
  }

  /** Refuses whatever the body says; it is read only for the id to answer with. */
  #refuseBody(
    request: FreeExchange,
    maxBytes: number,
    code: "UNKNOWN_SERVICE" | "NOT_FOUND",
    message?: string,
  ): MaybePromise<Answer | undefined> {
    return this.#withBody(request, maxBytes, (bytes) =>
      codeAnswer(idOf(readRpcBody(bytes, this.#opts.maxBatchItems)), code, { message }),
    );
  }

  /** Reads the body and passes it to `work`; it counts against the budget until the answer is made. */
  #withBody(
    { exchange, slot }: FreeExchange,
    maxBytes: number,
    work: (body: Uint8Array) => MaybePromise<Answer>,
  ): MaybePromise<Answer | undefined> {
    const { req } = exchange;
    const { budget } = this.#modules;
    const wanted = (): void => sendContinue(req);
    slot.release();
    const body = readBody(req, { maxBytes, timeoutMs: this.#opts.requestTimeoutMs, wanted }, this.#modules);
    return andThen(body, (read): MaybePromise<Answer | undefined> => {
      if (!read.ok) return read.reason === "gone" ? undefined : codeAnswer("null", read.reason, { close: true });
      const { bytes } = read;
      return withCleanup(
        () => (slot.acquire() ? work(bytes) : codeAnswer("null", "OVERLOADED", { close: true })),
        () => budget.release(bytes.length),
      );
    });
  }

  /** Runs `work` for the caller when its quota, its rate limits and its calls in flight allow. */
  #withinLimits(
    { exchange, key }: FreeExchange,
    service: Service,
    id: string,
    items: number,
    work: (caller: string) => MaybePromise<Answer>,
  ): MaybePromise<Answer> {
    const { clientIp: clientIpOf, consumeQuota, inFlight } = this.#modules;
    const clientIp = clientIpOf(exchange.req);
    return andThen(consumeQuota({ key, clientIp, serviceId: service.id, items }), (verdict): MaybePromise<Answer> => {
      if (!verdict.ok) return refusalAnswer(id, verdict);
      const caller = callerOf(key, clientIp);
      const done = inFlight.run(caller, () => work(caller));
      return andThen(done ?? codeAnswer(id, "RATE_LIMITED", { message: TOO_MANY_AT_ONCE }), (answer) => {
        if (answer.status >= 500) verdict.failed?.();
        return withHeaders(answer, verdict.headers);
      });
    });
  }
}

/** The id to answer a whole body with. */
function idOf(body: RpcBody): string {
  if (body.kind !== "single" || body.item.kind === "notification") return "null";
  return body.item.id;
}
