import { hasLoneSurrogate, isRecord, type JsonMember, parseJson } from "@turnpike/base";
import { checkParams, type Operation, type Service } from "@turnpike/catalogue";
import type { CallInput, CallRefusal, ParsedCall } from "./family.ts";
import { matchPath, type Verb } from "./path-templates.ts";
import { formatPath, formatQuery, parsePath } from "./request-path.ts";

/** `GET /path?query` in the place of a method's name. */
const PATH_METHOD = /^(GET|POST) (\/[^?]*)(\?.*)?$/s;
/** Ids that every known node gives back unchanged. Others (floats, big integers, null) are kept back; see `sentId`. */
const SAFE_INTEGER_ID = /^(?:0|-?[1-9][0-9]{0,14})$/;
const SAFE_TEXT_ID = /^"[\x20-\x21\x23-\x5b\x5d-\x7e]{0,128}"$/;

const refuse = (code: CallRefusal["code"], message?: string): CallRefusal =>
  message === undefined ? { ok: false, code } : { ok: false, code, message };

/** A body that was read: one JSON object. */
export interface ReadBody {
  readonly ok: true;
  readonly value: Readonly<Record<string, unknown>>;
  readonly text: string;
  raw(key: string): string | undefined;
}

/** Reads the body of a paid call: exactly one JSON object, no key twice. */
export function readBody(body: Uint8Array): ReadBody | CallRefusal {
  if (body.length === 0) return refuse("BODY_REQUIRED");
  const parsed = parseJson(body);
  if (!parsed.ok) {
    if (parsed.reason === "duplicate") return refuse("DUPLICATE_KEY");
    if (parsed.reason === "depth" || parsed.reason === "nodes") {
      return refuse("MALFORMED_REQUEST", "The body is nested too deeply or has too many parts.");
    }
    return refuse("INVALID_JSON");
  }
  const { value, members, text } = parsed;
  if (hasLoneSurrogate(text)) return refuse("MALFORMED_REQUEST", "A string of the body holds half a surrogate pair.");
  if (Array.isArray(value)) return refuse("BATCH_NOT_SOLD");
  if (!isRecord(value)) return refuse("MALFORMED_REQUEST", "The body is not a JSON object.");
  const raw = (key: string): string | undefined => members.find((member: JsonMember) => member.key === key)?.raw;
  return { ok: true, value, text, raw };
}

/** What is wrong with the parameters of an operation, in words that are safe to show; undefined when they fit. */
export function paramsFault(service: Service, operation: Operation, params: unknown): string | undefined {
  const check = checkParams(service, operation.name, params);
  return check.ok ? undefined : `\`${check.path.slice(0, 120)}\` ${check.message.slice(0, 200)}.`;
}

function isEmptyParams(params: unknown): boolean {
  if (params === undefined || params === null) return true;
  return typeof params === "object" && Object.keys(params).length === 0;
}

/**
 * The id that is sent on. One that nodes are known to change or refuse (a float, a big integer, null: to CometBFT a
 * notification) is replaced by 1, and relay puts the client's back into the answer byte for byte.
 */
export function sentId(raw: string | undefined): { readonly id: string; readonly clientId?: string } {
  if (raw === undefined) return { id: "1" };
  if (SAFE_INTEGER_ID.test(raw) || SAFE_TEXT_ID.test(raw)) return { id: raw };
  return { id: "1", clientId: raw };
}

function rpcCall(service: Service, operation: Operation, read: ReadBody): ParsedCall {
  const { jsonrpc, id, params } = read.value;
  if (jsonrpc !== undefined && jsonrpc !== "2.0") return refuse("MALFORMED_REQUEST", '`jsonrpc` is not "2.0".');
  const rawId = read.raw("id");
  if (rawId !== undefined && id !== null && typeof id !== "string" && typeof id !== "number") {
    return refuse("MALFORMED_REQUEST", "`id` is not a string, a number or null.");
  }
  if (params !== undefined && params !== null && typeof params !== "object") {
    return refuse("INVALID_PARAMS", "`params` is neither a list nor an object.");
  }
  // A CometBFT node fails without a `params` member, and others differ about null.
  const isAbsent = params === undefined || params === null;
  const rawParams = isAbsent ? (operation.rpcType === "comet_bft" ? "{}" : "[]") : (read.raw("params") ?? "[]");
  const given: unknown = isAbsent ? (operation.rpcType === "comet_bft" ? {} : []) : params;
  const fault = paramsFault(service, operation, given);
  if (fault !== undefined) return refuse("INVALID_PARAMS", fault);
  const sent = sentId(rawId);
  const method = JSON.stringify(operation.name);
  return {
    ok: true,
    call: {
      rpcType: operation.rpcType,
      operation: operation.name,
      method: operation.name,
      verb: "POST",
      path: "",
      body: Buffer.from(`{"jsonrpc":"2.0","id":${sent.id},"method":${method},"params":${rawParams}}`),
      params: given,
      ...sent,
    },
  };
}

/** The call of a declared path. */
function pathCall(
  service: Service,
  verb: Verb,
  path: string,
  query: string,
  content: { readonly value: unknown; readonly text: string } | undefined,
  unlisted: CallRefusal["code"],
): ParsedCall {
  const segments = parsePath(path);
  const formatted = formatQuery(query);
  if (segments === undefined || formatted === undefined) return refuse("BAD_PATH");
  const operation = matchPath(service, verb, segments);
  if (operation === undefined) return refuse(unlisted);
  const value = content?.value ?? {};
  const fault = verb === "POST" ? paramsFault(service, operation, value) : undefined;
  if (fault !== undefined) return refuse("INVALID_PARAMS", fault);
  return {
    ok: true,
    call: {
      rpcType: operation.rpcType,
      operation: operation.name,
      verb,
      path: `${formatPath(segments)}${formatted}`,
      body: verb === "POST" ? Buffer.from(content?.text ?? "{}") : undefined,
      id: undefined,
      params: verb === "POST" ? value : undefined,
    },
  };
}

/** The declared schema asks for a `method`, so a body that only repeats what the path says is no other call. */
function saysTheSame(read: ReadBody, input: CallInput): boolean {
  const { method, params } = read.value;
  if (!isEmptyParams(params)) return false;
  if (Object.keys(read.value).length === 0) return true;
  const { appendedPath, query } = input;
  return (
    method === `GET ${appendedPath}${query}` || method === `GET ${appendedPath}` || method === appendedPath.slice(1)
  );
}

function appendedCall(service: Service, input: CallInput): ParsedCall {
  const { verb, appendedPath, query, body } = input;
  const segments = parsePath(appendedPath);
  if (segments === undefined) return refuse("BAD_PATH");
  const isGet = matchPath(service, "GET", segments) !== undefined;
  const isPost = matchPath(service, "POST", segments) !== undefined;
  if (!isGet && !isPost) return refuse("NOT_FOUND");
  if (verb === "GET" && !isGet) return refuse("VERB_NOT_ALLOWED");
  const read = body.length === 0 ? undefined : readBody(body);
  if (read !== undefined && !read.ok) return read;
  if (verb === "POST" && isPost) return pathCall(service, "POST", appendedPath, query, read, "NOT_FOUND");
  if (read !== undefined && !saysTheSame(read, input)) {
    return refuse("MALFORMED_REQUEST", "This path takes its arguments in the query string, not in a body.");
  }
  return pathCall(service, "GET", appendedPath, query, undefined, "NOT_FOUND");
}

function methodPathCall(service: Service, method: string, read: ReadBody): ParsedCall {
  const [, verb, path = "", query = ""] = PATH_METHOD.exec(method) ?? [];
  const { params } = read.value;
  if (verb !== "POST") {
    if (!isEmptyParams(params)) {
      return refuse("INVALID_PARAMS", "A GET path takes its arguments in its query string, not in `params`.");
    }
    return pathCall(service, "GET", path, query, undefined, "METHOD_NOT_ALLOWED");
  }
  const isAbsent = params === undefined || params === null;
  if (!isAbsent && typeof params !== "object") return refuse("INVALID_PARAMS");
  const content = isAbsent ? undefined : { value: params, text: read.raw("params") ?? "{}" };
  return pathCall(service, "POST", path, query, content, "METHOD_NOT_ALLOWED");
}

/**
 * Makes the call of a chain's paid route, in any of its forms: `{method, params}` with a declared method, `{method:
 * "GET /path?query"}`, or a declared path appended to the route (spec §4.1.2, 4.1.3). What was declared decides how the
 * back-end is spoken to, so that a network with two families needs no guess. The body is rebuilt from the raw texts of
 * its known members; others are dropped.
 */
export function parseDeclaredCall(service: Service, input: CallInput): ParsedCall {
  if (input.appendedPath !== "") return appendedCall(service, input);
  if (input.verb === "GET") return refuse("VERB_NOT_ALLOWED");
  const read = readBody(input.body);
  if (!read.ok) return read;
  const { method } = read.value;
  if (typeof method !== "string") return refuse("MALFORMED_REQUEST", "`method` is missing or is not a string.");
  if (PATH_METHOD.test(method)) return methodPathCall(service, method, read);
  const operation = service.operations.get(method);
  if (operation === undefined || (operation.rpcType !== "json_rpc" && operation.rpcType !== "comet_bft")) {
    return refuse("METHOD_NOT_ALLOWED");
  }
  // A template's own text (`GET /block/{height}`) is a name in the catalogue, not a method.
  if (method.includes(" ")) return refuse("METHOD_NOT_ALLOWED");
  return rpcCall(service, operation, read);
}
