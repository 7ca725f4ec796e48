import type { ErrorCode } from "@turnpike/base";
import type { PaidEdge } from "../edge/paid-edge.ts";
import type { FreeDoor } from "../free/door.ts";
import { relayPlace } from "../keys/presented.ts";
import { errorAnswer, preflightAnswer } from "./answer.ts";
import type { AnyRequest, Exchange } from "./request.ts";
import type { RequestRunner } from "./request-runner.ts";
import { type SystemRoutes, serveSystemRoute } from "./system-routes.ts";
import { hostName, parseTarget } from "./target.ts";

/** The doors of the gateway. */
export interface Doors {
  readonly edge: PaidEdge;
  readonly free: FreeDoor;
  readonly system: SystemRoutes;
}

const RELAY = "/relay/";
const NAME_IT = "Name the service: /v1/{service_id} for a paid call, or the header Target-Service-Id for a free one.";

/** Why a request's head cannot be served; undefined when it can. Its host is told apart before its path. */
export function headFault(
  { req, target }: Pick<Exchange, "req" | "target">,
  maxHeaders: number,
): ErrorCode | undefined {
  if (req.rawHeaders.length > maxHeaders * 2) return "HEADERS_TOO_LARGE";
  const hosts = countHosts(req.rawHeaders);
  const noHost = hosts === 0 && req.httpVersion === "1.1";
  return target.path === "" || hosts > 1 || noHost ? "MALFORMED_REQUEST" : undefined;
}

/** `Host` lines of raw headers. */
export function countHosts(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    if (name.length === 4 && name.toLowerCase() === "host") count++;
  }
  return count;
}

/** True when a request is meant for the free relay, by its host, path or header, whether or not it can be served. */
export function isForRelay(req: AnyRequest, relayDomain: string): boolean {
  const { path, authority } = parseTarget(req.url ?? "") ?? { path: "", authority: undefined };
  const host = hostName(authority ?? req.headers.host ?? "");
  if (host.endsWith(`.${relayDomain.toLowerCase()}`) || path.startsWith(RELAY)) return true;
  return path === "/v1" && req.headers["target-service-id"] !== undefined;
}

/** Gives a request to its door: by host first, since on a relay host every path belongs to the chain; then by path. */
export function openDoor({ edge, free, system }: Doors, runner: RequestRunner, exchange: Exchange): void {
  const { req, target, requestId } = exchange;
  const { path } = target;
  const host = hostName(target.authority ?? req.headers.host ?? "");
  const named = req.headers["target-service-id"];
  if (free.isRelayHost(host)) free.handleHost(exchange, host);
  else if (path.startsWith("/v1/")) edge.handle(exchange);
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
