import { type Clock, failureCode, type Log } from "@turnpike/base";
import type { EvmRpc } from "../evm/rpc.ts";
import { hasFinalBatchContract, readBatchContract, SETTLEMENT_BATCH_ADDRESS } from "../evm/settlement-batch.ts";
import type { ChainRules } from "./options.ts";

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
 * The contract SettlementBatch on one network. It is used where it is deployed for good: then no payer's code runs in a
 * transaction of plain payments, whatever code an account has by the time of the block. A deployment that a re-organisation
 * may undo is not used: a call of an account without code succeeds, and settles nothing.
 */
export class BatchContract {
  readonly #finalityBlocks: number;
  readonly #modules: BatchContractModules;
  #isDeployed = false;
  /** Message in the log, which has each state once. */
  #lastMessage = "";
  /** Monotonic milliseconds. */
  #lookAtMs = Number.NEGATIVE_INFINITY;

  constructor({ finalityBlocks }: Pick<ChainRules, "finalityBlocks">, modules: BatchContractModules) {
    this.#finalityBlocks = finalityBlocks;
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
      const isThere = (await readBatchContract(rpc, signal)) === "deployed";
      this.#isDeployed = isThere && (await hasFinalBatchContract(rpc, this.#finalityBlocks, signal));
      if (this.#isDeployed) this.#log("info", "settlement contract in use");
      else if (isThere) this.#log("info", "settlement contract too new: small batches by Multicall3 for now");
      else this.#log("warn", "settlement contract not deployed: small batches by Multicall3");
    } catch (error) {
      log.warn({ code: failureCode(error) }, "settlement contract could not be looked for yet");
    }
  }

  /** The chain did not answer as the contract does: a re-organisation may have taken it. */
  distrust(): void {
    this.#isDeployed = false;
    this.#lookAtMs = this.#modules.clock.monotonicMs() + LOOK_MS;
  }

  #log(level: "info" | "warn", message: string): void {
    if (message === this.#lastMessage) return;
    this.#lastMessage = message;
    this.#modules.log[level]({ contract: SETTLEMENT_BATCH_ADDRESS, maxUnlimited: MAX_UNLIMITED }, message);
  }
}
