import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { type ClientKey, ClientQueue, type Clock, systemClock } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import type { TxResult } from "../state/outcome.ts";
import { txSizeFault } from "../tx/tx-bounds.ts";

/** Bounds of {@link Simulations}. */
export interface SimulationBounds {
  /** Most gas that one may use. */
  readonly maxGas: bigint;
  /** Simulations that may wait for the one that runs. */
  readonly maxWaiting: number;
}

/**
 * The bounds of a node. 100 million units are those of a hundred claims on a service
 * that a thousand suppliers are staked for.
 */
export const SIMULATION_BOUNDS: SimulationBounds = { maxGas: 100_000_000n, maxWaiting: 64 };

export interface SimulationsModules {
  /** Whether they run on a thread that has other work. */
  readonly pauses: boolean;
  readonly clock?: Clock;
  readonly wait?: (timeMs: number) => Promise<void>;
}

/** Runs a transaction up to this gas limit and discards its writes; undefined when it cannot now. */
export type Simulate<T> = (tx: Bytes, maxGas: bigint) => T | undefined | Promise<T | undefined>;

interface Waiting {
  readonly tx: Bytes;
  /** Runs it, up to the first thing that is awaited at once. Never rejects. */
  readonly run: () => Promise<void>;
  readonly refuse: () => void;
}

/**
 * Queue of a node's simulations, whose callers need no key and pay no fee. They run one at a time; on the thread that makes blocks
 * each is followed by a pause as long as the run, so that blocks and other queries have at least half of it. Clients are served round-robin, and
 * the shortest transaction of a client runs first; when the queue is full, the longest of the client with most of them is refused,
 * so that neither large ones nor many of one client starve wallets.
 */
export class Simulations {
  readonly #bounds: SimulationBounds;
  readonly #modules: Required<SimulationsModules>;
  /** Those of a client ordered by length, then by arrival. */
  readonly #waiting = new ClientQueue<Waiting>({ compare: (a, b) => a.tx.length - b.tx.length });
  #isRunning = false;

  constructor(bounds: SimulationBounds, { pauses, clock = systemClock, wait = pause }: SimulationsModules) {
    this.#bounds = bounds;
    this.#modules = { pauses, clock, wait };
  }

  /** The fault of a transaction that is longer than a simulation's may be. */
  sizeFault(tx: Bytes): TxResult | undefined {
    const fault = txSizeFault(tx);
    if (fault === undefined) return undefined;
    const { code, codespace, text: log } = fault;
    return { code, codespace, log, data: new Uint8Array(0), gasWanted: 0n, gasUsed: 0n, events: [] };
  }

  /** Queues a transaction that {@link sizeFault} accepts, and simulates it; undefined when the queue is full. */
  run<T>(tx: Bytes, simulate: Simulate<T>, client?: ClientKey): Promise<T | undefined> {
    const { maxGas, maxWaiting } = this.#bounds;
    return new Promise((resolve, reject) => {
      const run = async (): Promise<void> => {
        try {
          resolve(await simulate(tx, maxGas));
        } catch (error) {
          reject(error);
        }
      };
      this.#waiting.add(client, { tx, run, refuse: () => resolve(undefined) });
      if (!this.#isRunning) void this.#runAll();
      if (this.#waiting.size > maxWaiting) this.#waiting.dropLast(client)?.refuse();
    });
  }

  async #runAll(): Promise<void> {
    const { clock, wait, pauses } = this.#modules;
    this.#isRunning = true;
    for (let next = this.#waiting.take(); next !== undefined; next = this.#waiting.take()) {
      const startedMs = clock.monotonicMs();
      const running = next.run();
      const tookMs = clock.monotonicMs() - startedMs;
      if (!pauses) await running;
      else if (tookMs < 1) await nextTurn();
      else await wait(tookMs);
    }
    this.#isRunning = false;
  }
}

const pause = (timeMs: number): Promise<void> => sleep(timeMs);
