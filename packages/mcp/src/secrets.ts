import { isRecord } from "@turnpike/base";

function signatureOf(payment: string): string[] {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(payment, "base64").toString("utf8"));
  } catch {
    return [];
  }
  const signature = isRecord(value) && isRecord(value.payload) ? value.payload.signature : undefined;
  return typeof signature === "string" && signature.length >= 64 ? [signature, signature.replace(/^0x/, "")] : [];
}

/**
 * Takes a signed payment and its signature out of a text that somebody else wrote: a gateway may echo what it was sent.
 */
export function withoutPayment(text: string, payment: string | undefined): string {
  if (payment === undefined || payment === "") return text;
  return [payment, ...signatureOf(payment)].reduce((at, secret) => at.replaceAll(secret, "[signature]"), text);
}
