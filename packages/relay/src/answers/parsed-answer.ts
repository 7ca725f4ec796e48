import { type ForeignJsonFault, isRecord, readForeignJson, SUPPLIER_JSON } from "@turnpike/base";
import { checkResult, type Service } from "@turnpike/catalogue";
import type { BackendCall, SchemaCheck } from "@turnpike/protocol";
import type { ErrorJudgement, Family, RpcError } from "../families/family.ts";
import { familyOf } from "../families/registry.ts";
import { findMembers, type MemberSpan, replaceSpan } from "../members.ts";
import { failedWith, isSuccess, malformed, mayCarryError, readError, refusedAnswer, wantedIdOf } from "./rules.ts";
import {
  type AnswerSource,
  type AttemptResult,
  createAnswer,
  type FailedAttempt,
  failedAttempt,
} from "./upstream-answer.ts";

interface Envelope {
  readonly ok: true;
  readonly body: Uint8Array;
  readonly result: unknown;
  readonly error: RpcError | undefined;
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

function judgeRpc(family: Family, call: BackendCall, status: number, envelope: Envelope): ErrorJudgement | undefined {
  const { error } = envelope;
  if (error === undefined && isSuccess(status)) return undefined;
  if (error === undefined || !mayCarryError(family, status)) return { blame: "supplier", reason: "http_status" };
  return family.judgeRpcError(error, call);
}

/** The question of a search has to come back as it was asked; otherwise it is another request's answer. */
function isOfOtherRequest(family: Family, call: BackendCall, body: unknown): boolean {
  if (family.id !== "search" || !isRecord(call.params)) return false;
  const { query } = call.params;
  return query !== undefined && (!isRecord(body) || body.query !== query);
}

/** The check of an error that is an answer: there is no result that the declared schema could be held against. */
function errorCheck(service: Service, operation: string): SchemaCheck {
  return checkResult(service, operation, undefined) === "undeclared" ? "undeclared" : "unchecked";
}

/** The failed attempt of a body that cannot be read: what a buyer could not read either is not sold. */
function unreadable(status: number, fault: ForeignJsonFault): FailedAttempt {
  if (fault === "values" && isSuccess(status)) return failedAttempt("supplier", "too_large");
  return malformed(status, fault === "empty" ? "empty" : "not_json");
}

/**
 * Reads a response and says whether it is an answer: a result that fits its schema, or an error that is fixed by the
 * request and the chain's state; `null` and `[]` are results. Everything else is a failed attempt, with who is to blame
 * for it. Answers over `maxCheckedBytes` are `unchecked`: they are known to be JSON and a right envelope, no more.
 */
export function parseAnswer(service: Service, source: AnswerSource, maxCheckedBytes: number): AttemptResult {
  const { call, response } = source;
  const { status, body } = response;
  const family = familyOf(service, call.rpcType);
  const refused = refusedAnswer(response);
  if (refused !== undefined) return refused;
  // The transport has bounded its size.
  const read = readForeignJson(body, { ...SUPPLIER_JSON, maxBytes: body.length });
  if (!read.ok) return unreadable(status, read.fault);
  const { value } = read;
  const wantedId = wantedIdOf(call);
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
  const schemaCheck = body.length > maxCheckedBytes ? "unchecked" : checkResult(service, call.operation, result);
  if (schemaCheck === "failed") return failedAttempt("supplier", "schema");
  return createAnswer(source, { body: passed, schemaCheck, isError: false, result });
}
