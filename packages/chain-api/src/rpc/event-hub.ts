import { bytesToHex, type WriteBufferBudget } from "@turnpike/base";
import type { GenesisConsensusParams } from "@turnpike/chain";
import {
  type EmbeddedNode,
  type EventQuery,
  matchesEvents,
  type NodeEvent,
  parseEventQuery,
  type StoredTx,
} from "@turnpike/chain-node";
import type { RpcId } from "./answers.ts";
import type { RpcBounds } from "./bounds.ts";
import { RpcEvent } from "./rpc-event.ts";

/** A client that events are sent to. */
export interface SocketClient {
  /** Address and port of the other side. */
  readonly client: string;
  /** Sends an event to a subscription. */
  sendEvent(id: RpcId, query: string, event: RpcEvent): void;
  /** Says that a subscription ended. */
  sendCancelled(id: RpcId, reason: string): void;
}

/** Done, or a text in CometBFT's words. */
export type HubOutcome = { readonly ok: true } | { readonly ok: false; readonly fault: string };

/** What became of a transaction that was waited for. */
export type CommittedTx = { readonly ok: true; readonly tx: StoredTx } | { readonly ok: false; readonly fault: string };

/** A wait for a transaction, or why there can be none. */
export type TxWait =
  | { readonly ok: true; readonly committed: Promise<CommittedTx>; release(): void }
  | { readonly ok: false; readonly fault: string };

interface Subscription {
  readonly id: RpcId;
  /** The query's text as it was sent. */
  readonly text: string;
  readonly query: EventQuery;
  /** Events that were published before it. */
  readonly sinceEvents: number;
}

interface Client {
  readonly socket: SocketClient | undefined;
  readonly subscriptions: Map<string, Subscription>;
  /** How many transactions it waits for. */
  waits: number;
}

type HubBounds = Pick<RpcBounds, "maxSubscriptionClients" | "maxSubscriptionsPerClient" | "commitTimeoutMs">;

/** JSON that is created for events in one turn of the event loop; further events wait for the next turn. */
const TURN_BYTES = 1_048_576;

const done: HubOutcome = { ok: true };
const refused = (fault: string): { readonly ok: false; readonly fault: string } => ({ ok: false, fault });

// Two texts of one query are one subscription, as in CometBFT.
function nameOf({ conditions }: EventQuery): string {
  return JSON.stringify(
    conditions.map((c) => (c.op === "EXISTS" ? [c.key, c.op] : [c.key, c.op, c.operand.kind, c.operand.text])),
  );
}

/** Who listens to what: subscriptions of WebSockets, and `broadcast_tx_commit`. Ends with `using`. */
export class EventHub implements Disposable {
  readonly #bounds: HubBounds;
  readonly #stop: () => void;
  readonly #clients = new Map<string, Client>();
  readonly #waits = new Map<string, Set<(outcome: CommittedTx) => void>>();
  /** Events of the latest block that are not sent yet. */
  readonly #queue: NodeEvent[] = [];
  readonly #event: { readonly params: GenesisConsensusParams; readonly writeBuffer: WriteBufferBudget };
  #published = 0;
  #burst = { iteration: 0 };
  /** Number of iterations of the event loop in which events were sent. */
  #iteration = 0;
  #turn: NodeJS.Immediate | undefined;
  #turnBytes = 0;

  constructor(
    bounds: HubBounds,
    { node, writeBuffer }: { readonly node: EmbeddedNode; readonly writeBuffer: WriteBufferBudget },
  ) {
    this.#bounds = bounds;
    this.#event = { params: node.genesis.consensus.params, writeBuffer };
    this.#stop = node.listen((event) => this.#publish(event));
  }

  /** Clients that have a subscription or wait for a transaction. */
  get size(): number {
    return this.#clients.size;
  }

  /** Subscribes a client to what fits a query. */
  subscribe(socket: SocketClient, id: RpcId, text: string): HubOutcome {
    const full = this.#fullFault(socket.client);
    if (full !== undefined) return refused(full);
    const parsed = parseEventQuery(text);
    if (!parsed.ok) {
      const tooLong = Buffer.byteLength(text) > 512;
      return refused(tooLong ? parsed.fault : `failed to parse query: ${parsed.fault}`);
    }
    const name = nameOf(parsed.query);
    const client = this.#clients.get(socket.client) ?? { socket, subscriptions: new Map(), waits: 0 };
    if (client.subscriptions.has(name)) return refused("already subscribed");
    client.subscriptions.set(name, { id, text, query: parsed.query, sinceEvents: this.#published });
    this.#clients.set(socket.client, client);
    return done;
  }

  /** Ends one subscription of a client. */
  unsubscribe(socket: SocketClient, text: string): HubOutcome {
    const parsed = parseEventQuery(text);
    if (!parsed.ok) return refused(`failed to parse query: ${parsed.fault}`);
    const client = this.#clients.get(socket.client);
    if (client?.subscriptions.delete(nameOf(parsed.query)) !== true) return refused("subscription not found");
    this.#removeIdle(socket.client, client);
    return done;
  }

  /** Ends all subscriptions of a client. */
  unsubscribeAll(socket: SocketClient): HubOutcome {
    const client = this.#clients.get(socket.client);
    if (client === undefined || client.subscriptions.size === 0) return refused("subscription not found");
    client.subscriptions.clear();
    this.#removeIdle(socket.client, client);
    return done;
  }

  /** Waits until a transaction is in a block, for a bounded time. Release it in any case. */
  awaitTx(hash: Uint8Array, clientName: string, signal: AbortSignal): TxWait {
    const full = this.#fullFault(clientName);
    if (full !== undefined) return refused(full);
    const client = this.#clients.get(clientName) ?? { socket: undefined, subscriptions: new Map(), waits: 0 };
    this.#clients.set(clientName, client);
    client.waits++;
    const key = bytesToHex(hash);
    const waits = this.#waits.get(key) ?? new Set();
    this.#waits.set(key, waits);
    const { promise: committed, resolve } = Promise.withResolvers<CommittedTx>();
    waits.add(resolve);
    const fault = "timed out waiting for tx to be included in a block";
    const timer = setTimeout(() => resolve(refused(fault)), this.#bounds.commitTimeoutMs);
    const abort = (): void => resolve(refused("txSub was canceled (reason: client unsubscribed)"));
    signal.addEventListener("abort", abort);
    const release = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      waits.delete(resolve);
      if (waits.size === 0 && this.#waits.get(key) === waits) this.#waits.delete(key);
      client.waits--;
      this.#removeIdle(clientName, client);
    };
    return { ok: true, committed, release };
  }

  /** Cancels every subscription and wait: the node ends. */
  [Symbol.dispose](): void {
    this.#stop();
    clearImmediate(this.#turn);
    this.#queue.length = 0;
    for (const { socket, subscriptions } of this.#clients.values()) {
      for (const { id } of subscriptions.values()) socket?.sendCancelled(id, "CometBFT exited");
    }
    for (const waits of this.#waits.values()) {
      for (const resolve of waits) resolve(refused("txSub was canceled (reason: CometBFT exited)"));
    }
    this.#clients.clear();
  }

  #fullFault(clientName: string): string | undefined {
    const { maxSubscriptionClients, maxSubscriptionsPerClient } = this.#bounds;
    if (this.#clients.size >= maxSubscriptionClients) {
      return `max_subscription_clients ${maxSubscriptionClients} reached`;
    }
    const client = this.#clients.get(clientName);
    const slots = client === undefined ? 0 : client.subscriptions.size + client.waits;
    return slots >= maxSubscriptionsPerClient
      ? `max_subscriptions_per_client ${maxSubscriptionsPerClient} reached`
      : undefined;
  }

  #removeIdle(name: string, client: Client): void {
    if (client.subscriptions.size > 0 || client.waits > 0) return;
    if (this.#clients.get(name) === client) this.#clients.delete(name);
  }

  #publish(nodeEvent: NodeEvent): void {
    if (nodeEvent.type === "Tx") {
      const waits = this.#waits.get(bytesToHex(nodeEvent.tx.hash)) ?? [];
      for (const resolve of waits) resolve({ ok: true, tx: nodeEvent.tx });
    }
    if (nodeEvent.type === "NewBlock") {
      // Events of one block wait at most: the next one comes when subscribers are behind.
      while (this.#queue.length > 0) this.#deliverNext();
      // Subscribers could read nothing between blocks of one turn.
      if (this.#burst.iteration !== this.#iteration) this.#burst = { iteration: this.#iteration };
    }
    this.#published++;
    if (this.#clients.size === 0) return;
    this.#queue.push(nodeEvent);
    this.#deliver();
  }

  /** Sends events that wait, as many as one turn may; clients read the first of a large block while the next are created. */
  #deliver(): void {
    while (this.#queue.length > 0 && this.#turnBytes < TURN_BYTES) this.#turnBytes += this.#deliverNext();
    this.#turn ??= setImmediate(() => {
      this.#turn = undefined;
      this.#iteration++;
      this.#turnBytes = 0;
      if (this.#queue.length > 0) this.#deliver();
    });
  }

  /** Returns the length of the JSON that was created. */
  #deliverNext(): number {
    const number = this.#published - this.#queue.length;
    const nodeEvent = this.#queue.shift();
    if (nodeEvent === undefined) return 0;
    const event = new RpcEvent(nodeEvent, this.#burst, this.#event);
    for (const { socket, subscriptions } of this.#clients.values()) {
      if (socket === undefined) continue;
      for (const { id, text, query, sinceEvents } of subscriptions.values()) {
        if (sinceEvents <= number && matchesEvents(query, event.values)) socket.sendEvent(id, text, event);
      }
    }
    return event.createdLength;
  }
}
