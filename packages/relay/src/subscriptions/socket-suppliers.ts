import type { Clock } from "@turnpike/base";
import type { SocketEndpoint } from "./options.ts";

const FIRST_REST_MS = 500;
const LONGEST_REST_MS = 30_000;
const WRONG_CHAIN_REST_MS = 300_000;

interface History {
  failures: number;
  restUntilMs: number;
}

/** What {@link SocketSuppliers} work with. */
export interface SocketSuppliersModules {
  readonly clock: Clock;
  readonly random: () => number;
  /** Taken out of service by hand. */
  readonly isDrained: (operator: string) => boolean;
}

/** The WebSockets of one service's suppliers, and which of them failed lately. */
export class SocketSuppliers {
  readonly #endpoints: readonly SocketEndpoint[];
  readonly #modules: SocketSuppliersModules;
  readonly #records = new Map<SocketEndpoint, History>();

  constructor(endpoints: readonly SocketEndpoint[], modules: SocketSuppliersModules) {
    this.#endpoints = endpoints;
    this.#modules = modules;
  }

  /** True when another should take over: it was drained. */
  isDrained(endpoint: SocketEndpoint): boolean {
    return this.#modules.isDrained(endpoint.operator);
  }

  /** In the order in which they should be tried: those that rest after failures come last; none only when all are drained. */
  order(): readonly SocketEndpoint[] {
    const nowMs = this.#modules.clock.monotonicMs();
    const rank = (endpoint: SocketEndpoint): number => {
      const restMs = (this.#records.get(endpoint)?.restUntilMs ?? 0) - nowMs;
      return restMs > 0 ? 1 + restMs : this.#modules.random();
    };
    return this.#endpoints
      .filter((endpoint) => !this.isDrained(endpoint))
      .map((endpoint) => ({ endpoint, rank: rank(endpoint) }))
      .sort((a, b) => a.rank - b.rank)
      .map(({ endpoint }) => endpoint);
  }

  /** It could not be used; others are preferred for a while. */
  failed(endpoint: SocketEndpoint): void {
    const { clock, random } = this.#modules;
    const failures = (this.#records.get(endpoint)?.failures ?? 0) + 1;
    const restMs = Math.min(LONGEST_REST_MS, FIRST_REST_MS * 2 ** Math.min(failures, 16)) * (0.8 + 0.4 * random());
    this.#records.set(endpoint, { failures, restUntilMs: clock.monotonicMs() + restMs });
  }

  /** It serves another chain. */
  wrongChain(endpoint: SocketEndpoint): void {
    this.#records.set(endpoint, {
      failures: 1,
      restUntilMs: this.#modules.clock.monotonicMs() + WRONG_CHAIN_REST_MS,
    });
  }

  /** It is in use and works. */
  good(endpoint: SocketEndpoint): void {
    this.#records.delete(endpoint);
  }
}
