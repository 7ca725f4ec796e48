import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { type Clock, systemClock } from "@turnpike/base";
import { fail, SDK } from "../state/outcome.ts";
import type { TxResult } from "../tx/run-tx.ts";
import type { Bytes } from "../types.ts";

/** Bounds of {@link Simulations}. */
export interface SimulationBounds {
  /** Most bytes of a transaction. */
  readonly maxTxBytes: number;
  /** Most gas that one may use. */
  readonly maxGas: bigint;
  /** Simulations that may wait for the one that runs. */
  readonly maxWaiting: number;
}

/**
 * The bounds of a node. No mempool accepts a longer transaction, and 100 million units are those of a hundred claims on a service
 * that a thousand suppliers are staked for.
 */
export const SIMULATION_BOUNDS: SimulationBounds = { maxTxBytes: 1_048_576, maxGas: 100_000_000n, maxWaiting: 64 };

/** Modules of {@link Simulations}. */
export interface SimulationsModules {
  /** Runs a transaction up to this gas limit and discards its writes. */
  readonly simulate: (tx: Bytes, maxGas: bigint) => TxResult | undefined | Promise<TxResult | undefined>;
  /** Whether they run on a thread that has other work. */
  readonly pauses: boolean;
  readonly clock?: Clock;
  readonly wait?: (timeMs: number) => Promise<void>;
}

interface Waiting {
  readonly tx: Bytes;
  readonly resolve: (result: TxResult | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Queue of a node's simulations, whose callers need no key and pay no fee. They run one at a time; on the thread that makes blocks
 * each is followed by a pause as long as the run, so that blocks and other queries have at least half of it. The queue is ordered by size: the shortest
 * transaction runs first, and when the queue is full the longest is refused, so that large ones do not starve wallets.
 */
export class Simulations {
  readonly #bounds: SimulationBounds;
  readonly #modules: Required<SimulationsModules>;
  /** Ordered by length, then by arrival. */
  readonly #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(bounds: SimulationBounds, { simulate, pauses, clock = systemClock, wait = pause }: SimulationsModules) {
    this.#bounds = bounds;
    this.#modules = { simulate, pauses, clock, wait };
  }

  /** Queues a transaction and simulates it; undefined when the queue is full. */
  run(tx: Bytes): Promise<TxResult | undefined> {
    const { maxTxBytes, maxWaiting } = this.#bounds;
    if (tx.length > maxTxBytes) return Promise.resolve(tooLarge(tx.length, maxTxBytes));
    return new Promise((resolve, reject) => {
      const longer = this.#waiting.findIndex((other) => other.tx.length > tx.length);
      this.#waiting.splice(longer < 0 ? this.#waiting.length : longer, 0, { tx, resolve, reject });
      if (!this.#isRunning) void this.#runAll();
      if (this.#waiting.length > maxWaiting) this.#waiting.pop()?.resolve(undefined);
    });
  }

  async #runAll(): Promise<void> {
    const { clock, wait, pauses } = this.#modules;
    this.#isRunning = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      const startedMs = clock.monotonicMs();
      const running = this.#run(next);
      const tookMs = clock.monotonicMs() - startedMs;
      if (!pauses) await running;
      else if (tookMs < 1) await nextTurn();
      else await wait(tookMs);
    }
    this.#isRunning = false;
  }

  // Runs up to the first thing that is awaited at once. Never rejects.
  async #run({ tx, resolve, reject }: Waiting): Promise<void> {
    try {
      resolve(await this.#modules.simulate(tx, this.#bounds.maxGas));
    } catch (error) {
      reject(error);
    }
  }
}

const pause = (timeMs: number): Promise<void> => sleep(timeMs);

// The text is that of CometBFT's mempool, the code the SDK's.
function tooLarge(sizeBytes: number, maxTxBytes: number): TxResult {
  const { fault } = fail(SDK.txTooLarge, `Tx too large. Max size is ${maxTxBytes}, but got ${sizeBytes}`);
  const { code, codespace, text: log } = fault;
  return { code, codespace, log, data: new Uint8Array(0), gasWanted: 0n, gasUsed: 0n, events: [] };
}
