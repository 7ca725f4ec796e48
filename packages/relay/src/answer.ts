import { bytesToUtf8, isRecord } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import { errorCheck, resultFits } from "./checks.ts";
import { type ErrorJudgement, type Family, memberAt, type RpcError } from "./families/family.ts";
import { familyOf } from "./families.ts";
import { findMembers, type MemberSpan, replaceSpan } from "./members.ts";
import {
  type AnswerSource,
  type AttemptResult,
  createAnswer,
  type FailedAttempt,
  failedAttempt,
} from "./upstream-answer.ts";

/**
 * Says where something is: a URL, an address, a host with its port (but no file with its line), or what stands before a
 * name that was not found or a host that was not reached. Without repetitions inside repetitions, for long texts.
 */
const PLACE =
  /:\\?\/\\?\/|\b\d{1,3}(?:\.\d{1,3}){3}\b|\[[0-9a-f]{0,4}:[0-9a-f:.]{1,41}\]|(?:localhost|[a-z0-9]\.(?!(?:go|java|cpp):)[a-z0-9-]{1,63}):\d{2,5}\b|\bdial (?:tcp|udp)\b|\bgetaddrinfo\b|\bconnect E[A-Z]/i;

/**
 * A failed attempt with the error that the supplier gave for it. Free clients never see what is about the supplier's own
 * account with somebody, or says where it, or what is behind it, is. `said` is the error's text.
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

/** Id of every answer of CometBFT's GET routes. */
export const COMET_GET_ID = "-1";

interface Envelope {
  readonly ok: true;
  readonly body: Uint8Array;
  readonly result: unknown;
  readonly error: RpcError | undefined;
}

/** The `error` of a JSON-RPC answer; undefined when it is none. */
export function readError(value: unknown): RpcError | undefined {
  if (!isRecord(value)) return undefined;
  const { code, message, data } = value;
  const cause = memberAt(value, "cause", "name");
  return typeof code === "number" && Number.isInteger(code) && typeof message === "string"
    ? { code, message, data, cause: typeof cause === "string" ? cause : undefined }
    : undefined;
}

/** Nodes of JSON-RPC 1 style say `error: null` beside a result and leave `jsonrpc` out: the same, as JSON-RPC 2.0. */
function modernise(body: Uint8Array, members: ReadonlyMap<string, MemberSpan>, key: "result" | "error"): Uint8Array {
  const raw = (name: string): Uint8Array => {
    const span = members.get(name);
    return span === undefined ? Buffer.from("null") : body.subarray(span.start, span.end);
  };
  return Buffer.concat([
    Buffer.from('{"jsonrpc":"2.0","id":'),
    raw("id"),
    Buffer.from(`,"${key}":`),
    raw(key),
    Buffer.from("}"),
  ]);
}

function readEnvelope(family: Family, value: unknown, body: Uint8Array, wantedId: string): Envelope | FailedAttempt {
  const members = findMembers(body);
  if (!isRecord(value) || members === undefined) return failedAttempt("supplier", "no_jsonrpc");
  const isModern = value.jsonrpc === "2.0";
  if (!isModern && !(family.isLegacyRpc && (value.jsonrpc === undefined || value.jsonrpc === "1.0"))) {
    return failedAttempt("supplier", "no_jsonrpc");
  }
  if (value.id !== (JSON.parse(wantedId) as unknown)) return failedAttempt("supplier", "wrong_id");
  const hasError = Object.hasOwn(value, "error") && !(family.isLegacyRpc && value.error === null);
  const hasResult = Object.hasOwn(value, "result") && !(family.isLegacyRpc && hasError && value.result === null);
  if (hasError === hasResult) return failedAttempt("supplier", "both_or_neither");
  const error = hasError ? readError(value.error) : undefined;
  if (hasError && error === undefined) return failedAttempt("supplier", "bad_error");
  const isPlain = isModern && !(Object.hasOwn(value, "error") && Object.hasOwn(value, "result"));
  const passed = isPlain ? body : modernise(body, members, hasError ? "error" : "result");
  return { ok: true, body: passed, result: value.result, error };
}

function withClientId(call: BackendCall, body: Uint8Array): Uint8Array {
  if (call.clientId === undefined) return body;
  const id = findMembers(body)?.get("id");
  return id === undefined ? body : replaceSpan(body, id, call.clientId);
}

/** True for 2xx. */
export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function judgeRpc(family: Family, call: BackendCall, status: number, envelope: Envelope): ErrorJudgement | undefined {
  const { error } = envelope;
  if (error === undefined) {
    return isSuccess(status) ? undefined : { blame: "supplier", reason: "http_status" };
  }
  const mayCarry =
    isSuccess(status) || status === 400 || status === 404 || (status === 500 && family.errorsOverHttp500);
  return mayCarry ? family.judgeRpcError(error, call) : { blame: "supplier", reason: "http_status" };
}

/** The question of a search has to come back as it was asked; otherwise it is another request's answer. */
function isOfOtherRequest(family: Family, call: BackendCall, body: unknown): boolean {
  if (family.id !== "search" || !isRecord(call.params)) return false;
  const { query } = call.params;
  return query !== undefined && (!isRecord(body) || body.query !== query);
}

/**
 * Reads a response and says whether it is an answer: a result that fits its schema, or an error that is fixed by the
 * request and the chain's state; `null` and `[]` are results. Everything else is a failed attempt, with who is to blame
 * for it. Answers over `maxCheckedBytes` are `unchecked`: they are known to be JSON and a right envelope, no more.
 */
export function classifyAnswer(service: Service, source: AnswerSource, maxCheckedBytes: number): AttemptResult {
  const { call, response } = source;
  const { status, body } = response;
  const family = familyOf(service, call.rpcType);
  if (response.isTruncated) return failedAttempt("supplier", "too_large");
  if (status === 429) return failedAttempt("supplier", "rate_limited");
  if (status === 401 || status === 403 || status === 407) return failedAttempt("supplier", "refused");
  if (body.length === 0) return failedAttempt("supplier", isSuccess(status) ? "empty" : "http_status");
  const text = bytesToUtf8(body);
  let value: unknown;
  try {
    if (text === undefined) return failedAttempt("supplier", isSuccess(status) ? "not_json" : "http_status");
    value = JSON.parse(text);
  } catch {
    return failedAttempt("supplier", isSuccess(status) ? "not_json" : "http_status");
  }
  const isCometGet = call.rpcType === "comet_bft" && call.verb === "GET";
  const wantedId = isCometGet ? COMET_GET_ID : call.id;
  let passed = body;
  let result = value;
  let judged: ErrorJudgement | undefined;
  let isRpcError = false;
  if (wantedId !== undefined) {
    const envelope = readEnvelope(family, value, body, wantedId);
    if (!envelope.ok) return isSuccess(status) ? envelope : failedAttempt("supplier", "http_status");
    judged = judgeRpc(family, call, status, envelope);
    passed = withClientId(call, envelope.body);
    result = envelope.result;
    isRpcError = envelope.error !== undefined && isSuccess(status);
  } else {
    if (findMembers(body) === undefined && isRecord(value)) return failedAttempt("supplier", "not_json");
    judged = isSuccess(status) ? family.judgeHttpBody?.(value) : family.judgeHttpError(status, value, call);
    if (judged === undefined && isOfOtherRequest(family, call, value))
      return failedAttempt("supplier", "other_request");
  }
  if (judged === "answer") {
    const schemaCheck = errorCheck(service, call.operation);
    return createAnswer(source, { body: passed, schemaCheck, isError: true, result });
  }
  if (judged !== undefined) {
    if (!isRpcError) return failedAttempt(judged.blame, judged.reason);
    const error = findMembers(passed)?.get("error");
    return failedWith(judged, Buffer.from(passed.subarray(error?.start, error?.end)).toString(), passed, source);
  }
  const schemaCheck = body.length > maxCheckedBytes ? "unchecked" : resultFits(service, call.operation, result);
  if (schemaCheck === "failed") return failedAttempt("supplier", "schema");
  return createAnswer(source, { body: passed, schemaCheck, isError: false, result });
}
