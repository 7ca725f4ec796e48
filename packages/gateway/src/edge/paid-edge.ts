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
import { type ByteBudget, readBody } from "../http/body.ts";
import { canDiscard, type Exchange } from "../http/request.ts";
import type { RequestRunner } from "../http/request-runner.ts";
import { sendContinue } from "../http/server.ts";
import { limitedTotal } from "../metrics/gateway-metrics.ts";
import type { Pipeline, Presentation, Sale } from "./pipeline.ts";
import { type RefusedPayment, saleAnswer } from "./sale-answer.ts";
import {
  precomputeTerms,
  refusedTerms,
  refusedWithoutOffer,
  type Terms,
  type TermsOf,
  termsHeaders,
  unpaidAnswer,
} from "./terms.ts";

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
  readonly pipeline: Pipeline;
  /** Address that clients use, without a trailing slash. */
  readonly publicUrl: string;
  readonly runner: RequestRunner;
  readonly budget: ByteBudget;
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
/** What the id of a service may have been that was sold once. */
const ONCE_SOLD = /^[a-zA-Z0-9_-]{1,63}$/;
/** Longest body of a request for a service that is not known (any more): that of services that say nothing else. */
const UNKNOWN_MAX_BODY_BYTES = 1_048_576;
/** The service of a request that is for none, as metrics call it. */
const UNKNOWN = "unknown";

function notSoldText(service: Service | undefined): string | undefined {
  if (service === undefined) return undefined;
  return `${service.id} is not sold here.${service.free ? ` It is free at /relay/${service.id}.` : ""}`;
}

/** Why something is refused that is not sold. */
interface Refusal {
  readonly code: ErrorCode;
  readonly message?: string | undefined;
}

/** A request with a payment, by its parts, and what is done with it. */
interface Presented {
  /** As metrics call it. */
  readonly service: string;
  readonly route: string;
  readonly verb: "GET" | "POST";
  readonly appendedPath: string;
  readonly paymentHeader: string;
  readonly maxBodyBytes: number;
  readonly present: (presentation: Presentation) => Promise<Sale>;
  readonly refusedPayment: RefusedPayment;
}

/** The verb of a request that may be one for a sale; a GET needs a path. */
function saleVerb(method: string | undefined, appendedPath: string): "GET" | "POST" | undefined {
  return method === "POST" || (method === "GET" && appendedPath !== "") ? method : undefined;
}

function verbsOf(appendedPath: string): string {
  return appendedPath === "" ? ROOT_VERBS : PATH_VERBS;
}

/** Ends a client's attempt by what came of it. */
function endSale(limit: UnpaidLimit, attempt: UnpaidAttempt, sale: Sale): void {
  if (sale.kind === "outcome") endOutcome(limit, attempt, sale.outcome, sale.isOwn);
  else if (sale.kind === "refused" || sale.kind === "unread") endRefused(attempt, sale.code);
  else attempt.unpaid();
}

/** The paid door. */
export function createPaidEdge(opts: PaidEdgeOptions, modules: PaidEdgeModules): PaidEdge {
  const { termsOf, matchPath, pipeline, publicUrl, runner, budget, deadlines, clientIp, metrics } = modules;
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
    runner.respond(exchange, "paid", service, errorAnswer(code, exchange.requestId, { message }));
  };

  const present = (exchange: Exchange, presented: Presented): void => {
    const { req, requestId, target, context } = exchange;
    const { route, verb, appendedPath, paymentHeader, maxBodyBytes } = presented;
    let held = 0;
    runner.run(exchange, "paid", presented.service, async (slot): Promise<Answer | undefined> => {
      const attempt = modules.unpaid.begin(clientKey(clientIp(req)));
      if (!attempt.ok) {
        const { waitSeconds: retryAfterSeconds } = attempt;
        metrics.count(limitedTotal, { limit: "unpaid" });
        return errorAnswer("PAYMENT_RATE_LIMITED", requestId, { retryAfterSeconds });
      }
      try {
        const sale = await presented.present({
          requestId,
          route,
          verb,
          appendedPath,
          query: target.query,
          paymentHeader,
          context,
          async readBody() {
            const limits = {
              maxBytes: maxBodyBytes,
              timeoutMs: opts.requestTimeoutMs,
              wanted: () => sendContinue(req),
            };
            slot.release();
            const body = await readBody(req, limits, { budget, deadlines });
            if (!body.ok) return body;
            held = body.bytes.length;
            return slot.acquire() ? body : { ok: false, reason: "OVERLOADED" };
          },
          gone: () => req.socket.destroyed,
        });
        endSale(modules.unpaid, attempt, sale);
        return saleAnswer(presented.refusedPayment, requestId, sale);
      } finally {
        attempt.unpaid();
        budget.release(held);
      }
    });
  };

  const pay = (
    exchange: Exchange,
    service: Service,
    parts: Pick<Presented, "route" | "verb" | "appendedPath" | "paymentHeader">,
  ): void =>
    present(exchange, {
      ...parts,
      service: service.id,
      maxBodyBytes: service.maxBodyBytes,
      present: (presentation) => pipeline.sell({ ...presentation, service }),
      refusedPayment: (code, message, headers) => refusedTerms(service, termsOf, code, message, headers),
    });

  /**
   * Refuses what is not sold here, unless it comes with a payment that was claimed for it when it was: its payer gets what
   * it paid for. Only who has that very payment, or can sign as its payer, learns of it.
   */
  const notSold = (exchange: Exchange, route: string, appendedPath: string, refusal: Refusal): void => {
    const sold = routes.get(route)?.service;
    const label = sold?.id ?? UNKNOWN;
    const { method, headers } = exchange.req;
    const { "payment-signature": paymentHeader } = headers;
    const verb = saleVerb(method, appendedPath);
    const mayHaveBeenSold = ONCE_SOLD.test(route.slice(PREFIX.length));
    // A browser asks before it sends a payment.
    if (method === "OPTIONS" && mayHaveBeenSold) {
      runner.respond(exchange, "paid", label, preflightAnswer(verbsOf(appendedPath)));
      return;
    }
    if (typeof paymentHeader !== "string" || verb === undefined || !mayHaveBeenSold) {
      refuse(exchange, label, refusal.code, refusal.message);
      return;
    }
    const service = sold ?? unsold.get(route);
    present(exchange, {
      service: label,
      route,
      verb,
      appendedPath,
      paymentHeader,
      maxBodyBytes: service?.maxBodyBytes ?? UNKNOWN_MAX_BODY_BYTES,
      present: (presentation) => pipeline.findEarlier(presentation, { kind: "refused", ...refusal }),
      refusedPayment: (code, message, more) => refusedWithoutOffer(publicUrl + route, code, message, more),
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
      const appended = slash === -1 ? "" : path.slice(slash);
      if (route === undefined) {
        const refusal = { code: "UNKNOWN_SERVICE", message: notSoldText(unsold.get(wanted)) } as const;
        return notSold(exchange, wanted, appended, refusal);
      }
      const { service } = route;
      const { method } = req;
      const verb = saleVerb(method, appended);
      const verbs = verbsOf(appended);
      if (appended !== "") {
        const match = matchPath(service, appended);
        if (match === "NOT_FOUND") return notSold(exchange, wanted, appended, { code: match });
        if (match !== "listed") return refuse(exchange, service.id, match);
      }
      if (method === "OPTIONS") return runner.respond(exchange, "paid", service.id, preflightAnswer(verbs));
      if (verb === undefined) {
        const answer = errorAnswer("VERB_NOT_ALLOWED", requestId, { headers: ["Allow", verbs] });
        return runner.respond(exchange, "paid", service.id, answer);
      }
      const header = req.headers["payment-signature"];
      if (header === undefined) {
        if (canDiscard(req)) {
          unpaid(route, exchange.res, requestId);
          const summary = { status: 402, result: "PAYMENT_REQUIRED", bytes: route.terms.body.length };
          return runner.recordResponse(exchange, "paid", service.id, summary);
        }
        return runner.respond(exchange, "paid", service.id, unpaidAnswer(route.terms));
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
      pay(exchange, service, { route: wanted, verb, appendedPath: appended, paymentHeader: header });
    },
  };
}
