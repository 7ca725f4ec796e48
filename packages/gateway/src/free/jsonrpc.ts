import { isRecord, parseJson } from "@turnpike/base";

/** A JSON-RPC 2.0 call as the free door takes it. */
export interface FreeCall {
  readonly method: string;
  readonly params: unknown;
  /** Raw JSON text of the id; undefined for a notification. */
  readonly id: string | undefined;
}

/** Result of {@link readCall}. `id` is the raw text to answer with. */
export type ReadCall =
  | { readonly ok: true; readonly call: FreeCall }
  | { readonly ok: false; readonly rpcCode: number; readonly message: string; readonly id: string };

const refuse = (rpcCode: number, message: string, id = "null"): ReadCall => ({ ok: false, rpcCode, message, id });

/** Reads one JSON-RPC 2.0 request object (§4). A repeated key is refused: two readers may see two different calls. */
export function readCall(body: Uint8Array): ReadCall {
  const parsed = parseJson(body);
  if (!parsed.ok) {
    return parsed.reason === "syntax" || parsed.reason === "utf8"
      ? refuse(-32700, "Parse error: the body is not one JSON document in UTF-8.")
      : refuse(-32600, "Invalid Request: the body is too deep, too large, or repeats a key.");
  }
  const { value, members } = parsed;
  if (Array.isArray(value)) {
    return refuse(-32600, value.length === 0 ? "Invalid Request: the batch is empty." : "Batches are not served yet.");
  }
  if (!isRecord(value)) return refuse(-32600, "Invalid Request: the body is not an object.");
  const raw = members.find((member) => member.key === "id")?.raw;
  const id: unknown = value.id;
  const goodId = id === undefined || id === null || typeof id === "string" || typeof id === "number";
  const echo = goodId ? (raw ?? "null") : "null";
  if (!goodId) return refuse(-32600, "Invalid Request: `id` is neither a string, a number nor null.");
  if (value.jsonrpc !== "2.0") return refuse(-32600, 'Invalid Request: `jsonrpc` is not "2.0".', echo);
  const { method, params } = value;
  if (typeof method !== "string") return refuse(-32600, "Invalid Request: `method` is not a string.", echo);
  if (params !== undefined && (typeof params !== "object" || params === null)) {
    return refuse(-32600, "Invalid Request: `params` is neither an array nor an object.", echo);
  }
  return { ok: true, call: { method, params, id: raw } };
}

/** An error object with the id's raw text. */
export function rpcError(id: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code, message })}}`;
}
