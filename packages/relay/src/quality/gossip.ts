import { type Bus, type Clock, isRecord, type Log, type ServiceId } from "@turnpike/base";
import { type QualitySnapshot, readQualitySnapshot } from "./peers.ts";

/** What is shared of one supplier; a `SupplierQuality` has both functions. */
export interface SharedQuality {
  /** Names the supplier, alike in all processes: its service, operator and rpc type. No URL, which may hold a key. */
  readonly key: string;
  /** What was seen in this process. */
  snapshot(nowMs: number): QualitySnapshot;
  /** Replaces what this other process saw before. */
  absorb(snapshot: QualitySnapshot, fromId: string, nowMs: number): void;
}

/** What is shared of one service's chain; a `ChainView` has both functions. */
export interface SharedHeight {
  readonly serviceId: ServiceId;
  /** The highest height that a client was shown. */
  served(nowMs: number): number | undefined;
  /** A client of another process was shown this height. Implementations ignore what cannot be true. */
  wasServed(heightBlocks: number, nowMs: number): void;
}

/** What a relay shares with the relays of other processes. Read again each time, as a reload replaces it. */
export interface GossipSource {
  qualities(): Iterable<SharedQuality>;
  heights(): Iterable<SharedHeight>;
}

export interface GossipOptions {
  /** Time between two looks at what has changed. */
  readonly intervalMs: number;
  /** What has not changed is published again after this time: a message may have been lost. */
  readonly refreshMs: number;
}

/** Times that suit a few dozen processes. */
export const gossipDefaults: GossipOptions = { intervalMs: 1_000, refreshMs: 30_000 };

export interface GossipModules {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Log;
  readonly source: GossipSource;
}

const QUALITY = "relay.quality";
const ASK = "relay.quality.ask";
const HEIGHTS = "relay.heights";
/** Some 150 bytes each: a message stays below half of what a bus takes. */
const MAX_SUPPLIERS = 200;
const MAX_SERVICES = 1_000;
const MAX_KEY = 512;
/** A process that starts asks so often, until a message comes. */
const ASKS = 5;
/** Least time between two calls of `publishSoon` that publish. */
const SOON_EVERY_MS = 50;

interface Sent {
  readonly snapshot: QualitySnapshot;
  readonly atMs: number;
}

/** True when two weights differ by a fifth, and by more than what a few calls make. */
const differs = (a: number, b: number, least: number): boolean => Math.abs(a - b) > Math.max(least, Math.max(a, b) / 5);

function isNews(now: QualitySnapshot, last: QualitySnapshot): boolean {
  return (
    now.breaker !== last.breaker ||
    differs(now.fast.bad, last.fast.bad, 0.5) ||
    differs(now.fast.all, last.fast.all, 2) ||
    differs(now.chronic.bad, last.chronic.bad, 5) ||
    differs(now.chronic.all, last.chronic.all, 30) ||
    differs(now.latencyMs, last.latencyMs, 5)
  );
}

const knowsNothing = ({ fast, chronic, breaker, latencyMs }: QualitySnapshot): boolean =>
  breaker === "closed" && latencyMs === 0 && fast.all < 0.01 && chronic.all < 0.01;

const short = (value: number): number => Number(value.toPrecision(4));

/** A snapshot without digits that mean nothing. */
function shortened({ fast, chronic, breaker, latencyMs }: QualitySnapshot): QualitySnapshot {
  return {
    fast: { bad: short(fast.bad), all: short(fast.all) },
    chronic: { bad: short(chronic.bad), all: short(chronic.all) },
    breaker,
    latencyMs: short(latencyMs),
  };
}

/**
 * Publishes what this process sees of suppliers and of heights that clients were shown, and applies what others publish.
 * Qualities go out once a second where they have changed, and again after a while, since a message may be lost; a
 * process that starts asks for all of them. Heights go out as soon as they are {@link heightServed}.
 */
export class Gossip implements AsyncDisposable {
  readonly #options: GossipOptions;
  readonly #modules: GossipModules;
  readonly #sent = new Map<string, Sent>();
  /** The highest height that was published or received, by service. */
  readonly #heights = new Map<string, number>();
  readonly #due = new Map<ServiceId, number>();
  readonly #ends: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #flush: NodeJS.Immediate | undefined;
  #soon: NodeJS.Immediate | undefined;
  #soonMs = Number.NEGATIVE_INFINITY;
  #asks = 0;
  #isAsked = false;
  #hasReceived = false;

  constructor(options: GossipOptions, modules: GossipModules) {
    this.#options = options;
    this.#modules = modules;
  }

  /** Begins to publish and to subscribe. */
  start(): void {
    if (this.#timer !== undefined) return;
    const { bus } = this.#modules;
    this.#ends.push(
      bus.subscribe(QUALITY, (message, from) => this.#receive(message, from)),
      bus.subscribe(HEIGHTS, (message) => this.#receiveHeights(message)),
      bus.subscribe(ASK, () => {
        this.#isAsked = true;
      }),
    );
    this.#timer = setInterval(() => this.#tick(), this.#options.intervalMs);
    this.#timer.unref();
    this.#ask();
  }

  /** A client was shown this height: the next one that asks another process must not be shown a lower one. */
  heightServed(serviceId: ServiceId, heightBlocks: number): void {
    if (this.#timer === undefined || heightBlocks <= (this.#heights.get(serviceId) ?? -1)) return;
    this.#heights.set(serviceId, heightBlocks);
    this.#due.set(serviceId, heightBlocks);
    this.#flush ??= setImmediate(() => this.#sendHeights());
  }

  /** A breaker has changed: it may be closed again before the next interval, and the others should know now. */
  publishSoon(): void {
    const { clock } = this.#modules;
    if (this.#timer === undefined || clock.monotonicMs() - this.#soonMs < SOON_EVERY_MS) return;
    this.#soon ??= setImmediate(() => {
      this.#soon = undefined;
      this.#soonMs = clock.monotonicMs();
      this.#sendQualities(this.#soonMs);
    });
  }

  #ask(): void {
    if (this.#hasReceived || this.#asks >= ASKS) return;
    this.#asks++;
    this.#modules.bus.publish(ASK, {});
  }

  #tick(): void {
    this.#ask();
    const nowMs = this.#modules.clock.monotonicMs();
    this.#sendQualities(nowMs);
    this.#followHeights(nowMs);
  }

  #sendQualities(nowMs: number): void {
    const { bus, source } = this.#modules;
    const isAsked = this.#isAsked;
    this.#isAsked = false;
    const known = new Set<string>();
    let batch: (QualitySnapshot & { readonly key: string })[] = [];
    for (const quality of source.qualities()) {
      const { key } = quality;
      known.add(key);
      const snapshot = quality.snapshot(nowMs);
      const last = this.#sent.get(key);
      if (last === undefined && knowsNothing(snapshot)) continue;
      const isDue = last === undefined || isAsked || nowMs - last.atMs >= this.#options.refreshMs;
      if (!isDue && !isNews(snapshot, last.snapshot)) continue;
      if (knowsNothing(snapshot)) this.#sent.delete(key);
      else this.#sent.set(key, { snapshot, atMs: nowMs });
      batch.push({ key, ...shortened(snapshot) });
      if (batch.length < MAX_SUPPLIERS) continue;
      bus.publish(QUALITY, { suppliers: batch });
      batch = [];
    }
    if (batch.length > 0) bus.publish(QUALITY, { suppliers: batch });
    for (const key of this.#sent.keys()) if (!known.has(key)) this.#sent.delete(key);
  }

  #receive(message: unknown, from: string): void {
    if (!isRecord(message) || !Array.isArray(message.suppliers) || message.suppliers.length > MAX_SUPPLIERS) return;
    this.#hasReceived = true;
    const nowMs = this.#modules.clock.monotonicMs();
    const byKey = new Map<string, unknown>();
    for (const entry of message.suppliers as readonly unknown[]) {
      if (isRecord(entry) && typeof entry.key === "string" && entry.key.length <= MAX_KEY) byKey.set(entry.key, entry);
    }
    for (const quality of this.#modules.source.qualities()) {
      const snapshot = readQualitySnapshot(byKey.get(quality.key));
      if (snapshot !== undefined) quality.absorb(snapshot, from, nowMs);
    }
  }

  /** Heights without a {@link heightServed}, and chains that went back. */
  #followHeights(nowMs: number): void {
    const known = new Set<string>();
    for (const height of this.#modules.source.heights()) {
      known.add(height.serviceId);
      const served = height.served(nowMs);
      if (served === undefined) continue;
      if (served < (this.#heights.get(height.serviceId) ?? -1)) this.#heights.set(height.serviceId, served);
      else this.heightServed(height.serviceId, served);
    }
    for (const id of this.#heights.keys()) if (!known.has(id)) this.#heights.delete(id);
  }

  #sendHeights(): void {
    this.#flush = undefined;
    const all = [...this.#due];
    this.#due.clear();
    for (let at = 0; at < all.length; at += MAX_SERVICES) {
      this.#modules.bus.publish(HEIGHTS, { heights: Object.fromEntries(all.slice(at, at + MAX_SERVICES)) });
    }
  }

  #receiveHeights(message: unknown): void {
    if (!isRecord(message) || !isRecord(message.heights)) return;
    const nowMs = this.#modules.clock.monotonicMs();
    const { heights } = message;
    for (const height of this.#modules.source.heights()) {
      const id = height.serviceId;
      const said = Object.hasOwn(heights, id) ? heights[id] : undefined;
      if (typeof said !== "number" || !Number.isSafeInteger(said) || said < 0) continue;
      const before = this.#heights.get(id);
      // Another published it, so this process need not; unless the height is rejected.
      if (said > (before ?? -1)) this.#heights.set(id, said);
      height.wasServed(said, nowMs);
      if (height.served(nowMs) === said) continue;
      if (before === undefined) this.#heights.delete(id);
      else this.#heights.set(id, before);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    clearImmediate(this.#flush);
    clearImmediate(this.#soon);
    for (const end of this.#ends.splice(0)) end();
  }
}
