import type { ErrorCode } from "@turnpike/base";
import { asBuffer, errorRow } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { EndReason, SharedEvent, SubscribeResult, SubscriptionListener, Topic } from "@turnpike/relay";
import type { WebSocket } from "ws";
import { type RpcItem, readRpcBody } from "../free/jsonrpc.ts";
import { codeError, rpcError } from "../http/rpc-answer.ts";
import type { CallVerdict } from "../keys/consume-quota.ts";
import type { EventFrame } from "./frames.ts";
import { Inbound } from "./inbound.ts";
import type { WebSocketLimits } from "./options.ts";
import { createRoom } from "./room.ts";

/** Why a WebSocket was ended. */
export type DropReason =
  | "slow"
  | "silent"
  | "unfinished"
  | "exhausted"
  | "missed"
  | "quota"
  | "limit"
  | "stopping"
  | "reloaded"
  | "supplier";

/** How a message was answered; an empty body is not sent. */
export interface Reply {
  readonly body: Uint8Array | string;
  readonly result: string;
}

/** What a session does for its client. */
export interface SessionParts {
  readonly limits: WebSocketLimits;
  readonly frame: EventFrame;
  take(items: number): CallVerdict | Promise<CallVerdict>;
  /** Calls that are no subscriptions. */
  relay(items: readonly RpcItem[], isBatch: boolean): Promise<Reply>;
  /** Undefined: an item that is none of the subscription methods. `after`: what follows the message's answer. */
  local(session: Session, item: RpcItem, after: After, isBatch: boolean): Promise<Reply> | Reply | undefined;
  subscribe(topic: Topic, listener: SubscriptionListener): Promise<SubscribeResult>;
  message(result: string): void;
  sent(events: number): void;
  subscriptions(change: number): void;
  closed(reason: DropReason | "client"): void;
}

/** What is done once a message is answered: events follow the answer that names their subscription. */
export type After = (() => void)[];

/** One client's subscription. */
interface Held {
  readonly id: string;
  readonly key: string;
  /** Events that arrived before its answer was sent. */
  early: SharedEvent[] | undefined;
  close: () => void;
}

const CLOSE: Readonly<Record<DropReason, readonly [number, string]>> = {
  slow: [1013, "the client reads too slowly"],
  silent: [1008, "no answer to a ping"],
  unfinished: [1008, "a message was not whole in time"],
  exhausted: [1011, "no supplier can be reached"],
  limit: [1008, "the limit of this client is used by its calls and events"],
  quota: [1008, "the application's calls are used, or its key is gone"],
  missed: [1012, "events are missing: connect and subscribe again"],
  reloaded: [1012, "the gateway has another configuration: connect again"],
  stopping: [1001, "the gateway is stopping"],
  supplier: [1011, "the supplier ended the connection"],
};
const ENDED: Readonly<Record<EndReason, DropReason>> = {
  exhausted: "exhausted",
  missed: "missed",
  stopping: "stopping",
};
const MAX_EARLY_EVENTS = 1_000;

/** One WebSocket of a client. */
export class Session {
  readonly service: Service;
  readonly clientIp: string;
  readonly #socket: WebSocket;
  readonly #parts: SessionParts;
  /** By the id that the client knows. Made with the first subscription: most clients that wait have none. */
  #held: Map<string, Held> | undefined;
  readonly #inbound = new Inbound();
  #isOver = false;
  #events = 0;
  #inFlight = 0;
  #idle: (() => void) | undefined;
  /** False from a ping on until the client shows a sign of life. */
  isAlive = true;

  constructor(socket: WebSocket, service: Service, clientIp: string, parts: SessionParts) {
    this.#socket = socket;
    this.service = service;
    this.clientIp = clientIp;
    this.#parts = parts;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get subscriptions(): number {
    return this.#held?.size ?? 0;
  }

  /** Bytes that wait for the client. */
  get queuedBytes(): number {
    return this.#socket.bufferedAmount;
  }

  /** Bytes that are held of the client's message that is not whole. */
  get unfinishedBytes(): number {
    return this.#inbound.heldBytes;
  }

  /** Sees bytes of the client, whole messages or not. */
  see(chunk: Uint8Array): void {
    this.#inbound.read(chunk);
  }

  /** Ends it when its message has been under way for more than so many calls of this. */
  checkAge(maxTicks: number): void {
    // What is not read while others are worked on is not the client's fault.
    if (!this.#socket.isPaused && this.#inbound.tick() > maxTicks) this.drop("unfinished");
  }

  /** Takes one message. */
  receive(data: Buffer): void {
    this.isAlive = true;
    if (this.#isOver) return;
    if (++this.#inFlight >= this.#parts.limits.maxMessagesInFlight) this.#socket.pause();
    void this.#serve(data)
      .catch(() => this.#reply({ body: codeError("null", "INTERNAL"), result: "INTERNAL" }))
      .finally(() => {
        if (this.#inFlight-- === this.#parts.limits.maxMessagesInFlight) this.#socket.resume();
        if (this.#inFlight === 0) this.#idle?.();
      });
  }

  async #serve(data: Buffer): Promise<void> {
    const { limits } = this.#parts;
    const body = readRpcBody(data, limits.maxBatchItems);
    const isCounted = body.kind === "batch" ? body.items.length : 1;
    const taken = this.#parts.take(isCounted);
    const verdict = taken instanceof Promise ? await taken : taken;
    if (this.#isOver) return;
    if (body.kind === "refused") {
      this.#reply({ body: rpcError("null", body.rpcCode, body.message), result: "MALFORMED_REQUEST" });
      return;
    }
    if (body.kind === "too_many") {
      const message = `Invalid Request: a batch has at most ${limits.maxBatchItems} items.`;
      this.#reply({ body: rpcError("null", -32600, message), result: "MALFORMED_REQUEST" });
      return;
    }
    const items = body.kind === "batch" ? body.items : [body.item];
    const isBatch = body.kind === "batch";
    if (!verdict.ok) {
      const { rpc, message } = errorRow(verdict.code);
      const { retryAfterSeconds: wait } = verdict;
      const text = `${verdict.message ?? message}${wait === undefined ? "" : ` Try again in ${wait} s.`}`;
      const texts = items.flatMap((item) => (item.kind === "notification" ? [] : [rpcError(item.id, rpc, text)]));
      this.#reply({ body: joined(texts, isBatch), result: verdict.code });
      return;
    }
    const after: After = [];
    const locals = items.map((item) => this.#parts.local(this, item, after, isBatch));
    if (locals.every((local) => local === undefined)) {
      this.#reply(await this.#parts.relay(items, isBatch));
      return;
    }
    const fit = createRoom();
    const replies = await Promise.all(
      items.map(async (item, at) => locals[at] ?? fit(item, await this.#parts.relay([item], false))),
    );
    const texts = replies.flatMap(({ body: text }) => (text.length === 0 ? [] : [asText(text)]));
    const bad = replies.find(({ result }) => result !== "ok");
    this.#reply({ body: joined(texts, isBatch), result: bad?.result ?? "ok" });
    for (const act of after) act();
  }

  #release(held: Held): void {
    const { id, early = [] } = held;
    held.early = undefined;
    for (const event of early) this.#event(id, event);
  }

  #reply(reply: Reply): void {
    this.#parts.message(reply.result);
    if (reply.body.length > 0) this.#send(reply.body);
  }

  /** Sends a text as it is. */
  #send(body: Uint8Array | string): void {
    if (this.#isOver) return;
    // What waited before this text: all of it waits until its last byte is written, however well the client reads.
    if (this.#socket.bufferedAmount > this.#parts.limits.maxQueuedBytes) this.drop("slow");
    else this.#socket.send(body, { binary: false });
  }

  /** Events that were sent and not counted. */
  get events(): number {
    return this.#events;
  }

  /** Events sent since the last call of this. */
  drainEvents(): number {
    const events = this.#events;
    this.#events = 0;
    return events;
  }

  /** Sends a message of its own supplier, as it came. */
  forward(bytes: Buffer, isEvent: boolean): void {
    if (this.#isOver) return;
    if (isEvent) this.#countEvent();
    this.#send(bytes);
  }

  #countEvent(): void {
    this.#events++;
    this.#parts.sent(1);
  }

  #event(id: string, event: SharedEvent): void {
    if (this.#isOver) return;
    this.#countEvent();
    this.#send(this.#parts.frame(event, id));
  }

  /** True when the client may not have one more subscription. */
  get isFull(): boolean {
    return this.subscriptions >= this.#parts.limits.maxSubscriptionsPerClient;
  }

  /** True when the client has a subscription of this id. */
  has(id: string): boolean {
    return this.#held?.has(id) === true;
  }

  /** True when the client holds this topic. */
  holds(key: string): boolean {
    for (const held of this.#held?.values() ?? []) if (held.key === key) return true;
    return false;
  }

  /** Subscribes under an id of the client. Its events wait until the message is answered. */
  async subscribe(id: string, topic: Topic, after: After): Promise<Exclude<SubscribeResult, { ok: true }> | undefined> {
    let isGone = false;
    const held: Held = {
      id,
      key: topic.key,
      early: [],
      close: () => {
        isGone = true;
      },
    };
    after.push(() => this.#release(held));
    this.#held ??= new Map();
    this.#held.set(id, held);
    this.#parts.subscriptions(1);
    const result = await this.#parts.subscribe(topic, {
      event: (event) => {
        if (held.early === undefined) this.#event(id, event);
        else if (held.early.push(event) > MAX_EARLY_EVENTS) this.drop("slow");
      },
      ended: (reason) => this.drop(ENDED[reason]),
    });
    if (!result.ok) {
      if (this.#held?.delete(id) === true) this.#parts.subscriptions(-1);
      return result;
    }
    if (isGone) result.close();
    else held.close = () => result.close();
    return undefined;
  }

  /** Ends a subscription by its id; false when there is none. */
  unsubscribe(id: string): boolean {
    const held = this.#held?.get(id);
    if (held === undefined) return false;
    this.#held?.delete(id);
    this.#parts.subscriptions(-1);
    held.close();
    return true;
  }

  /** Ends a subscription by its topic; false when there is none. */
  unsubscribeTopic(key: string): boolean {
    for (const [id, held] of this.#held ?? []) if (held.key === key) return this.unsubscribe(id);
    return false;
  }

  /** Ends all subscriptions. */
  unsubscribeAll(): void {
    for (const id of this.#held?.keys() ?? []) this.unsubscribe(id);
  }

  /** Asks for a sign of life; one that gave none since the last time is ended. */
  ping(): void {
    if (!this.isAlive) {
      this.terminate("silent");
      return;
    }
    this.isAlive = false;
    this.#socket.ping();
  }

  /** Ends it with the code and text of the reason. */
  drop(reason: DropReason): void {
    if (this.#isOver) return;
    this.#end(reason);
    const [code, text] = CLOSE[reason];
    this.#socket.close(code, text);
    // The client's own close frame must be read.
    if (this.#socket.isPaused) this.#socket.resume();
    // The closing handshake stands behind what a slow client has not read.
    setTimeout(() => this.#socket.terminate(), this.#parts.limits.closeTimeoutMs).unref();
  }

  /** Ends it for the reason without waiting for the client, so that nothing is held any longer. */
  terminate(reason: DropReason): void {
    this.drop(reason);
    this.#socket.terminate();
  }

  /** The socket is closed. */
  gone(): void {
    if (!this.#isOver) this.#end("client");
  }

  #end(reason: DropReason | "client"): void {
    this.#isOver = true;
    this.unsubscribeAll();
    this.#held = undefined;
    this.#parts.closed(reason);
  }

  /** Resolves when no message is being worked on. */
  settled(): Promise<void> {
    if (this.#inFlight === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle = resolve;
    });
  }

  /** Reads no more messages. */
  pause(): void {
    this.#socket.pause();
  }
}

function asText(body: Uint8Array | string): string {
  return typeof body === "string" ? body : asBuffer(body).toString("utf8");
}

/** The texts of a message's answers as one: none is an empty text. */
export function joined(texts: readonly string[], isBatch: boolean): string {
  if (!isBatch) return texts[0] ?? "";
  return texts.length === 0 ? "" : `[${texts.join(",")}]`;
}

/** A reply that is an error of ours. */
export function codeReply(id: string, code: ErrorCode, message?: string): Reply {
  return { body: codeError(id, code, message), result: code };
}
