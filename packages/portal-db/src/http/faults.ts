import type { Socket } from "node:net";
import { errorRow } from "@turnpike/base";
import type { ErrorBody } from "../errors.ts";
import { failure } from "../failures.ts";
import { databaseFailure } from "./database-failure.ts";
import { errorText } from "./send.ts";

/** What a path that names no table is answered. */
export const BAD_PATH = failure(404, "PGRST125", "Invalid path specified in request URL");

const foreignHost = errorRow("HOST_NOT_ALLOWED");
/** What a request for another server's name is answered, such as of a page whose name was pointed here. */
export const FOREIGN_HOST = failure(
  foreignHost.http,
  "HOST_NOT_ALLOWED",
  foreignHost.message,
  null,
  foreignHost.advice,
);

/** A name for the log: the code where there is one. Never the message, which may hold what was sent. */
export function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  return "code" in error && typeof error.code === "string" ? error.code : error.name;
}

/** What is wrong with a request that could not be read; undefined for a fault of ours. */
export function requestFailure(error: unknown, maxBodyBytes: number): ErrorBody | undefined {
  const code = nameOf(error);
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") {
    return failure(413, "BODY_TOO_LARGE", "The body is too large", `A body has at most ${maxBodyBytes} bytes`);
  }
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return failure(400, "PGRST102", "Content-Type not acceptable");
  if (code.includes("UNAVAILABLE")) return databaseFailure(error);
  const status = error instanceof Error && "statusCode" in error ? error.statusCode : undefined;
  if (typeof status === "number" && status >= 400 && status < 500) {
    return failure(status, "PGRST102", "The request cannot be read");
  }
  return undefined;
}

const CLIENT_FAULTS: Readonly<Record<string, readonly [number, string, string]>> = {
  HPE_HEADER_OVERFLOW: [431, "Request Header Fields Too Large", "The request's head is too large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Request Timeout", "The request did not arrive in time"],
};

/** Answers what is no HTTP request that Node could read, and ends the connection. */
export function refuseClient(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, reason, message] = CLIENT_FAULTS[error.code ?? ""] ?? [400, "Bad Request", "The request is malformed"];
  const body = errorText(failure(status, "PGRST102", message));
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n${body}`,
  );
}

/** There is no function that clients may call, whatever its name. */
export function noFunction(name: string): ErrorBody {
  const message = `Could not find the function portal.${name.slice(0, 63)} in the schema cache`;
  return failure(404, "PGRST202", message, "Functions are not offered");
}
