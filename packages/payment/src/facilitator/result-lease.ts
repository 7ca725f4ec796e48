import { failureCode, type Log, type SettlementId } from "@turnpike/base";
import type { Ledger } from "../ledger-types.ts";

/** The ledger's part of {@link ResultLease}, and where faults go. */
export interface ResultLeaseModules {
  readonly ledger: Pick<Ledger, "openResult" | "closeResult" | "holdsResult">;
  readonly log: Log;
}

/** The end of a request. */
export interface RequestEnd {
  /** Fires when its connection ends before its answer is written. */
  readonly gone: AbortSignal;
  /** Fires when its answer is written. */
  readonly sent: AbortSignal;
}

/**
 * The right of one request to have the result of a payment, of a caller whose copies look the same. It is given back, once
 * at most, when the request did not get the result: one copy may ask then.
 */
export class ResultLease {
  readonly #id: SettlementId;
  readonly #modules: ResultLeaseModules;
  readonly #leased: Promise<void>;
  #isGivenBack = false;

  /** `leased`: recording the right in the ledger, which no settlement waits for. */
  constructor(
    id: SettlementId,
    { end, leased }: { readonly end: RequestEnd | undefined; readonly leased: Promise<void> },
    modules: ResultLeaseModules,
  ) {
    this.#id = id;
    this.#modules = modules;
    this.#leased = leased.catch((error: unknown) => this.#warn(error, "the right to a result could not be recorded"));
    if (end?.gone.aborted === true) void this.giveBack();
    else end?.gone.addEventListener("abort", () => void this.giveBack(), { once: true });
    end?.sent.addEventListener("abort", () => void this.#onSent(), { once: true });
  }

  /** True unless this process counted as dead meanwhile, and another request took the result. */
  async isHeld(): Promise<boolean> {
    await this.#leased;
    return this.#isGivenBack || (await this.#modules.ledger.holdsResult(this.#id));
  }

  /** Never throws: a copy is refused as a duplicate then, which is safe. */
  async giveBack(): Promise<void> {
    if (this.#isGivenBack) return;
    this.#isGivenBack = true;
    await this.#leased;
    try {
      await this.#modules.ledger.openResult(this.#id);
    } catch (error) {
      this.#warn(error, "a result could not be left to a later request");
    }
  }

  async #onSent(): Promise<void> {
    if (this.#isGivenBack) return;
    await this.#leased;
    this.#modules.ledger.closeResult(this.#id);
  }

  #warn(error: unknown, message: string): void {
    this.#modules.log.warn({ settlementId: this.#id, code: failureCode(error) }, message);
  }
}
