import type { PaidHandler } from "./edge/paid-handler.ts";
import type { FreeHandler } from "./free/free-handler.ts";
import { errorAnswer, preflightAnswer } from "./http/answer.ts";
import { type AnyRequest, canDiscard, countHosts, type Exchange } from "./http/request.ts";
import type { RequestRunner } from "./http/request-runner.ts";
import { type SystemRoutes, serveSystemRoute } from "./http/system-routes.ts";
import { hostName, parseTarget } from "./http/target.ts";
import { relayPlace } from "./keys/presented.ts";

/** What answers the requests of one configuration, by group of routes. */
export interface Handlers {
  readonly paid: PaidHandler;
  readonly free: FreeHandler;
  readonly system: SystemRoutes;
}

const RELAY = "/relay/";
const NAME_IT = "Name the service: /v1/{service_id} for a paid call, or the header Target-Service-Id for a free one.";

/** True when a request is meant for the free relay, by its host, path or header, whether or not it can be served. */
export function isForRelay(req: AnyRequest, relayDomain: string): boolean {
  const { path, authority } = parseTarget(req.url ?? "") ?? { path: "", authority: undefined };
  const host = hostName(authority ?? req.headers.host ?? "");
  if (host.endsWith(`.${relayDomain.toLowerCase()}`) || path.startsWith(RELAY)) return true;
  return path === "/v1" && req.headers["target-service-id"] !== undefined;
}

/** Routes a request to its handler: by host first, since on a relay host every path belongs to the chain; then by path. */
export function routeRequest({ paid, free, system }: Handlers, runner: RequestRunner, exchange: Exchange): void {
  const { req, target, requestId } = exchange;
  const { path } = target;
  const host = hostName(target.authority ?? req.headers.host ?? "");
  const named = req.headers["target-service-id"];
  if (free.isRelayHost(host)) free.handleHost(exchange, host);
  else if (path.startsWith("/v1/")) paid.handle(exchange);
  else if (path.startsWith(RELAY)) {
    const place = relayPlace(path, free.takesKeys);
    free.handleId(exchange, place?.id ?? "", place?.path ?? "", place?.key);
  } else if (path === "/v1" && (typeof named === "string" || req.method === "OPTIONS")) {
    free.handleId(exchange, String(named), "");
  } else if (!serveSystemRoute(system, runner, exchange)) {
    const isAny = path === "*" && req.method === "OPTIONS";
    const answer = isAny
      ? preflightAnswer("GET, HEAD, POST, OPTIONS")
      : errorAnswer("NOT_FOUND", requestId, { message: path === "/v1" ? NAME_IT : undefined });
    runner.respond(exchange, "discovery", "", answer);
  }
}

/** True for a request without a payment that is answered with its route's terms whatever else it says. */
export function isPlainUnpaid(req: AnyRequest, maxHeaders: number, free: FreeHandler): boolean {
  const { headers } = req;
  return (
    headers["payment-signature"] === undefined &&
    canDiscard(req) &&
    req.rawHeaders.length <= maxHeaders * 2 &&
    headers.host !== undefined &&
    countHosts(req.rawHeaders) === 1 &&
    !free.isRelayHost(hostName(headers.host))
  );
}
