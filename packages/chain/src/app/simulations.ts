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
 * The bounds of a node. No mempool takes a longer transaction, and 50 million units are those of some 800 claims or 250 proofs
 * in one: they take a fifth of a second of the thread that makes blocks.
 */
export const SIMULATION_BOUNDS: SimulationBounds = { maxTxBytes: 1_048_576, maxGas: 50_000_000n, maxWaiting: 16 };

/** What {@link Simulations} works with. */
export interface SimulationsModules {
  /** Runs a transaction with so much gas, and keeps nothing. */
  readonly simulate: (tx: Bytes, maxGas: bigint) => TxResult;
  readonly clock?: Clock;
  readonly wait?: (timeMs: number) => Promise<void>;
}

/**
 * Simulations of a node, whose callers need no key and pay no fee: one at a time, each followed by a rest as long as it took,
 * so that blocks and other queries have at least half of the thread.
 */
export class Simulations {
  readonly #bounds: SimulationBounds;
  readonly #modules: Required<SimulationsModules>;
  readonly #waiting: (() => void)[] = [];
  #isRunning = false;

  constructor(bounds: SimulationBounds, { simulate, clock = systemClock, wait = rest }: SimulationsModules) {
    this.#bounds = bounds;
    this.#modules = { simulate, clock, wait };
  }

  /** Simulates a transaction when its turn comes; undefined: too many wait. */
  run(tx: Bytes): Promise<TxResult> | undefined {
    const { maxTxBytes, maxGas, maxWaiting } = this.#bounds;
    if (tx.length > maxTxBytes) return Promise.resolve(tooLarge(tx.length, maxTxBytes));
    if (this.#waiting.length >= maxWaiting) return undefined;
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => {
        try {
          resolve(this.#modules.simulate(tx, maxGas));
        } catch (error) {
          reject(error);
        }
      });
      if (!this.#isRunning) void this.#runAll();
    });
  }

  async #runAll(): Promise<void> {
    const { clock, wait } = this.#modules;
    this.#isRunning = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      const startedMs = clock.monotonicMs();
      next();
      const tookMs = clock.monotonicMs() - startedMs;
      if (tookMs < 1) await nextTurn();
      else await wait(tookMs);
    }
    this.#isRunning = false;
  }
}

const rest = (timeMs: number): Promise<void> => sleep(timeMs);

// CometBFT's text of a mempool, with the SDK's code.
function tooLarge(sizeBytes: number, maxTxBytes: number): TxResult {
  const { fault } = fail(SDK.txTooLarge, `Tx too large. Max size is ${maxTxBytes}, but got ${sizeBytes}`);
  const { code, codespace, text: log } = fault;
  return { code, codespace, log, data: new Uint8Array(0), gasWanted: 0n, gasUsed: 0n, events: [] };
}
