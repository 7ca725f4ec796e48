import { type Answer, errorAnswer, preflightAnswer } from "./answer.ts";
import type { Exchange, RouteGroup } from "./request.ts";
import type { RequestRunner } from "./request-runner.ts";

/** A route that is only read. */
export interface SystemRoute {
  readonly group: RouteGroup;
  /** `rest` is what follows the prefix; empty on an exact route. */
  get(exchange: Exchange, rest: string): Answer | Promise<Answer>;
}

/** Routes by exact path, and by the folder that their last segment is in. */
export interface SystemRoutes {
  readonly exact: ReadonlyMap<string, SystemRoute>;
  /** Keys end with a slash; the rest is one segment that is not empty. */
  readonly folders: ReadonlyMap<string, SystemRoute>;
}

const VERBS = "GET, HEAD, OPTIONS";

/** Answers a request for one of the routes; false when none of them is meant. */
export function serveSystemRoute(routes: SystemRoutes, runner: RequestRunner, exchange: Exchange): boolean {
  const { req, requestId, target } = exchange;
  const cut = target.path.lastIndexOf("/") + 1;
  const rest = target.path.slice(cut);
  const exact = routes.exact.get(target.path);
  const route = exact ?? (rest === "" ? undefined : routes.folders.get(target.path.slice(0, cut)));
  if (route === undefined) return false;
  if (req.method === "OPTIONS") {
    runner.respond(exchange, route.group, "", preflightAnswer(VERBS));
  } else if (req.method !== "GET" && req.method !== "HEAD") {
    runner.respond(
      exchange,
      route.group,
      "",
      errorAnswer("VERB_NOT_ALLOWED", requestId, { headers: ["Allow", VERBS] }),
    );
  } else {
    runner.run(exchange, route.group, "", async () => route.get(exchange, exact === undefined ? rest : ""));
  }
  return true;
}
