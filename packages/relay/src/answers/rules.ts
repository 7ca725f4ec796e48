import { isRecord } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import { errorText } from "../families/error-text.ts";
import { type ErrorJudgement, type FailureReason, type Family, memberAt, type RpcError } from "../families/family.ts";
import type { UpstreamResponse } from "../transport/transport.ts";
import { type AnswerSource, createAnswer, type FailedAttempt, failedAttempt } from "./upstream-answer.ts";

/** True for 2xx. */
export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** Statuses that are the supplier's refusal whatever the body says; empty bodies too. */
export function refusedAnswer(response: UpstreamResponse): FailedAttempt | undefined {
  const { status } = response;
  if (response.isTruncated) return failedAttempt("supplier", "too_large");
  if (status === 429) return failedAttempt("supplier", "rate_limited");
  if (status === 401 || status === 403 || status === 407) return failedAttempt("supplier", "refused");
  return undefined;
}

/** A response that is no answer for this reason. With a status other than 2xx the reason is that status. */
export const malformed = (status: number, reason: FailureReason): FailedAttempt =>
  failedAttempt("supplier", isSuccess(status) ? reason : "http_status");

/** Id of every answer of CometBFT's GET routes. */
const COMET_GET_ID = "-1";

/** Raw JSON text of the id that the answer to a call must have; undefined for one by path, which is no JSON-RPC. */
export function wantedIdOf({ rpcType, verb, id }: BackendCall): string | undefined {
  return rpcType === "comet_bft" && verb === "GET" ? COMET_GET_ID : id;
}

/** True for an HTTP status with which a family's nodes send JSON-RPC errors. */
export function mayCarryError(family: Family, status: number): boolean {
  return isSuccess(status) || status === 400 || status === 404 || (status === 500 && family.errorsOverHttp500);
}

/** The `error` of a JSON-RPC answer; undefined when it is none. */
export function readError(value: unknown): RpcError | undefined {
  if (!isRecord(value)) return undefined;
  const { code } = value;
  const message = errorText(value.message);
  if (typeof code !== "number" || !Number.isInteger(code) || message === undefined) return undefined;
  return { code, message, data: errorText(value.data), cause: errorText(memberAt(value, "cause", "name")) };
}

/**
 * Says where something is: a URL, an address, a host with its port (but no file with its line), or what stands before a
 * name that was not found or a host that was not reached. Without repetitions inside repetitions, for long texts.
 */
const PLACE =
  /:\\?\/\\?\/|\b\d{1,3}(?:\.\d{1,3}){3}\b|\[[0-9a-f]{0,4}:[0-9a-f:.]{1,41}\]|(?:localhost|[a-z0-9]\.(?!(?:go|java|cpp):)[a-z0-9-]{1,63}):\d{2,5}\b|\bdial (?:tcp|udp)\b|\bgetaddrinfo\b|\bconnect E[A-Z]/i;

/**
 * A failed attempt with the error that the supplier gave for it. Free clients never see what is about the supplier's own
 * account with others, or says where it, or what is behind it, is. `said` is the error's text.
 */
export function failedWith(
  { blame, reason }: Exclude<ErrorJudgement, "answer">,
  said: string,
  body: Uint8Array,
  source: AnswerSource,
): FailedAttempt {
  const isPrivate = reason === "rate_limited" || reason === "refused" || PLACE.test(said);
  return isPrivate ? failedAttempt(blame, reason) : failedShowing({ blame, reason }, body, source);
}

/** A failed attempt with an error that a free client may get when no supplier has anything better. */
export function failedShowing(
  { blame, reason }: Exclude<ErrorJudgement, "answer">,
  body: Uint8Array,
  source: AnswerSource,
): FailedAttempt {
  const read = { body, schemaCheck: "unchecked", isError: true, lastResort: reason } as const;
  return { ok: false, blame, reason, fallback: createAnswer(source, read) };
}
