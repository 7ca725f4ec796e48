import type { RpcJson } from "@turnpike/cometbft";
import { goJsonText } from "./go-json.ts";

/** A request's id as JSON text; undefined: the answer has none. */
export type RpcId = string | undefined;

/** Id of everything that is asked by an address (GET), and of answers to requests that broke the server's code. */
export const URI_ID = "-1";

/** Errors of JSON-RPC 2.0, in CometBFT's words. */
const RPC_ERRORS = {
  parse: { code: -32700, message: "Parse error. Invalid JSON" },
  request: { code: -32600, message: "Invalid Request" },
  method: { code: -32601, message: "Method not found" },
  params: { code: -32602, message: "Invalid params" },
  internal: { code: -32603, message: "Internal error" },
  server: { code: -32000, message: "Server error" },
} as const;

/** A name of {@link RPC_ERRORS}. */
export type RpcErrorName = keyof typeof RPC_ERRORS;

/** What a method gives: a result, or the text of an error (`Internal error`). */
export type RpcOutcome =
  | { readonly ok: true; readonly json: RpcJson }
  /** A result that is JSON text already. */
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly fault: string };

/** A result. */
export function result(json: RpcJson): RpcOutcome {
  return { ok: true, json };
}

/** A result that is JSON text already. */
export function resultText(text: string): RpcOutcome {
  return { ok: true, text };
}

/** Error of a call that waits behind too many. */
export const BUSY: RpcOutcome = { ok: false, fault: "too many requests wait" };

/** An error of a method. */
export function failed(fault: string): RpcOutcome {
  return { ok: false, fault };
}

function idMember(id: RpcId): string {
  return id === undefined ? "" : `,"id":${id}`;
}

/** Text before the result of an answer; `}` follows it. */
export function successHead(id: RpcId): string {
  return `{"jsonrpc":"2.0"${idMember(id)},"result":`;
}

/** An answer with a result, given as JSON text. */
function successText(id: RpcId, resultJson: string): string {
  return `${successHead(id)}${resultJson}}`;
}

/** An answer with an error. */
export function errorText(id: RpcId, name: RpcErrorName, data = ""): string {
  const error = data === "" ? RPC_ERRORS[name] : { ...RPC_ERRORS[name], data };
  return `{"jsonrpc":"2.0"${idMember(id)},"error":${goJsonText(error)}}`;
}

/** The answer to a call that gave an outcome. */
export function outcomeText(id: RpcId, outcome: RpcOutcome): string {
  if (!outcome.ok) return errorText(id, "internal", outcome.fault);
  return successText(id, "text" in outcome ? outcome.text : goJsonText(outcome.json));
}
