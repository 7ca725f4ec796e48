import { createHash, randomBytes } from "node:crypto";
import { isRecord } from "@turnpike/base";
import type { PaymentPayload } from "@x402/core/types";

/** Facts of a PAYMENT-SIGNATURE header of the scheme `exact`, unchecked. */
export interface PaymentFacts {
  readonly network: string;
  readonly asset: string;
  readonly from: string;
  /** Empty where the header has none. */
  readonly to: string;
  /** Empty where the header has none. */
  readonly nonce: string;
  /** In the asset's smallest unit. */
  readonly value: bigint;
  /** When the authorization ends, in seconds since the Unix epoch. */
  readonly validBefore: bigint;
}

/** Maximum length of a header that is read. */
const MAX_HEADER_LENGTH = 64 * 1024;
/** A block of a chain that lags may still be of a time that has passed. */
const MARGIN_MS = 60_000;
const UINT = /^[0-9]{1,78}$/;

/**
 * A payload with a random `answer-key` extension. All its other bytes are public once its settlement is on the chain; a gateway
 * hands the stored answer out to an equal payload, which only its buyer can send then.
 */
export function withAnswerKey(payload: PaymentPayload): PaymentPayload {
  const key = randomBytes(32).toString("base64url");
  return { ...payload, extensions: { ...payload.extensions, "answer-key": { info: { key } } } };
}

function jsonOf(header: string): unknown {
  if (header.length > MAX_HEADER_LENGTH) return undefined;
  try {
    return JSON.parse(Buffer.from(header, "base64").toString("utf8")) as unknown;
  } catch {
    return undefined;
  }
}

/** Reads a payment; undefined when it is none of the scheme `exact`. */
export function readPayment(header: string): PaymentFacts | undefined {
  const json = jsonOf(header);
  if (!isRecord(json) || !isRecord(json.accepted) || !isRecord(json.payload)) return undefined;
  const { network, asset } = json.accepted;
  const { authorization } = json.payload;
  if (!isRecord(authorization)) return undefined;
  const { from, to, value, validBefore, nonce } = authorization;
  if (typeof network !== "string" || typeof asset !== "string" || typeof from !== "string") return undefined;
  if (typeof value !== "string" || !UINT.test(value)) return undefined;
  if (typeof validBefore !== "string" || !UINT.test(validBefore)) return undefined;
  return {
    network,
    asset,
    from,
    to: typeof to === "string" ? to : "",
    nonce: typeof nonce === "string" ? nonce : "",
    value: BigInt(value),
    validBefore: BigInt(validBefore),
  };
}

/**
 * Identity of a payment: equal for all headers with one authorization, which a chain takes once, however they are encoded. That of a
 * header without a nonce is its text.
 */
export function authorizationId(header: string): string {
  const facts = readPayment(header);
  const { network, asset, from, nonce } = facts ?? { nonce: "" };
  const named = nonce === "" ? header : JSON.stringify([network, asset, from, nonce]).toLowerCase();
  return createHash("sha256").update(named).digest("hex");
}

/**
 * From when on a payment cannot be taken any more, in milliseconds since the Unix epoch, with a margin for chains whose
 * clock lags; infinite where the payment does not say.
 */
export function untakeableFromMs(header: string): number {
  const facts = readPayment(header);
  return facts === undefined ? Number.POSITIVE_INFINITY : Number(facts.validBefore) * 1_000 + MARGIN_MS;
}
