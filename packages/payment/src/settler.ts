import type { NetworkId } from "@turnpike/base";
import type { PaymentRecord, StoredAnswer } from "./types.ts";

/**
 * Settles claimed payments of the networks it knows: the engine with our own relayer keys, or a remote facilitator.
 * `settle` first commits the checked answer (with the signed transaction, or as submitted), then sends. It resolves
 * when the payment is resolved in the ledger or `signal` fires, whichever is first; it never says more than the
 * ledger. It rejects only when the answer was NOT committed: then nothing was sent, and the claim may be released.
 */
export interface Settler extends AsyncDisposable {
  readonly networks: readonly NetworkId[];
  settle(payment: PaymentRecord, answer: StoredAnswer, signal: AbortSignal): Promise<void>;
  /** Resolves when a payment that was committed earlier is resolved, or `signal` fires. */
  wait(payment: PaymentRecord, signal: AbortSignal): Promise<void>;
  /** What is missing before payments of one network can be settled, or of any; empty when ready. */
  missing(network?: NetworkId): readonly string[];
}
