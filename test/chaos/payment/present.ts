import { randomNonce } from "@turnpike/localnet";
import { type Answer, call, decodeHeader, type Payer, signPayment, type Terms } from "../../support/payer.ts";

/** A payment that was signed, as it is presented. */
export interface Signed {
  readonly header: string;
  readonly payer: `0x${string}`;
  readonly nonce: `0x${string}`;
}

/** What a presented payment came to: `SOLD`, or the code of the refusal; `NO_ANSWER` when the connection broke. */
export interface Shown {
  readonly code: string;
  readonly retryAfterMs: number;
}

const DEFAULT_RETRY_MS = 1_000;

/** What of a payment is not as its terms say. */
export interface SignChange {
  readonly signature?: `0x${string}`;
  /** Seconds by which the chain's clock is ahead of this machine's. */
  readonly aheadSeconds?: number;
}

/** Signs a payment by these terms. */
export async function sign(
  payer: Payer,
  terms: Terms,
  { signature, aheadSeconds = 0 }: SignChange = {},
): Promise<Signed> {
  const nonce = randomNonce();
  const window = terms.accepts[0]?.maxTimeoutSeconds ?? 0;
  const validBefore = String(Math.floor(Date.now() / 1_000) + aheadSeconds + window);
  const change = { authorization: { nonce, validBefore }, ...(signature === undefined ? {} : { signature }) };
  return { header: await signPayment(payer, terms, change), payer: payer.address, nonce };
}

/** A call with a payment, from a client of this address. */
export interface Presentation {
  readonly url: string;
  readonly body: unknown;
  readonly client: string;
  readonly signal?: AbortSignal;
}

/** Presents a payment to a gateway once. */
export async function present({ header }: Signed, to: Presentation): Promise<Shown> {
  const { url, body, client, signal } = to;
  const headers = { "x-forwarded-for": client };
  try {
    const answer = await call(url, body, header, { headers, ...(signal === undefined ? {} : { signal }) });
    return { code: codeOf(answer), retryAfterMs: retryAfterMs(answer.headers) };
  } catch {
    return { code: "NO_ANSWER", retryAfterMs: DEFAULT_RETRY_MS };
  }
}

/** Presents a payment to a facilitator once. */
export async function presentTo(
  url: string,
  { header }: Signed,
  { signal, key }: { readonly signal?: AbortSignal; readonly key?: string } = {},
): Promise<Shown> {
  const paymentPayload = decodeHeader<{ readonly accepted: unknown }>(header);
  const body = JSON.stringify({ x402Version: 2, paymentPayload, paymentRequirements: paymentPayload.accepted });
  const headers = { "content-type": "application/json", ...(key === undefined ? {} : { "idempotency-key": key }) };
  try {
    const response = await fetch(url, { method: "POST", body, headers, ...(signal === undefined ? {} : { signal }) });
    const json = (await response.json()) as Readonly<Record<string, unknown>>;
    const isGood = json.success === true || json.isValid === true;
    const reason = json.errorReason ?? json.invalidReason ?? json.code;
    const refusal = typeof reason === "string" ? reason : `STATUS_${response.status}`;
    return { code: isGood ? "SOLD" : refusal, retryAfterMs: retryAfterMs(response.headers) };
  } catch {
    return { code: "NO_ANSWER", retryAfterMs: DEFAULT_RETRY_MS };
  }
}

function codeOf({ status, json }: Answer): string {
  if (status === 200) return "SOLD";
  const { code, error } = (json ?? {}) as { readonly code?: unknown; readonly error?: unknown };
  if (typeof code === "string") return code;
  // A 402 names its cause in front of the text.
  return typeof error === "string" ? (error.split(":")[0] ?? error) : `STATUS_${status}`;
}

function retryAfterMs(headers: Headers): number {
  const seconds = Number(headers.get("retry-after"));
  return seconds > 0 ? seconds * 1_000 : DEFAULT_RETRY_MS;
}
