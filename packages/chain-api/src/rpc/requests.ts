import type { RpcId } from "./answers.ts";
import {
  elementsOf,
  goJsonText,
  type JsonKind,
  kindOf,
  membersOf,
  type RawJson,
  rawToValue,
  scanFirst,
  scanWhole,
} from "./go-json.ts";

/** One request that wants an answer. */
export interface RpcRequest {
  readonly id: RpcId;
  readonly method: string;
  /** Undefined: it has no `params` at all. */
  readonly params: RawJson | undefined;
}

/** A request, `undefined` for a notification (it gets no answer), or why the text is none. */
export type ReadRequest =
  | { readonly ok: true; readonly request: RpcRequest | undefined }
  | { readonly ok: false; readonly fault: string };

/** Requests of a body, and whether they were a batch. */
export type ReadRequests =
  | { readonly ok: true; readonly batch: boolean; readonly requests: readonly (RpcRequest | undefined)[] }
  | { readonly ok: false; readonly fault: string };

// Go prints the type that it reads a request into.
const GO_STRUCT =
  'struct { JSONRPC string "json:\\"jsonrpc\\""; ID interface {} "json:\\"id,omitempty\\""; Method string "json:\\"method\\""; Params json.RawMessage "json:\\"params\\"" }';
const MOST_ID = 2n ** 63n;

const refused = (fault: string): { readonly ok: false; readonly fault: string } => ({ ok: false, fault });
const wrongKind = (kind: JsonKind, into: string): { readonly ok: false; readonly fault: string } =>
  refused(`json: cannot unmarshal ${kind} into ${into}`);

// Numbers lose what is behind the point, as an int of Go does.
function idText(
  raw: RawJson,
): { readonly ok: true; readonly id: RpcId } | { readonly ok: false; readonly fault: string } {
  const kind = kindOf(raw);
  if (kind === "string") return { ok: true, id: goJsonText(String(rawToValue(raw))) };
  if (kind === "number") {
    const value = Math.trunc(Number(raw));
    const inRange = Number.isFinite(value) && BigInt(value) < MOST_ID && BigInt(value) >= -MOST_ID;
    return { ok: true, id: (inRange ? BigInt(value) : -MOST_ID).toString() };
  }
  const types = { bool: "bool", array: "[]interface {}", object: "map[string]interface {}" } as const;
  const type = kind === "null" ? "<nil>" : types[kind];
  const shown = kind === "bool" ? raw : kind === "array" ? "[]" : "map[]";
  return refused(`json-rpc ID (${shown}) is of unknown type (${type})`);
}

/** Reads one scanned value as a request. */
function requestOf(raw: RawJson, maxDepth: number): ReadRequest {
  const kind = kindOf(raw);
  if (kind === "null") return { ok: true, request: undefined };
  if (kind !== "object") return wrongKind(kind, `Go value of type ${GO_STRUCT}`);
  const members = membersOf(raw, maxDepth);
  for (const name of ["jsonrpc", "method"]) {
    const member = members.get(name) ?? "null";
    const memberKind = kindOf(member);
    if (memberKind !== "string" && memberKind !== "null") {
      return wrongKind(memberKind, `Go struct field .${name} of type string`);
    }
  }
  const rawId = members.get("id") ?? "null";
  if (rawId === "null") return { ok: true, request: undefined };
  const id = idText(rawId);
  if (!id.ok) return id;
  const method = rawToValue(members.get("method") ?? '""');
  return {
    ok: true,
    request: { id: id.id, method: typeof method === "string" ? method : "", params: members.get("params") },
  };
}

/**
 * Reads a body: one request, or a list of them.
 * @param most longest list that is read; of a longer one, that many requests and one more
 */
export function readRequests(body: string, maxDepth: number, most: number): ReadRequests {
  const scanned = scanWhole(body, maxDepth);
  if (!scanned.ok) return refused(scanned.fault);
  if (kindOf(scanned.raw) === "array") {
    const requests: (RpcRequest | undefined)[] = [];
    const elements = elementsOf(scanned.raw, maxDepth, most + 1);
    for (const element of elements) {
      const one = requestOf(element, maxDepth);
      if (!one.ok) break;
      requests.push(one.request);
    }
    if (requests.length === elements.length) return { ok: true, batch: true, requests };
  }
  const single = requestOf(scanned.raw, maxDepth);
  return single.ok ? { ok: true, batch: false, requests: [single.request] } : single;
}

/** Reads a WebSocket message: its first value is the request, what follows is skipped. */
export function readMessage(text: string, maxDepth: number): ReadRequest {
  const scanned = scanFirst(text, maxDepth);
  if (scanned.ok) return requestOf(scanned.raw, maxDepth);
  if (scanned.fault !== "unexpected end of JSON input") return refused(scanned.fault);
  return refused(/^[ \t\r\n]*$/.test(text) ? "EOF" : "unexpected EOF");
}

/** A text of bytes as Go prints a list of them: `[49 50]`; cut where it gets long. */
export function byteList(raw: RawJson): string {
  const shown = raw.slice(0, 256);
  return `[${Array.from(shown, (char) => char.charCodeAt(0)).join(" ")}${raw.length > shown.length ? " …" : ""}]`;
}
