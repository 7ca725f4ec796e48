import { isRecord, jsonElementSpans, parseJson } from "@turnpike/base";
import { argumentFault } from "./evm-arguments.ts";
import { PASSED_EVM_METHODS } from "./evm-methods.ts";

/** One call of a JSON-RPC body. */
export interface EvmCall {
  /** Its text, as sent. */
  readonly raw: string;
  /** Why it is not passed, as a JSON-RPC answer that is empty for a notification; undefined for a call that is. */
  readonly refusal: string | undefined;
}

/** A JSON-RPC body of the local EVM chain. */
export interface EvmBody {
  readonly isBatch: boolean;
  readonly calls: readonly EvmCall[];
}

/** A batch of more is refused: each call may take as much as one alone. */
const MAX_BATCH_CALLS = 100;
/** More than fit in the largest body of the chain. */
const LIMITS = { maxNodes: 1_000_000 };

/** A JSON-RPC error as text; `id` is raw JSON. */
export function evmError(id: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${id},"error":{"code":${code},"message":${JSON.stringify(message)}}}`;
}

function refusalOf(raw: string): string | undefined {
  const read = parseJson(raw, LIMITS);
  const id = read.ok ? read.members.find(({ key }) => key === "id")?.raw : undefined;
  const method = read.ok && isRecord(read.value) ? read.value.method : undefined;
  if (typeof method !== "string") return evmError(id ?? "null", -32600, "Invalid Request");
  if (PASSED_EVM_METHODS.has(method)) {
    const fault = argumentFault(method, read.ok && isRecord(read.value) ? read.value.params : undefined);
    if (fault === undefined) return undefined;
    return id === undefined ? "" : evmError(id, -32602, `${fault[0]?.toUpperCase()}${fault.slice(1)}.`);
  }
  if (id === undefined) return "";
  return evmError(id, -32601, `The method ${method.slice(0, 64)} is not offered by the local chain's guard.`);
}

/**
 * Reads a body and says which of its calls may reach the chain. Undefined: it is not JSON, or repeats a key, so that the
 * chain might read another method than its guard.
 */
export function readEvmBody(bytes: Uint8Array): EvmBody | undefined {
  const read = parseJson(bytes, LIMITS);
  if (!read.ok) return undefined;
  const { text, value } = read;
  if (!Array.isArray(value)) return { isBatch: false, calls: [{ raw: text, refusal: refusalOf(text) }] };
  if (value.length > MAX_BATCH_CALLS) {
    const text = `A batch has at most ${MAX_BATCH_CALLS} calls.`;
    return { isBatch: false, calls: [{ raw: "", refusal: evmError("null", -32600, text) }] };
  }
  const spans = jsonElementSpans(text, text.indexOf("["))?.elements;
  if (spans === undefined || spans.length !== value.length) return undefined;
  const raws = spans.map(({ start, end }) => text.slice(start, end));
  return { isBatch: true, calls: raws.map((raw) => ({ raw, refusal: refusalOf(raw) })) };
}
