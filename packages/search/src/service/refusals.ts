import type { Socket } from "node:net";
import { errorRow } from "@turnpike/base";
import { parseSearchRequest, type SearchFault, type SearchRequest, searchFault } from "@turnpike/catalogue";

/** Body of every error: FastAPI's `{detail}`, a sentence, or the list of a 422. */
export interface ErrorDetail {
  readonly status: number;
  readonly detail: string | readonly SearchFault[];
  readonly headers?: Readonly<Record<string, string>>;
}

/** How soon to come again, in seconds. */
const RETRY_AFTER = "1";

const foreignHost = errorRow("HOST_NOT_ALLOWED");
export const FOREIGN_HOST: ErrorDetail = {
  status: foreignHost.http,
  detail: `${foreignHost.message} ${foreignHost.advice}`,
};
export const FOREIGN_PAGE: ErrorDetail = { status: 403, detail: "Pages of other origins may not search here." };
export const NOT_FOUND: ErrorDetail = { status: 404, detail: "Not Found" };
export const BAD_REQUEST: ErrorDetail = { status: 400, detail: "Bad Request" };
const TOO_LARGE: ErrorDetail = { status: 413, detail: "Content Too Large" };
export const NO_CODING: ErrorDetail = { status: 415, detail: "Send the body without Content-Encoding." };
export const FAILED: ErrorDetail = { status: 500, detail: "Internal Server Error" };

/** A verb that the address does not take. */
export function notAllowed(allow: string): ErrorDetail {
  return { status: 405, detail: "Method Not Allowed", headers: { allow } };
}

/** Nothing can be answered now. */
export function unavailable(detail: string): ErrorDetail {
  return { status: 503, detail, headers: { "retry-after": RETRY_AFTER } };
}

type Refused = Extract<SearchRequest, { readonly ok: false }>;

/** What a search that is not valid is answered. */
export function refusalOf(refused: Refused): ErrorDetail {
  if (refused.reason === "too_large") return TOO_LARGE;
  if (refused.reason === "invalid") return { status: 422, detail: refused.detail };
  if (refused.reason === "duplicate") {
    // The key may be of any length and letters; which one it is, its sender knows.
    return { status: 422, detail: [searchFault("value_error", "Value error, a key is repeated")] };
  }
  return { status: 422, detail: [searchFault("model_attributes_type", ONE_OBJECT)] };
}

const ONE_OBJECT = "Input should be a valid dictionary or object to extract fields from";

/** Reads the body of `POST /v1/search`. */
export function readSearch(body: unknown): SearchRequest {
  return parseSearchRequest(body instanceof Uint8Array ? body : new Uint8Array());
}

/** A name for the log: the code where there is one. Never the message, which may hold what was sent. */
export function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  return "code" in error && typeof error.code === "string" ? error.code : error.name;
}

/** What a request that could not be read is answered; undefined for a fault of ours. */
export function requestRefusal(error: unknown): ErrorDetail | undefined {
  if (nameOf(error) === "FST_ERR_CTP_BODY_TOO_LARGE") return TOO_LARGE;
  const status = error instanceof Error && "statusCode" in error ? error.statusCode : undefined;
  return typeof status === "number" && status >= 400 && status < 500 ? { ...BAD_REQUEST, status } : undefined;
}

const CLIENT_FAULTS: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, "Request Header Fields Too Large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Request Timeout"],
};

/** Answers what is no HTTP request that Node could read, and ends the connection. */
export function refuseClient(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, detail] = CLIENT_FAULTS[error.code ?? ""] ?? [400, "Bad Request"];
  const body = JSON.stringify({ detail });
  socket.end(
    `HTTP/1.1 ${status} ${detail}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
