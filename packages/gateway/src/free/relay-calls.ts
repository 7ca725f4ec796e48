import {
  type Clock,
  type ErrorCode,
  errorRow,
  joinJsonArray,
  type MaybePromise,
  noSpan,
  type RequestId,
} from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { type BackendCall, type FreeRequest, mintFree, mintParsed } from "@turnpike/protocol";
import {
  type FreePath,
  type FreeRpc,
  parseFreePath,
  parseFreeRpc,
  type Relay,
  type RelayOutcome,
} from "@turnpike/relay";
import type { Answer } from "../http/answer.ts";
import type { RequestContext } from "../http/request.ts";
import { codeAnswer, codeError, rpcAnswer, rpcError } from "../http/rpc-answer.ts";
import { SILENCE, withHeaders } from "./answers.ts";
import type { RpcItem } from "./jsonrpc.ts";

interface RelayCallsOptions {
  /** Deadline of a call. */
  readonly upstreamTimeoutMs: number;
  /** True when a large response to a single call may be passed on while it arrives. */
  readonly mayStream?: boolean;
}

interface RelayCallsModules {
  readonly relay: Relay;
  readonly clock: Clock;
  /** Aborts the calls in flight. */
  readonly stopping: AbortSignal;
}

/** Where calls come from: a request, or a message over a WebSocket, which has no context. */
interface CallOrigin {
  readonly requestId: RequestId;
  /** Whose calls they are; see `callerOf`. */
  readonly client: string;
  readonly context?: RequestContext;
}

/** Nothing is paid for, so nothing is bound to the request's bytes. */
const NO_HASH = new Uint8Array(0);

/** One answer within a batch: a text of ours, or the index of a relayed call's result. */
type Slot = { readonly text: string } | { readonly id: string; readonly at: number };

/** Relays free calls whose limits have been checked, and makes their JSON-RPC answers. */
export class RelayCalls {
  readonly #opts: RelayCallsOptions;
  readonly #modules: RelayCallsModules;

  constructor(opts: RelayCallsOptions, modules: RelayCallsModules) {
    this.#opts = opts;
    this.#modules = modules;
  }

  /** Relays one JSON-RPC request; the answer to a notification is empty. */
  single(from: CallOrigin, service: Service, item: RpcItem): MaybePromise<Answer> {
    if (item.kind === "invalid") {
      return rpcAnswer(400, "MALFORMED_REQUEST", rpcError(item.id, -32600, item.message));
    }
    if (item.kind === "notification") {
      return this.#notify(from, service, item.rpc).then(() => SILENCE);
    }
    const parsed = parseFreeRpc(service, item.rpc);
    if (!parsed.ok) {
      return rpcAnswer(200, parsed.code, refusal(item.id, parsed.code, parsed.message));
    }
    name(from, parsed.call.operation);
    const { relay, stopping } = this.#modules;
    const sent = relay.send(this.#mint(from, service, parsed.call, this.#deadline(), this.#opts.mayStream), stopping);
    return sent.then((result) => {
      if (!result.ok) return codeAnswer(item.id, result.code);
      const { body, stream } = result;
      const answer = rpcAnswer(200, "ok", body);
      return stream === undefined ? answer : { ...answer, stream };
    });
  }

  /** Relays a JSON-RPC batch at once; the answers stand in the order of their calls. */
  async batch(from: CallOrigin, service: Service, items: readonly RpcItem[]): Promise<Answer> {
    name(from, "batch");
    const slots: Slot[] = [];
    const requests: FreeRequest[] = [];
    const notified: Promise<void>[] = [];
    const deadlineMs = this.#deadline();
    for (const item of items) {
      if (item.kind === "invalid") slots.push({ text: rpcError(item.id, -32600, item.message) });
      else if (item.kind === "notification") notified.push(this.#notify(from, service, item.rpc));
      else {
        const parsed = parseFreeRpc(service, item.rpc);
        if (parsed.ok) {
          slots.push({ id: item.id, at: requests.length });
          requests.push(this.#mint(from, service, parsed.call, deadlineMs));
        } else slots.push({ text: refusal(item.id, parsed.code, parsed.message) });
      }
    }
    const { relay, stopping } = this.#modules;
    const [results] = await Promise.all([
      requests.length === 0 ? [] : relay.sendBatch(requests, stopping),
      Promise.all(notified),
    ]);
    return slots.length === 0 ? SILENCE : batchAnswer(slots, results);
  }

  /** Relays a request of a family's path API (REST). */
  async path(from: CallOrigin, service: Service, input: FreePath): Promise<Answer> {
    const parsed = parseFreePath(service, input);
    if (!parsed.ok) return codeAnswer("null", parsed.code);
    name(from, parsed.call.operation);
    const { relay, stopping } = this.#modules;
    const result = await relay.send(this.#mint(from, service, parsed.call, this.#deadline()), stopping);
    if (!result.ok) return codeAnswer("null", result.code);
    const { status, contentType, body, consensusVersion } = result;
    const answer = { ...rpcAnswer(status, "ok", body), contentType: relayedType(contentType) };
    return consensusVersion === undefined ? answer : withHeaders(answer, ["Eth-Consensus-Version", consensusVersion]);
  }

  #deadline(): number {
    return this.#modules.clock.monotonicMs() + this.#opts.upstreamTimeoutMs;
  }

  #mint(
    { requestId, client, context }: CallOrigin,
    { id: serviceId }: Service,
    call: BackendCall,
    deadlineMs: number,
    mayStream = false,
  ): FreeRequest {
    const isTraced = context !== undefined && context.span !== noSpan;
    const fields = { requestId, serviceId, call, client, requestHash: NO_HASH };
    const request = mintParsed(isTraced ? { ...fields, span: context.span } : fields);
    return mintFree(mayStream ? { request, deadlineMs, mayStream } : { request, deadlineMs });
  }

  async #notify(from: CallOrigin, service: Service, rpc: FreeRpc): Promise<void> {
    const parsed = parseFreeRpc(service, rpc);
    if (!parsed.ok) return;
    const { relay, stopping } = this.#modules;
    await relay.notify(this.#mint(from, service, parsed.call, this.#deadline()), stopping);
  }
}

function name({ context }: CallOrigin, operation: string): void {
  if (context !== undefined) context.operation = operation;
}

function refusal(id: string, code: ErrorCode, message: string | undefined): string {
  const row = errorRow(code);
  const text =
    code === "METHOD_NOT_ALLOWED" ? "This method is not offered on the free relay." : (message ?? row.message);
  return rpcError(id, row.rpc, text);
}

/** Types of what nodes answer to a path. A browser runs none of them, and with `nosniff` takes none for another. */
const RELAYED_TYPES = new Set([
  "application/json",
  "application/octet-stream",
  "application/problem+json",
  "application/x-ndjson",
  "application/x-protobuf",
  "text/csv",
  "text/plain",
]);
const MAX_TYPE_CHARS = 128;

/** A supplier's content type without its parameters; JSON where it is none that is passed on. */
function relayedType(contentType: string): string {
  const [type = ""] = contentType.slice(0, MAX_TYPE_CHARS).split(";", 1);
  const name = type.trim().toLowerCase();
  if (!RELAYED_TYPES.has(name)) return "application/json";
  return name.startsWith("text/") ? `${name}; charset=utf-8` : name;
}

/**
 * The answers in the order of their calls. Its status is 200, unless every one of them is the same failure of ours.
 */
function batchAnswer(slots: readonly Slot[], results: readonly RelayOutcome[]): Answer {
  const parts: Uint8Array[] = [];
  const codes = new Set<ErrorCode | "ok">();
  for (const slot of slots) {
    if ("text" in slot) {
      parts.push(Buffer.from(slot.text));
      codes.add("ok");
      continue;
    }
    const result = results[slot.at];
    if (result?.ok === true) {
      parts.push(result.body);
      codes.add("ok");
    } else {
      const code = result?.code ?? "INTERNAL";
      parts.push(Buffer.from(codeError(slot.id, code)));
      codes.add(code);
    }
  }
  const body = joinJsonArray(parts);
  const [only = "ok"] = codes;
  if (codes.size > 1 || only === "ok") return rpcAnswer(200, "ok", body);
  return { ...codeAnswer("null", only), body };
}
