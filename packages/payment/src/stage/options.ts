import type { Clock, FaultPoints, Log, Metrics, NetworkId } from "@turnpike/base";
import type { Ledger } from "../ledger-types.ts";
import type { OptionNetwork } from "../option.ts";
import type { Settler } from "../settler.ts";
import type { Verifier } from "../types.ts";
import type { SharedTokens, UnpaidLimit, UnpaidRule } from "../unpaid-limit.ts";

/** Times and bounds of the payment stage, and where it takes payments. */
export interface PaymentStageOptions {
  /** Longest time for an upstream to answer a paid request. */
  readonly upstreamTimeoutMs: number;
  /** Time kept between the upstream's deadline and the end of the payment's window, for settling. */
  readonly settleMarginMs: number;
  /** How long an answer waits for its settlement before it is said to be pending. */
  readonly settleWaitMs: number;
  /** `Retry-After` of a pending settlement. */
  readonly retryAfterSeconds: number;
  /** How often a payment that another process works on is looked at. */
  readonly pollMs: number;
  /** Copies of payments that may wait at once, over all payments: each holds a request open. */
  readonly maxWaitingCopies: number;
  /**
   * Time after its settlement in which a payment without an answer key gets its stored answer: its bytes are public by then, so
   * it is for clients that send again at once.
   */
  readonly keylessAnswerMs: number;
  /** Where payments are taken: what is not sold any more has no option of its own. */
  readonly networks: readonly OptionNetwork[];
  /** Claims of one payer that may end without paying, or be under way. */
  readonly unpaidPerPayer: () => UnpaidRule;
}

/** The stage owns none of these. */
export interface PaymentStageModules {
  readonly verifier: Verifier;
  readonly ledger: Ledger;
  readonly settlers: readonly Settler[];
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
  /** Tokens of payers that other machines have too; without it each counts for itself. */
  readonly payerTokens?: SharedTokens;
}

/** What the steps of the stage share. */
export interface StageParts extends Omit<PaymentStageModules, "settlers" | "payerTokens"> {
  readonly settlers: ReadonlyMap<NetworkId, Settler>;
  /** Claims that end without paying, by payer. */
  readonly payers: UnpaidLimit;
  /** Fires when the stage is disposed of. */
  readonly stopping: AbortSignal;
}
