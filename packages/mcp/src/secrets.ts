import { isRecord } from "@turnpike/base";

function payloadOf(payment: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(Buffer.from(payment, "base64").toString("utf8"));
    return isRecord(value) && isRecord(value.payload) ? value.payload : {};
  } catch {
    return {};
  }
}

function signatureOf(payment: string): string[] {
  const { signature } = payloadOf(payment);
  return typeof signature === "string" && signature.length >= 64 ? [signature, signature.replace(/^0x/, "")] : [];
}

/** A block of a chain that lags may still be of a time that has passed. */
const MARGIN_MS = 60_000;

/**
 * From when on nobody can take a payment any more, in milliseconds since the Unix epoch, with a margin for chains whose
 * clock lags; infinite where the payment does not say.
 */
export function untakeableFromMs(payment: string): number {
  const { authorization } = payloadOf(payment);
  const ends = isRecord(authorization) ? authorization.validBefore : undefined;
  return typeof ends === "string" && /^\d{1,15}$/.test(ends)
    ? Number(ends) * 1_000 + MARGIN_MS
    : Number.POSITIVE_INFINITY;
}

/**
 * Takes a signed payment and its signature out of a text that somebody else wrote: a gateway may echo what it was sent.
 */
export function withoutPayment(text: string, payment: string | undefined): string {
  if (payment === undefined || payment === "") return text;
  return [payment, ...signatureOf(payment)].reduce((at, secret) => at.replaceAll(secret, "[signature]"), text);
}
