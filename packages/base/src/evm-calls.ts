import { argumentFault, type EvmBounds, fieldsOf, foldedKey } from "./evm-arguments.ts";
import { isRecord, parseJson } from "./json.ts";
import { jsonElementSpans } from "./json-spans.ts";

/** Rules for the calls that are passed to an EVM node. */
export interface EvmRules {
  readonly bounds: EvmBounds;
  /** Methods that are passed; all of them where it is not set. */
  readonly methods?: ReadonlySet<string>;
}

/** One call of a JSON-RPC body. */
export interface EvmCall {
  /** Its text, as sent. */
  readonly raw: string;
  /** Its id as sent; undefined for a notification. */
  readonly id: string | undefined;
  /** Why it is not passed, as a JSON-RPC answer that is empty for a notification; undefined for a call that is. */
  readonly refusal: string | undefined;
}

/** A JSON-RPC body for an EVM node. */
export interface EvmBody {
  readonly isBatch: boolean;
  readonly calls: readonly EvmCall[];
}

/** More than fit in the largest body of a node. */
const LIMITS = { maxNodes: 1_000_000 };

/** A JSON-RPC error as text; `id` is raw JSON. */
export function evmError(id: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${id},"error":{"code":${code},"message":${JSON.stringify(message)}}}`;
}

/** True when an object at any level has two keys that a node may take for one: {@link foldedKey}. */
function repeatsFoldedKey(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(repeatsFoldedKey);
  if (!isRecord(value)) return false;
  const keys = Object.keys(value);
  return new Set(keys.map(foldedKey)).size < keys.length || Object.values(value).some(repeatsFoldedKey);
}

function readCall(raw: string, { bounds, methods }: EvmRules): EvmCall {
  const read = parseJson(raw, LIMITS);
  const id = read.ok ? read.members.find(({ key }) => foldedKey(key) === "id")?.raw : undefined;
  const fields = read.ok && !repeatsFoldedKey(read.value) ? fieldsOf(read.value) : undefined;
  const method = fields?.get("method");
  if (typeof method !== "string") return { raw, id, refusal: evmError(id ?? "null", -32600, "Invalid Request") };
  const refuse = (code: number, text: string): EvmCall => ({
    raw,
    id,
    refusal: id === undefined ? "" : evmError(id, code, text),
  });
  if (methods?.has(method) === false) {
    return refuse(-32601, `The method ${method.slice(0, 64)} is not offered by this node's guard.`);
  }
  const fault = argumentFault(method, fields?.get("params"), bounds);
  return fault === undefined
    ? { raw, id, refusal: undefined }
    : refuse(-32602, `${fault[0]?.toUpperCase()}${fault.slice(1)}.`);
}

/**
 * Reads a body and says which of its calls may reach a node. Undefined: it is not JSON, or repeats a key, so that the
 * node might read another method than its guard.
 */
export function readEvmBody(bytes: Uint8Array, rules: EvmRules): EvmBody | undefined {
  const read = parseJson(bytes, LIMITS);
  if (!read.ok) return undefined;
  const { text, value } = read;
  if (!Array.isArray(value)) return { isBatch: false, calls: [readCall(text, rules)] };
  const { maxBatchCalls } = rules.bounds;
  if (value.length > maxBatchCalls) {
    const refusal = evmError("null", -32600, `A batch has at most ${maxBatchCalls} calls.`);
    return { isBatch: false, calls: [{ raw: "", id: undefined, refusal }] };
  }
  const spans = jsonElementSpans(text, text.indexOf("["))?.elements;
  if (spans === undefined || spans.length !== value.length) return undefined;
  return { isBatch: true, calls: spans.map(({ start, end }) => readCall(text.slice(start, end), rules)) };
}

const PARSE_ERROR = evmError("null", -32700, "Parse error");

/**
 * Returns the JSON-RPC answer to a body that may not reach a node, undefined for one that may. A batch is passed whole or
 * not at all: with a call that is refused, none is made, and each has its error. Empty: there were notifications alone.
 */
export function evmRefusal(bytes: Uint8Array, rules: EvmRules): string | undefined {
  const body = readEvmBody(bytes, rules);
  if (body === undefined) return PARSE_ERROR;
  const { isBatch, calls } = body;
  if (calls.every(({ refusal }) => refusal === undefined)) return undefined;
  const answers = calls.map(({ id, refusal }) => {
    if (refusal !== undefined || id === undefined) return refusal ?? "";
    // An error that clients and gateways send again.
    return evmError(id, -32005, "Not made: another call of this batch was refused. Send it again without that one.");
  });
  const text = answers.filter((answer) => answer !== "").join(",");
  return isBatch && text !== "" ? `[${text}]` : text;
}
