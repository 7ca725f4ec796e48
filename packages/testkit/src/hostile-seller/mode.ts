import type { ServerResponse } from "node:http";
import type { ChainTransfer, PaymentsChain, SignedPayment } from "./payments-chain.ts";

/** A request for a service. */
export interface SellerRequest {
  readonly verb: string;
  /** Path with its query. */
  readonly path: string;
  readonly body: string;
}

/** A request without a payment. */
export interface UnpaidCall {
  readonly request: SellerRequest;
  readonly response: ServerResponse;
  /** Requests without a payment so far, this one among them. */
  readonly count: number;
  /** Sends the 402 with these payment options. */
  readonly terms: (accepts: readonly unknown[]) => void;
}

/** A request with a payment. */
export interface PaidCall {
  readonly request: SellerRequest;
  readonly response: ServerResponse;
  readonly payment: SignedPayment;
  /** Times that this payment was presented, this one among them. */
  readonly presentations: number;
  /** Different payments that were presented so far. */
  readonly payments: number;
  readonly chain: PaymentsChain;
  /** The payment's transfer; undefined while the mode has not settled it. */
  readonly transfer: ChainTransfer | undefined;
  /** The header of a receipt of success, with some of its members changed. */
  readonly receipt: (change?: Readonly<Record<string, unknown>>) => Readonly<Record<string, string>>;
  /** Sells as an honest gateway does: 200, a receipt, and `data` (JSON) in the envelope. */
  readonly sell: (data?: string) => void;
}

/** One way to be hostile. An honest seller is the default of each member. */
export interface SellerMode {
  readonly kind: "terms" | "answer" | "receipt" | "refusal" | "document" | "timing";
  /** False: the seller does not settle before it answers a paid request. */
  readonly settles?: boolean;
  /** Answers a request without a payment; the usual terms by default. */
  readonly unpaid?: (call: UnpaidCall) => void;
  /** Answers a request with a payment; a sale by default. */
  readonly paid?: (call: PaidCall) => void | Promise<void>;
  /** Answers `/services.json` and the like; true when it did. */
  readonly document?: (path: string, response: ServerResponse) => boolean;
}

/** Modes by name. Another file of modes is one such table, which `modes.ts` adds to the others. */
export type SellerModes = Readonly<Record<string, SellerMode>>;
