import { createHash, randomInt } from "node:crypto";
import { asBuffer, jsonMemberSpans } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import type { MemberSpan } from "../members.ts";

/** Calls with longer bodies are neither shared nor kept. */
export const MAX_KEYED_BYTES = 65_536;
/** Longer keys are hashed. */
const MAX_KEY_CHARS = 1_024;

/** What makes two calls of one service the same. */
export interface CallKey {
  readonly text: string;
  /**
   * 32 bits, the same for equal texts, and made with a secret of this process. Maps go by it, since most keys are looked up
   * once: V8 makes one piece of a text, and enters it in a table of all texts, before it looks it up.
   */
  readonly hash: number;
}

const SEED = randomInt(2 ** 32);

/** FNV-1a. */
const hashed = (hash: number, code: number): number => Math.imul(hash ^ code, 0x01000193);

/** The seed's own bits and the last characters reach all bits. */
function finished(hash: number): number {
  const mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) >>> 0;
}

function hashText(start: number, text: string): number {
  let hash = start;
  for (let at = 0; at < text.length; at++) hash = hashed(hash, text.charCodeAt(at));
  return hash;
}

function hashBytes(start: number, bytes: Uint8Array, from: number, to: number): number {
  let hash = start;
  for (let at = from; at < to; at++) hash = hashed(hash, bytes[at] ?? 0);
  return hash;
}

/** The key of this text. */
export function keyOf(text: string): CallKey {
  return { text, hash: finished(hashText(SEED, text)) };
}

const LINE_FEED = 0x0a;

/** The key of a usual call, from the bytes that its text is made of: characters of a part of a text are slow to read. */
function usualKey(rpcType: string, text: string, body: Uint8Array, id: MemberSpan): CallKey {
  const start = hashed(hashText(SEED, rpcType), LINE_FEED);
  const before = hashed(hashBytes(start, body, 0, id.start), LINE_FEED);
  return { text, hash: finished(hashBytes(before, body, id.end, body.length)) };
}

const without = (bytes: Buffer, id: MemberSpan): string =>
  `${bytes.toString("latin1", 0, id.start)}\n${bytes.toString("latin1", id.end)}`;

/** The bytes of a JSON-RPC call without its id's; undefined when it has none, or two. */
function bodyWithoutId({ idAt, bodyText }: BackendCall, body: Uint8Array): string | undefined {
  if (idAt !== undefined && bodyText !== undefined) {
    return `${bodyText.slice(0, idAt.start)}\n${bodyText.slice(idAt.end)}`;
  }
  const bytes = asBuffer(body);
  if (idAt !== undefined) return without(bytes, idAt);
  let id: MemberSpan | undefined;
  for (const member of jsonMemberSpans(bytes, 0)?.members ?? []) {
    if (member.key !== "id") continue;
    if (id !== undefined) return undefined;
    id = member;
  }
  if (id === undefined) return undefined;
  return without(bytes, id);
}

/** Header lines, in one order. No value of a header holds a line feed. */
function headerLines(headers: Readonly<Record<string, string>>): string {
  const names = Object.keys(headers).sort();
  return names.map((name) => `${name}:${headers[name] ?? ""}\n`).join("");
}

/** Almost all calls are: their key is the way and the text. Other keys have a space after the way. */
function isUsualCall({ verb, path, headers }: BackendCall): boolean {
  return verb === "POST" && path === "" && headers === undefined;
}

function textKey(call: BackendCall, text: string): string {
  const { rpcType, verb, path, headers } = call;
  if (isUsualCall(call)) return `${rpcType}\n${text}`;
  return `${rpcType} ${verb} ${path}\n${headers === undefined ? "" : headerLines(headers)}\n${text}`;
}

/**
 * What makes two calls of one service the same: way, verb, path with query, the headers that the answer depends on, and
 * all bytes of the body but the id's. Numbers are not read, so that two big integers that a float cannot distinguish stay
 * two calls. Undefined for what is not shared.
 */
export function callKey(call: BackendCall): CallKey | undefined {
  const { body, idAt, bodyText } = call;
  let text = "";
  if (body !== undefined) {
    if (body.length > MAX_KEYED_BYTES) return undefined;
    const own = call.id === undefined ? Buffer.from(body).toString("latin1") : bodyWithoutId(call, body);
    if (own === undefined) return undefined;
    text = own;
  }
  const key = textKey(call, text);
  // Not latin1: a path or a header may hold other characters, and two calls must not become one.
  if (key.length > MAX_KEY_CHARS) return keyOf(createHash("sha256").update(key, "utf8").digest("base64"));
  const isUsual = isUsualCall(call) && body !== undefined && idAt !== undefined && bodyText !== undefined;
  return isUsual ? usualKey(call.rpcType, key, body, idAt) : keyOf(key);
}
