import { type Address, bytesEqual, type NetworkId, type ServiceId, type SettlementId } from "@turnpike/base";
import type { ClaimResult, Ledger } from "./ledger-types.ts";
import type { Sale } from "./settler.ts";
import type {
  DecodedPayment,
  Evidence,
  PaymentKey,
  PaymentRecord,
  PresentedPayment,
  VerifiedPayment,
} from "./types.ts";

const NETWORK = /^eip155:[1-9][0-9]{0,31}$/;
const ADDRESS = /^0x[0-9a-fA-F]{40}$/;

/** What names a payment on the chain: the parts in the ledger's spelling. */
export function paymentKey(
  option: { readonly network: NetworkId; readonly asset: Address },
  { authorization }: PresentedPayment,
): PaymentKey {
  return {
    network: option.network,
    asset: option.asset.toLowerCase() as Address,
    from: authorization.from.toLowerCase() as Address,
    nonce: authorization.nonce,
  };
}

/**
 * The same for a payment whose `accepted` is not (or no longer) an offer of ours; undefined when it cannot name one.
 * For looking up what was accepted when the offer was another, and for nothing else.
 */
export function presentedKey(payment: PresentedPayment): PaymentKey | undefined {
  const { network, asset } = payment.accepted;
  if (typeof network !== "string" || typeof asset !== "string") return undefined;
  if (!NETWORK.test(network) || !ADDRESS.test(asset)) return undefined;
  return paymentKey({ network: network as NetworkId, asset: asset as Address }, payment);
}

/** What a payment is for, beside itself. */
export interface PaymentPurpose {
  readonly serviceId: ServiceId;
  /** What the payment is bound to. */
  readonly requestHash: Uint8Array;
  readonly identifier: string | undefined;
}

/** A verified payment as the ledger will hold it; its id is given by the claim. */
export function newRecord(verified: VerifiedPayment, purpose: PaymentPurpose, nowMs: number): PaymentRecord {
  const { payment, kind } = verified;
  const { authorization, option }: DecodedPayment = payment;
  return {
    id: "" as SettlementId,
    key: paymentKey(option, payment),
    payTo: option.payTo,
    value: authorization.value,
    validAfter: authorization.validAfter,
    validBefore: authorization.validBefore,
    signature: payment.signature,
    kind,
    serviceId: purpose.serviceId,
    payloadDigest: payment.payloadDigest,
    requestHash: purpose.requestHash,
    identifier: purpose.identifier,
    state: "claimed",
    reason: undefined,
    transaction: undefined,
    evidence: undefined,
    answerExpiresAtMs: undefined,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
  };
}

/** The payment of a claim that was made. */
export function claimedRecord(
  record: PaymentRecord,
  { id, waits }: Extract<ClaimResult, { readonly kind: "claimed" }>,
): PaymentRecord {
  return { ...record, id, ...(waits === true ? { waits } : {}) };
}

/** Time that is left of a payment's window, by the chain's time at its verification. */
export function windowMsOf({ payment, chainTimeSeconds }: VerifiedPayment): number {
  return (Number(payment.authorization.validBefore) - chainTimeSeconds) * 1_000;
}

/** What a settler is asked of a payment before it is claimed, for a call of `workMs` at most. */
export function saleOf(verified: VerifiedPayment, workMs = 0): Sale {
  const { option, authorization, signature } = verified.payment;
  return {
    network: option.network,
    asset: option.asset,
    payTo: option.payTo,
    from: authorization.from,
    kind: verified.kind,
    value: authorization.value,
    gas: verified.gas,
    signatureBytes: signature.length,
    spareMs: windowMsOf(verified) - workMs,
  };
}

/** How a claim stands in the ledger once this process has committed that it is settled by this evidence. */
export function settledBy(record: PaymentRecord, evidence: Evidence): PaymentRecord {
  return { ...record, state: "settled", transaction: evidence.transaction, evidence };
}

/** True when both are one payment for one request: a released nonce may be claimed again for another. */
function samePurpose(
  a: Pick<PaymentRecord, "payloadDigest" | "requestHash">,
  b: Pick<PaymentRecord, "payloadDigest" | "requestHash">,
): boolean {
  return bytesEqual(a.payloadDigest, b.payloadDigest) && bytesEqual(a.requestHash, b.requestHash);
}

/**
 * How a claim stands now. One that was lost stands as the newer claim of its authorization, where that is for the same
 * request; a newer claim for anything else has paid nothing for this one, which is released.
 */
export async function standingOf(ledger: Pick<Ledger, "newest">, record: PaymentRecord): Promise<PaymentRecord> {
  const now = await ledger.newest(record.id);
  if (now === undefined) return record;
  return samePurpose(now, record) ? now : { ...record, state: "released" };
}
