import {
  type ClientByteBudget,
  type ClientIpOf,
  clientKey,
  type Deadlines,
  type ErrorCode,
  type Metrics,
  type Places,
  type RequestId,
} from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { endOutcome, endRefused, type UnpaidAttempt, type UnpaidLimit } from "@turnpike/payment";
import { type Answer, errorAnswer, preflightAnswer } from "../http/answer.ts";
import { readBody } from "../http/body.ts";
import { canDiscard, type Exchange } from "../http/request.ts";
import type { RequestRunner } from "../http/request-runner.ts";
import { sendContinue } from "../http/server.ts";
import { gatewayLimitedTotal } from "../metrics/gateway-metrics.ts";
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

interface PaidHandlerModules {
  readonly services: Iterable<Service>;
  readonly termsOf: TermsOf;
  readonly matchPath: MatchPath;
  readonly pipeline: Pipeline;
  /** Address that clients use, without a trailing slash. */
  readonly publicUrl: string;
  readonly runner: RequestRunner;
  readonly paidBudget: ClientByteBudget;
  /** Calls under way, by client. */
  readonly paidPlaces: Places;
  /** For bodies that do not come. */
  readonly deadlines: Deadlines;
  readonly clientIp: ClientIpOf;
  /** By client: presented payments that do not pay. */
  readonly unpaid: UnpaidLimit;
  readonly metrics: Metrics;
}

/** One paid service's route. */
interface PaidRoute {
  readonly service: Service;
  readonly terms: Terms;
  /** Unpaid answers since they were last read; a plain number, since a metric costs more than the answer does. */
  unpaid: number;
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

/** A request with a payment, by its parts, and how it is sold. */
interface Purchase {
  /** As metrics call it. */
  readonly service: string;
  readonly route: string;
  readonly verb: "GET" | "POST";
  readonly appendedPath: string;
  readonly paymentHeader: string;
  readonly maxBodyBytes: number;
  readonly sell: (presentation: Presentation) => Promise<Sale>;
  readonly refusedPayment: RefusedPayment;
}

/** The verb of a request that may be one for a sale; a GET needs a path. */
function saleVerb(method: string | undefined, appendedPath: string): "GET" | "POST" | undefined {
  return method === "POST" || (method === "GET" && appendedPath !== "") ? method : undefined;
}

function verbsOf(appendedPath: string): string {
  return appendedPath === "" ? ROOT_VERBS : PATH_VERBS;
}

/** Ends a client's attempt with the outcome of its sale. */
function endSale(limit: UnpaidLimit, attempt: UnpaidAttempt, sale: Sale): void {
  if (sale.kind === "outcome") endOutcome(limit, attempt, sale.outcome, sale.isOwn);
  else if (sale.kind === "refused" || sale.kind === "unread") endRefused(attempt, sale.code);
  else attempt.unpaid();
}

/** Handles paid calls: everything below `/v1/`. */
export class PaidHandler {
  readonly #requestTimeoutMs: number;
  readonly #modules: PaidHandlerModules;
  readonly #routes = new Map<string, PaidRoute>();
  /** Services that are not sold, by what would be their route. */
  readonly #unsold = new Map<string, Service>();

  constructor(opts: { readonly requestTimeoutMs: number }, modules: PaidHandlerModules) {
    this.#requestTimeoutMs = opts.requestTimeoutMs;
    this.#modules = modules;
    for (const service of modules.services) {
      const route = PREFIX + service.id;
      if (!service.paid) this.#unsold.set(route, service);
      else this.#routes.set(route, { service, terms: precomputeTerms(service, modules.termsOf), unpaid: 0 });
    }
  }

  /** By target without query: `/v1/{service_id}`. */
  get routes(): ReadonlyMap<string, PaidRoute> {
    return this.#routes;
  }

  /** Answers an unpaid request on a route; the shortest way through the gateway. */
  answerUnpaid(route: PaidRoute, res: Exchange["res"], requestId: RequestId): void {
    route.unpaid++;
    res.writeHead(402, termsHeaders(route.terms, requestId));
    res.end(route.terms.body, "latin1");
  }

  /** Handles any request whose path begins with `/v1/`. */
  handle(exchange: Exchange): void {
    const { path } = exchange.target;
    const slash = path.indexOf("/", PREFIX.length);
    const wanted = slash === -1 ? path : path.slice(0, slash);
    const appended = slash === -1 ? "" : path.slice(slash);
    const route = this.#routes.get(wanted);
    if (route !== undefined) {
      const match = appended === "" ? "listed" : this.#modules.matchPath(route.service, appended);
      if (match === "listed") this.#handleRoute(exchange, route, wanted, appended);
      else if (match === "NOT_FOUND") this.#handleUnsold(exchange, wanted, appended, { code: match });
      else this.#refuse(exchange, route.service.id, match);
      return;
    }
    const message = notSoldText(this.#unsold.get(wanted));
    this.#handleUnsold(exchange, wanted, appended, { code: "UNKNOWN_SERVICE", message });
  }

  #handleRoute(exchange: Exchange, paidRoute: PaidRoute, route: string, appendedPath: string): void {
    const { runner, pipeline, termsOf } = this.#modules;
    const { service } = paidRoute;
    const { method, headers } = exchange.req;
    const { "payment-signature": paymentHeader } = headers;
    const verb = saleVerb(method, appendedPath);
    const verbs = verbsOf(appendedPath);
    if (method === "OPTIONS") runner.respond(exchange, "paid", service.id, preflightAnswer(verbs));
    else if (verb === undefined) {
      const answer = errorAnswer("VERB_NOT_ALLOWED", exchange.requestId, { headers: ["Allow", verbs] });
      runner.respond(exchange, "paid", service.id, answer);
    } else if (paymentHeader === undefined) this.#offer(exchange, paidRoute);
    // Node joins repeated headers with a comma, which no base64 text holds.
    else if (typeof paymentHeader !== "string" || paymentHeader.includes(",")) {
      const message = "The PAYMENT-SIGNATURE header is sent more than once.";
      this.#refuse(exchange, service.id, "PAYMENT_MALFORMED", message);
    } else {
      this.#sell(exchange, {
        service: service.id,
        route,
        verb,
        appendedPath,
        paymentHeader,
        maxBodyBytes: service.maxBodyBytes,
        sell: (presentation) => pipeline.sell({ ...presentation, service }),
        refusedPayment: (code, message, more) => refusedTerms(service, termsOf, code, message, more),
      });
    }
  }

  /** Answers a request without a payment with the route's terms. */
  #offer(exchange: Exchange, route: PaidRoute): void {
    const { runner } = this.#modules;
    const { service, terms } = route;
    if (!canDiscard(exchange.req)) {
      runner.respond(exchange, "paid", service.id, unpaidAnswer(terms));
      return;
    }
    this.answerUnpaid(route, exchange.res, exchange.requestId);
    const summary = { status: 402, result: "PAYMENT_REQUIRED", bytes: terms.body.length };
    runner.recordResponse(exchange, "paid", service.id, summary);
  }

  #refuse(exchange: Exchange, service: string, code: ErrorCode, message?: string): void {
    this.#modules.runner.respond(exchange, "paid", service, errorAnswer(code, exchange.requestId, { message }));
  }

  /**
   * Refuses what is not sold here, unless it comes with a payment that was claimed for it when it was: its payer gets what
   * it paid for. Only who has that very payment, or can sign as its payer, learns of it.
   */
  #handleUnsold(exchange: Exchange, route: string, appendedPath: string, refusal: Refusal): void {
    const { runner, pipeline, publicUrl } = this.#modules;
    const sold = this.#routes.get(route)?.service;
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
      this.#refuse(exchange, label, refusal.code, refusal.message);
      return;
    }
    const service = sold ?? this.#unsold.get(route);
    this.#sell(exchange, {
      service: label,
      route,
      verb,
      appendedPath,
      paymentHeader,
      maxBodyBytes: service?.maxBodyBytes ?? UNKNOWN_MAX_BODY_BYTES,
      sell: (presentation) => pipeline.findEarlier(presentation, { kind: "refused", ...refusal }),
      refusedPayment: (code, message, more) => refusedWithoutOffer(publicUrl + route, code, message, more),
    });
  }

  /** Sells within the client's limit of payments that do not pay, and answers with the outcome. */
  #sell(exchange: Exchange, purchase: Purchase): void {
    const { req, requestId, target, context } = exchange;
    const { paidBudget, paidPlaces, clientIp, deadlines, unpaid, metrics } = this.#modules;
    const { route, verb, appendedPath, paymentHeader } = purchase;
    let heldBytes = 0;
    let leave: (() => void) | undefined;
    this.#modules.runner.run(exchange, "paid", purchase.service, async (slot): Promise<Answer | undefined> => {
      const client = clientKey(clientIp(req));
      const budget = paidBudget.of(client);
      const attempt = unpaid.begin(client);
      if (!attempt.ok) {
        const { waitSeconds: retryAfterSeconds } = attempt;
        metrics.count(gatewayLimitedTotal, { limit: "unpaid" });
        return errorAnswer("PAYMENT_RATE_LIMITED", requestId, { retryAfterSeconds });
      }
      try {
        const sale = await purchase.sell({
          requestId,
          route,
          verb,
          appendedPath,
          query: target.query,
          paymentHeader,
          client,
          context,
          readBody: async () => {
            const limits = {
              maxBytes: purchase.maxBodyBytes,
              timeoutMs: this.#requestTimeoutMs,
              wanted: () => sendContinue(req),
            };
            slot.release();
            const body = await readBody(req, limits, { budget, deadlines });
            if (!body.ok) return budget.lacking === "each" ? { ok: false, reason: "PAYMENT_RATE_LIMITED" } : body;
            heldBytes = body.bytes.length;
            // A client that sends slowly needs no place, either.
            const place = paidPlaces.acquire(client);
            if (place === "each") {
              metrics.count(gatewayLimitedTotal, { limit: "concurrent" });
              return { ok: false, reason: "PAYMENT_RATE_LIMITED" };
            }
            if (place === "all") return { ok: false, reason: "OVERLOADED" };
            leave = place;
            return slot.acquire() ? body : { ok: false, reason: "OVERLOADED" };
          },
          gone: () => req.socket.destroyed,
        });
        endSale(unpaid, attempt, sale);
        return saleAnswer(purchase.refusedPayment, requestId, sale);
      } finally {
        attempt.unpaid();
        leave?.();
        budget.release(heldBytes);
      }
    });
  }
}
