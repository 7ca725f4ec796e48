import type { ClientKey, Clock, Log, WriteBufferBudget } from "@turnpike/base";
import type { EventLoopQueue } from "@turnpike/chain-node";
import type { WebSocket } from "ws";
import { WRITE_BUFFER_FULL } from "../write-buffer.ts";
import { errorText, outcomeText, type RpcId, URI_ID } from "./answers.ts";
import type { RpcBounds } from "./bounds.ts";
import { argumentsFromParams, callMethod, TOO_FEW_ARGUMENTS } from "./dispatch.ts";
import type { EventHub, SocketClient } from "./event-hub.ts";
import { bytesToRaw } from "./go-json.ts";
import type { RpcCaller, RpcMethods } from "./method.ts";
import { type RpcRequest, readMessage } from "./requests.ts";
import type { RpcEvent } from "./rpc-event.ts";
import { SocketOutbox } from "./socket-outbox.ts";

export interface SocketSessionModules {
  readonly socket: WebSocket;
  readonly methods: RpcMethods;
  readonly hub: EventHub;
  readonly log: Log;
  readonly queue: EventLoopQueue;
  readonly writeBuffer: WriteBufferBudget;
  readonly clock: Clock;
}

/** One WebSocket client: its messages are answered one after the other, in their order. */
export class SocketSession implements SocketClient {
  readonly client: string;
  readonly #clientKey: ClientKey;
  readonly #bounds: RpcBounds;
  readonly #socket: WebSocket;
  readonly #methods: RpcMethods;
  readonly #hub: EventHub;
  readonly #log: Log;
  readonly #queue: EventLoopQueue;
  readonly #outbox: SocketOutbox;
  readonly #gone = new AbortController();
  readonly #waiting: string[] = [];
  readonly #pings: NodeJS.Timeout;
  readonly #silence: NodeJS.Timeout;
  #busy = false;
  #waitingBytes = 0;

  constructor(
    { client, clientKey }: Pick<RpcCaller, "client" | "clientKey">,
    bounds: RpcBounds,
    { socket, methods, hub, log, queue, writeBuffer, clock }: SocketSessionModules,
  ) {
    this.client = client;
    this.#clientKey = clientKey;
    this.#bounds = bounds;
    this.#socket = socket;
    this.#methods = methods;
    this.#hub = hub;
    this.#log = log;
    this.#queue = queue;
    this.#outbox = new SocketOutbox(bounds.writeTimeoutMs, {
      socket,
      writeBuffer,
      clock,
      reader: {
        client: clientKey,
        connection: socket,
        close: () => this.#drop("too much is unread"),
        isReading: () => this.#outbox.isReading(),
      },
      onSlow: () => this.#drop("slow client"),
    });
    this.#pings = setInterval(() => socket.ping(), bounds.pingMs);
    this.#silence = setTimeout(() => this.#drop("silent"), bounds.silentMs);
    socket.on("message", (data) => this.#receive(Buffer.isBuffer(data) ? data : Buffer.alloc(0)));
    socket.on("ping", () => this.#silence.refresh());
    socket.on("pong", () => this.#silence.refresh());
    socket.on("error", (error) => this.#log.debug({ error: error.message }, "RPC WebSocket broke"));
    socket.on("close", () => this.#end());
  }

  /** Sends an event to a subscription. */
  sendEvent(id: RpcId, query: string, event: RpcEvent): void {
    if (!this.#outbox.sendEvent(id, query, event)) this.#drop("slow client");
  }

  /** Says that a subscription ended. */
  sendCancelled(id: RpcId, reason: string): void {
    this.#outbox.send(errorText(id, "server", `subscription was canceled (reason: ${reason})`));
  }

  #end(): void {
    clearInterval(this.#pings);
    clearTimeout(this.#silence);
    this.#outbox.close();
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
    this.#gone.abort();
    this.#hub.unsubscribeAll(this);
  }

  #drop(why: string): void {
    this.#log.info({ client: this.client, why }, "RPC WebSocket dropped");
    this.#outbox.close();
    this.#socket.terminate();
  }

  /** A caller gets an answer to each request, or the end of the connection. */
  #sendAnswer({ id }: Pick<RpcRequest, "id">, text: string): void {
    if (this.#outbox.send(text) || this.#outbox.send(errorText(id, "server", WRITE_BUFFER_FULL))) return;
    this.#drop("slow client");
  }

  #receive(data: Buffer): void {
    this.#silence.refresh();
    this.#waiting.push(bytesToRaw(data));
    this.#waitingBytes += data.length;
    if (this.#isFull()) this.#socket.pause();
    if (!this.#busy) void this.#work();
  }

  // One message may be as long as a request.
  #isFull(): boolean {
    const { maxWaitingMessages, maxBodyBytes } = this.#bounds;
    return this.#waiting.length >= maxWaitingMessages || this.#waitingBytes >= maxBodyBytes;
  }

  async #work(): Promise<void> {
    this.#busy = true;
    for (;;) {
      const text = this.#waiting.shift();
      if (text === undefined) break;
      this.#waitingBytes -= text.length;
      await this.#outbox.drained(this.#bounds.maxWaitingSocketBytes);
      if (this.#gone.signal.aborted) break;
      await this.#answer(text);
      this.#silence.refresh();
      if (!this.#isFull() && this.#socket.isPaused) this.#socket.resume();
    }
    this.#busy = false;
  }

  async #answer(text: string): Promise<void> {
    const read = readMessage(text, this.#bounds.maxJsonDepth);
    if (!read.ok)
      this.#sendAnswer({ id: undefined }, errorText(undefined, "parse", `error unmarshaling request: ${read.fault}`));
    else if (read.request !== undefined) this.#sendAnswer(read.request, await this.#answerRequest(read.request));
  }

  async #answerRequest({ id, method: name, params }: RpcRequest): Promise<string> {
    const method = Object.hasOwn(this.#methods, name) ? this.#methods[name] : undefined;
    if (method === undefined) return errorText(id, "method");
    if (params === undefined && method.args.length > 0) return errorText(URI_ID, "internal", TOO_FEW_ARGUMENTS);
    const args = argumentsFromParams(method, params ?? "null", this.#bounds.maxJsonDepth);
    if (!args.ok) return errorText(id, "internal", `error converting json params to arguments: ${args.fault}`);
    const { client } = this;
    const caller = { client, clientKey: this.#clientKey, signal: this.#gone.signal, id, socket: this };
    return outcomeText(id, await callMethod(method, args.values, caller, { log: this.#log, queue: this.#queue }));
  }
}
