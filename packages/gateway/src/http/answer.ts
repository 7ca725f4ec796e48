import { asBuffer, type ErrorCode, errorBody, errorRow, type RequestId } from "@turnpike/base";
import { checkFieldValue } from "@turnpike/http1";
import { linger } from "./linger.ts";
import { PlainRequest, PlainResponse, type ResponseSink } from "./request.ts";
import { leaveBody, type Streamed, streamBody } from "./stream-body.ts";

/** A whole response, before it is written. */
export interface Answer {
  readonly status: number;
  /** What metrics call it: `ok` or an error code. */
  readonly result: string;
  readonly contentType: string | undefined;
  readonly body: Uint8Array | string;
  /** A body that is written while it arrives, in the place of `body`. */
  readonly stream?: AsyncIterable<Uint8Array>;
  /** Further headers: name, value, name, value. */
  readonly headers?: readonly string[];
  /** True when the rest of the request must not be read: the connection is closed after this answer. */
  readonly close?: boolean;
  /** True for one that is kept and can be had again: it may be refused for want of room, though it is paid for. */
  readonly isStored?: boolean;
}

/** On every answer to a page of another origin. */
export const CORS: readonly string[] = [
  "Access-Control-Allow-Origin",
  "*",
  "Access-Control-Expose-Headers",
  "PAYMENT-REQUIRED, PAYMENT-RESPONSE, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id",
];

/**
 * On every answer that a supplier wrote: a browser runs nothing of it on the gateway's origin, whatever its type. A page that
 * calls the gateway reads it as before.
 */
export const SANDBOX: readonly string[] = ["Content-Security-Policy", "sandbox"];

const NO_STORE = ["Cache-Control", "no-store"];
const NO_SNIFF = ["X-Content-Type-Options", "nosniff"];

/** An answer with the body `{code, message, requestId, retryable}`; retryable ones carry `Retry-After`. */
export function errorAnswer(
  code: ErrorCode,
  requestId: RequestId,
  change: {
    readonly message?: string | undefined;
    readonly headers?: readonly string[];
    readonly close?: boolean;
    /** 1 by default. */
    readonly retryAfterSeconds?: number | undefined;
  } = {},
): Answer {
  const { http, retryable } = errorRow(code);
  const wait =
    retryable && (http === 503 || http === 429) ? ["Retry-After", String(change.retryAfterSeconds ?? 1)] : [];
  return {
    status: http,
    result: code,
    contentType: "application/json",
    body: JSON.stringify(errorBody(code, requestId, change.message)),
    headers: [...NO_STORE, ...wait, ...(change.headers ?? [])],
    ...(change.close === undefined ? {} : { close: change.close }),
  };
}

/** A JSON answer. */
export function jsonAnswer(status: number, value: unknown, headers: readonly string[] = NO_STORE): Answer {
  return { status, result: "ok", contentType: "application/json", body: JSON.stringify(value), headers };
}

/** Headers that a paid request has. The reference clients send the last one, a response header, with theirs. */
const PAID_HEADERS =
  "Content-Type, PAYMENT-SIGNATURE, Target-Service-Id, Access-Control-Expose-Headers, X-Request-Id, traceparent";

/** Answers a CORS preflight: these verbs and headers are allowed, for a day. */
export function preflightAnswer(verbs: string, allowed = PAID_HEADERS): Answer {
  return {
    status: 204,
    result: "ok",
    contentType: undefined,
    body: "",
    headers: [
      "Allow",
      verbs,
      "Access-Control-Allow-Methods",
      verbs,
      "Access-Control-Allow-Headers",
      allowed,
      "Access-Control-Max-Age",
      "86400",
      "Vary",
      "Access-Control-Request-Method, Access-Control-Request-Headers",
    ],
  };
}

/**
 * Writes a whole answer; `head` leaves its body out. Does nothing when the response is already written or gone. Gives what
 * came of a body that is written while it arrives, once that has ended.
 */
export function writeAnswer(
  res: ResponseSink,
  answer: Answer,
  requestId: RequestId,
  head = false,
): Promise<Streamed> | undefined {
  const { stream } = answer;
  if (stream !== undefined && (head || res.headersSent || res.destroyed)) leaveBody(stream);
  if (res.headersSent || res.destroyed) return undefined;
  if (stream === undefined && res instanceof PlainResponse) {
    res.sendWhole(answer.status, fieldLines(answer, requestId), head ? "" : answer.body, answer.close === true);
    return undefined;
  }
  const headers = [...(answer.headers ?? []), ...CORS, ...NO_SNIFF, "X-Request-Id", requestId];
  if (answer.contentType !== undefined) headers.push("Content-Type", answer.contentType);
  if (answer.status !== 204 && answer.status !== 304 && stream === undefined) {
    const length = typeof answer.body === "string" ? Buffer.byteLength(answer.body) : answer.body.length;
    headers.push("Content-Length", String(length));
  }
  if (answer.close === true) {
    headers.push("Connection", "close");
    lingerOnClose(res);
  }
  res.writeHead(answer.status, headers);
  if (stream !== undefined && !head) return streamBody(res, stream);
  const { body } = answer;
  if (head || body.length === 0) res.end();
  else if (typeof body === "string" || body.length > ONE_WRITE_BYTES || res.req instanceof PlainRequest) res.end(body);
  else res.end(asBuffer(body).toString("latin1"), "latin1");
  return undefined;
}

const linesOf = (headers: readonly string[]): string => {
  let lines = "";
  for (let at = 0; at + 1 < headers.length; at += 2) lines += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return lines;
};

/** The lines that every answer has, made once; and of those that nearly all have. */
const FIXED_LINES = linesOf([...CORS, ...NO_SNIFF]);
const JSON_LINE = linesOf(["Content-Type", "application/json"]);

/** An answer's field lines. The values that are not ours are checked. */
function fieldLines({ headers = [], contentType }: Answer, requestId: RequestId): string {
  for (let at = 0; at + 1 < headers.length; at += 2) checkFieldValue(headers[at] ?? "", headers[at + 1] ?? "");
  const lines = `${linesOf(headers)}${FIXED_LINES}X-Request-Id: ${requestId}\r\n`;
  if (contentType === "application/json") return lines + JSON_LINE;
  if (contentType === undefined) return lines;
  checkFieldValue("Content-Type", contentType);
  return `${lines}Content-Type: ${contentType}\r\n`;
}

/** Node sends a text together with its head in one piece, which for small bodies is cheaper than two pieces. */
const ONE_WRITE_BYTES = 2_048;

/** After its last answer the connection is half-closed, and not reset while the client still sends. */
function lingerOnClose({ req }: ResponseSink): void {
  if (req instanceof PlainRequest) return;
  const { socket } = req;
  if (req.complete || socket.destroyed) return;
  socket.destroySoon = () => {
    req.resume();
    req.once("end", () => socket.destroy());
    linger(socket);
  };
}
