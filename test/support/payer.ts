import { randomBytes } from "node:crypto";
import type { PaymentOption } from "@turnpike/payment";
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";

/** Payments made by hand, for the cases that a kind client never sends. */

/** What a 402 of ours holds, as far as tests look. */
export interface Terms {
  readonly x402Version: number;
  readonly error?: string;
  readonly resource: { readonly url: string };
  readonly accepts: readonly PaymentOption[];
  readonly extensions?: unknown;
}

/** What of a payment a test bends. */
export interface Change {
  readonly authorization?: Readonly<Record<string, string>>;
  readonly accepted?: Readonly<Record<string, unknown>>;
  readonly signature?: string;
  readonly option?: number;
  /** Wraps or replaces the signature that was made. */
  readonly wrap?: (signature: `0x${string}`) => string;
  readonly extensions?: unknown;
}

/** Who signs, and for which account: they differ for contract wallets. */
export interface Payer {
  readonly account: PrivateKeyAccount;
  readonly address: `0x${string}`;
}

/** A new account with nothing in it. */
export function newPayer(): Payer {
  const account = privateKeyToAccount(generatePrivateKey());
  return { account, address: account.address };
}

/** Reads base64 JSON of a header. */
export function decodeHeader<T>(header: string): T {
  return JSON.parse(Buffer.from(header, "base64").toString("utf8")) as T;
}

/** The 402 of a route. */
export async function termsOf(url: string): Promise<Terms> {
  const answer = await fetch(url, { method: "POST" });
  await answer.arrayBuffer();
  const header = answer.headers.get("payment-required");
  if (answer.status !== 402 || header === null) throw new TypeError(`${url} answered ${answer.status}, not 402`);
  return decodeHeader<Terms>(header);
}

/** A PAYMENT-SIGNATURE header for one offered option. */
export async function signPayment(payer: Payer, terms: Terms, change: Change = {}): Promise<string> {
  const option = terms.accepts[change.option ?? 0];
  if (option === undefined) throw new TypeError("no such option");
  const now = Math.floor(Date.now() / 1000);
  const authorization: Record<string, string> = {
    from: payer.address,
    to: option.payTo,
    value: option.amount,
    validAfter: String(now - 600),
    validBefore: String(now + option.maxTimeoutSeconds),
    nonce: `0x${randomBytes(32).toString("hex")}`,
    ...change.authorization,
  };
  const signature =
    change.signature ??
    (await payer.account.signTypedData({
      domain: {
        name: option.extra.name,
        version: option.extra.version,
        chainId: Number(option.network.split(":")[1]),
        verifyingContract: option.asset,
      },
      types: {
        TransferWithAuthorization: [
          { name: "from", type: "address" },
          { name: "to", type: "address" },
          { name: "value", type: "uint256" },
          { name: "validAfter", type: "uint256" },
          { name: "validBefore", type: "uint256" },
          { name: "nonce", type: "bytes32" },
        ],
      },
      primaryType: "TransferWithAuthorization",
      message: authorization as never,
    }));
  const payload = {
    x402Version: 2,
    resource: terms.resource,
    accepted: { ...option, ...change.accepted },
    payload: { signature: change.wrap?.(signature as `0x${string}`) ?? signature, authorization },
    extensions: change.extensions ?? terms.extensions,
  };
  return Buffer.from(JSON.stringify(payload)).toString("base64");
}

/** An answer of a paid route, read whole. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
  readonly json: any;
  readonly headers: Headers;
  readonly receipt: { success: boolean; transaction: string; errorReason?: string; payer?: string } | undefined;
}

/** One POST with a payment. */
export async function call(url: string, body: unknown, header?: string, init: RequestInit = {}): Promise<Answer> {
  const answer = await fetch(url, {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...init,
    headers: {
      "content-type": "application/json",
      ...(header === undefined ? {} : { "payment-signature": header }),
      ...(init.headers as Record<string, string> | undefined),
    },
  });
  const text = await answer.text();
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  const receipt = answer.headers.get("payment-response");
  return {
    status: answer.status,
    text,
    json,
    headers: answer.headers,
    receipt: receipt === null ? undefined : decodeHeader(receipt),
  };
}
