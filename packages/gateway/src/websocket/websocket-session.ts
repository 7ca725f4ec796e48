import { errorRow } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { EndReason, SharedEvent, SubscribeResult, SubscriptionListener, Topic } from "@turnpike/relay";
import type { WebSocket } from "ws";
import { type RpcItem, readRpcBody } from "../free/jsonrpc.ts";
import { codeError, rpcError } from "../http/rpc-answer.ts";
import type { CallVerdict } from "../keys/call-quotas.ts";
import type { EventFrame } from "./frames.ts";
import { Inbound } from "./inbound.ts";
import type { WebSocketLimits } from "./options.ts";
import type { PairedConnection } from "./paired-connection.ts";
import { createReplyBound, joinReplies, joinTexts, type Reply } from "./reply.ts";

/** Why a WebSocket was ended. */
type DropReason =
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

/** Whose WebSocket it is, and for what. */
export interface SessionClient {
  readonly service: Service;
  readonly clientIp: string;
  /** Of an application; undefined without one. */
  readonly key: string | undefined;
  /** The supplier's WebSocket that it has for itself; undefined where suppliers' WebSockets are shared. */
  readonly paired: PairedConnection | undefined;
}

/** What one WebSocket's messages and subscriptions are served by, and what is notified of them. */
export interface SessionParts {
  readonly limits: WebSocketLimits;
  readonly frame: EventFrame;
  consumeQuota(items: number): CallVerdict | Promise<CallVerdict>;
  /** Calls that are no subscriptions. */
  relay(items: readonly RpcItem[], isBatch: boolean): Promise<Reply>;
  /**
   * Answers a call that is not relayed, such as one that subscribes; undefined for all others. `afterReply` is added to.
   */
  answerLocally(
    session: WebSocketSession,
    item: RpcItem,
    afterReply: AfterReply,
    isBatch: boolean,
  ): Promise<Reply> | Reply | undefined;
  subscribe(topic: Topic, listener: SubscriptionListener): Promise<SubscribeResult>;
  onReply(result: string): void;
  onEvent(): void;
  /** `change`: 1 or -1. */
  onSubscriptions(change: number): void;
  onClosed(reason: DropReason | "client"): void;
}

/** Run once a message is answered: events follow the answer that names their subscription. */
export type AfterReply = (() => void)[];

/** One client's subscription. */
interface OpenSubscription {
  readonly topicKey: string;
  /** Events that arrived before its answer was sent; undefined after that. */
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
export class WebSocketSession {
  readonly client: SessionClient;
  readonly #socket: WebSocket;
  readonly #parts: SessionParts;
  /** By the id that the client knows. Made with the first subscription: most idle clients have none. */
  #subscriptions: Map<string, OpenSubscription> | undefined;
  readonly #inbound = new Inbound();
  #isOver = false;
  #events = 0;
  #inFlight = 0;
  #idle: (() => void) | undefined;
  /** False from a ping on until the client shows a sign of life. */
  isAlive = true;

  constructor(socket: WebSocket, client: SessionClient, parts: SessionParts) {
    this.#socket = socket;
    this.client = client;
    this.#parts = parts;
  }

  /** Bytes that wait for the client. */
  get queuedBytes(): number {
    return this.#socket.bufferedAmount;
  }

  /** Bytes that are held of the client's message that is not complete. */
  get unfinishedBytes(): number {
    return this.#inbound.heldBytes;
  }

  /** Events that were sent and not counted against a quota. */
  get events(): number {
    return this.#events;
  }

  /** Events sent since the last call of this. */
  drainEvents(): number {
    const events = this.#events;
    this.#events = 0;
    return events;
  }

  /** Follows the bytes of the client, complete messages or not. */
  readChunk(chunk: Uint8Array): void {
    this.#inbound.read(chunk);
  }

  /** Ends it when its message has been incomplete for more than so many calls of this. */
  checkAge(maxTicks: number): void {
    // What is not read while others are processed is not the client's fault.
    if (!this.#socket.isPaused && this.#inbound.tick() > maxTicks) this.drop("unfinished");
  }

  /** Processes one message. */
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
    const { maxBatchItems } = this.#parts.limits;
    const body = readRpcBody(data, maxBatchItems);
    const consumed = this.#parts.consumeQuota(body.kind === "batch" ? body.items.length : 1);
    const verdict = consumed instanceof Promise ? await consumed : consumed;
    if (this.#isOver) return;
    if (body.kind === "refused") {
      this.#reply({ body: rpcError("null", body.rpcCode, body.message), result: "MALFORMED_REQUEST" });
      return;
    }
    if (body.kind === "too_many") {
      const message = `Invalid Request: a batch has at most ${maxBatchItems} items.`;
      this.#reply({ body: rpcError("null", -32600, message), result: "MALFORMED_REQUEST" });
      return;
    }
    const items = body.kind === "batch" ? body.items : [body.item];
    const isBatch = body.kind === "batch";
    if (verdict.ok) await this.#answer(items, isBatch);
    else this.#reply(overQuota(verdict, items, isBatch));
  }

  async #answer(items: readonly RpcItem[], isBatch: boolean): Promise<void> {
    const afterReply: AfterReply = [];
    const locals = items.map((item) => this.#parts.answerLocally(this, item, afterReply, isBatch));
    if (locals.every((local) => local === undefined)) {
      this.#reply(await this.#parts.relay(items, isBatch));
      return;
    }
    const bound = createReplyBound();
    const replies = await Promise.all(
      items.map(async (item, at) => locals[at] ?? bound(item, await this.#parts.relay([item], false))),
    );
    this.#reply(joinReplies(replies, isBatch));
    for (const run of afterReply) run();
  }

  #reply(reply: Reply): void {
    this.#parts.onReply(reply.result);
    if (reply.body.length > 0) this.#send(reply.body);
  }

  /** Sends a text as it is. */
  #send(body: Uint8Array | string): void {
    if (this.#isOver) return;
    // What waited before this text: all of it waits until its last byte is written, however well the client reads.
    if (this.#socket.bufferedAmount > this.#parts.limits.maxQueuedBytes) this.drop("slow");
    else this.#socket.send(body, { binary: false });
  }

  /** Sends a message of its own supplier, as it came. */
  forward(bytes: Buffer, isEvent: boolean): void {
    if (this.#isOver) return;
    if (isEvent) this.#countEvent();
    this.#send(bytes);
  }

  #countEvent(): void {
    this.#events++;
    this.#parts.onEvent();
  }

  #sendEvent(id: string, event: SharedEvent): void {
    if (this.#isOver) return;
    this.#countEvent();
    this.#send(this.#parts.frame(event, id));
  }

  /** True when the client may not have one more subscription. */
  get isFull(): boolean {
    return (this.#subscriptions?.size ?? 0) >= this.#parts.limits.maxSubscriptionsPerSocket;
  }

  /** True when the client has a subscription of this id. */
  hasSubscription(id: string): boolean {
    return this.#subscriptions?.has(id) === true;
  }

  /** True when the client has a subscription to this topic. */
  hasTopic(topicKey: string): boolean {
    return this.#idOf(topicKey) !== undefined;
  }

  #idOf(topicKey: string): string | undefined {
    for (const [id, subscription] of this.#subscriptions ?? []) if (subscription.topicKey === topicKey) return id;
    return undefined;
  }

  /** Subscribes under an id of the client. Its events wait until the message is answered. */
  async subscribe(
    id: string,
    topic: Topic,
    afterReply: AfterReply,
  ): Promise<Exclude<SubscribeResult, { ok: true }> | undefined> {
    let isClosed = false;
    const subscription: OpenSubscription = {
      topicKey: topic.key,
      early: [],
      close: () => {
        isClosed = true;
      },
    };
    afterReply.push(() => {
      const { early = [] } = subscription;
      subscription.early = undefined;
      for (const event of early) this.#sendEvent(id, event);
    });
    this.#subscriptions ??= new Map();
    this.#subscriptions.set(id, subscription);
    this.#parts.onSubscriptions(1);
    const result = await this.#parts.subscribe(topic, {
      event: (event) => {
        if (subscription.early === undefined) this.#sendEvent(id, event);
        else if (subscription.early.push(event) > MAX_EARLY_EVENTS) this.drop("slow");
      },
      ended: (reason) => this.drop(ENDED[reason]),
    });
    if (!result.ok) {
      if (this.#subscriptions?.delete(id) === true) this.#parts.onSubscriptions(-1);
      return result;
    }
    if (isClosed) result.close();
    else subscription.close = () => result.close();
    return undefined;
  }

  /** Ends a subscription by its id; false when there is none. */
  unsubscribe(id: string): boolean {
    const subscription = this.#subscriptions?.get(id);
    if (subscription === undefined) return false;
    this.#subscriptions?.delete(id);
    this.#parts.onSubscriptions(-1);
    subscription.close();
    return true;
  }

  /** Ends a subscription by its topic; false when there is none. */
  unsubscribeTopic(topicKey: string): boolean {
    const id = this.#idOf(topicKey);
    return id !== undefined && this.unsubscribe(id);
  }

  /** Ends all subscriptions. */
  unsubscribeAll(): void {
    for (const id of this.#subscriptions?.keys() ?? []) this.unsubscribe(id);
  }

  /** Pings the client; one that gave no sign of life since the last ping is ended. */
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

  /** To be called when the socket is closed. */
  onSocketClosed(): void {
    if (!this.#isOver) this.#end("client");
  }

  #end(reason: DropReason | "client"): void {
    this.#isOver = true;
    this.unsubscribeAll();
    this.#subscriptions = undefined;
    this.#parts.onClosed(reason);
  }

  /** Resolves when no message is being processed. */
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

/** An error for each call of a message that is over the quota or the rate limit. */
function overQuota(verdict: CallVerdict & { readonly ok: false }, items: readonly RpcItem[], isBatch: boolean): Reply {
  const { rpc, message } = errorRow(verdict.code);
  const { retryAfterSeconds: wait } = verdict;
  const text = `${verdict.message ?? message}${wait === undefined ? "" : ` Try again in ${wait} s.`}`;
  const texts = items.flatMap((item) => (item.kind === "notification" ? [] : [rpcError(item.id, rpc, text)]));
  return { body: joinTexts(texts, isBatch), result: verdict.code };
}
