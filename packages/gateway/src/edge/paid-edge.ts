import {
  type ClientIpOf,
  clientKey,
  type Deadlines,
  type ErrorCode,
  type Metrics,
  type RequestId,
} from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { endOutcome, endRefused, type UnpaidAttempt, type UnpaidLimit } from "@turnpike/payment";
import { type Answer, errorAnswer, preflightAnswer } from "../http/answer.ts";
import { type BodyBudget, readBody } from "../http/body.ts";
import { canDiscard, type Desk, type Exchange } from "../http/request.ts";
import { sendContinue } from "../http/server.ts";
import { limitedTotal } from "../metrics.ts";
import type { Sale, Sell } from "../pipeline.ts";
import { saleAnswer } from "./sale-answer.ts";
import { precomputeTerms, type Terms, type TermsOf, termsHeaders, unpaidAnswer } from "./terms.ts";

/** Whether a path may be appended to a service's route, and why not: the family's part of the match. */
export type MatchPath = (service: Service, appendedPath: string) => "listed" | "NOT_FOUND" | "BAD_PATH";

/** Options of {@link createPaidEdge}. */
export interface PaidEdgeOptions {
  readonly requestTimeoutMs: number;
}

/** What {@link createPaidEdge} works with. */
export interface PaidEdgeModules {
  readonly services: Iterable<Service>;
  readonly termsOf: TermsOf;
  readonly matchPath: MatchPath;
  readonly sell: Sell;
  readonly desk: Desk;
  readonly budget: BodyBudget;
  /** For bodies that do not come. */
  readonly deadlines: Deadlines;
  readonly clientIp: ClientIpOf;
  /** By client: presented payments that do not pay. */
  readonly unpaid: UnpaidLimit;
  readonly metrics: Metrics;
}

/** One paid service's route. */
export interface PaidRoute {
  readonly service: Service;
  readonly terms: Terms;
  /** Unpaid answers since they were last taken; a plain number, since a metric costs more than the answer does. */
  unpaid: number;
}

/** The paid door: everything below `/v1/`. */
export interface PaidEdge {
  /** By target without query: `/v1/{service_id}`. */
  readonly routes: ReadonlyMap<string, PaidRoute>;
  /** Answers an unpaid request on a route; the shortest way through the gateway. */
  unpaid(route: PaidRoute, res: Exchange["res"], requestId: RequestId): void;
  /** Any request whose path begins with `/v1/`. */
  handle(exchange: Exchange): void;
}

const PREFIX = "/v1/";
const ROOT_VERBS = "POST, OPTIONS";
const PATH_VERBS = "GET, POST, OPTIONS";

function notSoldText(service: Service | undefined): string | undefined {
  if (service === undefined) return undefined;
  return `${service.id} is not sold here.${service.free ? ` It is free at /relay/${service.id}.` : ""}`;
}

/** Ends a client's attempt by what came of it. */
function endSale(limit: UnpaidLimit, attempt: UnpaidAttempt, sale: Sale): void {
  if (sale.kind === "outcome") endOutcome(limit, attempt, sale.outcome, sale.isOwn);
  else if (sale.kind === "refused" || sale.kind === "unread") endRefused(attempt, sale.code);
  else attempt.unpaid();
}

/** The paid door. */
export function createPaidEdge(opts: PaidEdgeOptions, modules: PaidEdgeModules): PaidEdge {
  const { termsOf, matchPath, sell, desk, budget, deadlines, clientIp, metrics } = modules;
  const routes = new Map<string, PaidRoute>();
  const unsold = new Map<string, Service>();
  for (const service of modules.services) {
    if (!service.paid) unsold.set(PREFIX + service.id, service);
    else routes.set(PREFIX + service.id, { service, terms: precomputeTerms(service, termsOf), unpaid: 0 });
  }

  const unpaid: PaidEdge["unpaid"] = (route, res, requestId) => {
    route.unpaid++;
    res.writeHead(402, termsHeaders(route.terms, requestId));
    res.end(route.terms.body, "latin1");
  };

  const refuse = (exchange: Exchange, service: string, code: ErrorCode, message?: string): void => {
    desk.answer(exchange, "paid", service, errorAnswer(code, exchange.requestId, { message }));
  };

  const pay = (
    exchange: Exchange,
    route: PaidRoute,
    verb: "GET" | "POST",
    appendedPath: string,
    paymentHeader: string,
  ): void => {
    const { req, res, requestId, target, trail } = exchange;
    const { service } = route;
    let held = 0;
    desk.work(exchange, "paid", service.id, async (slot): Promise<Answer | undefined> => {
      const attempt = modules.unpaid.begin(clientKey(clientIp(req)));
      if (!attempt.ok) {
        const { waitSeconds: retryAfterSeconds } = attempt;
        metrics.count(limitedTotal, { limit: "unpaid" });
        return errorAnswer("PAYMENT_RATE_LIMITED", requestId, { retryAfterSeconds });
      }
      try {
        const sale = await sell({
          requestId,
          service,
          verb,
          appendedPath,
          query: target.query,
          paymentHeader,
          trail,
          async readBody() {
            const limits = {
              maxBytes: service.maxBodyBytes,
              timeoutMs: opts.requestTimeoutMs,
              wanted: () => sendContinue(req, res),
            };
            slot.leave();
            const body = await readBody(req, limits, { budget, deadlines });
            if (!body.ok) return body;
            held = body.bytes.length;
            return slot.enter() ? body : { ok: false, reason: "OVERLOADED" };
          },
          gone: () => req.socket.destroyed,
        });
        endSale(modules.unpaid, attempt, sale);
        return saleAnswer(service, termsOf, requestId, sale);
      } finally {
        attempt.unpaid();
        budget.give(held);
      }
    });
  };

  return {
    routes,
    unpaid,
    handle(exchange) {
      const { req, target, requestId } = exchange;
      const { path } = target;
      const slash = path.indexOf("/", PREFIX.length);
      const wanted = slash === -1 ? path : path.slice(0, slash);
      const route = routes.get(wanted);
      if (route === undefined) return refuse(exchange, "unknown", "UNKNOWN_SERVICE", notSoldText(unsold.get(wanted)));
      const { service } = route;
      const appended = slash === -1 ? "" : path.slice(slash);
      const { method } = req;
      const verb = method === "GET" || method === "POST" ? method : undefined;
      const verbs = appended === "" ? ROOT_VERBS : PATH_VERBS;
      if (appended !== "") {
        const match = matchPath(service, appended);
        if (match !== "listed") return refuse(exchange, service.id, match);
      }
      if (method === "OPTIONS") return desk.answer(exchange, "paid", service.id, preflightAnswer(verbs));
      if (verb === undefined || (verb === "GET" && appended === "")) {
        const answer = errorAnswer("VERB_NOT_ALLOWED", requestId, { headers: ["Allow", verbs] });
        return desk.answer(exchange, "paid", service.id, answer);
      }
      const header = req.headers["payment-signature"];
      if (header === undefined) {
        if (canDiscard(req)) {
          unpaid(route, exchange.res, requestId);
          const ending = { status: 402, result: "PAYMENT_REQUIRED", bytes: route.terms.body.length };
          return desk.told(exchange, "paid", service.id, ending);
        }
        return desk.answer(exchange, "paid", service.id, unpaidAnswer(route.terms));
      }
      // Node joins repeated headers with a comma, which no base64 text holds.
      if (typeof header !== "string" || header.includes(",")) {
        return refuse(
          exchange,
          service.id,
          "PAYMENT_MALFORMED",
          "The PAYMENT-SIGNATURE header is sent more than once.",
        );
      }
      pay(exchange, route, verb, appended, header);
    },
  };
}
