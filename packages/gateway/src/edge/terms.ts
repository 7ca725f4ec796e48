import { bytesToBase64, type ErrorCode, errorRow, type RequestId, utf8ToBytes } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { type Answer, CORS } from "../http/answer.ts";

/** The terms of a service as a JSON value, with the cause of this 402. */
export type TermsOf = (service: Service, error: string) => unknown;

/** The 402 of one route, made once. */
export interface Terms {
  /** The JSON text; the same bytes are in the header. */
  readonly body: string;
  /**
   * All headers but the request id, whose place is the last one. The array is written into and handed to
   * `writeHead`, which reads it at once: it must not be kept.
   */
  readonly headers: string[];
}

/** Makes the answer to an unpaid request, once a route. */
export function precomputeTerms(service: Service, termsOf: TermsOf): Terms {
  const { body, header } = encode(termsOf(service, errorRow("PAYMENT_REQUIRED").message));
  const headers = [
    "Content-Type",
    "application/json",
    "Content-Length",
    String(body.length),
    "PAYMENT-REQUIRED",
    header,
    "Cache-Control",
    "no-store",
    ...CORS,
    "X-Content-Type-Options",
    "nosniff",
    "X-Request-Id",
    "",
  ];
  return { body, headers };
}

/** The 402 of a payment that is refused or has failed: the terms again, with the cause in `error`. */
export function refusedTerms(
  service: Service,
  termsOf: TermsOf,
  code: ErrorCode,
  message: string | undefined,
  headers: readonly string[] = [],
): Answer {
  return refusedBy(termsOf(service, causeOf(code, message)), code, headers);
}

/** The same where nothing is sold (any more): the route, and no way to pay for it. */
export function refusedWithoutOffer(
  url: string,
  code: ErrorCode,
  message: string | undefined,
  headers: readonly string[] = [],
): Answer {
  const terms = { x402Version: 2, error: causeOf(code, message), resource: { url }, accepts: [] };
  return refusedBy(terms, code, headers);
}

function causeOf(code: ErrorCode, message: string | undefined): string {
  const row = errorRow(code);
  return `${code}: ${message ?? row.message} ${row.advice}`;
}

function refusedBy(terms: unknown, code: ErrorCode, headers: readonly string[]): Answer {
  const encoded = encode(terms);
  return {
    status: 402,
    result: code,
    contentType: "application/json",
    body: encoded.body,
    headers: ["PAYMENT-REQUIRED", encoded.header, "Cache-Control", "no-store", ...headers],
  };
}

/** The unpaid answer for the slow path: bodies that are not read to their end, so that the connection is closed. */
export function unpaidAnswer(terms: Terms): Answer {
  const header = terms.headers[5] ?? "";
  return {
    status: 402,
    result: "PAYMENT_REQUIRED",
    contentType: "application/json",
    body: terms.body,
    headers: ["PAYMENT-REQUIRED", header, "Cache-Control", "no-store"],
    close: true,
  };
}

/** Sets the request id of the next answer with these terms. */
export function termsHeaders(terms: Terms, requestId: RequestId): string[] {
  terms.headers[terms.headers.length - 1] = requestId;
  return terms.headers;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: everything but ASCII
const BEYOND_ASCII = /[^\x00-\x7f]/g;

/** ASCII only, so that body and header are one text and the body can be written together with the head. */
function encode(terms: unknown): { readonly body: string; readonly header: string } {
  const escaped = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const body = JSON.stringify(terms).replace(BEYOND_ASCII, escaped);
  return { body, header: bytesToBase64(utf8ToBytes(body)) };
}
