import { setTimeout as delay } from "node:timers/promises";
import type { Clock, Log } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { chainViewDefaults } from "../chain-view/chain-view.ts";
import type { SupplierEndpoint } from "../transport/transport.ts";
import type { Cancellation, Dialect, UpstreamEvent } from "./dialect.ts";
import { EvmReplay } from "./evm-replay.ts";
import { Feed } from "./feed.ts";
import { JobQueue } from "./job-queue.ts";
import type { SubscriptionOptions } from "./options.ts";
import type { SocketSuppliers } from "./socket-suppliers.ts";
import { HEADS_TOPIC } from "./topics.ts";
import type { EndReason, SubscribeResult, SubscriptionListener, Topic } from "./types.ts";
import { type CallOutcome, type LossReason, openUpstream, type UpstreamSocket } from "./upstream-socket.ts";

/** What a lane works with. */
export interface LaneModules {
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
  readonly idle: (lane: Lane) => void;
}

interface Link {
  readonly socket: UpstreamSocket;
  readonly queue: JobQueue;
  readonly handles: Map<string, Feed>;
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
/** The same for one that was behind when it was taken because nobody was better: others are tried again, but not at once. */
const LATE_BEHIND_CHECKS = 10;
const inside: SubscriptionListener = { event() {}, ended() {} };

/** One WebSocket to one supplier after another, and the subscriptions that live on it. */
export class Lane {
  readonly feeds = new Map<string, Feed>();
  readonly #options: SubscriptionOptions;
  readonly #modules: LaneModules;
  readonly #replay: EvmReplay;
  readonly #closing = new AbortController();
  readonly #stall: NodeJS.Timeout;
  #linger: NodeJS.Timeout | undefined;
  #link: Link | undefined;
  #connecting: Promise<boolean> | undefined;
  #generation = 0;
  #calls = 0;

  constructor(options: SubscriptionOptions, modules: LaneModules) {
    this.#options = options;
    this.#modules = modules;
    this.#replay = new EvmReplay(options.maxReplayBlocks, modules);
    this.#stall = setInterval(() => void this.#checkStall(), options.stallCheckMs);
    this.#stall.unref();
    this.#rest();
  }

  get isOpen(): boolean {
    return this.#link !== undefined;
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Subscriptions that the supplier holds. */
  get subscriptions(): number {
    return this.#link?.handles.size ?? 0;
  }

  /** Adds a listener to a topic, which is subscribed to when it is new. */
  async add(topic: Topic, listener: SubscriptionListener): Promise<SubscribeResult> {
    clearTimeout(this.#linger);
    let feed = this.feeds.get(topic.key);
    if (feed === undefined) {
      feed = new Feed(topic);
      this.feeds.set(topic.key, feed);
      feed.ready = this.#activate(feed);
    }
    const joined = feed;
    joined.listeners.set(listener, this.#replay.chain.lastNumber ?? -1);
    const refused = await joined.ready;
    if (refused !== undefined) {
      joined.listeners.delete(listener);
      this.#drop(joined);
      return refused;
    }
    if (this.feeds.get(topic.key) !== joined) return { ok: false, code: "SUPPLIERS_UNREACHABLE" };
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
      return isUp && this.#link !== undefined ? await this.#link.socket.call(method, params) : { kind: "lost" };
    } finally {
      this.#calls--;
      this.#rest();
    }
  }

  async #activate(feed: Feed): Promise<Exclude<SubscribeResult, { ok: true }> | undefined> {
    const { clock } = this.#modules;
    const untilMs = clock.monotonicMs() + this.#options.subscribeTimeoutMs;
    for (let round = 0; clock.monotonicMs() < untilMs && !this.isClosed; round++) {
      const isUp = await this.#ensureWithin(untilMs - clock.monotonicMs());
      const link = this.#link;
      if (!isUp || link === undefined) {
        // A recovery time shorter than its first pause ends at once.
        await this.#wait(this.#pauseMs(round));
        continue;
      }
      if (feed.topic.replay === "logs") {
        const heads = await this.add(HEADS_TOPIC, inside);
        if (!heads.ok) return heads;
      }
      const done = await link.queue.run(() => this.#begin(link, feed));
      if (done === "active") return undefined;
      if (done !== undefined && done !== "lost") return { ok: false, error: done.error };
    }
    return { ok: false, code: this.isClosed ? "SHUTTING_DOWN" : "SUPPLIERS_UNREACHABLE" };
  }

  /** Runs within the link's queue, so that events which overtake the answer wait for it. */
  async #begin(link: Link, feed: Feed): Promise<"active" | "lost" | { readonly error: string }> {
    const { dialect } = this.#modules;
    const answer = await dialect.subscribe(link.socket, feed.topic);
    if (answer.kind === "error") return { error: answer.raw };
    if (answer.kind === "ok" && feed.topic.replay === "heads" && !(await this.#replay.begin(link.socket))) {
      link.socket.fail("refused");
    }
    if (answer.kind === "lost") link.socket.fail("silent");
    if (answer.kind === "lost" || link.socket.isOver) return "lost";
    const height = this.#replay.chain.lastNumber ?? -1;
    feed.sinceBlock = height;
    for (const listener of feed.listeners.keys()) feed.listeners.set(listener, height);
    feed.isActive = true;
    link.handles.set(answer.handle, feed);
    this.#modules.changed();
    return "active";
  }

  #drop(feed: Feed): void {
    const { key, replay } = feed.topic;
    if (feed.listeners.size > 0 || this.feeds.get(key) !== feed) return;
    this.feeds.delete(key);
    const link = this.#link;
    for (const [handle, held] of link?.handles ?? []) {
      if (held !== feed || link === undefined) continue;
      link.handles.delete(handle);
      this.#modules.dialect.unsubscribe(link.socket, feed.topic, handle);
    }
    const isLastLogs = replay === "logs" && ![...this.feeds.values()].some((other) => other.topic.replay === "logs");
    const heads = isLastLogs ? this.feeds.get(HEADS_TOPIC.key) : undefined;
    if (heads?.listeners.delete(inside) === true) this.#drop(heads);
    this.#modules.changed();
    this.#rest();
  }

  #rest(): void {
    if (this.feeds.size > 0 || this.#calls > 0) return;
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
    if (this.#link !== undefined) return Promise.resolve(true);
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

  /** Waits, or until the lane is closed. */
  async #wait(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#closing.signal, ref: false }).catch(() => {});
  }

  async #try(endpoint: SupplierEndpoint, isStrict: boolean): Promise<boolean> {
    const { suppliers, log, service, dialect } = this.#modules;
    const handles = new Map<string, Feed>();
    const queue = new JobQueue();
    const generation = ++this.#generation;
    let link: Link | undefined;
    const socket = await openUpstream(
      { endpoint, ...this.#options },
      {
        event: (message) => {
          const event = dialect.event(message);
          if (event === undefined) return;
          if (queue.waiting >= this.#options.maxQueuedEvents) link?.socket.fail("flooded");
          else queue.push(() => (link === undefined ? undefined : this.#deliver(link, event)));
        },
        lost: (reason) => {
          if (link !== undefined) this.#lost(link, reason);
        },
      },
      this.#closing.signal,
    );
    if (socket === undefined) {
      suppliers.failed(endpoint);
      return false;
    }
    const made: Link = { socket, queue, handles, generation, behindChecks: 0 };
    link = made;
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

  /** The first job of a link: its chain is checked, subscriptions are made again, what was missed is delivered. */
  async #restore(link: Link, isStrict: boolean): Promise<LossReason | "done"> {
    const { dialect, service } = this.#modules;
    const { socket } = link;
    const chain = await dialect.verify(socket, service);
    if (chain !== "right") return chain === "wrong" ? "wrong_chain" : "refused";
    if (await this.#isBehind(() => dialect.height(socket))) {
      if (isStrict) return "behind";
      link.behindChecks = BEHIND_CHECKS - LATE_BEHIND_CHECKS;
    }
    const feeds = [...this.feeds.values()].filter((feed) => feed.isActive);
    const answers = await Promise.all(feeds.map((feed) => dialect.subscribe(socket, feed.topic)));
    for (const [at, answer] of answers.entries()) {
      const feed = feeds[at];
      if (answer.kind !== "ok" || feed === undefined) return "refused";
      link.handles.set(answer.handle, feed);
    }
    const heads = feeds.find((feed) => feed.topic.replay === "heads");
    if (heads !== undefined) {
      const logs = feeds.filter((feed) => feed.topic.replay === "logs");
      const allowance = service.syncAllowanceBlocks ?? DEFAULT_ALLOWANCE_BLOCKS;
      const done = await this.#replay.restore(socket, heads, logs, isStrict ? allowance : Number.POSITIVE_INFINITY);
      if (done === "failed") return "gap";
      if (done === "behind") return "behind";
      if (done === "missed") await this.#missed(link);
    }
    // Feeds that everybody left meanwhile.
    for (const [handle, feed] of link.handles) {
      if (this.feeds.get(feed.topic.key) === feed) continue;
      link.handles.delete(handle);
      dialect.unsubscribe(socket, feed.topic, handle);
    }
    if (socket.isOver || this.isClosed) return "closed";
    this.#link = link;
    this.#modules.changed();
    return "done";
  }

  /** Too much is missing: those who rely on it are told; a new chain begins for those who come. */
  async #missed(link: Link): Promise<void> {
    for (const [handle, feed] of link.handles) {
      if (feed.topic.replay === "none") continue;
      link.handles.delete(handle);
      this.#modules.dialect.unsubscribe(link.socket, feed.topic, handle);
      this.feeds.delete(feed.topic.key);
      feed.end("missed");
    }
    this.#modules.changed();
    this.#rest();
  }

  #deliver(link: Link, event: UpstreamEvent | Cancellation): unknown {
    if ("cancelled" in event) {
      // The others of the socket may be next: all are made again elsewhere.
      if (link.handles.has(event.cancelled)) link.socket.fail("cancelled");
      return undefined;
    }
    const feed = link.handles.get(event.handle);
    if (feed === undefined || link.socket.isOver) return undefined;
    if (feed.topic.replay === "logs") return this.#replay.log(feed, event.value, event.raw);
    if (feed.topic.replay === "heads") {
      const logs = (): readonly Feed[] => [...link.handles.values()].filter((one) => one.topic.replay === "logs");
      const done = this.#replay.head(feed, event, link.socket, logs);
      return done instanceof Promise ? done.then((kind) => this.#judge(link, kind)) : this.#judge(link, done);
    }
    if (feed.isFresh(event.raw, link.generation)) feed.emit(event.raw);
    else this.#modules.repeated(feed.topic.kind);
    return undefined;
  }

  #judge(link: Link, kind: string): unknown {
    if (kind === "failed") link.socket.fail("gap");
    return kind === "missed" ? this.#missed(link) : undefined;
  }

  #lost(link: Link, reason: LossReason): void {
    link.queue.end();
    // A link that never came into use is dealt with where it was tried.
    if (this.#link !== link) return;
    this.#link = undefined;
    this.#replay.lost();
    const { lossOf, suppliers, log, changed } = this.#modules;
    lossOf(reason);
    if (reason !== "drained") suppliers.failed(link.socket.endpoint);
    log.warn({ ...this.#fields(link.socket.endpoint), reason }, "a supplier's WebSocket was lost");
    changed();
    if (this.feeds.size === 0 || this.isClosed) return;
    void this.#ensure().then((isUp) => {
      if (!isUp && this.#link === undefined) this.#end("exhausted");
    });
  }

  async #checkStall(): Promise<void> {
    const link = this.#link;
    if (link !== undefined && this.#modules.suppliers.isDrained(link.socket.endpoint)) {
      link.socket.fail("drained");
      return;
    }
    if (link === undefined) return;
    const hasHeads = this.feeds.get(HEADS_TOPIC.key)?.isActive === true;
    const isBehind = await this.#isBehind(async () =>
      hasHeads ? this.#replay.chain.lastNumber : this.#modules.dialect.height(link.socket),
    );
    link.behindChecks = isBehind ? link.behindChecks + 1 : 0;
    const isStalled = hasHeads && (await this.#replay.isStalled(link.socket));
    if (isStalled || link.behindChecks >= BEHIND_CHECKS) link.socket.fail("stalled");
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
    for (const feed of this.feeds.values()) {
      // A subscription in the making tells its clients itself.
      if (!feed.isActive) continue;
      this.feeds.delete(feed.topic.key);
      feed.end(reason);
    }
    this.#rest();
  }

  #fields(endpoint: SupplierEndpoint): Readonly<Record<string, unknown>> {
    return { service: this.#modules.service.id, operator: endpoint.operator, host: endpoint.label };
  }

  /** Ends the socket and tells all listeners. */
  close(reason: EndReason): void {
    if (this.isClosed) return;
    this.#closing.abort();
    clearInterval(this.#stall);
    clearTimeout(this.#linger);
    this.#link?.queue.end();
    this.#link?.socket.close();
    this.#link = undefined;
    this.#end(reason);
    clearTimeout(this.#linger);
    this.#modules.changed();
  }
}
