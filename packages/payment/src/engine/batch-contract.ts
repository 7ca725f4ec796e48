import { type Clock, failureCode, type Log } from "@turnpike/base";
import type { EvmRpc } from "../evm/rpc.ts";
import { readBatchContract, SETTLEMENT_BATCH_ADDRESS } from "../evm/settlement-batch.ts";

/**
 * Maximum number of payments that share a transaction by Multicall3: one of them can burn the gas of all others, which is
 * 1,080,000 with the default limit of a transfer.
 */
export const MAX_UNLIMITED = 8;
/** Pause until the contract is looked for again where it is not deployed. */
const LOOK_MS = 60_000;

/** Modules of a {@link BatchContract}, which owns none of them. */
export interface BatchContractModules {
  readonly rpc: EvmRpc;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * The contract SettlementBatch on one network. It is used where it is deployed: then no payer's code runs in a transaction
 * of plain payments, whatever code an account has by the time of the block.
 */
export class BatchContract {
  readonly #modules: BatchContractModules;
  #isDeployed = false;
  #isWarned = false;
  /** Monotonic milliseconds. */
  #lookAtMs = Number.NEGATIVE_INFINITY;

  constructor(modules: BatchContractModules) {
    this.#modules = modules;
  }

  /**
   * True when plain payments go through the contract, also one by itself, which takes 4,500 gas more; else they share a
   * transaction by Multicall3.
   */
  get isUsed(): boolean {
    return this.#isDeployed;
  }

  /** Maximum number of payments that share a transaction now, where so many may. */
  limit(maxBatch: number): number {
    return this.#isDeployed ? maxBatch : Math.min(maxBatch, MAX_UNLIMITED);
  }

  /** Looks for the contract when that is due. Never rejects: without an answer of the node nothing changes. */
  async refresh(signal: AbortSignal): Promise<void> {
    const { rpc, clock, log } = this.#modules;
    const nowMs = clock.monotonicMs();
    if (this.#isDeployed || nowMs < this.#lookAtMs) return;
    this.#lookAtMs = nowMs + LOOK_MS;
    try {
      this.#isDeployed = (await readBatchContract(rpc, signal)) === "deployed";
    } catch (error) {
      log.warn({ code: failureCode(error) }, "settlement contract could not be looked for yet");
      return;
    }
    if (this.#isDeployed) log.info({ contract: SETTLEMENT_BATCH_ADDRESS }, "settlement contract in use");
    else if (!this.#isWarned) {
      this.#isWarned = true;
      log.warn(
        { contract: SETTLEMENT_BATCH_ADDRESS, maxBatch: MAX_UNLIMITED },
        "settlement contract not deployed: small batches by Multicall3",
      );
    }
  }

  /** The chain did not answer as the contract does: a re-organisation may have taken it. */
  distrust(): void {
    this.#isDeployed = false;
    this.#lookAtMs = this.#modules.clock.monotonicMs() + LOOK_MS;
  }
}
