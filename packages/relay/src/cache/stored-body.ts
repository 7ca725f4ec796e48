import { asBuffer } from "@turnpike/base";
import type { MemberSpan } from "../members.ts";

/** Shorter bodies are kept as text: a buffer of its own takes some hundred bytes more, and longer to make. */
const MAX_TEXT_BYTES = 4_096;

/** A body without the bytes of its id, held in memory of its own. */
export interface StoredBody {
  /** All of it, one character a byte, or as bytes. */
  readonly before: string | Buffer;
  readonly after: string | Buffer;
  /** Without id. */
  readonly length: number;
}

function keep(bytes: Buffer): string | Buffer {
  if (bytes.length <= MAX_TEXT_BYTES) return bytes.toString("latin1");
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}

/** Copies a body without its id, so that nothing of a larger buffer is held. */
export function storeBody(body: Uint8Array, idAt: MemberSpan | undefined): StoredBody {
  const bytes = asBuffer(body);
  if (idAt === undefined) return { before: keep(bytes), after: "", length: bytes.length };
  const before = keep(bytes.subarray(0, idAt.start));
  const after = keep(bytes.subarray(idAt.end));
  return { before, after, length: before.length + after.length };
}

function write(part: string | Buffer, to: Buffer, at: number): void {
  if (typeof part === "string") to.write(part, at, "latin1");
  else part.copy(to, at);
}

/** The body with another id. */
export function loadBody(stored: StoredBody, id: string): Buffer {
  const { before, after, length } = stored;
  const idBytes = Buffer.byteLength(id);
  const body = Buffer.allocUnsafe(length + idBytes);
  write(before, body, 0);
  if (idBytes > 0) body.write(id, before.length);
  write(after, body, before.length + idBytes);
  return body;
}
