import { asBuffer, jsonMemberSpans, jsonText, skipJsonSpace } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { isDenied, type PairedSocket, type Subscriptions } from "@turnpike/relay";
import type { RpcItem } from "../free/jsonrpc.ts";
import { TOO_MANY_AT_ONCE } from "../limits/callers-in-flight.ts";
import { codeReply, type Reply } from "./reply.ts";

const SENT: Reply = { body: "", result: "ok" };

/** True for an object that has an `id` and no `method` (JSON-RPC 2.0 §5). */
function isAnswer(message: Uint8Array): boolean {
  const text = jsonText(message);
  const members = jsonMemberSpans(text, skipJsonSpace(text, 0))?.members;
  return members?.some(({ key }) => key === "id") === true && !members.some(({ key }) => key === "method");
}

/** The client's side of a {@link PairedConnection}. */
interface PairedClient {
  /** Sends a supplier's message as it came. */
  forward(bytes: Buffer, isEvent: boolean): void;
  drop(reason: "supplier"): void;
}

/**
 * A supplier's WebSocket that one client has for itself. Valid calls of allowed methods are passed on as they came, and
 * the supplier answers them. Unanswered calls are among the client's calls in flight: only their number matters, so that
 * any answer ends the oldest.
 */
export class PairedConnection {
  /** Set once the client's upgrade is complete. */
  client: PairedClient | undefined;
  readonly #service: Service;
  readonly #maxQueuedBytes: number;
  readonly #acquire: () => (() => void) | undefined;
  #socket: PairedSocket | undefined;
  #unanswered: { readonly sinceTick: number; readonly release: () => void }[] = [];
  #tick = 0;
  #isOver = false;

  /** `acquire` counts a call as in flight; undefined when the client has too many. */
  constructor(
    opts: { readonly service: Service; readonly maxQueuedBytes: number },
    modules: { readonly acquire: () => (() => void) | undefined },
  ) {
    this.#service = opts.service;
    this.#maxQueuedBytes = opts.maxQueuedBytes;
    this.#acquire = modules.acquire;
  }

  /** False before {@link open}, and once the supplier's WebSocket is lost. */
  get isOpen(): boolean {
    return this.#socket !== undefined;
  }

  /** Connects to a supplier; false when none can be reached. */
  async open(subscriptions: Pick<Subscriptions, "pair">, signal: AbortSignal): Promise<boolean> {
    const handlers = {
      message: (bytes: Buffer) => this.client?.forward(bytes, !this.#isAnswered(bytes)),
      lost: () => {
        this.#socket = undefined;
        this.client?.drop("supplier");
      },
    };
    this.#socket = await subscriptions.pair(this.#service.id, handlers, signal);
    return this.isOpen;
  }

  /** Passes a client's call on, or refuses it; undefined when the supplier's WebSocket is lost. */
  send(item: RpcItem, isBatch: boolean): Reply | undefined {
    if (this.#socket === undefined) return undefined;
    const id = item.kind === "notification" ? undefined : item.id;
    const refuse = (code: "MALFORMED_REQUEST" | "METHOD_NOT_ALLOWED" | "RATE_LIMITED", message?: string): Reply =>
      id === undefined ? { body: "", result: code } : codeReply(id, code, message);
    if (item.kind === "invalid") return refuse("MALFORMED_REQUEST", item.message);
    if (isBatch) return refuse("MALFORMED_REQUEST", "This network's WebSocket takes one call a message.");
    if (isDenied(this.#service, item.rpc.method)) return refuse("METHOD_NOT_ALLOWED");
    // A notification has no answer that would end it.
    if (id !== undefined && !this.#begin()) return refuse("RATE_LIMITED", TOO_MANY_AT_ONCE);
    const { body } = item.rpc;
    // Before this call, which may itself be larger than what may wait.
    if (this.#socket.bufferedBytes > this.#maxQueuedBytes) this.client?.drop("supplier");
    else this.#socket.send(asBuffer(body).toString("utf8"));
    return SENT;
  }

  /** Releases calls that are unanswered after more than so many calls of this. */
  tick(maxTicks: number): void {
    this.#tick++;
    while (this.#tick - (this.#unanswered[0]?.sinceTick ?? this.#tick) > maxTicks) this.#unanswered.shift()?.release();
  }

  /** Closes the supplier's WebSocket, and releases all calls. */
  close(): void {
    this.#isOver = true;
    for (const { release } of this.#unanswered) release();
    this.#unanswered = [];
    this.#socket?.close();
  }

  #begin(): boolean {
    const release = this.#isOver ? undefined : this.#acquire();
    if (release === undefined) return false;
    this.#unanswered.push({ sinceTick: this.#tick, release });
    return true;
  }

  /** True for a message that answers a call, which it releases. */
  #isAnswered(message: Uint8Array): boolean {
    if (this.#unanswered.length === 0 || !isAnswer(message)) return false;
    this.#unanswered.shift()?.release();
    return true;
  }
}
