import type { Address, ErrorCode, NetworkId, ServiceId, SettlementId } from "@turnpike/base";

/** One way to pay, as a 402 offers it (x402 v2 `PaymentRequirements`, scheme `exact` on EVM by EIP-3009). */
export interface PaymentOption {
  readonly scheme: "exact";
  readonly network: NetworkId;
  /** Decimal integer in the asset's smallest unit. */
  readonly amount: string;
  /** Token contract, spelled as in the configuration. */
  readonly asset: Address;
  readonly payTo: Address;
  readonly maxTimeoutSeconds: number;
  /** EIP-712 domain name and version of the token. */
  readonly extra: { readonly name: string; readonly version: string };
}

/** `TransferWithAuthorization` of EIP-3009, decoded from a payload. */
export interface Authorization {
  readonly from: Address;
  readonly to: Address;
  readonly value: bigint;
  /** Unix seconds. */
  readonly validAfter: bigint;
  /** Unix seconds. */
  readonly validBefore: bigint;
  /** 32 bytes as `0x` and lower-case hex. */
  readonly nonce: `0x${string}`;
}

/** A strictly decoded PAYMENT-SIGNATURE header. Nothing in it is verified yet, nor compared with an offer. */
export interface PresentedPayment {
  /** The `accepted` member as sent. */
  readonly accepted: Readonly<Record<string, unknown>>;
  readonly authorization: Authorization;
  readonly signature: Uint8Array;
  /** SHA-256 of the decoded payload bytes: only a byte-equal payload joins the first one's outcome. */
  readonly payloadDigest: Uint8Array;
  /** `payment-identifier` extension, when the client sent one. */
  readonly identifier: string | undefined;
  /** True when the payload has an `answer-key` extension: then it has bytes that its settlement transaction does not show. */
  readonly hasAnswerKey: boolean;
}

/** A presented payment whose `accepted` is one of the offered options. */
export interface DecodedPayment extends PresentedPayment {
  /** Our own object, as offered. */
  readonly option: PaymentOption;
}

/** What names a payment on its chain: a token spends each nonce of a payer once. `from` and `asset` in lower case. */
export interface PaymentKey {
  readonly network: NetworkId;
  readonly asset: Address;
  readonly from: Address;
  readonly nonce: `0x${string}`;
}

/** How the payer's signature is checked by the token: by ecrecover, by the wallet, or by a wallet not yet deployed. */
export type PayerKind = "eoa" | "erc1271" | "erc6492";

/** A payment that the chain would accept at {@link blockNumber}. */
export interface VerifiedPayment {
  readonly payment: DecodedPayment;
  readonly kind: PayerKind;
  /** Payer's balance of the asset at {@link blockNumber}. */
  readonly balance: bigint;
  readonly blockNumber: bigint;
  /** Best estimate of the chain's time now, in Unix seconds. */
  readonly chainTimeSeconds: number;
  /** Estimated gas of its settlement, where that runs the payer's code. */
  readonly gas?: bigint;
}

/** Why a payment is refused; `retryable` refusals are about us, not about the payment. */
export interface PaymentRefusal {
  readonly ok: false;
  readonly code: ErrorCode;
  /** Safe to show; says what was wrong. */
  readonly message?: string;
  /** When it may be presented again, where that is known. */
  readonly retryAfterSeconds?: number;
  /** Receipt of the payment that is in its way, where the request has that payment's own bytes or is its payer's. */
  readonly receipt?: Receipt;
}

/** Result of a verification. Expected refusals are values. */
export type Verification = ({ readonly ok: true } & VerifiedPayment) | PaymentRefusal;

/** Checks payments against their chain. */
export interface Verifier {
  /**
   * Checks that need no chain state but an estimate of its time: receiver, value, window, and an EOA's signature.
   * `signer` says whose signature it is: the payer's own key, or another one (then only the chain can decide, as the
   * payer may be a contract wallet). `known` is that, where it was found out before: no signature is recovered twice.
   */
  checkFree(
    payment: DecodedPayment,
    known?: "payer" | "unknown",
  ): Promise<{ readonly ok: true; readonly signer: "payer" | "unknown" } | PaymentRefusal>;
  /** Everything, in one round trip to the chain. `signer` is what {@link checkFree} said. */
  checkChain(
    payment: DecodedPayment,
    signer: "payer" | "unknown",
    signal?: AbortSignal,
    client?: string,
  ): Promise<Verification>;
  /** An account's balance, and which of these nonces are used, in one block; those that were cancelled are not. */
  readFunds(account: FundsAccount, nonces: readonly `0x${string}`[]): Promise<PayerFundsReading>;
}

/** An account and the token that it pays in. */
export interface FundsAccount {
  readonly network: NetworkId;
  readonly asset: Address;
  readonly from: Address;
}

/** See {@link Verifier.readFunds}. */
export interface PayerFundsReading {
  readonly balance: bigint;
  /** By nonce, in the order asked for. A cancelled nonce is not used: it moved no money. */
  readonly used: readonly boolean[];
}

/**
 * States of a payment in the ledger.
 *
 * claimed → released | signed | submitted
 * signed (the checked answer and the signed transaction are durable; it may be on its way) → settled | failed
 * submitted (the checked answer is durable; a remote facilitator was asked) → settled | failed
 * settled → signed | submitted (its block was re-organised away)
 * failed → settled (evidence came late: the answer is handed out after all)
 * released → claimed (nothing was charged: the same authorization may be presented again)
 * released | failed → owed (somebody put the authorization on the chain although we gave no answer)
 * settled → disputed (re-organised away and can no longer be settled: served, unpaid)
 */
export type PaymentState = "claimed" | "released" | "signed" | "submitted" | "settled" | "failed" | "owed" | "disputed";

/** The HTTP answer that is sold, kept so that the same signature gets it again. */
export interface StoredAnswer {
  readonly contentType: string;
  readonly body: Uint8Array;
}

/** Where a settlement was seen on its chain: the `Transfer` that followed its `AuthorizationUsed`. */
export interface Evidence {
  readonly transaction: `0x${string}`;
  readonly blockNumber: bigint;
  readonly blockHash: `0x${string}`;
  /** Place of the `Transfer` among the logs of the block; no two payments have the same one. */
  readonly logIndex: number;
}

/** One payment as the ledger holds it. */
export interface PaymentRecord {
  readonly id: SettlementId;
  readonly key: PaymentKey;
  readonly payTo: Address;
  readonly value: bigint;
  readonly validAfter: bigint;
  readonly validBefore: bigint;
  readonly signature: Uint8Array;
  readonly kind: PayerKind;
  readonly serviceId: ServiceId;
  readonly payloadDigest: Uint8Array;
  readonly requestHash: Uint8Array;
  readonly identifier: string | undefined;
  /** Set for a claim that has no place among those of its payer yet. */
  readonly waits?: true;
  readonly state: PaymentState;
  /** Why it was released, failed, owed or disputed. */
  readonly reason: ErrorCode | undefined;
  /** Newest transaction that carries it: of ours, or where evidence was found. */
  readonly transaction: `0x${string}` | undefined;
  readonly evidence: Evidence | undefined;
  /** Unix milliseconds after which the answer may be deleted; undefined while there is none. */
  readonly answerExpiresAtMs: number | undefined;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** Receipt in PAYMENT-RESPONSE (x402 v2 `SettleResponse`). */
export interface Receipt {
  readonly success: boolean;
  readonly transaction: string;
  readonly network: NetworkId;
  readonly payer: Address;
  readonly errorReason?: string;
  readonly errorMessage?: string;
  readonly amount?: string;
  readonly extensions?: { readonly settlement: { readonly id: SettlementId; readonly status: string } };
}

/** How a presented payment ended, or stands. */
export type Outcome =
  | {
      readonly kind: "settled";
      readonly receipt: Receipt;
      readonly answer: StoredAnswer;
      readonly settlementId: SettlementId;
    }
  | {
      /** Paid, and there is no answer to hand out: not any more, or there never was one. */
      readonly kind: "expired";
      readonly code: "PAYMENT_CONFLICT" | "PAYMENT_OWED";
      readonly receipt: Receipt;
      readonly settlementId: SettlementId;
    }
  | {
      readonly kind: "pending";
      readonly receipt: Receipt;
      readonly retryAfterSeconds: number;
      readonly settlementId: SettlementId;
    }
  | {
      readonly kind: "failed";
      readonly receipt: Receipt;
      readonly code: ErrorCode;
      readonly settlementId: SettlementId;
    }
  | { readonly kind: "released"; readonly code: ErrorCode };
