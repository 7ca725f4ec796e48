import { type ErrorCode, errorRow } from "@turnpike/base";
import { type Answer, preflightAnswer } from "../http/answer.ts";
import type { CallVerdict } from "../keys/consume-quota.ts";
import { rpcError } from "./jsonrpc.ts";

const NO_STORE = ["Cache-Control", "no-store"];

/** Statuses after which the same request may soon succeed. */
const WAITS = new Set([429, 502, 503]);

/** Some ids that are no part of the free relay are sold. */
export const NOT_FREE = "The free relay has no network of this id.";

/** A JSON-RPC answer of the free door. */
export function rpcAnswer(
  status: number,
  result: string,
  body: Uint8Array | string,
  headers: readonly string[] = [],
): Answer {
  return { status, result, contentType: "application/json", body, headers: [...NO_STORE, ...headers] };
}

/** The error object of a code, with the id's raw text. */
export function codeError(id: string, code: ErrorCode, message?: string): string {
  const { rpc, message: safe, advice } = errorRow(code);
  return rpcError(id, rpc, `${message ?? safe} ${advice}`);
}

/** An answer that is a code's error object, with the code's status. */
export function codeAnswer(
  id: string,
  code: ErrorCode,
  change: {
    readonly message?: string | undefined;
    readonly headers?: readonly string[];
    readonly close?: boolean;
  } = {},
): Answer {
  const { http, retryable } = errorRow(code);
  const { headers = [] } = change;
  const wait = retryable && WAITS.has(http) && !headers.includes("Retry-After") ? ["Retry-After", "1"] : [];
  const answer = rpcAnswer(http, code, codeError(id, code, change.message), [...wait, ...headers]);
  return change.close === true ? { ...answer, close: true } : answer;
}

/** The answer to calls that the limits or the key refuse. */
export function refusalAnswer(id: string, verdict: CallVerdict & { readonly ok: false }): Answer {
  const { code, message, retryAfterSeconds, headers } = verdict;
  const wait = retryAfterSeconds === undefined ? [] : ["Retry-After", String(Math.max(1, retryAfterSeconds))];
  return codeAnswer(id, code, { message, headers: [...wait, ...headers] });
}

/** The same answer with further headers. */
export function withHeaders(answer: Answer, headers: readonly string[]): Answer {
  return headers.length === 0 ? answer : { ...answer, headers: [...(answer.headers ?? []), ...headers] };
}

/** Nothing to say: the answer to notifications (JSON-RPC 2.0 §4.1). */
export const SILENCE: Answer = { status: 204, result: "ok", contentType: undefined, body: "", headers: NO_STORE };

const HEADER_NAMES = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+(?:[ \t]*,[ \t]*[A-Za-z0-9!#$%&'*+.^_`|~-]+)*$/;

/** Answers the preflight of a page of any origin: clients of the chains send headers of their own, and all may. */
export function freePreflight(verbs: string, wanted: string | undefined): Answer {
  const isList = wanted !== undefined && wanted.length <= 1_024 && HEADER_NAMES.test(wanted);
  return preflightAnswer(verbs, isList ? wanted : "Content-Type, Target-Service-Id");
}
