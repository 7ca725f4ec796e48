import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { RequestId } from "@turnpike/base";
import { type Answer, CORS } from "../http/answer.ts";

const LINGER_MS = 1_000;

/** Answers an upgrade request with an HTTP response, and ends the connection. */
export function refuseUpgrade(socket: Duplex, answer: Answer, requestId: RequestId): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const body = typeof answer.body === "string" ? answer.body : Buffer.from(answer.body).toString("utf8");
  const headers = [...(answer.headers ?? []), ...CORS, "X-Content-Type-Options", "nosniff"];
  const lines = [`HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ""}`];
  for (let at = 0; at + 1 < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`);
  lines.push(
    `X-Request-Id: ${requestId}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  );
  socket.once("finish", () => setTimeout(() => socket.destroy(), LINGER_MS).unref());
  // What the client still sends must be read, or the answer is lost in a reset.
  socket.resume();
  socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`);
}
