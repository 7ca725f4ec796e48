import type { Address, NetworkId, ServiceId } from "@turnpike/base";
import type { Evidence, PayerKind, PaymentRecord, PaymentRefusal, StoredAnswer } from "./types.ts";

/** A verified payment before anything is claimed or done for it. */
export interface Sale {
  readonly network: NetworkId;
  readonly asset: Address;
  readonly payTo: Address;
  /** Name of the sale in the ledger, where it is known. */
  readonly serviceId?: ServiceId;
  readonly from: Address;
  readonly kind: PayerKind;
  /** In the asset's smallest unit. */
  readonly value: bigint;
  /** Estimated gas of its settlement, where that runs the payer's code. */
  readonly gas?: bigint | undefined;
  /** Length of its signature, which is sent with it; that of a usual one by default. */
  readonly signatureBytes?: number;
  /** Time that is left of the payment's window when its settlement begins, at least; in milliseconds. */
  readonly spareMs: number;
}

/**
 * Settles claimed payments of the networks it knows: the engine with our own relayer keys, or a remote facilitator.
 * `settle` first commits the checked answer (with the signed transaction, or as submitted), then sends. It resolves
 * when the payment is resolved in the ledger or `signal` fires, whichever is first; it never says more than the
 * ledger. It rejects only when the answer was NOT committed: then nothing was sent, and the claim may be released.
 * A claim that it has not committed when it resolves is released too, so its own commit may be refused from then on.
 * It resolves with evidence when this process has committed to the ledger, meanwhile, that this very claim is settled by
 * it; with undefined the ledger has to be asked how the payment stands.
 */
export interface Settler extends AsyncDisposable {
  readonly networks: readonly NetworkId[];
  /**
   * Reserves what the settlement of a claim takes of what payments share, before the claim is served: without it, a supplier works
   * for a payment that may then be refused. Ends with the claim. Waits for `waitMs` at most; of the waits of all, `client` has its
   * share. The result says why nothing is reserved; then nothing is served.
   */
  reserve(
    payment: PaymentRecord,
    waitMs: number,
    signal: AbortSignal,
    client?: string,
  ): Promise<PaymentRefusal | undefined>;
  settle(payment: PaymentRecord, answer: StoredAnswer, signal: AbortSignal): Promise<Evidence | undefined>;
  /** Resolves when a payment that was committed earlier is resolved, or `signal` fires. */
  wait(payment: PaymentRecord, signal: AbortSignal): Promise<void>;
  /** What is missing before payments of one network can be settled, or of any; empty when ready. */
  missing(network?: NetworkId): readonly string[];
  /** Why this sale should not be begun, by the operator's rule for what costs more than it brings; without it, all are. */
  refusal?(sale: Sale): PaymentRefusal | undefined;
}
