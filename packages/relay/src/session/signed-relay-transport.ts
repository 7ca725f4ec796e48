import { AppError, type Clock, Deadlines, type Metrics, type ServiceId } from "@turnpike/base";
import {
  encodeHttpRequestPayload,
  type HttpHeader,
  type HttpResponsePayload,
  RPC_TYPE_NUMBERS,
  type RpcType,
} from "@turnpike/protocol";
import { GrpcBackend, type GrpcTransport } from "../transport/grpc-transport.ts";
import type { HttpTransport } from "../transport/http-transport.ts";
import type {
  ResponseHeaders,
  SendHandle,
  SendPurpose,
  SocketRequest,
  SupplierEndpoint,
  SupplierTransport,
  TransportFailure,
  TransportReason,
  TransportSocket,
  UpstreamRequest,
  UpstreamResponse,
} from "../transport/transport.ts";
import { ExtraRelays } from "./extra-relays.ts";
import { relaySignedTotal } from "./metrics.ts";
import type { SessionSigners } from "./session-signers.ts";
import type { SessionSource } from "./session-source.ts";
import { type SessionChoice, SessionEndpoint } from "./session-supplier-set.ts";
import { readRefusal, readSignedAnswer, type SignedAnswer, type VerifyResponse } from "./signed-relay.ts";
import { openSignedSocket, type SignedSocketModules } from "./signed-socket.ts";

export interface SignedRelayTransportOptions {
  /** Most probes, comparisons and hedges, as a percentage of a service's relays for clients. */
  readonly extraRelaysPercent: number;
}

interface SignedRelayTransportModules {
  readonly http: Pick<HttpTransport, "send">;
  readonly grpc: Pick<GrpcTransport, "send">;
  readonly source: Pick<SessionSource, "isCurrent">;
  readonly signers: SessionSigners;
  readonly verify: VerifyResponse;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** Head and signatures of a response, beside the body that a request allows. */
const ENVELOPE_BYTES = 262_144;
/** Supplier and gateway see a block at different times: a session that one of them does not have yet is asked again. */
const SESSION_PAUSE_MS = 150;
const MOST_SESSIONS = 8;
const DEADLINE_STEP_MS = 10;

const NO_BYTES = new Uint8Array(0);
/** The same objects for all requests: the transport keeps the head that it made of one. */
const RPC_TYPE_HEADERS: Readonly<Record<RpcType, Readonly<Record<string, string>>>> = {
  json_rpc: rpcTypeHeaders("json_rpc"),
  rest: rpcTypeHeaders("rest"),
  websocket: rpcTypeHeaders("websocket"),
  comet_bft: rpcTypeHeaders("comet_bft"),
  grpc: rpcTypeHeaders("grpc"),
};

function rpcTypeHeaders(rpcType: RpcType): Readonly<Record<string, string>> {
  return { "rpc-type": `${RPC_TYPE_NUMBERS[rpcType]}` };
}

const failure = (reason: TransportReason, blame: TransportFailure["blame"], isNotSent: boolean): TransportFailure => ({
  ok: false,
  blame,
  reason,
  isNotSent,
});

function payloadHeaders({ headers, body }: UpstreamRequest): readonly HttpHeader[] {
  const all: HttpHeader[] = body === undefined ? [] : [["Content-Type", ["application/json"]]];
  if (headers === undefined) return all;
  for (const [name, value] of Object.entries(headers)) {
    if (body === undefined || name !== "content-type") all.push([name, [value]]);
    else all[0] = ["Content-Type", [value]];
  }
  return all;
}

function responseHeaders({ headers }: HttpResponsePayload): ResponseHeaders {
  const all: Record<string, string | readonly string[]> = {};
  for (const [name, values] of headers) {
    const [only] = values;
    if (only !== undefined) all[name.toLowerCase()] = values.length === 1 ? only : values;
  }
  return all;
}

/** Sends requests to the suppliers of sessions: each is signed for its session, and its answer is checked. */
export class SignedRelayTransport implements SupplierTransport {
  readonly #options: SignedRelayTransportOptions;
  readonly #modules: SignedRelayTransportModules;
  readonly #deadlines: Deadlines;
  readonly #extras = new Map<ServiceId, ExtraRelays>();

  constructor(options: SignedRelayTransportOptions, modules: SignedRelayTransportModules) {
    this.#options = options;
    this.#modules = modules;
    this.#deadlines = new Deadlines({ stepMs: DEADLINE_STEP_MS }, modules);
  }

  /** @inheritdoc */
  async send(
    { handle: endpoint }: Pick<SupplierEndpoint, "handle">,
    request: UpstreamRequest,
  ): Promise<UpstreamResponse | TransportFailure> {
    const to = sessionEndpointOf(endpoint);
    const { service } = to.set;
    const { purpose, handle, signal } = request;
    if (signal?.aborted === true) return failure("aborted", "client", true);
    if (!this.#acquire(service, purpose)) return this.#ended(service, purpose, "no_budget", overBudget);
    const sending: Sending = { request, isEnded: false, inner: {} };
    if (handle !== undefined) {
      handle.cancel = () => {
        sending.isEnded = true;
        sending.inner.cancel?.();
      };
    }
    const url = urlOf(to, request.path);
    const payload = encodeHttpRequestPayload({
      method: request.method,
      url,
      headers: payloadHeaders(request),
      body: request.body ?? NO_BYTES,
    });
    const endMs = this.#modules.clock.monotonicMs() + request.timeoutMs;
    for (let tries = 0; tries < MOST_SESSIONS; tries++) {
      const choice = to.set.choose(to.operatorAddress, to.rpcType);
      if (choice === undefined) return this.#ended(service, purpose, "over_limit", overLimit);
      const result = await this.#sendIn(choice, to, payload, sending, endMs);
      if (result !== "session-over" && result !== "over-limit") return result;
      if (result === "over-limit") to.set.usedUp(choice.session, to.operatorAddress);
      else await this.#pause(Math.min(SESSION_PAUSE_MS, endMs - this.#modules.clock.monotonicMs()));
      if (hasEnded(sending)) return failure("aborted", "client", true);
      if (this.#modules.clock.monotonicMs() >= endMs) return failure("timeout", "wire", true);
    }
    return failure("connection", "wire", true);
  }

  async #sendIn(
    { session, supplier }: SessionChoice,
    to: SessionEndpoint,
    payload: Uint8Array,
    sending: Sending,
    endMs: number,
  ): Promise<UpstreamResponse | TransportFailure | "session-over" | "over-limit"> {
    const { http, grpc, signers, verify, clock } = this.#modules;
    const { service } = to.set;
    const { request, inner } = sending;
    const { purpose, signal, maxResponseBytes } = request;
    const signed = await signers.sign(session, to.operatorAddress, payload);
    if (signed === undefined) return this.#ended(service, purpose, "unsigned", overloaded(true));
    const leftMs = endMs - clock.monotonicMs();
    if (hasEnded(sending)) return failure("aborted", "client", true);
    if (leftMs <= 0) return this.#ended(service, purpose, "late", failure("timeout", "client", true));
    const transport = to.backend instanceof GrpcBackend ? grpc : http;
    const response = await transport.send(
      { handle: to.backend },
      {
        purpose,
        method: "POST",
        path: "",
        headers: RPC_TYPE_HEADERS[to.rpcType],
        body: signed,
        timeoutMs: leftMs,
        maxResponseBytes: maxResponseBytes + ENVELOPE_BYTES,
        signal,
        handle: inner,
      },
    );
    if (!response.ok) return this.#ended(service, purpose, response.reason, response);
    // A refusal stays one however long its text is: only what may be signed can be an answer that is too large.
    if (response.isTruncated && response.status === 200) {
      const answer = purpose === "probe" ? needlesslyLarge : response;
      return this.#ended(service, purpose, "too_large", answer);
    }
    const expected = { header: session.header, publicKey: supplier.publicKey };
    const answer =
      response.status === 200 ? await readSignedAnswer(response.body, expected, verify) : readRefusal(response.body);
    return this.#judge(answer, to, request);
  }

  #judge(
    answer: SignedAnswer,
    { set: { service } }: SessionEndpoint,
    { purpose, maxResponseBytes }: UpstreamRequest,
  ): UpstreamResponse | TransportFailure | "session-over" | "over-limit" {
    switch (answer.kind) {
      case "answer": {
        const { statusCode, body } = answer.response;
        const isTruncated = body.length > maxResponseBytes;
        if (isTruncated && purpose === "probe") return this.#ended(service, purpose, "too_large", needlesslyLarge);
        return this.#ended(service, purpose, "answered", {
          ok: true,
          status: statusCode,
          headers: responseHeaders(answer.response),
          body: isTruncated ? NO_BYTES : body,
          isTruncated,
          stream: undefined,
        });
      }
      case "over-limit":
      case "session-over":
        this.#count(service, purpose, answer.kind === "over-limit" ? "over_limit" : "session_over");
        return answer.kind;
      case "refused":
        return this.#ended(service, purpose, "refused", failure("connection", "wire", false));
      case "unchecked":
        return this.#ended(service, purpose, "unchecked", overloaded(false));
      case "invalid":
        // What is no response at all may be some proxy's page.
        return answer.fault === "malformed"
          ? this.#ended(service, purpose, "malformed", failure("connection", "wire", false))
          : this.#ended(service, purpose, "bad_signature", failure("bad_signature", "supplier", false));
    }
  }

  /** @inheritdoc */
  async openSocket(
    { handle }: Pick<SupplierEndpoint, "handle">,
    request: SocketRequest,
  ): Promise<TransportSocket | TransportFailure> {
    const to = sessionEndpointOf(handle);
    const endMs = this.#modules.clock.monotonicMs() + request.timeoutMs;
    let choice = to.set.choose(to.operatorAddress, to.rpcType);
    // Suppliers close WebSockets with the last block of a session: the next session is there in a moment.
    while (choice !== undefined && !this.#modules.source.isCurrent(choice.session)) {
      const leftMs = endMs - this.#modules.clock.monotonicMs();
      if (leftMs <= 0 || request.signal?.aborted === true) return failure("connection", "wire", true);
      await this.#pause(Math.min(SESSION_PAUSE_MS, leftMs));
      choice = to.set.choose(to.operatorAddress, to.rpcType);
    }
    if (choice === undefined) return overLimit;
    const modules: SignedSocketModules = {
      ...this.#modules,
      count: (result) => this.#count(to.set.service, request.purpose, result),
    };
    return openSignedSocket({ to, ...choice }, request, modules);
  }

  #acquire(service: ServiceId, purpose: SendPurpose): boolean {
    let extras = this.#extras.get(service);
    if (extras === undefined) {
      extras = new ExtraRelays({ percent: this.#options.extraRelaysPercent }, this.#modules);
      this.#extras.set(service, extras);
    }
    return extras.acquire(purpose);
  }

  #count(service: ServiceId, purpose: SendPurpose, result: string): void {
    this.#modules.metrics.count(relaySignedTotal, { service, purpose, result });
  }

  #ended<T extends UpstreamResponse | TransportFailure>(
    service: ServiceId,
    purpose: SendPurpose,
    result: string,
    outcome: T,
  ): T {
    this.#count(service, purpose, result);
    return outcome;
  }

  #pause(ms: number): Promise<void> {
    if (ms <= 0) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#deadlines.after(ms, resolve);
    return promise;
  }
}

interface Sending {
  readonly request: UpstreamRequest;
  readonly inner: SendHandle;
  isEnded: boolean;
}

function hasEnded({ isEnded, request: { signal } }: Sending): boolean {
  return isEnded || signal?.aborted === true;
}

const overLimit = failure("over_limit", "client", true);
const overBudget = failure("overloaded", "client", true);
/**
 * Our own questions have small answers, so that a large one is its supplier's fault. How large the answer to a client's
 * question is depends on the question, and the limit is ours: the engine compares it with what another supplier answers.
 */
const needlesslyLarge = failure("connection", "wire", false);
const overloaded = (isNotSent: boolean): TransportFailure => failure("overloaded", "client", isNotSent);

function sessionEndpointOf(handle: object): SessionEndpoint {
  if (handle instanceof SessionEndpoint) return handle;
  throw new AppError("INTERNAL", { message: "An endpoint of another transport." });
}

/** The supplier's public URL with what the request adds: its miner puts its back-end in the place of the host. */
function urlOf({ backend }: SessionEndpoint, path: string): string {
  return `${backend.origin?.name ?? ""}${backend.pathOf(path)}`;
}
