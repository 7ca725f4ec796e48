import { type ErrorCode, errorRow } from "@turnpike/base";
import { type Answer, SANDBOX } from "./answer.ts";

const HEADERS = ["Cache-Control", "no-store", ...SANDBOX];

/** Statuses after which the same request may soon succeed. */
const WAITS = new Set([429, 502, 503]);

/** A JSON-RPC error object with the id's raw text. */
export function rpcError(id: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code, message })}}`;
}

/** An answer with a JSON-RPC body. */
export function rpcAnswer(
  status: number,
  result: string,
  body: Uint8Array | string,
  headers: readonly string[] = [],
): Answer {
  return { status, result, contentType: "application/json", body, headers: [...HEADERS, ...headers] };
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
