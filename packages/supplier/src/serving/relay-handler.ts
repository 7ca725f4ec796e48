import { AppError, type Clock, type Log, type Metrics } from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import {
  decodeHttpRequestPayload,
  decodeRelayRequest,
  encodeHttpResponsePayload,
  encodeRelayResponse,
  type HttpRequestPayload,
  type HttpResponsePayload,
  type RelayMinerError,
  type RelayRequestFields,
  type RpcType,
  relayBytes,
  relayRequestSignBytes,
  relayResponseDigest,
  type SessionHeader,
} from "@turnpike/protocol";
import type { HttpBackEnd } from "../backends/back-end.ts";
import type { RelayStore } from "../evidence/relay-store.ts";
import { requestName } from "../evidence/request-name.ts";
import { MAX_RELAY_BYTES } from "../evidence/session-evidence.ts";
import type { AppendResult, BeginFault, BegunRelay, InFlight } from "../evidence/types.ts";
import {
  supplierRelayDurationSeconds,
  supplierRelaysInFlight,
  supplierRelaysRefusedTotal,
} from "../serving-metrics.ts";
import { REFUSALS, type Refusal } from "../verification/refusal.ts";
import type { ServedSession, SessionKeeper } from "../verification/session-keeper.ts";
import type { RelayCrypto } from "./relay-crypto.ts";

/** A service as this supplier serves it. */
export interface SuppliedService {
  readonly backEnds: ReadonlyMap<RpcType, HttpBackEnd>;
  /** Of relays that do not name one. */
  readonly defaultRpcType: RpcType;
  readonly maxConcurrent: number;
}

interface RelayHandlerOptions {
  readonly services: ReadonlyMap<string, SuppliedService>;
  /** Most relays in flight, of all services. */
  readonly maxConcurrentRelays: number;
  /** Largest request that is worked on. Never more than {@link MAX_REQUEST_BYTES}. */
  readonly maxRequestBytes: number;
  /** Operators whose keys are here. */
  readonly operators: ReadonlySet<string>;
}

interface RelayHandlerModules {
  readonly sessions: SessionKeeper;
  readonly crypto: RelayCrypto;
  readonly store: Pick<RelayStore, "begin">;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Log;
}

/** A mined relay has the answer's header, hash and signature beside the request. */
const MOST_ANSWER_META_BYTES = 1_024;
/** With a larger request no relay can be claimed: its proof would not fit into a transaction. */
export const MAX_REQUEST_BYTES = MAX_RELAY_BYTES - MOST_ANSWER_META_BYTES;

/** Fields of an {@link AdmittedRelay}. */
interface AdmittedRelayFields {
  readonly session: ServedSession;
  readonly requestBytes: Uint8Array;
  /** As its session remembers it. */
  readonly name: string;
  readonly inFlight: InFlight;
}

/**
 * A relay that was checked and may be worked on. Disposed of before it is served, it ends without an answer: nothing is
 * counted, and its request may be sent again.
 */
class AdmittedRelay implements Disposable {
  readonly session: ServedSession;
  readonly requestBytes: Uint8Array;
  readonly #name: string;
  readonly #inFlight: InFlight;
  #isServed = false;
  #isMoved = false;

  constructor({ session, requestBytes, name, inFlight }: AdmittedRelayFields) {
    this.session = session;
    this.requestBytes = requestBytes;
    this.#name = name;
    this.#inFlight = inFlight;
  }

  /** Writes its answer down; once that is done it counts as served. */
  async append(relay: Uint8Array): Promise<AppendResult> {
    const result = await this.#inFlight.append(relay, this.#name);
    this.#isServed = result === "mined" || result === "below-difficulty";
    return result;
  }

  /** What keeps its session open, for an answer that goes on; the caller disposes of it. */
  move(): InFlight {
    this.#isMoved = true;
    return this.#inFlight;
  }

  /** Ends it where the work is counted by other means: its request is not served again. */
  endUncounted(): void {
    this.#isServed = true;
    this.session.budget.release();
    this[Symbol.dispose]();
  }

  /** Nothing happens the second time. */
  [Symbol.dispose](): void {
    if (!this.#isMoved) this.#inFlight[Symbol.dispose]();
    this.#isMoved = true;
    if (this.#isServed) return;
    this.#isServed = true;
    this.session.budget.release();
    this.session.seen.delete(this.#name);
  }
}

/** What becomes of a relay: bytes of a signed RelayResponse, a stream of such, or why not. */
export type RelayOutcome =
  | { readonly kind: "response"; readonly bytes: Uint8Array }
  | { readonly kind: "stream"; readonly responses: AsyncIterable<Uint8Array> }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** The refusal of a relay that cannot be written down. */
export function unwritten(
  fault: BeginFault | Exclude<AppendResult, "mined" | "below-difficulty">,
  header: SessionHeader,
): Refusal {
  if (fault === "too-large") return REFUSALS.tooLarge;
  if (fault === "sealed") return REFUSALS.sessionSealed(header.sessionEndBlockHeight);
  return REFUSALS.unavailable(fault === "full" ? "log_failed" : "chain_unreachable", header.serviceId);
}

const refused = (refusal: Refusal): RelayOutcome => ({ kind: "refused", refusal });

/**
 * Serves relays over HTTP: request bytes in, signed response bytes out. The order is what protects the supplier: form,
 * membership, signature and pay are checked before any work is done, and the relay is in the log before its answer leaves.
 */
export class RelayHandler {
  readonly #options: RelayHandlerOptions;
  readonly #modules: RelayHandlerModules;
  readonly #running = new Map<string, number>();
  readonly #maxRequestBytes: number;
  #inFlight = 0;

  constructor(options: RelayHandlerOptions, modules: RelayHandlerModules) {
    this.#options = options;
    this.#maxRequestBytes = Math.min(options.maxRequestBytes, MAX_REQUEST_BYTES);
    this.#modules = modules;
  }

  /** True while no further relay is taken: its body need not be read. */
  get isFull(): boolean {
    return this.#inFlight >= this.#options.maxConcurrentRelays;
  }

  /** Counts a relay that is refused unread. */
  refuseUnread(refusal: Refusal): Refusal {
    this.#count("other", refusal);
    return refusal;
  }

  /** @param rpcType of the request's `Rpc-Type`; undefined: the service's default. @param signal aborts when the client has gone */
  async handle(bytes: Uint8Array, rpcType: RpcType | undefined, signal: AbortSignal): Promise<RelayOutcome> {
    const startMs = this.#modules.clock.monotonicMs();
    if (bytes.length > this.#maxRequestBytes) return refused(this.refuseUnread(REFUSALS.tooLarge));
    const request = decodeRelayRequest(bytes);
    this.#track(1);
    let outcome: RelayOutcome = refused(REFUSALS.malformed);
    try {
      if (request !== undefined) outcome = await this.#serve(request, bytes, rpcType, signal);
    } finally {
      this.#track(-1);
    }
    const id = request?.header?.serviceId ?? "";
    // Ids are untrusted: only those of supplied services become labels.
    const service = this.#options.services.has(id) ? id : "other";
    if (outcome.kind === "refused") this.#count(service, outcome.refusal);
    else {
      const tookMs = this.#modules.clock.monotonicMs() - startMs;
      this.#modules.metrics.observe(supplierRelayDurationSeconds, tookMs / 1_000, { service });
    }
    return outcome;
  }

  async #serve(
    request: RelayRequestFields,
    bytes: Uint8Array,
    rpcType: RpcType | undefined,
    signal: AbortSignal,
  ): Promise<RelayOutcome> {
    if (request.header === undefined) return refused(REFUSALS.malformed);
    const call = decodeHttpRequestPayload(request.payload);
    if (call === undefined || call.method === "") return refused(REFUSALS.malformed);
    const { serviceId } = request.header;
    const service = this.#options.services.get(serviceId);
    if (request.supplierOperatorAddress === "") return refused(REFUSALS.noSupplierAddress);
    if (service === undefined) return refused(REFUSALS.unknownService(serviceId));
    const backEnd = service.backEnds.get(rpcType ?? service.defaultRpcType);
    if (backEnd === undefined) return refused(REFUSALS.unavailable("no_backend", serviceId));
    if (backEnd.isPaused) return refused(REFUSALS.unavailable("backend_down", serviceId));
    const running = this.#running.get(serviceId) ?? 0;
    if (running >= service.maxConcurrent) return refused(REFUSALS.overloaded);
    this.#running.set(serviceId, running + 1);
    try {
      const admitted = await this.admit(request, bytes);
      if (!admitted.ok) return refused(admitted.refusal);
      using relay = admitted.relay;
      return await this.#forward(relay, call, backEnd, signal);
    } finally {
      this.#running.set(serviceId, (this.#running.get(serviceId) ?? 1) - 1);
    }
  }

  /** Checks a relay's session, signature and pay, and opens it in the session's log. The caller disposes of it. */
  async admit(
    request: RelayRequestFields,
    requestBytes: Uint8Array,
  ): Promise<{ readonly ok: true; readonly relay: AdmittedRelay } | { readonly ok: false; readonly refusal: Refusal }> {
    const no = (refusal: Refusal) => ({ ok: false, refusal }) as const;
    const { header, supplierOperatorAddress: operator, signature } = request;
    if (header === undefined) return no(REFUSALS.malformed);
    if (requestBytes.length > this.#maxRequestBytes) return no(REFUSALS.tooLarge);
    if (!this.#options.operators.has(operator)) return no(REFUSALS.unknownSupplier(operator));
    if (signature.length === 0) return no(REFUSALS.missingSignature);
    const admission = await this.#modules.sessions.admit(header, operator);
    if (!admission.ok) return no(admission.refusal);
    const { session } = admission;
    const digest = relayRequestSignBytes(requestBytes);
    if (digest === undefined) return no(REFUSALS.malformed);
    const { crypto, sessions, store } = this.#modules;
    let verdict = await crypto.verifyRing(digest, signature, session.ringKeys);
    if (!verdict.ok && verdict.fault === "non-member" && (await sessions.renewRing(session))) {
      verdict = await crypto.verifyRing(digest, signature, session.ringKeys);
    }
    if (!verdict.ok) {
      return no(verdict.fault === "unchecked" ? REFUSALS.overloaded : REFUSALS.badSignature(verdict.fault));
    }
    if (session.rate?.acquire() === false) return no(REFUSALS.rateLimited);
    // It may have been removed while the signature was checked: its requests would be remembered nowhere.
    if (!sessions.isKept(session)) return no(REFUSALS.overloaded);
    const name = requestName(digest, signature);
    if (!session.seen.add(name)) return no(REFUSALS.replayed);
    let hasBudget = false;
    let begun: BegunRelay | undefined;
    try {
      const refusal = await sessions.acquireBudget(session);
      if (refusal !== undefined) return no(refusal);
      hasBudget = true;
      begun = await store.begin(operator, header);
      if (!begun.ok) return no(unwritten(begun.fault, header));
      return { ok: true, relay: new AdmittedRelay({ session, requestBytes, name, inFlight: begun.relay }) };
    } finally {
      if (begun?.ok !== true) {
        if (hasBudget) session.budget.release();
        session.seen.delete(name);
      }
    }
  }

  async #forward(
    relay: AdmittedRelay,
    call: HttpRequestPayload,
    backEnd: HttpBackEnd,
    signal: AbortSignal,
  ): Promise<RelayOutcome> {
    const { session } = relay;
    const { serviceId, applicationAddress } = session.header;
    const parties = { operatorAddress: session.operatorAddress, serviceId, applicationAddress };
    const result = await backEnd.ask(call, parties, signal).catch((cause: unknown) => {
      this.#modules.log.error({ cause, serviceId }, "the back-end could not be asked");
      return { kind: "unreachable" } as const;
    });
    switch (result.kind) {
      case "answer":
        if (result.answer.statusCode >= 500) return refused(REFUSALS.backendError(result.answer.statusCode));
        return this.#finish(relay, encodeHttpResponsePayload(result.answer));
      case "stream":
        return this.#openStream(relay, result.head, result.body[Symbol.asyncIterator]());
      case "bad-request":
        return refused(REFUSALS.malformed);
      case "down":
        return refused(REFUSALS.unavailable("backend_down", serviceId));
      case "timeout":
        return refused(REFUSALS.backendTimeout);
      case "too-large":
        return refused(REFUSALS.answerTooLarge);
      case "unreachable":
        return refused(REFUSALS.backendUnreachable);
    }
  }

  /** Signs a payload as the relay's response, and appends it to the log before the response is returned. */
  async #finish(relay: AdmittedRelay, payload: Uint8Array): Promise<RelayOutcome> {
    const bytes = await this.sign(relay.session, payload);
    if (bytes === undefined) return refused(REFUSALS.overloaded);
    const fault = await this.#record(relay, bytes);
    return fault === undefined ? { kind: "response", bytes } : refused(fault);
  }

  /** Takes one relay of a session's budget, or returns the refusal. */
  acquireBudget(session: ServedSession): Promise<Refusal | undefined> {
    return this.#modules.sessions.acquireBudget(session);
  }

  /** Bytes of a signed RelayResponse; undefined when it could not be signed in time. */
  async sign(session: ServedSession, payload: Uint8Array, error?: RelayMinerError): Promise<Uint8Array | undefined> {
    const fields = {
      header: session.header,
      signature: new Uint8Array(0),
      payload,
      error,
      payloadHash: sha256(payload),
    };
    const signature = await this.#modules.crypto.signResponse(session.operatorAddress, relayResponseDigest(fields));
    return signature === undefined ? undefined : encodeRelayResponse({ ...fields, signature });
  }

  /** Undefined when it is in the log, or too easy to count; else why the answer must not leave. */
  async #record(relay: AdmittedRelay, responseBytes: Uint8Array): Promise<Refusal | undefined> {
    const { session } = relay;
    const mined = relayBytes(relay.requestBytes, responseBytes);
    if (mined === undefined) return REFUSALS.malformed;
    const appended = await relay.append(mined);
    return appended === "mined" || appended === "below-difficulty" ? undefined : unwritten(appended, session.header);
  }

  /** Each part of a stream is a response of its own; the first one is the relay that is counted. */
  async #openStream(
    relay: AdmittedRelay,
    head: Omit<HttpResponsePayload, "body">,
    parts: AsyncIterator<Uint8Array, void>,
  ): Promise<RelayOutcome> {
    const payloadOf = (body: Uint8Array) => encodeHttpResponsePayload({ ...head, body });
    let isOpen = false;
    try {
      const first = await parts.next().catch(() => undefined);
      if (first === undefined) return refused(REFUSALS.backendUnreachable);
      if (first.done === true) return await this.#finish(relay, payloadOf(new Uint8Array(0)));
      const bytes = await this.sign(relay.session, payloadOf(first.value));
      if (bytes === undefined) return refused(REFUSALS.overloaded);
      const fault = await this.#record(relay, bytes);
      if (fault !== undefined) return refused(fault);
      isOpen = true;
      return { kind: "stream", responses: this.#stream(relay.session, relay.move(), bytes, parts, payloadOf) };
    } finally {
      if (!isOpen) await parts.return?.();
    }
  }

  async *#stream(
    session: ServedSession,
    inFlight: InFlight,
    first: Uint8Array,
    parts: AsyncIterator<Uint8Array, void>,
    payloadOf: (body: Uint8Array) => Uint8Array,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield first;
      for (let part = await parts.next(); part.done !== true; part = await parts.next()) {
        const bytes = await this.sign(session, payloadOf(part.value));
        // What breaks off is seen as such: the response is not ended.
        if (bytes === undefined)
          throw new AppError("OVERLOADED", { message: "A part of a stream could not be signed in time." });
        yield bytes;
      }
    } finally {
      inFlight[Symbol.dispose]();
      await parts.return?.();
    }
  }

  #track(by: 1 | -1): void {
    this.#inFlight += by;
    this.#modules.metrics.set(supplierRelaysInFlight, this.#inFlight);
  }

  #count(service: string, { reason }: Refusal): void {
    this.#modules.metrics.count(supplierRelaysRefusedTotal, { service, reason });
    this.#modules.log.debug({ reason, service }, "relay refused");
  }
}
