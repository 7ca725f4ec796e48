import { setTimeout as delay } from "node:timers/promises";
import type { Clock, Log } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { chainViewDefaults } from "../chain-view/chain-view.ts";
import type { SupplierEndpoint } from "../transport/transport.ts";
import type { Cancellation, Dialect, UpstreamEvent } from "./dialect.ts";
import { EvmReplay } from "./evm-replay.ts";
import { JobQueue } from "./job-queue.ts";
import type { SubscriptionBounds } from "./options.ts";
import type { SocketSuppliers } from "./socket-suppliers.ts";
import { HEADS_TOPIC } from "./topics.ts";
import type { EndReason, SubscribeResult, SubscriptionListener, Topic } from "./types.ts";
import { type CallOutcome, type LossReason, openUpstream, type UpstreamSocket } from "./upstream-socket.ts";
import { UpstreamSubscription } from "./upstream-subscription.ts";

interface FailoverSocketModules {
  readonly service: Service;
  readonly dialect: Dialect;
  readonly suppliers: SocketSuppliers;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
  /** The newest block that is known otherwise, if any. */
  readonly tipBlocks: () => number | undefined;
  readonly replayed: (kind: string, count: number) => void;
  readonly repeated: (kind: string) => void;
  readonly lossOf: (reason: LossReason) => void;
  /** Sockets or subscriptions have changed. */
  readonly changed: () => void;
  /** Nothing is subscribed to, and nothing was for a while. */
  readonly idle: (socket: FailoverSocket) => void;
}

interface Connection {
  readonly socket: UpstreamSocket;
  readonly queue: JobQueue;
  readonly handles: Map<string, UpstreamSubscription>;
  readonly generation: number;
  /** Checks in a row at which the supplier was behind; below 0 for one that was taken nevertheless. */
  behindChecks: number;
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
/** Blocks that a new supplier may be behind while others were not tried, where the service says nothing. */
const DEFAULT_ALLOWANCE_BLOCKS = 5;
/** Blocks that a supplier may always be behind what is known otherwise: they take time to travel. */
const LEAST_ALLOWANCE_BLOCKS = 2;
/** A supplier that is behind at so many checks in a row is given up. */
const BEHIND_CHECKS = 2;
/** The same for one that was behind when it was taken because no other was better: others are tried again, but not at once. */
const LATE_BEHIND_CHECKS = 10;
const internalListener: SubscriptionListener = { event() {}, ended() {} };

/** A WebSocket to one supplier after another: when one is lost, its subscriptions are made again at the next. */
export class FailoverSocket {
  readonly subscriptions = new Map<string, UpstreamSubscription>();
  readonly #options: SubscriptionBounds;
  readonly #modules: FailoverSocketModules;
  readonly #replay: EvmReplay;
  readonly #closing = new AbortController();
  readonly #stall: NodeJS.Timeout;
  #linger: NodeJS.Timeout | undefined;
  #connection: Connection | undefined;
  #connecting: Promise<boolean> | undefined;
  #generation = 0;
  #calls = 0;

  constructor(options: SubscriptionBounds, modules: FailoverSocketModules) {
    this.#options = options;
    this.#modules = modules;
    this.#replay = new EvmReplay(options.maxReplayBlocks, modules);
    this.#stall = setInterval(() => void this.#checkStall(), options.stallCheckMs);
    this.#stall.unref();
    this.#closeWhenIdle();
  }

  /** How its suppliers are spoken to. */
  get dialect(): Dialect["id"] {
    return this.#modules.dialect.id;
  }

  get isOpen(): boolean {
    return this.#connection !== undefined;
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** How many subscriptions the supplier holds. */
  get held(): number {
    return this.#connection?.handles.size ?? 0;
  }

  /** Adds a listener to a topic, which is subscribed to when it is new. */
  async add(topic: Topic, listener: SubscriptionListener): Promise<SubscribeResult> {
    clearTimeout(this.#linger);
    let subscription = this.subscriptions.get(topic.key);
    if (subscription === undefined) {
      subscription = new UpstreamSubscription(topic);
      this.subscriptions.set(topic.key, subscription);
      subscription.ready = this.#activate(subscription);
    }
    const joined = subscription;
    joined.listeners.set(listener, this.#replay.chain.lastNumber ?? -1);
    const refused = await joined.ready;
    if (refused !== undefined) {
      joined.listeners.delete(listener);
      this.#drop(joined);
      return refused;
    }
    if (this.subscriptions.get(topic.key) !== joined) return { ok: false, code: "SUPPLIERS_UNREACHABLE" };
    return {
      ok: true,
      close: () => {
        if (joined.listeners.delete(listener)) this.#drop(joined);
      },
    };
  }

  /** One call. */
  async call(method: string, params: string): Promise<CallOutcome> {
    clearTimeout(this.#linger);
    this.#calls++;
    try {
      const isUp = await this.#ensure();
      return isUp && this.#connection !== undefined
        ? await this.#connection.socket.call(method, params)
        : { kind: "lost" };
    } finally {
      this.#calls--;
      this.#closeWhenIdle();
    }
  }

  async #activate(subscription: UpstreamSubscription): Promise<Exclude<SubscribeResult, { ok: true }> | undefined> {
    const { clock } = this.#modules;
    const untilMs = clock.monotonicMs() + this.#options.subscribeTimeoutMs;
    for (let round = 0; clock.monotonicMs() < untilMs && !this.isClosed; round++) {
      const isUp = await this.#ensureWithin(untilMs - clock.monotonicMs());
      const connection = this.#connection;
      if (!isUp || connection === undefined) {
        // A recovery time shorter than its first pause ends at once.
        await this.#wait(this.#pauseMs(round));
        continue;
      }
      if (subscription.topic.replay === "logs") {
        const heads = await this.add(HEADS_TOPIC, internalListener);
        if (!heads.ok) return heads;
      }
      const done = await connection.queue.run(() => this.#subscribe(connection, subscription));
      if (done === "active") return undefined;
      if (done !== undefined && done !== "lost") return { ok: false, error: done.error };
    }
    return { ok: false, code: this.isClosed ? "SHUTTING_DOWN" : "SUPPLIERS_UNREACHABLE" };
  }

  /** Runs within the connection's queue, so that events that overtake the answer wait for it. */
  async #subscribe(
    connection: Connection,
    subscription: UpstreamSubscription,
  ): Promise<"active" | "lost" | { readonly error: string }> {
    const { dialect } = this.#modules;
    const answer = await dialect.subscribe(connection.socket, subscription.topic);
    if (answer.kind === "error") return { error: answer.raw };
    if (
      answer.kind === "ok" &&
      subscription.topic.replay === "heads" &&
      !(await this.#replay.begin(connection.socket))
    ) {
      connection.socket.fail("refused");
    }
    if (answer.kind === "lost") connection.socket.fail("silent");
    if (answer.kind === "lost" || connection.socket.isOver) return "lost";
    const height = this.#replay.chain.lastNumber ?? -1;
    subscription.sinceBlock = height;
    for (const listener of subscription.listeners.keys()) subscription.listeners.set(listener, height);
    subscription.isActive = true;
    connection.handles.set(answer.handle, subscription);
    this.#modules.changed();
    return "active";
  }

  #drop(subscription: UpstreamSubscription): void {
    const { key, replay } = subscription.topic;
    if (subscription.listeners.size > 0 || this.subscriptions.get(key) !== subscription) return;
    this.subscriptions.delete(key);
    const connection = this.#connection;
    for (const [handle, held] of connection?.handles ?? []) {
      if (held !== subscription || connection === undefined) continue;
      connection.handles.delete(handle);
      this.#modules.dialect.unsubscribe(connection.socket, subscription.topic, handle);
    }
    const isLastLogs =
      replay === "logs" && ![...this.subscriptions.values()].some((other) => other.topic.replay === "logs");
    const heads = isLastLogs ? this.subscriptions.get(HEADS_TOPIC.key) : undefined;
    if (heads?.listeners.delete(internalListener) === true) this.#drop(heads);
    this.#modules.changed();
    this.#closeWhenIdle();
  }

  #closeWhenIdle(): void {
    if (this.subscriptions.size > 0 || this.#calls > 0) return;
    clearTimeout(this.#linger);
    this.#linger = setTimeout(() => {
      this.#modules.idle(this);
      this.close("stopping");
    }, this.#options.lingerMs);
    this.#linger.unref();
  }

  async #ensureWithin(timeoutMs: number): Promise<boolean> {
    const timer = new AbortController();
    const late = delay(Math.max(1, timeoutMs), false, { signal: timer.signal, ref: false }).catch(() => false);
    const isUp = await Promise.race([this.#ensure(), late]);
    timer.abort();
    return isUp;
  }

  #ensure(): Promise<boolean> {
    if (this.#connection !== undefined) return Promise.resolve(true);
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  /** Looks for a supplier until there is one or time is up. */
  async #connect(): Promise<boolean> {
    const { clock, suppliers } = this.#modules;
    const untilMs = clock.monotonicMs() + this.#options.recoveryTimeoutMs;
    for (let round = 0; !this.isClosed; round++) {
      for (const endpoint of suppliers.order()) {
        if (this.isClosed || clock.monotonicMs() >= untilMs) return false;
        if (await this.#try(endpoint, round === 0)) return true;
      }
      const pauseMs = this.#pauseMs(round);
      if (clock.monotonicMs() + pauseMs >= untilMs) return false;
      await this.#wait(pauseMs);
    }
    return false;
  }

  /** Between two rounds of looking for a supplier. */
  #pauseMs(round: number): number {
    return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** round) * (0.8 + 0.4 * this.#modules.random());
  }

  /** Waits, or until this is closed. */
  async #wait(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#closing.signal, ref: false }).catch(() => {});
  }

  async #try(endpoint: SupplierEndpoint, isStrict: boolean): Promise<boolean> {
    const { suppliers, log, service, dialect } = this.#modules;
    const handles = new Map<string, UpstreamSubscription>();
    const queue = new JobQueue();
    const generation = ++this.#generation;
    let connection: Connection | undefined;
    const socket = await openUpstream(
      { endpoint, ...this.#options },
      {
        event: (message) => {
          const event = dialect.event(message);
          if (event === undefined) return;
          if (queue.waiting >= this.#options.maxQueuedEvents) connection?.socket.fail("flooded");
          else queue.push(() => (connection === undefined ? undefined : this.#deliver(connection, event)));
        },
        lost: (reason) => {
          if (connection !== undefined) this.#lost(connection, reason);
        },
      },
      this.#closing.signal,
    );
    if (socket === undefined) {
      suppliers.failed(endpoint);
      return false;
    }
    const made: Connection = { socket, queue, handles, generation, behindChecks: 0 };
    connection = made;
    const verdict = await queue.run(() => this.#restore(made, isStrict));
    if (verdict === "done") {
      suppliers.good(endpoint);
      log.debug({ service: service.id, operator: endpoint.operator }, "a supplier's WebSocket is in use");
      return true;
    }
    if (verdict === "wrong_chain") {
      suppliers.wrongChain(endpoint);
      log.error({ ...this.#fields(endpoint) }, "supplier serves another chain and is not used");
    } else suppliers.failed(endpoint);
    this.#modules.lossOf(verdict ?? "closed");
    queue.end();
    socket.close();
    return false;
  }

  /** The first job of a connection: its chain is checked, subscriptions are made again, what was missed is delivered. */
  async #restore(connection: Connection, isStrict: boolean): Promise<LossReason | "done"> {
    const { dialect, service } = this.#modules;
    const { socket } = connection;
    const chain = await dialect.verify(socket, service);
    if (chain !== "right") return chain === "wrong" ? "wrong_chain" : "refused";
    if (await this.#isBehind(() => dialect.height(socket))) {
      if (isStrict) return "behind";
      connection.behindChecks = BEHIND_CHECKS - LATE_BEHIND_CHECKS;
    }
    const subscriptions = [...this.subscriptions.values()].filter((subscription) => subscription.isActive);
    const answers = await Promise.all(
      subscriptions.map((subscription) => dialect.subscribe(socket, subscription.topic)),
    );
    for (const [at, answer] of answers.entries()) {
      const subscription = subscriptions[at];
      if (answer.kind !== "ok" || subscription === undefined) return "refused";
      connection.handles.set(answer.handle, subscription);
    }
    const heads = subscriptions.find((subscription) => subscription.topic.replay === "heads");
    if (heads !== undefined) {
      const logs = subscriptions.filter((subscription) => subscription.topic.replay === "logs");
      const allowance = service.syncAllowanceBlocks ?? DEFAULT_ALLOWANCE_BLOCKS;
      const done = await this.#replay.restore(socket, heads, logs, isStrict ? allowance : Number.POSITIVE_INFINITY);
      if (done === "failed") return "gap";
      if (done === "behind") return "behind";
      if (done === "missed") await this.#missed(connection);
    }
    // Subscriptions without listeners by now.
    for (const [handle, subscription] of connection.handles) {
      if (this.subscriptions.get(subscription.topic.key) === subscription) continue;
      connection.handles.delete(handle);
      dialect.unsubscribe(socket, subscription.topic, handle);
    }
    if (socket.isOver || this.isClosed) return "closed";
    this.#connection = connection;
    this.#modules.changed();
    return "done";
  }

  /** Too much is missing: subscriptions that rely on it end; a new chain begins for later ones. */
  async #missed(connection: Connection): Promise<void> {
    for (const [handle, subscription] of connection.handles) {
      if (subscription.topic.replay === "none") continue;
      connection.handles.delete(handle);
      this.#modules.dialect.unsubscribe(connection.socket, subscription.topic, handle);
      this.subscriptions.delete(subscription.topic.key);
      subscription.end("missed");
    }
    this.#modules.changed();
    this.#closeWhenIdle();
  }

  #deliver(connection: Connection, event: UpstreamEvent | Cancellation): unknown {
    if ("cancelled" in event) {
      // The others of the socket may be next: all are made again elsewhere.
      if (connection.handles.has(event.cancelled)) connection.socket.fail("cancelled");
      return undefined;
    }
    const subscription = connection.handles.get(event.handle);
    if (subscription === undefined || connection.socket.isOver) return undefined;
    if (subscription.topic.replay === "logs") return this.#replay.log(subscription, event.value, event.raw);
    if (subscription.topic.replay === "heads") {
      const logs = (): readonly UpstreamSubscription[] =>
        [...connection.handles.values()].filter((one) => one.topic.replay === "logs");
      const done = this.#replay.head(subscription, event, connection.socket, logs);
      return done instanceof Promise
        ? done.then((kind) => this.#afterHead(connection, kind))
        : this.#afterHead(connection, done);
    }
    if (subscription.isFresh(event.raw, connection.generation)) subscription.emit(event.raw);
    else this.#modules.repeated(subscription.topic.kind);
    return undefined;
  }

  #afterHead(connection: Connection, kind: string): unknown {
    if (kind === "failed") connection.socket.fail("gap");
    return kind === "missed" ? this.#missed(connection) : undefined;
  }

  #lost(connection: Connection, reason: LossReason): void {
    connection.queue.end();
    // A connection that never came into use is dealt with where it was tried.
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    this.#replay.lost();
    const { lossOf, suppliers, log, changed } = this.#modules;
    lossOf(reason);
    if (reason !== "drained") suppliers.failed(connection.socket.endpoint);
    log.warn({ ...this.#fields(connection.socket.endpoint), reason }, "a supplier's WebSocket was lost");
    changed();
    if (this.subscriptions.size === 0 || this.isClosed) return;
    void this.#ensure().then((isUp) => {
      if (!isUp && this.#connection === undefined) this.#end("exhausted");
    });
  }

  async #checkStall(): Promise<void> {
    const connection = this.#connection;
    if (connection !== undefined && this.#modules.suppliers.isDrained(connection.socket.endpoint)) {
      connection.socket.fail("drained");
      return;
    }
    if (connection === undefined) return;
    const hasHeads = this.subscriptions.get(HEADS_TOPIC.key)?.isActive === true;
    const isBehind = await this.#isBehind(async () =>
      hasHeads ? this.#replay.chain.lastNumber : this.#modules.dialect.height(connection.socket),
    );
    connection.behindChecks = isBehind ? connection.behindChecks + 1 : 0;
    const isStalled = hasHeads && (await this.#replay.isStalled(connection.socket));
    if (isStalled || connection.behindChecks >= BEHIND_CHECKS) connection.socket.fail("stalled");
  }

  /** True when a height is further behind what is known otherwise than it may be. Unknown is not behind. */
  async #isBehind(heightOf: () => Promise<number | undefined>): Promise<boolean> {
    const { tipBlocks, service } = this.#modules;
    // The tip first: meanwhile the supplier may only get better.
    const tip = tipBlocks();
    const height = tip === undefined ? undefined : await heightOf();
    const allowance = service.syncAllowanceBlocks ?? chainViewDefaults.syncAllowanceBlocks;
    return tip !== undefined && height !== undefined && height < tip - Math.max(LEAST_ALLOWANCE_BLOCKS, allowance);
  }

  #end(reason: EndReason): void {
    for (const subscription of this.subscriptions.values()) {
      // One that is not active yet ends by the result of its `add`.
      if (!subscription.isActive) continue;
      this.subscriptions.delete(subscription.topic.key);
      subscription.end(reason);
    }
    this.#closeWhenIdle();
  }

  #fields(endpoint: SupplierEndpoint): Readonly<Record<string, unknown>> {
    return { service: this.#modules.service.id, operator: endpoint.operator, host: endpoint.label };
  }

  /** Closes the socket and ends all subscriptions. */
  close(reason: EndReason): void {
    if (this.isClosed) return;
    this.#closing.abort();
    clearInterval(this.#stall);
    clearTimeout(this.#linger);
    this.#connection?.queue.end();
    this.#connection?.socket.close();
    this.#connection = undefined;
    this.#end(reason);
    clearTimeout(this.#linger);
    this.#modules.changed();
  }
}
