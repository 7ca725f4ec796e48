import type { Clock } from "@turnpike/base";
import type { SupplierSet } from "../suppliers/supplier-set.ts";
import type { SupplierEndpoint } from "../transport/transport.ts";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
const WRONG_CHAIN_PAUSE_MS = 300_000;

interface History {
  failures: number;
  pausedUntilMs: number;
}

interface SocketSuppliersModules {
  readonly clock: Clock;
  readonly random: () => number;
  /** Taken out of service by hand. */
  readonly isDrained: (operator: string) => boolean;
}

/** The WebSockets of one service's suppliers, and which of them failed lately. */
export class SocketSuppliers {
  readonly #suppliers: SupplierSet;
  readonly #modules: SocketSuppliersModules;
  /** By endpoint: see {@link keyOf}. */
  #records = new Map<string, History>();

  constructor(suppliers: SupplierSet, modules: SocketSuppliersModules) {
    this.#suppliers = suppliers;
    this.#modules = modules;
  }

  /** True when there is none. */
  get isEmpty(): boolean {
    return this.#suppliers.whyEmpty("websocket") !== undefined;
  }

  /** True when another should take over: it was drained, is no supplier of the service any more, or is in reserve alone. */
  isDrained(endpoint: SupplierEndpoint): boolean {
    if (this.#modules.isDrained(endpoint.operator)) return true;
    const key = keyOf(endpoint);
    const endpoints = this.#endpoints();
    const own = endpoints.find((one) => keyOf(one) === key);
    if (own === undefined) return true;
    if (own.isReserve !== true) return false;
    const nowMs = this.#modules.clock.monotonicMs();
    return endpoints.some(
      (one) => one.isReserve !== true && !this.#modules.isDrained(one.operator) && this.#pausedForMs(one, nowMs) <= 0,
    );
  }

  #pausedForMs(endpoint: SupplierEndpoint, nowMs: number): number {
    return (this.#records.get(keyOf(endpoint))?.pausedUntilMs ?? 0) - nowMs;
  }

  #endpoints(): readonly SupplierEndpoint[] {
    return this.#suppliers.endpoints().filter(({ rpcType }) => rpcType === "websocket");
  }

  /** In the order in which they should be tried: those in reserve come late, those that are paused after failures last; none only when all are drained. */
  order(): readonly SupplierEndpoint[] {
    const nowMs = this.#modules.clock.monotonicMs();
    const endpoints = this.#endpoints();
    const keys = new Set(endpoints.map(keyOf));
    this.#records = new Map([...this.#records].filter(([key]) => keys.has(key)));
    const rank = (endpoint: SupplierEndpoint): number => {
      const pauseMs = this.#pausedForMs(endpoint, nowMs);
      if (pauseMs > 0) return 2 + pauseMs;
      return (endpoint.isReserve === true ? 1 : 0) + this.#modules.random();
    };
    return endpoints
      .filter(({ operator }) => !this.#modules.isDrained(operator))
      .map((endpoint) => ({ endpoint, rank: rank(endpoint) }))
      .sort((a, b) => a.rank - b.rank)
      .map(({ endpoint }) => endpoint);
  }

  /** It could not be used; others are preferred for a while. */
  failed(endpoint: SupplierEndpoint): void {
    const { clock, random } = this.#modules;
    const failures = (this.#records.get(keyOf(endpoint))?.failures ?? 0) + 1;
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures, 16)) * (0.8 + 0.4 * random());
    this.#records.set(keyOf(endpoint), { failures, pausedUntilMs: clock.monotonicMs() + pauseMs });
  }

  /** It serves another chain. */
  wrongChain(endpoint: SupplierEndpoint): void {
    this.#records.set(keyOf(endpoint), {
      failures: 1,
      pausedUntilMs: this.#modules.clock.monotonicMs() + WRONG_CHAIN_PAUSE_MS,
    });
  }

  /** It is in use and works. */
  good(endpoint: SupplierEndpoint): void {
    this.#records.delete(keyOf(endpoint));
  }
}

function keyOf({ operator, backendKey }: SupplierEndpoint): string {
  return `${backendKey} ${operator}`;
}
