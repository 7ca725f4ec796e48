import { failureCode, type Log, type SettlementId } from "@turnpike/base";
import type { Ledger } from "../ledger-types.ts";

/** The ledger's part of {@link ResultLease}, and where faults go. */
export interface ResultLeaseModules {
  readonly ledger: Pick<Ledger, "openResult">;
  readonly log: Log;
}

/**
 * The right of one request to have the result of a payment, of a caller whose copies look the same. It is given back, once
 * at most, when the request did not get the result: one copy may ask then.
 */
export class ResultLease {
  readonly #id: SettlementId;
  readonly #modules: ResultLeaseModules;
  #isGivenBack = false;

  /** `gone` fires when the request's connection ends before its answer is written. */
  constructor(id: SettlementId, gone: AbortSignal | undefined, modules: ResultLeaseModules) {
    this.#id = id;
    this.#modules = modules;
    if (gone?.aborted === true) void this.giveBack();
    else gone?.addEventListener("abort", () => void this.giveBack(), { once: true });
  }

  /** Never throws: a copy is refused as a duplicate then, which is safe. */
  async giveBack(): Promise<void> {
    if (this.#isGivenBack) return;
    this.#isGivenBack = true;
    const { ledger, log } = this.#modules;
    try {
      await ledger.openResult(this.#id);
    } catch (error) {
      log.warn({ settlementId: this.#id, code: failureCode(error) }, "a result could not be left to a later request");
    }
  }
}
