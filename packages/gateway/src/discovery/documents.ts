import { createHash } from "node:crypto";
import type { Answer } from "../http/answer.ts";
import type { Exchange } from "../http/request.ts";

/** A document as it is served: bytes and their validator. */
export interface Document {
  readonly contentType: string;
  readonly body: Uint8Array;
  /** Strong validator (RFC 9110 §8.8.3). */
  readonly etag: string;
  readonly cacheControl: string;
}

/** Makes a document of a text. `maxAgeSeconds` 0: to be asked for again each time. */
export function createDocument(contentType: string, text: string, maxAgeSeconds: number): Document {
  const body = Buffer.from(text, "utf8");
  const etag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`;
  const cacheControl = maxAgeSeconds === 0 ? "no-cache" : `public, max-age=${maxAgeSeconds}`;
  return { contentType, body, etag, cacheControl };
}

/** Serves a document: 304 when the client has this one already. `more` are further headers. */
export function documentAnswer(document: Document, { req }: Exchange, more: readonly string[] = []): Answer {
  const headers = ["ETag", document.etag, "Cache-Control", document.cacheControl, ...more];
  const known = req.headers["if-none-match"]?.split(",") ?? [];
  const same = known.some((tag) => matches(tag.trim(), document.etag));
  return same
    ? { status: 304, result: "ok", contentType: undefined, body: "", headers }
    : { status: 200, result: "ok", contentType: document.contentType, body: document.body, headers };
}

function matches(tag: string, etag: string): boolean {
  return tag === "*" || tag === etag || tag === `W/${etag}`;
}
