import type { Clock, Metrics, ServiceId } from "@turnpike/base";
import type { Entry, RemovalReason } from "./entry.ts";
import { relayCacheBytes, relayCacheEntries, relayCacheRemovalsTotal } from "./metrics.ts";
import { ANSWER_CACHE_BOUNDS, type AnswerCacheOptions } from "./options.ts";
import { ServiceCache, type StoreTools } from "./service-cache.ts";
import { Sieve } from "./sieve.ts";
import type { ChainFactsSource } from "./types.ts";

interface AnswerCacheModules {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Runs what no caller waits for; `setImmediate` unless given. */
  readonly defer?: (run: () => void) => void;
}

const STORED_AT_ONCE = 32;

/**
 * Kept answers of all services, within one budget of bytes. What may be kept, and for how long, is said by the traits of
 * the method and by what is known of the chain. An answer is given out byte for byte as the supplier sent it, but for the
 * id. Errors are not kept.
 */
export class AnswerCache {
  readonly #options: AnswerCacheOptions;
  readonly #modules: AnswerCacheModules;
  readonly #order = new Sieve<Entry>();
  readonly #services = new Map<ServiceId, ServiceCache>();
  readonly #tools: StoreTools;
  readonly #waiting: { readonly bytes: number; readonly run: () => void }[] = [];
  #waitingBytes = 0;

  constructor(
    options: Pick<AnswerCacheOptions, "maxBytes" | "headAgeMs"> & Partial<AnswerCacheOptions>,
    modules: AnswerCacheModules,
  ) {
    this.#options = { ...ANSWER_CACHE_BOUNDS, ...options };
    this.#modules = modules;
    this.#tools = {
      clock: modules.clock,
      metrics: modules.metrics,
      options: this.#options,
      later: (bytes, run) => this.#later(bytes, run),
      added: (entry) => this.#added(entry),
      removed: (entry, reason) => this.#removed(entry, reason),
    };
  }

  /** Bytes that all kept answers take; never more than the budget. */
  get bytes(): number {
    return this.#order.bytes;
  }

  /** Kept answers. */
  get entries(): number {
    return this.#order.count;
  }

  /** The cache of a service, by what is known of its chain. One that is open is closed before. */
  open(service: ServiceId, chain: ChainFactsSource): ServiceCache {
    this.#services.get(service)?.close();
    const opened = new ServiceCache(service, chain, this.#tools);
    this.#services.set(service, opened);
    return opened;
  }

  /** Drops all answers, of one service or of all. */
  clear(service?: ServiceId): void {
    for (const [id, one] of this.#services) if (service === undefined || id === service) one.clear();
  }

  #later(bytes: number, run: () => void): void {
    const { maxWaiting, maxWaitingBytes } = this.#options;
    if (this.#waiting.length >= maxWaiting || this.#waitingBytes + bytes > maxWaitingBytes) return;
    this.#waitingBytes += bytes;
    this.#waiting.push({ bytes, run });
    if (this.#waiting.length === 1) this.#deferRound();
  }

  #deferRound(): void {
    const defer = this.#modules.defer ?? setImmediate;
    defer(() => {
      for (const { bytes, run } of this.#waiting.splice(0, STORED_AT_ONCE)) {
        this.#waitingBytes -= bytes;
        run();
      }
      const { metrics } = this.#modules;
      metrics.set(relayCacheBytes, this.#order.bytes);
      metrics.set(relayCacheEntries, this.#order.count);
      if (this.#waiting.length > 0) this.#deferRound();
    });
  }

  #added(entry: Entry): void {
    const { maxBytes } = this.#options;
    const nowMs = this.#modules.clock.monotonicMs();
    while (this.#order.bytes + entry.bytes > maxBytes) {
      const next = this.#order.next((one) => one.owner.isDead(one, nowMs));
      if (next === undefined) break;
      next.owner.remove(next, "room");
    }
    this.#order.add(entry);
  }

  #removed(entry: Entry, reason: RemovalReason): void {
    this.#order.remove(entry);
    this.#modules.metrics.count(relayCacheRemovalsTotal, { reason });
  }
}
