import {
  type Address,
  base64ToBytes,
  bytesToBase64,
  hexToBytes,
  isRecord,
  parseJson,
  utf8ToBytes,
} from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import type { Authorization, PaymentRefusal, PresentedPayment, Receipt } from "./types.ts";

/** Longest header and signature that {@link decodePaymentHeader} reads. */
interface HeaderLimits {
  /** Longest header; 16,384 characters by default. */
  readonly maxHeaderLength?: number;
  /** Longest signature; 8,192 bytes by default, for contract wallets (ERC-1271, ERC-6492). */
  readonly maxSignatureBytes?: number;
}

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
const BYTES32 = /^0x[0-9a-fA-F]{64}$/;
const UINT = /^(?:0|[1-9][0-9]{0,77})$/;
const UINT256_END = 1n << 256n;
// Length and alphabet of the payment-identifier extension (x402 v2, `specs/extensions/payment_identifier.md`).
const IDENTIFIER = /^[a-zA-Z0-9_-]{16,128}$/;
/** The least has 128 bits in base64url. */
const ANSWER_KEY = /^[a-zA-Z0-9_-]{22,128}$/;
/**
 * Bounds of the JSON of a header, and of a facilitator's body with a payload in it. A payload has the extensions of its seller's
 * terms: ours are at most 16 levels deep, those of a seller who uses the facilitator may be deeper.
 */
export const PAYMENT_JSON_LIMITS = { maxDepth: 24, maxNodes: 4_000 };

/**
 * Reads a PAYMENT-SIGNATURE header: standard padded base64 of UTF-8 JSON, one x402 v2 `PaymentPayload` of scheme
 * `exact` by EIP-3009. Strict and bounded: what it accepts has exactly one reading. Unknown members are ignored at the
 * top, in `resource` and in `extensions`, of which only `payment-identifier` and `answer-key` are read.
 * The refusal's message names the part that is wrong, and never quotes the header.
 */
export function decodePaymentHeader(
  header: string,
  limits: HeaderLimits = {},
): { readonly ok: true; readonly payment: PresentedPayment } | PaymentRefusal {
  const maxHeaderLength = limits.maxHeaderLength ?? 16_384;
  if (header.length > maxHeaderLength) return refuse(`is longer than ${maxHeaderLength} characters`);
  const bytes = base64ToBytes(header);
  if (bytes === undefined || bytes.length === 0) return refuse("is not standard padded base64");
  const parsed = parseJson(bytes, PAYMENT_JSON_LIMITS);
  if (!parsed.ok) return refuse(JSON_FAULTS[parsed.reason]);
  const payload = readPaymentPayload(parsed.value, limits.maxSignatureBytes);
  if (typeof payload === "string") return refuse(payload);
  return { ok: true, payment: { ...payload, payloadDigest: sha256(bytes) } };
}

/**
 * Reads an x402 v2 `PaymentPayload` of scheme `exact` by EIP-3009 out of JSON that was parsed within {@link PAYMENT_JSON_LIMITS},
 * as {@link decodePaymentHeader} does; or says what is wrong with it.
 */
export function readPaymentPayload(
  payload: unknown,
  maxSignatureBytes = 8_192,
): Omit<PresentedPayment, "payloadDigest"> | string {
  if (!isRecord(payload)) return "is not a JSON object";
  if (own(payload, "x402Version") !== 2) return "has an `x402Version` other than 2";
  const accepted = own(payload, "accepted");
  if (!isRecord(accepted)) return "has no `accepted` object";
  const exact = own(payload, "payload");
  if (!isRecord(exact)) return "has no `payload` object";
  const signature = readSignature(own(exact, "signature"), maxSignatureBytes);
  if (signature === undefined) return "has a `payload.signature` that is not a signature in hex";
  const fields = own(exact, "authorization");
  if (!isRecord(fields)) return "has no `payload.authorization` object";
  const authorization = readAuthorization(fields);
  if (typeof authorization === "string") return `has a bad \`payload.authorization.${authorization}\``;
  const extensions = own(payload, "extensions");
  const identifier = readExtension(extensions, "payment-identifier", "id", IDENTIFIER);
  if (!identifier.ok) return "has a bad `payment-identifier` extension";
  const answerKey = readExtension(extensions, "answer-key", "key", ANSWER_KEY);
  if (!answerKey.ok) return "has a bad `answer-key` extension";
  const hasAnswerKey = answerKey.value !== undefined;
  return { accepted, authorization, signature, identifier: identifier.value, hasAnswerKey };
}

const JSON_FAULTS = {
  utf8: "is not base64 of UTF-8",
  syntax: "is not base64 of JSON",
  depth: "is nested too deeply",
  nodes: "has too many members",
  duplicate: "repeats a key",
} as const;

function refuse(what: string): PaymentRefusal {
  return { ok: false, code: "PAYMENT_MALFORMED", message: `The PAYMENT-SIGNATURE header ${what}.` };
}

/** A member of the object itself, never of its prototype. */
function own(object: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function readSignature(value: unknown, maxBytes: number): Uint8Array | undefined {
  if (typeof value !== "string" || !value.startsWith("0x") || value.length > 2 + maxBytes * 2) return undefined;
  const bytes = hexToBytes(value);
  return bytes === undefined || bytes.length === 0 ? undefined : bytes;
}

/** The authorization, or the name of the member that is wrong. */
function readAuthorization(fields: Readonly<Record<string, unknown>>): Authorization | string {
  const from = readAddress(own(fields, "from"));
  if (from === undefined) return "from";
  const to = readAddress(own(fields, "to"));
  if (to === undefined) return "to";
  const value = readUint(own(fields, "value"));
  if (value === undefined) return "value";
  const validAfter = readUint(own(fields, "validAfter"));
  if (validAfter === undefined) return "validAfter";
  const validBefore = readUint(own(fields, "validBefore"));
  if (validBefore === undefined) return "validBefore";
  const nonce = own(fields, "nonce");
  if (typeof nonce !== "string" || !BYTES32.test(nonce)) return "nonce";
  return { from, to, value, validAfter, validBefore, nonce: nonce.toLowerCase() as `0x${string}` };
}

function readAddress(value: unknown): Address | undefined {
  return typeof value === "string" && ADDRESS.test(value) ? (value as Address) : undefined;
}

function readUint(value: unknown): bigint | undefined {
  if (typeof value !== "string" || !UINT.test(value)) return undefined;
  const number = BigInt(value);
  return number < UINT256_END ? number : undefined;
}

/**
 * A text of `extensions[name].info`. A client that knows an extension but gives no text echoes the offer without one; a text
 * that is there and bad is refused, since its sender relies on it.
 */
function readExtension(
  extensions: unknown,
  name: string,
  member: string,
  form: RegExp,
): { readonly ok: true; readonly value: string | undefined } | { readonly ok: false } {
  if (extensions === undefined || extensions === null) return { ok: true, value: undefined };
  if (!isRecord(extensions)) return { ok: false };
  const extension = own(extensions, name);
  if (extension === undefined) return { ok: true, value: undefined };
  if (!isRecord(extension)) return { ok: false };
  const info = own(extension, "info");
  if (!isRecord(info)) return { ok: false };
  const value = own(info, member);
  if (value === undefined) return { ok: true, value: undefined };
  return typeof value === "string" && form.test(value) ? { ok: true, value } : { ok: false };
}

/** The value of a PAYMENT-RESPONSE header: base64 of the receipt's JSON. */
export function encodeReceipt(receipt: Receipt): string {
  return bytesToBase64(utf8ToBytes(JSON.stringify(receipt)));
}
