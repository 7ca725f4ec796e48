import { isAscii, isUtf8 } from "node:buffer";
import {
  asBuffer,
  hasLoneSurrogate,
  isRecord,
  type JsonMemberSpan,
  jsonMemberSpans,
  jsonText,
  jsonValueEnd,
  skipJsonSpace,
} from "@turnpike/base";
import type { FreeRpc } from "@turnpike/relay";

/** One entry of a JSON-RPC body. `id` is raw JSON text, as the client sent it. */
export type RpcItem =
  | { readonly kind: "call"; readonly rpc: FreeRpc; readonly id: string }
  | { readonly kind: "notification"; readonly rpc: FreeRpc }
  | { readonly kind: "invalid"; readonly id: string; readonly message: string };

/** What a body is. */
export type RpcBody =
  | { readonly kind: "single"; readonly item: RpcItem }
  | { readonly kind: "batch"; readonly items: readonly RpcItem[] }
  | { readonly kind: "refused"; readonly rpcCode: number; readonly message: string }
  | { readonly kind: "too_many"; readonly count: number };

/** Texts of longer bodies are not held. */
const MAX_HELD_CHARS = 16_384;

const invalid = (message: string, id = "null"): RpcItem => ({
  kind: "invalid",
  id,
  message: `Invalid Request: ${message}`,
});
const refused = (rpcCode: number, message: string): RpcBody => ({ kind: "refused", rpcCode, message });

const PARSE_ERROR = refused(-32700, "Parse error: the body is not one JSON document in UTF-8.");

/**
 * Reads a JSON-RPC 2.0 body: one request object (§4) or a batch of them (§6). Only the members of the request objects
 * themselves are looked at, and their bytes kept. An object that says `id`, `method`, `params` or `jsonrpc` twice is
 * refused: two readers may see two different calls.
 */
export function readRpcBody(body: Uint8Array, maxItems: number): RpcBody {
  const bytes = asBuffer(body);
  if (bytes.length === 0) return PARSE_ERROR;
  // One character a byte: of ASCII, that is the text itself.
  const text = jsonText(bytes);
  const source: Source = { bytes, text, isAscii: isAscii(bytes), hasEscapes: text.includes("\\u") };
  let value: unknown;
  try {
    if (!source.isAscii && !isUtf8(bytes)) return PARSE_ERROR;
    value = JSON.parse(source.isAscii ? text : bytes.toString("utf8")) as unknown;
  } catch {
    return PARSE_ERROR;
  }
  const start = skipJsonSpace(text, 0);
  if (!Array.isArray(value)) {
    const found = jsonMemberSpans(text, start);
    if (found === undefined && isRecord(value)) return TOO_DEEP;
    return { kind: "single", item: readItem(value, source, start, found) };
  }
  if (value.length === 0) return refused(-32600, "Invalid Request: the batch is empty.");
  if (value.length > maxItems) return { kind: "too_many", count: value.length };
  const items: RpcItem[] = [];
  let at = start;
  for (const one of value as readonly unknown[]) {
    // The bracket, or the comma.
    at = skipJsonSpace(text, at + 1);
    const found = jsonMemberSpans(text, at);
    const end = found?.end ?? jsonValueEnd(text, at);
    if (end === -1) return TOO_DEEP;
    items.push(readItem(one, source, at, found));
    at = skipJsonSpace(text, end);
  }
  return { kind: "batch", items };
}

const TOO_DEEP = refused(-32600, "Invalid Request: it is nested too deeply.");

/** A body, and its text with one character a byte. */
interface Source {
  readonly bytes: Buffer;
  readonly text: string;
  readonly isAscii: boolean;
  /** False when no string can hold half a surrogate pair. */
  readonly hasEscapes: boolean;
}

const isLone = (text: string, { start, end }: JsonMemberSpan): boolean => hasLoneSurrogate(text.slice(start, end));

function readItem(
  value: unknown,
  { bytes, text, isAscii: isPlainText, hasEscapes }: Source,
  start: number,
  found: { readonly members: readonly JsonMemberSpan[]; readonly end: number } | undefined,
): RpcItem {
  if (!isRecord(value) || found === undefined) return invalid("it is not an object.");
  let id: JsonMemberSpan | undefined;
  let paramsSpan: JsonMemberSpan | undefined;
  let versionSpan: JsonMemberSpan | undefined;
  let methodSpan: JsonMemberSpan | undefined;
  let isPlain = true;
  for (const member of found.members) {
    let known: JsonMemberSpan | undefined;
    switch (member.key) {
      case "id":
        known = id;
        id = member;
        break;
      case "params":
        known = paramsSpan;
        paramsSpan = member;
        break;
      case "method":
        known = methodSpan;
        methodSpan = member;
        break;
      case "jsonrpc":
        known = versionSpan;
        versionSpan = member;
        break;
      default:
        isPlain = false;
    }
    if (known !== undefined) return invalid(`it repeats \`${member.key}\`.`);
  }
  const isGoodId =
    id === undefined || value.id === null || typeof value.id === "string" || typeof value.id === "number";
  if (!isGoodId) return invalid("`id` is neither a string, a number nor null.");
  const raw =
    id === undefined
      ? undefined
      : isPlainText
        ? text.slice(id.start, id.end)
        : bytes.toString("utf8", id.start, id.end);
  if (value.jsonrpc !== "2.0") return invalid('`jsonrpc` is not "2.0".', raw);
  const { method, params } = value;
  if (typeof method !== "string") return invalid("`method` is not a string.", raw);
  if (hasEscapes && (!method.isWellFormed() || (paramsSpan !== undefined && isLone(text, paramsSpan)))) {
    return invalid("a string of it holds half a surrogate pair.", raw);
  }
  if (params !== undefined && (typeof params !== "object" || params === null)) {
    return invalid("`params` is neither an array nor an object.", raw);
  }
  const isWhole = start === 0 && found.end === bytes.length;
  const rpc: FreeRpc = {
    method,
    params,
    body: isWhole ? bytes : bytes.subarray(start, found.end),
    // A part of a text holds all of it, as long as the call is under way; budgets count the bytes only.
    bodyText: text.length > MAX_HELD_CHARS ? undefined : isWhole ? text : text.slice(start, found.end),
    id: moved(id, start),
    rawId: raw,
    paramsSpan: moved(paramsSpan, start),
    isPlain,
  };
  return raw === undefined ? { kind: "notification", rpc } : { kind: "call", rpc, id: raw };
}

function moved(span: JsonMemberSpan | undefined, by: number): JsonMemberSpan | undefined {
  if (span === undefined || by === 0) return span;
  return { key: span.key, start: span.start - by, end: span.end - by };
}
