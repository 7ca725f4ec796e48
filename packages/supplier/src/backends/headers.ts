import type { IncomingHttpHeaders } from "node:http";
import { canonicalHeaderName, type HttpHeader } from "@turnpike/protocol";

/** For whom a back-end is asked: it gets these as headers. */
export interface RelayParties {
  readonly operatorAddress: string;
  readonly serviceId: string;
  readonly applicationAddress: string;
}

/** Headers of one connection, which are not passed on (RFC 9110 §7.6.1), and what is written anew. */
const NOT_FORWARDED = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "host",
  "content-length",
  "expect",
  "accept-encoding",
]);

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** True for a name of a header, or a method, as HTTP writes them (RFC 9110 §5.6.2). */
export const isToken = (text: string): boolean => TOKEN.test(text);

/** The headers for a back-end: the client's, the operator's, and for whom the relay is. The operator's go before. */
export function backEndHeaders(
  client: readonly HttpHeader[],
  operator: Readonly<Record<string, string>>,
  parties: RelayParties,
): Record<string, string | string[]> {
  // Names are untrusted: `__proto__` would set the prototype of an ordinary object.
  const headers = Object.create(null) as Record<string, string | string[]>;
  for (const [name, values] of client) {
    const lower = name.toLowerCase();
    if (NOT_FORWARDED.has(lower) || !isToken(name) || !values.every((value) => VALUE.test(value))) continue;
    headers[lower] = values.length === 1 ? (values[0] ?? "") : [...values];
  }
  headers["accept-encoding"] = "identity";
  headers["pocket-supplier"] = parties.operatorAddress;
  headers["pocket-service"] = parties.serviceId;
  headers["pocket-application"] = parties.applicationAddress;
  for (const [name, value] of Object.entries(operator)) headers[name.toLowerCase()] = value;
  return headers;
}

/** The headers of a back-end's answer as they are relayed: canonical names, without those of one connection. */
export function responseHeaders(headers: IncomingHttpHeaders): HttpHeader[] {
  return Object.entries(headers).flatMap(([name, value]): HttpHeader[] => {
    if (value === undefined || NOT_FORWARDED.has(name)) return [];
    return [[canonicalHeaderName(name), Array.isArray(value) ? value : [value]]];
  });
}

/** The same of field lines: names in lower case, in their order. */
export function relayedFields(fields: readonly (readonly [name: string, value: string])[]): HttpHeader[] {
  const all = new Map<string, string[]>();
  for (const [name, value] of fields) {
    if (NOT_FORWARDED.has(name)) continue;
    const values = all.get(name);
    if (values === undefined) all.set(name, [value]);
    else values.push(value);
  }
  return [...all].map(([name, values]) => [canonicalHeaderName(name), values]);
}
