import { createHash } from "node:crypto";
import {
  type ClientByteBudget,
  type Clock,
  type ErrorCode,
  errorRow,
  faultFields,
  isAppError,
  type Log,
  type Metrics,
  type NetworkId,
  type NoPlace,
  noSpan,
  type RequestId,
  type ServiceId,
  utf8ToBytes,
} from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type {
  Admission,
  EarlierAdmission,
  Offer,
  Outcome,
  PaymentOption,
  PaymentStage,
  PresentedPayment,
  Receipt,
} from "@turnpike/payment";
import {
  type BackendCall,
  mintParsed,
  type PaidRequest,
  type ParsedRequest,
  type Relayed,
  type SchemaCheck,
} from "@turnpike/protocol";
import type { Relay, RelayFailure, RelayOutcome } from "@turnpike/relay";
import type { BodyResult } from "../http/body.ts";
import type { RequestContext } from "../http/request.ts";
import { gatewaySoldBytes } from "../metrics/gateway-metrics.ts";
import { StageTimer } from "./stage-timer.ts";

const ENVELOPE_END = utf8ToBytes("}");

/** One item of a 422's `detail`. */
interface ValidationIssue {
  readonly loc: readonly (string | number)[];
  readonly msg: string;
  readonly type: string;
}

/** What a family makes of a request for one of its services. */
type ParsedCall =
  | { readonly ok: true; readonly call: BackendCall }
  | {
      readonly ok: false;
      readonly code: ErrorCode;
      readonly message?: string | undefined;
      /** With VALIDATION_FAILED: the whole body of the 422. */
      readonly detail?: readonly ValidationIssue[] | undefined;
    };

/** Reads a request as a call of a service: the family's part of the edge. */
export type ParseCall = (
  service: Service,
  input: {
    readonly verb: "GET" | "POST";
    /** As received after the route, without the query; empty at the route's root. */
    readonly appendedPath: string;
    /** As received, with its question mark; empty without one. */
    readonly query: string;
    readonly body: Uint8Array;
  },
) => ParsedCall;

/** A request with a payment, as the paid edge hands it over: its body is not read yet. */
export interface Presentation {
  readonly requestId: RequestId;
  /** `/v1/{service_id}`. */
  readonly route: string;
  readonly verb: "GET" | "POST";
  /** As received after the route, without the query; empty at the route's root. */
  readonly appendedPath: string;
  /** As received, with its question mark; empty without one. */
  readonly query: string;
  readonly paymentHeader: string;
  /** As limits count clients. */
  readonly client: string;
  readonly context: RequestContext;
  readBody(): Promise<BodyResult>;
  /** True when the client has left. Nothing new is begun for it; what is claimed goes on to its end. */
  gone(): boolean;
}

/** A request with a payment for a service that is sold. */
export interface Purchase extends Presentation {
  readonly service: Service;
}

/** How a purchase ended. */
export type Sale =
  | {
      readonly kind: "outcome";
      readonly outcome: Outcome;
      /** True for the call that was run for it; false for a copy of an earlier one. */
      readonly isOwn: boolean;
    }
  | {
      readonly kind: "refused";
      readonly code: ErrorCode;
      readonly message?: string | undefined;
      /** When it may be sent again, where that is known. */
      readonly retryAfterSeconds?: number | undefined;
      /** Of the payment that is in the way. */
      readonly receipt?: Receipt | undefined;
    }
  | { readonly kind: "invalid"; readonly detail: readonly ValidationIssue[] }
  /** The body could not be had, so the connection cannot be used any more. */
  | { readonly kind: "unread"; readonly code: ErrorCode }
  | { readonly kind: "gone" };

interface PipelineModules {
  readonly payment: PaymentStage;
  readonly relay: Relay;
  /** Ways to pay for a service, as its 402 offers them. */
  readonly optionsOf: (service: Service) => readonly PaymentOption[];
  readonly parse: ParseCall;
  /** Bytes of checked answers that wait for their settlement, in total, by client and by payer. */
  readonly answers: ClientByteBudget;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Aborts when the gateway gives up what is still in flight at its end. */
  readonly stopping: AbortSignal;
}

/** Weight of the latest answer in the usual size of a service's. */
const LEARNING_RATE = 1 / 8;

/** Codes of calls whose answers have no room, by what is lacking: a share of the client or payer, or any. */
const NO_ROOM = { each: "PAYMENT_RATE_LIMITED", all: "OVERLOADED" } as const;

/** The bytes that are held for one answer. */
class HeldAnswer {
  readonly #clients: readonly string[];
  readonly #budget: ClientByteBudget;
  #bytes = 0;

  constructor(clients: readonly string[], budget: ClientByteBudget) {
    this.#clients = clients;
    this.#budget = budget;
  }

  /** Holds so many bytes; says why not, and holds none, where there is no room. */
  resize(bytes: number): NoPlace | undefined {
    if (this.#bytes > 0) this.#budget.release(this.#clients, this.#bytes);
    this.#bytes = 0;
    const lacking = bytes === 0 ? undefined : this.#budget.acquire(this.#clients, bytes);
    if (lacking === undefined) this.#bytes = bytes;
    return lacking;
  }
}

type Refused = Extract<Admission, { readonly kind: "refused" }>;

/** A payment and the whole request that it came with. */
interface Received {
  readonly payment: PresentedPayment;
  readonly body: Uint8Array;
  readonly requestHash: Uint8Array;
}

/**
 * The order of a paid request: decode → read → parse → admit → relay → settle. This is the only file that knows it:
 * no stage knows another. From `admit` on the claim is ours, and ends in exactly one `settle` or `release`. What is not sold
 * any more goes: decode → read → earlier. No method rejects for what a client, a supplier or a chain does.
 */
export class Pipeline {
  readonly #modules: PipelineModules;
  readonly #stages: StageTimer;
  /** Usual bytes that an answer of a service holds. */
  readonly #answerBytes = new Map<ServiceId, number>();

  constructor(modules: PipelineModules) {
    this.#modules = modules;
    this.#stages = new StageTimer(modules);
  }

  /** Sells one call. */
  async sell(purchase: Purchase): Promise<Sale> {
    const { service, verb, appendedPath, query, requestId, context } = purchase;
    const { span } = context;
    const received = await this.#receive(purchase);
    if ("kind" in received) return received;
    const { payment: presented, body, requestHash } = received;

    const input = { verb, appendedPath, query, body };
    const parsed = await this.#stages.run("parse", span, () => this.#modules.parse(service, input), resultOf);
    if (!parsed.ok) {
      const { code, message, detail } = parsed;
      if (code === "VALIDATION_FAILED" && detail !== undefined) return { kind: "invalid", detail };
      const refused = { kind: "refused", code, message } as const;
      // The method may have been sold when it was paid for.
      return code === "METHOD_NOT_ALLOWED" ? this.#earlier(purchase, received, refused) : refused;
    }
    context.operation = parsed.call.operation;
    const traced = span === noSpan ? {} : { span };
    const client = presented.authorization.from.toLowerCase();
    const request = mintParsed({ requestId, serviceId: service.id, call: parsed.call, client, requestHash, ...traced });

    if (purchase.gone()) return { kind: "gone" };
    const held = new HeldAnswer([purchase.client, client], this.#modules.answers);
    try {
      const admission = await this.#admit(purchase, request, presented);
      if (admission.kind !== "paid") return saleOf(admission);
      const { paid } = admission;
      // Before a supplier works for it.
      const lacking = held.resize(this.#answerBytes.get(service.id) ?? 0);
      if (lacking !== undefined) return await this.#release(paid, { ok: false, code: NO_ROOM[lacking], attempts: 0 });
      const result = await this.#stages.run<RelayOutcome>("relay", span, () => this.#send(paid), resultOf);
      if (!result.ok) return await this.#release(paid, result);
      return await this.#settle(paid, result, presented, held);
    } finally {
      held.resize(0);
    }
  }

  /**
   * The outcome of a payment that was claimed for this very request when it was sold, or of another one of its payer with its
   * payment identifier; without one `otherwise`, also where the payment is none. Begins no sale.
   */
  async findEarlier(presented: Presentation, otherwise: Sale): Promise<Sale> {
    const received = await this.#receive(presented);
    if (!("kind" in received)) return this.#earlier(presented, received, otherwise);
    // What is no payment was never claimed.
    return received.kind === "refused" ? otherwise : received;
  }

  /** Decodes the payment and reads the body. */
  async #receive(presented: Presentation): Promise<Received | Sale> {
    const { route, verb, appendedPath, query, context } = presented;
    const decoded = await this.#stages.run(
      "decode",
      context.span,
      () => this.#modules.payment.decode(presented.paymentHeader),
      resultOf,
    );
    if (!decoded.ok) return { kind: "refused", code: decoded.code, message: decoded.message };
    const body = await this.#stages.run(
      "read",
      context.span,
      () => presented.readBody(),
      (read) => (read.ok ? "ok" : read.reason),
    );
    if (!body.ok) return body.reason === "gone" ? { kind: "gone" } : { kind: "unread", code: body.reason };
    const requestHash = hashRequest({ verb, route, path: appendedPath + query, body: body.bytes });
    return { payment: decoded.payment, body: body.bytes, requestHash };
  }

  async #earlier(presented: Presentation, received: Received, otherwise: Sale): Promise<Sale> {
    if (presented.gone()) return { kind: "gone" };
    const { payment, stopping } = this.#modules;
    const found = await this.#unlessUnavailable(presented.requestId, () =>
      this.#stages.run<EarlierAdmission | undefined>(
        "earlier",
        presented.context.span,
        () => payment.earlierOutcome(received.requestHash, received.payment, stopping),
        (known) => (known?.kind === "refused" ? known.code : (known?.kind ?? "none")),
      ),
    );
    return found === undefined ? otherwise : saleOf(found);
  }

  /** Verifies the payment and claims it, before the call is served. */
  async #admit({ service, client }: Purchase, request: ParsedRequest, presented: PresentedPayment): Promise<Admission> {
    const { payment, relay, optionsOf, stopping } = this.#modules;
    const offer: Offer = {
      options: optionsOf(service),
      client,
      refusal() {
        const { rpcType, operation } = request.call;
        if (!relay.hasSupplier(service.id, rpcType)) return { ok: false, code: "SERVICE_UNAVAILABLE" };
        if (!relay.missingMethods(service.id).has(operation)) return undefined;
        return { ok: false, code: "METHOD_NOT_ALLOWED", message: "No supplier of this service has this method now." };
      },
    };
    return this.#unlessUnavailable(request.requestId, () =>
      this.#stages.run(
        "admit",
        request.span,
        () => payment.admit(request, presented, offer, stopping),
        (admitted) => (admitted.kind === "refused" ? admitted.code : admitted.kind),
      ),
    );
  }

  /** Asks the payment stage; faults that are about us become refusals of their code. */
  async #unlessUnavailable<A>(requestId: RequestId, ask: () => Promise<A>): Promise<A | Refused> {
    const { stopping, log } = this.#modules;
    try {
      return await ask();
    } catch (error) {
      if (stopping.aborted) return { kind: "refused", ok: false, code: "SHUTTING_DOWN" };
      if (!isAppError(error) || errorRow(error.code).http !== 503) throw error;
      log.warn({ code: error.code, requestId }, "a payment could not be looked at");
      return { kind: "refused", ok: false, code: error.code };
    }
  }

  async #send(paid: PaidRequest): Promise<RelayOutcome> {
    const { relay, clock, log, stopping } = this.#modules;
    const leftMs = Math.max(1, Math.ceil(paid.deadlineMs - clock.monotonicMs()));
    const deadline = new AbortController();
    const abort = (): void => deadline.abort();
    const timer = setTimeout(abort, leftMs);
    // A signal of `AbortSignal.any` would be retained with the long-lived one for a while, and costs more than all of this.
    if (stopping.aborted) abort();
    else stopping.addEventListener("abort", abort, { once: true });
    try {
      return await relay.send(paid, deadline.signal);
    } catch (error) {
      log.error({ ...faultFields(error), requestId: paid.request.requestId }, "a relay failed by a fault");
      return { ok: false, code: "INTERNAL", attempts: 0 };
    } finally {
      clearTimeout(timer);
      stopping.removeEventListener("abort", abort);
    }
  }

  async #settle(paid: PaidRequest, relayed: Relayed, presented: PresentedPayment, held: HeldAnswer): Promise<Sale> {
    const { payment, log, metrics } = this.#modules;
    // The body and its envelope are held until the settlement has ended.
    const heldBytes = relayed.body.length * 2;
    this.#learn(paid.request.serviceId, heldBytes);
    const lacking = held.resize(heldBytes);
    if (lacking !== undefined) return this.#release(paid, { ok: false, code: NO_ROOM[lacking], attempts: 1 });
    try {
      const body = this.#sealed(paid, relayed);
      // Nothing was sent yet: the claim must not stay behind.
      if (body === undefined) return await this.#release(paid, { ok: false, code: "INTERNAL", attempts: 1 });
      metrics.observe(gatewaySoldBytes, body.length);
      const outcome = await this.#stages.run(
        "settle",
        paid.request.span,
        () => payment.settle(paid, relayed, { contentType: "application/json", body }),
        (ended) => ended.kind,
      );
      const { requestId, serviceId } = paid.request;
      const fields = { requestId, serviceId, settlementId: paid.settlementId, outcome: outcome.kind };
      if (outcome.kind === "settled") log.debug(fields, "a paid call has ended");
      else log.warn(fields, "a paid call has ended without a settlement");
      return { kind: "outcome", outcome, isOwn: true };
    } catch (error) {
      // It is not known what was sent. The one safe advice is the same signature again, so never a 402.
      log.error({ ...faultFields(error), requestId: paid.request.requestId }, "a settlement failed by a fault");
      return { kind: "outcome", outcome: unknownOutcome(paid, presented), isOwn: true };
    }
  }

  #learn(service: ServiceId, bytes: number): void {
    const before = this.#answerBytes.get(service) ?? bytes;
    this.#answerBytes.set(service, Math.ceil(before + (bytes - before) * LEARNING_RATE));
  }

  /** The answer as it is sold; undefined when a fault made none. */
  #sealed({ request }: PaidRequest, relayed: Relayed): Uint8Array | undefined {
    try {
      return sealEnvelope(request.serviceId, relayed.schemaCheck, relayed.body);
    } catch (error) {
      this.#modules.log.error({ ...faultFields(error), requestId: request.requestId }, "an answer failed by a fault");
      return undefined;
    }
  }

  /** Gives a claimed payment back uncharged. */
  async #release(paid: PaidRequest, result: RelayFailure): Promise<Sale> {
    const { payment, log } = this.#modules;
    const { requestId, serviceId } = paid.request;
    log.warn({ requestId, serviceId, code: result.code, attempts: result.attempts }, "a paid call had no answer");
    try {
      const outcome = await this.#stages.run(
        "release",
        paid.request.span,
        () => payment.release(paid, result.code),
        (ended) => ended.kind,
      );
      return { kind: "outcome", outcome, isOwn: true };
    } catch (error) {
      log.error({ ...faultFields(error), requestId }, "a release failed by a fault");
      return { kind: "refused", code: "SERVICE_UNAVAILABLE" };
    }
  }
}

function saleOf(admission: EarlierAdmission): Sale {
  if (admission.kind === "outcome") return { kind: "outcome", outcome: admission.outcome, isOwn: false };
  const { code, message, retryAfterSeconds, receipt } = admission;
  return { kind: "refused", code, message, retryAfterSeconds, receipt };
}

/** The outcome when a settlement failed by a fault: open, with all that its payer needs to come back. */
function unknownOutcome(paid: PaidRequest, { accepted, authorization }: PresentedPayment): Outcome {
  const { settlementId } = paid;
  const receipt = {
    success: false,
    transaction: "",
    network: String(accepted.network) as NetworkId,
    payer: authorization.from,
    errorReason: "settlement_pending",
    extensions: { settlement: { id: settlementId, status: "in_progress" } },
  };
  return { kind: "pending", receipt, retryAfterSeconds: 2, settlementId };
}

function resultOf(result: { readonly ok: boolean; readonly code?: ErrorCode }): string {
  return result.code ?? "ok";
}

/** What a payment is bound to. */
interface HashedRequest {
  readonly verb: string;
  /** `/v1/{service_id}`. */
  readonly route: string;
  /** Appended path with its query, as received. */
  readonly path: string;
  /** Body, as received; empty when there is none. */
  readonly body: Uint8Array;
}

/**
 * SHA-256 over verb, route, appended path with query, and body, each preceded by its length in bytes as eight bytes,
 * big end first: so no two different requests give the same bytes.
 */
export function hashRequest(request: HashedRequest): Uint8Array {
  const hash = createHash("sha256");
  for (const part of [utf8ToBytes(request.verb), utf8ToBytes(request.route), utf8ToBytes(request.path), request.body]) {
    const length = Buffer.allocUnsafe(8);
    length.writeBigUInt64BE(BigInt(part.length));
    hash.update(length).update(part);
  }
  return new Uint8Array(hash.digest());
}

/**
 * The success envelope of spec §2.3. `data` is the supplier's JSON, spliced in as it is: its numbers, its key order and
 * its white space stay what they were.
 */
export function sealEnvelope(serviceId: string, schemaCheck: SchemaCheck, data: Uint8Array): Uint8Array {
  const portal = JSON.stringify({ provenance: "third-party-supplier", serviceId, schemaCheck });
  return Buffer.concat([utf8ToBytes(`{"portal":${portal},"data":`), data, ENVELOPE_END]);
}
