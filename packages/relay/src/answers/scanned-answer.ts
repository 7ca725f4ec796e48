import { isUtf8 } from "node:buffer";
import {
  asBuffer,
  hopJsonMembers,
  isJson,
  isRecord,
  type JsonMemberSpan,
  jsonMemberSpans,
  jsonText,
  jsonValueEnd,
  skipJsonSpace,
} from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import type { ErrorJudgement, Family } from "../families/family.ts";
import { familyOf } from "../families/registry.ts";
import { replaceSpan } from "../members.ts";
import { headerOf, type UpstreamResponse } from "../transport/transport.ts";
import {
  failedShowing,
  failedWith,
  isSuccess,
  malformed,
  mayCarryError,
  readError,
  refusedAnswer,
  wantedIdOf,
} from "./rules.ts";
import {
  type AnswerSource,
  type AttemptResult,
  createAnswer,
  failedAttempt,
  type UpstreamAnswer,
} from "./upstream-answer.ts";

/** One JSON-RPC response object within bytes, scanned. */
export interface ScannedObject {
  readonly bytes: Buffer;
  /** All the bytes as `jsonText` gives them; undefined where they were not made into a text. */
  readonly text: string | undefined;
  /** Where what is passed on begins and ends: the object, with the white space around one that came alone. */
  readonly start: number;
  readonly end: number;
  readonly members: readonly JsonMemberSpan[];
}

const JSON_TYPE = /^application\/(?:[a-z0-9.+-]+\+)?json\b/i;

function good(source: AnswerSource, body: Uint8Array, isError: boolean): UpstreamAnswer {
  return createAnswer(source, { body, schemaCheck: "unchecked", isError });
}

/** Members of a usual answer. */
const ENVELOPE_KEYS = ["jsonrpc", "id", "result", "error"] as const;
/** Larger answers are read by their brackets first. */
const LARGE_BYTES = 2_048;

/** Scans an answer that should be one JSON object and nothing else; undefined when it is not. */
export function scanObject(body: Uint8Array): ScannedObject | undefined {
  const bytes = asBuffer(body);
  const end = bytes.length;
  const hopped = end > LARGE_BYTES ? hopJsonMembers(bytes, ENVELOPE_KEYS) : undefined;
  if (hopped !== undefined) return { bytes, text: undefined, start: 0, end, members: hopped };
  const text = jsonText(bytes);
  const found = jsonMemberSpans(text, skipJsonSpace(text, 0));
  if (found === undefined || skipJsonSpace(text, found.end) !== end) return undefined;
  return { bytes, text, start: 0, end, members: found.members };
}

/** Scans an answer that should be an array of JSON objects; undefined when it is not whole. Others than objects are left out. */
export function scanObjects(body: Uint8Array): readonly ScannedObject[] | undefined {
  const bytes = asBuffer(body);
  const objects: ScannedObject[] = [];
  let at = skipJsonSpace(bytes, 0);
  if (bytes[at] !== 0x5b || !isUtf8(bytes)) return undefined;
  const text = jsonText(bytes);
  at = skipJsonSpace(text, at + 1);
  if (bytes[at] === 0x5d) return skipJsonSpace(text, at + 1) === bytes.length ? objects : undefined;
  for (;;) {
    const found = jsonMemberSpans(text, at);
    if (found !== undefined) objects.push({ bytes, text, start: at, end: found.end, members: found.members });
    const end = found?.end ?? jsonValueEnd(text, at);
    if (end === -1) return undefined;
    at = skipJsonSpace(text, end);
    if (bytes[at] === 0x5d) return skipJsonSpace(text, at + 1) === bytes.length ? objects : undefined;
    if (bytes[at] !== 0x2c) return undefined;
    at = skipJsonSpace(text, at + 1);
  }
}

const NOT_ASCII = /[\x80-\xff]/;

function rawText({ bytes, text }: ScannedObject, { start, end }: JsonMemberSpan): string {
  if (text === undefined) return bytes.toString("utf8", start, end);
  const raw = text.slice(start, end);
  return NOT_ASCII.test(raw) ? bytes.toString("utf8", start, end) : raw;
}

/** Raw text of a member; undefined when it is not there. */
export function rawMember(object: ScannedObject, key: string): string | undefined {
  for (const member of object.members) if (member.key === key) return rawText(object, member);
  return undefined;
}

function sameValue(raw: string, wanted: string): boolean {
  if (raw === wanted) return true;
  try {
    return JSON.parse(raw) === JSON.parse(wanted);
  } catch {
    return false;
  }
}

function parseSpan(object: ScannedObject, span: { readonly start: number; readonly end: number }): unknown {
  try {
    return JSON.parse(object.bytes.toString("utf8", span.start, span.end)) as unknown;
  } catch {
    return undefined;
  }
}

/** The object's bytes with the id's value as `id`. */
function withId(object: ScannedObject, id: JsonMemberSpan, raw: string | undefined): Uint8Array {
  const { bytes, start, end } = object;
  const own = start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end);
  if (raw === undefined) return own;
  return replaceSpan(own, { start: id.start - start, end: id.end - start }, raw);
}

/** The error of a method that no supplier has, without a supplier's text. */
function methodNotAvailable(rawId: string): Uint8Array {
  return Buffer.from(
    `{"jsonrpc":"2.0","id":${rawId},"error":{"code":-32601,"message":"The method is not available."}}`,
  );
}

/**
 * Reads one JSON-RPC response by its top-level members. The result is passed on as it is: known to be JSON, and not
 * parsed.
 */
export function readRpcObject(
  family: Family,
  source: AnswerSource,
  object: ScannedObject,
  wantedId: string,
): AttemptResult {
  const { call, response } = source;
  const { status } = response;
  // A text that is passed on is JSON as a whole: malformed bytes are their supplier's own evidence.
  if (!isJson(object.bytes, object.start, object.end)) return malformed(status, "not_json");
  let version: JsonMemberSpan | undefined;
  let id: JsonMemberSpan | undefined;
  let result: JsonMemberSpan | undefined;
  let error: JsonMemberSpan | undefined;
  for (const member of object.members) {
    if (member.key === "jsonrpc") {
      if (version !== undefined) return malformed(status, "not_json");
      version = member;
    } else if (member.key === "id") {
      if (id !== undefined) return malformed(status, "not_json");
      id = member;
    } else if (member.key === "result") {
      if (result !== undefined) return malformed(status, "not_json");
      result = member;
    } else if (member.key === "error") {
      if (error !== undefined) return malformed(status, "not_json");
      error = member;
    }
  }
  const isModern = version !== undefined && version.end - version.start === 5 && rawText(object, version) === '"2.0"';
  if (!isModern) return malformed(status, "no_jsonrpc");
  if (id === undefined) return malformed(status, "wrong_id");
  const rawId = rawText(object, id);
  if (!sameValue(rawId, wantedId)) return malformed(status, "wrong_id");
  if ((result === undefined) === (error === undefined)) return malformed(status, "both_or_neither");
  const clientId = call.clientId ?? (rawId === wantedId ? undefined : wantedId);
  const body = withId(object, id, clientId);
  const grown = clientId === undefined ? 0 : Buffer.byteLength(clientId) - (id.end - id.start);
  const idAt = { start: id.start - object.start, end: id.end - object.start + grown };
  if (result !== undefined) {
    if (!isSuccess(status)) return failedAttempt("supplier", "http_status");
    const shift = (result.start > id.start ? grown : 0) - object.start;
    const resultAt = { start: result.start + shift, end: result.end + shift };
    return createAnswer(source, { body, schemaCheck: "unchecked", isError: false, idAt, resultAt });
  }
  if (error === undefined) return malformed(status, "both_or_neither");
  const stated = readError(parseSpan(object, error));
  if (stated === undefined) return malformed(status, "bad_error");
  if (!mayCarryError(family, status)) return failedAttempt("supplier", "http_status");
  const judged = family.judgeRpcError(stated, call);
  if (judged === "answer") return createAnswer(source, { body, schemaCheck: "unchecked", isError: true, idAt });
  const failed = failedWith(judged, rawText(object, error), body, source);
  // What it says may not be shown, such as where its documentation is; that the method is not there may.
  const isHidden = failed.reason === "unsupported" && failed.fallback === undefined;
  return isHidden ? failedShowing(judged, methodNotAvailable(clientId ?? rawId), source) : failed;
}

function classifyRpc(family: Family, source: AnswerSource, wantedId: string): AttemptResult {
  const { status, body } = source.response;
  if (body.length === 0) return malformed(status, "empty");
  const object = isUtf8(body) ? scanObject(body) : undefined;
  if (object === undefined) return malformed(status, "not_json");
  return readRpcObject(family, source, object, wantedId);
}

function judgeHttp(family: Family, call: BackendCall, status: number, value: unknown): ErrorJudgement | undefined {
  return isSuccess(status) ? family.judgeHttpBody?.(value) : family.judgeHttpError(status, value, call);
}

/** Binary, where the client asked for that: any byte may come first. */
function isSsz({ headers }: BackendCall, response: UpstreamResponse): boolean {
  const isAsked = headers?.accept?.includes("application/octet-stream") === true;
  const isBinary = isAsked && /^application\/octet-stream\b/i.test(headerOf(response, "content-type"));
  return isBinary && isSuccess(response.status);
}

/** A text without the byte-order mark of UTF-8, behind which a browser would still find a page, and a JSON reader nothing. */
function withoutMark(body: Uint8Array): Uint8Array {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? body.subarray(3) : body;
}

/** Reads an answer of a path: JSON has to be whole, a page of HTML is never an answer, other types pass as they came. */
function classifyPath(family: Family, source: AnswerSource): AttemptResult {
  const { call, response } = source;
  const { status } = response;
  const body = isSsz(call, response) ? response.body : withoutMark(response.body);
  const contentType = headerOf(response, "content-type");
  const fault = malformed(status, "not_json");
  if (body.length === 0) {
    const mayBeEmpty = isSuccess(status) && family.id === "beacon";
    return mayBeEmpty ? good(source, body, false) : malformed(status, "empty");
  }
  if (isSsz(call, response)) {
    const version = headerOf(response, "eth-consensus-version");
    const consensusVersion = /^[a-z0-9]{1,32}$/i.test(version) ? version : undefined;
    return createAnswer(source, { body, schemaCheck: "unchecked", isError: false, consensusVersion });
  }
  const first = skipJsonSpace(body, 0);
  if (body[first] === 0x3c || /html/i.test(contentType)) return fault;
  if (!JSON_TYPE.test(contentType) && body[first] !== 0x7b && body[first] !== 0x5b) {
    return isSuccess(status) ? good(source, body, false) : fault;
  }
  if (!isUtf8(body) || !isJson(body)) return fault;
  if (isSuccess(status) && family.judgeHttpBody === undefined) return good(source, body, false);
  const text = asBuffer(body).toString();
  let value: unknown;
  try {
    value = JSON.parse(text) as unknown;
  } catch {
    return fault;
  }
  const judged = judgeHttp(family, call, status, value);
  if (judged === undefined || judged === "answer") return good(source, body, judged === "answer");
  // A back-end's own error is passed on when no supplier has anything better; a proxy's page is not, nor an error about the
  // back-end itself.
  const isStated = isRecord(value) && (typeof value.message === "string" || Object.hasOwn(value, "code"));
  const isTrouble = status >= 500 && judged.blame === "supplier" && judged.reason !== "unsupported";
  return isStated && !isTrouble ? failedWith(judged, text, body, source) : failedAttempt(judged.blame, judged.reason);
}

/**
 * Reads the answer to a free call: `parseAnswer` for bytes that are passed on. Envelope, id and wholeness are held
 * against the supplier as there; results are neither parsed nor held against a schema.
 */
export function scanAnswer(service: Service, source: AnswerSource): AttemptResult {
  const { call, response } = source;
  const refused = refusedAnswer(response);
  if (refused !== undefined) return refused;
  const family = familyOf(service, call.rpcType);
  const wantedId = wantedIdOf(call);
  if (wantedId === undefined) return classifyPath(family, source);
  return classifyRpc(family, source, wantedId);
}
