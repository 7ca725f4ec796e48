import { andThen, type ClientIpOf, type Clock, type Deadlines, type MaybePromise, withCleanup } from "@turnpike/base";
import { isHostLabel, type Service } from "@turnpike/catalogue";
import { isRpcPath, type Relay, takesPaths } from "@turnpike/relay";
import type { Answer } from "../http/answer.ts";
import { type ByteBudget, readBody } from "../http/body.ts";
import type { Exchange } from "../http/request.ts";
import type { RequestRunner, RequestSlot } from "../http/request-runner.ts";
import { codeAnswer, rpcAnswer, rpcError } from "../http/rpc-answer.ts";
import { sendContinue } from "../http/server.ts";
import type { ConsumeQuota } from "../keys/consume-quota.ts";
import { presentedKey } from "../keys/presented.ts";
import { callerOf } from "../limits/caller.ts";
import { type CallersInFlight, TOO_MANY_AT_ONCE } from "../limits/callers-in-flight.ts";
import { freePreflight, NOT_FREE, refusalAnswer, withHeaders } from "./answers.ts";
import { type RpcBody, readRpcBody } from "./jsonrpc.ts";
import { createRelayCalls } from "./relay-calls.ts";

/** Options of {@link createFreeDoor}. */
export interface FreeDoorOptions {
  readonly relayDomain: string;
  readonly requestTimeoutMs: number;
  /** Deadline of a call. */
  readonly timeoutMs: number;
  /** Most calls of a batch; more are 413. */
  readonly maxBatchItems: number;
}

/** What {@link createFreeDoor} works with. */
export interface FreeDoorModules {
  readonly services: Iterable<Service>;
  readonly relay: Relay;
  readonly clock: Clock;
  readonly runner: RequestRunner;
  readonly budget: ByteBudget;
  /** For bodies that do not come. */
  readonly deadlines: Deadlines;
  readonly take: ConsumeQuota;
  readonly inFlight: CallersInFlight;
  /** True when requests may carry keys of applications; else what looks like one is nothing. */
  readonly takesKeys: boolean;
  /** Address of the client. */
  readonly clientIp: ClientIpOf;
  readonly stopping: AbortSignal;
}

/** The free relay's door: JSON-RPC at the root, and the paths of the families that have some. */
export interface FreeDoor {
  /** True when requests to this host belong to a chain, whatever their path; `host` as {@link hostName} gives it. */
  isRelayHost(host: string): boolean;
  handleHost(exchange: Exchange, host: string): void;
  /** By path or by header: `id` names the service, `path` is what follows, `key` is one that stood in the path. */
  handleId(exchange: Exchange, id: string, path: string, key?: string): void;
  readonly takesKeys: boolean;
}

/** A service of the free relay. */
interface Served {
  readonly service: Service;
  readonly hasPaths: boolean;
  /** What `Allow` says. */
  readonly verbs: string;
}

const NOT_SERVED = { service: undefined, hasPaths: false, verbs: "POST, OPTIONS" } as const;

/** A request, and its place among the concurrent ones. */
interface Place {
  readonly exchange: Exchange;
  readonly slot: RequestSlot;
  /** Of an application; undefined without one. */
  readonly key: string | undefined;
}

const UNKNOWN_MAX_BYTES = 65_536;

/** The door of the free relay. Every error is a JSON-RPC object with the call's id. */
export function createFreeDoor(opts: FreeDoorOptions, modules: FreeDoorModules): FreeDoor {
  const { runner, budget, deadlines, take, takesKeys, inFlight } = modules;
  const bodies = { budget, deadlines };
  const calls = createRelayCalls({ ...modules, timeoutMs: opts.timeoutMs, mayStream: true });
  const suffix = `.${opts.relayDomain.toLowerCase()}`;
  const services = new Map<string, Served>();
  const hosts = new Map<string, Served>();
  for (const service of modules.services) {
    if (!service.free) continue;
    const hasPaths = takesPaths(service);
    const served = { service, hasPaths, verbs: hasPaths ? "GET, HEAD, POST, OPTIONS" : "POST, OPTIONS" };
    services.set(service.id, served);
    if (isHostLabel(service.id)) hosts.set(`${service.id}${suffix}`, served);
  }

  /** Reads the body and hands it on; it counts against the budget until the answer is there. */
  const withBody = (
    { exchange, slot }: Place,
    maxBytes: number,
    work: (body: Uint8Array) => MaybePromise<Answer>,
  ): MaybePromise<Answer | undefined> => {
    const { req } = exchange;
    const wanted = (): void => sendContinue(req);
    slot.release();
    const body = readBody(req, { maxBytes, timeoutMs: opts.requestTimeoutMs, wanted }, bodies);
    return andThen(body, (read): MaybePromise<Answer | undefined> => {
      if (!read.ok) return read.reason === "gone" ? undefined : codeAnswer("null", read.reason, { close: true });
      const { bytes } = read;
      return withCleanup(
        () => (slot.acquire() ? work(bytes) : codeAnswer("null", "OVERLOADED", { close: true })),
        () => budget.release(bytes.length),
      );
    });
  };

  const limited = (
    { exchange, key }: Place,
    service: Service,
    id: string,
    items: number,
    work: (client: string) => MaybePromise<Answer>,
  ): MaybePromise<Answer> => {
    const clientIp = modules.clientIp(exchange.req);
    return andThen(take({ key, clientIp, serviceId: service.id, items }), (verdict): MaybePromise<Answer> => {
      if (!verdict.ok) return refusalAnswer(id, verdict);
      const caller = callerOf(key, clientIp);
      const done = inFlight.run(caller, () => work(caller));
      return andThen(done ?? codeAnswer(id, "RATE_LIMITED", { message: TOO_MANY_AT_ONCE }), (answer) => {
        if (answer.status >= 500) verdict.failed?.();
        return withHeaders(answer, verdict.headers);
      });
    });
  };

  const serveRpc = (place: Place, service: Service): MaybePromise<Answer | undefined> =>
    withBody(place, service.maxBodyBytes, (bytes) => {
      const { exchange } = place;
      const body = readRpcBody(bytes, opts.maxBatchItems);
      const items = body.kind === "batch" ? body.items.length : 1;
      return limited(place, service, idOf(body), items, (client) => {
        const from = { requestId: exchange.requestId, context: exchange.context, client };
        if (body.kind === "too_many") {
          const message = `The batch has ${body.count} calls; at most ${opts.maxBatchItems} are taken.`;
          return codeAnswer("null", "BODY_TOO_LARGE", { message });
        }
        if (body.kind === "refused") {
          const result = body.rpcCode === -32700 ? "INVALID_JSON" : "MALFORMED_REQUEST";
          return rpcAnswer(400, result, rpcError("null", body.rpcCode, body.message));
        }
        return body.kind === "single" ? calls.single(from, service, body.item) : calls.batch(from, service, body.items);
      });
    });

  const servePath = (place: Place, service: Service, path: string): MaybePromise<Answer | undefined> => {
    const { exchange } = place;
    const { req, target } = exchange;
    const verb = req.method === "POST" ? "POST" : "GET";
    const height = req.headers["x-cosmos-block-height"];
    const blockHeight = typeof height === "string" ? height : undefined;
    return withBody(place, verb === "POST" ? service.maxBodyBytes : 0, (body) =>
      limited(place, service, "null", 1, (client) => {
        const input = { verb, path, query: target.query, body, blockHeight, accept: req.headers.accept } as const;
        return calls.path({ requestId: exchange.requestId, context: exchange.context, client }, service, input);
      }),
    );
  };

  /** The host is wrong whatever the body says; the body only gives the id. */
  const serveUnknown = (place: Place): MaybePromise<Answer | undefined> =>
    withBody(place, UNKNOWN_MAX_BYTES, (bytes) => {
      return codeAnswer(idOf(readRpcBody(bytes, opts.maxBatchItems)), "UNKNOWN_SERVICE", { message: NOT_FREE });
    });

  const handle = (exchange: Exchange, served: Served | undefined, path: string, inPath?: string): void => {
    const { method, headers } = exchange.req;
    const key = takesKeys ? presentedKey(exchange.req, inPath) : undefined;
    const { service, hasPaths, verbs } = served ?? NOT_SERVED;
    const isRoot = path === "" || path === "/" || isRpcPath(service, path);
    const isRead = method === "GET" || method === "HEAD";
    const label = service?.id ?? "unknown";
    const answer = (made: Answer): void => runner.respond(exchange, "free", label, made);
    const work = (run: (place: Place) => MaybePromise<Answer | undefined>): void =>
      runner.run(exchange, "free", label, (slot) => run({ exchange, slot, key }));
    if (method === "OPTIONS") answer(freePreflight(verbs, headers["access-control-request-headers"]));
    else if (service === undefined) {
      if (method === "POST") work(serveUnknown);
      else answer(codeAnswer("null", "UNKNOWN_SERVICE", { message: NOT_FREE }));
    } else if (method === "POST" && isRoot) work((place) => serveRpc(place, service));
    else if (hasPaths && !isRoot && (isRead || method === "POST")) work((place) => servePath(place, service, path));
    else if (method === "POST") work((place) => withBody(place, service.maxBodyBytes, notFound));
    else answer(codeAnswer("null", "VERB_NOT_ALLOWED", { headers: ["Allow", verbs] }));
  };

  const notFound = (bytes: Uint8Array): Answer => codeAnswer(idOf(readRpcBody(bytes, opts.maxBatchItems)), "NOT_FOUND");

  return {
    isRelayHost: (host) => host.endsWith(suffix),
    handleHost(exchange, host) {
      handle(exchange, hosts.get(host), exchange.target.path);
    },
    handleId(exchange, id, path, key) {
      handle(exchange, services.get(id), path, key);
    },
    takesKeys,
  };
}

/** The id to answer a whole body with. */
function idOf(body: RpcBody): string {
  if (body.kind !== "single" || body.item.kind === "notification") return "null";
  return body.item.id;
}
