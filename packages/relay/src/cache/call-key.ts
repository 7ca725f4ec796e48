import { createHash } from "node:crypto";
import { jsonMemberSpans } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";

/** Calls with longer bodies are neither shared nor kept. */
export const MAX_KEYED_BYTES = 65_536;
/** Longer keys are hashed. */
const MAX_KEY_CHARS = 1_024;

const without = (bytes: Buffer, id: { readonly start: number; readonly end: number }): string =>
  `${bytes.toString("latin1", 0, id.start)}\n${bytes.toString("latin1", id.end)}`;

/** The bytes of a JSON-RPC call without its id's; undefined when it has none, or two. */
function bodyWithoutId({ idAt, bodyText }: BackendCall, body: Uint8Array): string | undefined {
  if (idAt !== undefined && bodyText !== undefined) {
    return `${bodyText.slice(0, idAt.start)}\n${bodyText.slice(idAt.end)}`;
  }
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (idAt !== undefined) return without(bytes, idAt);
  let id: { readonly start: number; readonly end: number } | undefined;
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

function textKey({ rpcType, verb, path, headers }: BackendCall, text: string): string {
  // Almost all calls are these, and the engine has to put the parts together. Other keys have a space after the way.
  if (verb === "POST" && path === "" && headers === undefined) return `${rpcType}\n${text}`;
  return `${rpcType} ${verb} ${path}\n${headers === undefined ? "" : headerLines(headers)}\n${text}`;
}

/**
 * What makes two calls of one service the same: way, verb, path with query, the headers that the answer depends on, and
 * all bytes of the body but the id's. Numbers are not read, so that two big integers that a float cannot tell apart stay
 * two calls. Undefined for what is not shared.
 */
export function callKey(call: BackendCall): string | undefined {
  const { body } = call;
  let text = "";
  if (body !== undefined) {
    if (body.length > MAX_KEYED_BYTES) return undefined;
    const own = call.id === undefined ? Buffer.from(body).toString("latin1") : bodyWithoutId(call, body);
    if (own === undefined) return undefined;
    text = own;
  }
  const key = textKey(call, text);
  if (key.length <= MAX_KEY_CHARS) return key;
  // Not latin1: a path or a header may hold other characters, and two calls must not become one.
  return createHash("sha256").update(key, "utf8").digest("base64");
}
