import type { FastifyReply } from "fastify";
import type { ErrorBody } from "../errors.ts";

const UNQUOTABLE = /[^ !#-[\]-~]/g;

/** Headers of a refused token (RFC 6750 §3): nothing is said about a token that was not sent. */
function challenge({ code, message }: ErrorBody): string {
  if (code === "PGRST302") return "Bearer";
  return `Bearer error="invalid_token", error_description="${message.replaceAll(UNQUOTABLE, " ")}"`;
}

/** Text of an error's body: the four members that PostgREST's clients read, always. */
export function errorText({ code, message, details, hint }: ErrorBody): string {
  return JSON.stringify({ code, message, details, hint });
}

/** Sends an error. 401 says how to authenticate; 503 says when to come again. */
export function sendError(
  reply: FastifyReply,
  error: ErrorBody,
  headers: Readonly<Record<string, string>> = {},
): FastifyReply {
  reply.status(error.status).headers(headers);
  reply.header("proxy-status", `PostgREST; error=${error.code.replaceAll(/[^A-Za-z0-9_]/g, "")}`);
  if (error.status === 401) reply.header("www-authenticate", challenge(error));
  if (error.status === 503 && headers["retry-after"] === undefined) reply.header("retry-after", "1");
  // Also for what is refused before any hook has run.
  reply.header("cache-control", "no-store");
  return reply.header("content-type", "application/json; charset=utf-8").send(errorText(error));
}
