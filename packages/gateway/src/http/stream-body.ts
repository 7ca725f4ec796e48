import { Readable } from "node:stream";
import { whenWritable } from "@turnpike/http1";
import type { ResponseSink } from "./request.ts";

/** What came of a body that was written while it arrived. */
export interface Streamed {
  /** Bytes that were written. */
  readonly bytes: number;
  /** Why it is not whole: its supplier broke off, or the client left. Undefined: it is. */
  readonly broken: "SUPPLIERS_FAILED" | "gone" | undefined;
}

/**
 * Writes a body while it arrives, no faster than the client takes it. When it breaks off, the connection is destroyed:
 * its status is already on its way, and the client must not take what it has for the whole. Never rejects.
 */
export async function streamBody(res: ResponseSink, stream: AsyncIterable<Uint8Array>): Promise<Streamed> {
  let bytes = 0;
  try {
    for await (const chunk of stream) {
      if (res.destroyed) return { bytes, broken: "gone" };
      bytes += chunk.length;
      if (!res.write(chunk)) await whenWritable(res);
    }
  } catch {
    const broken = res.destroyed ? "gone" : "SUPPLIERS_FAILED";
    res.destroy();
    return { bytes, broken };
  }
  if (res.destroyed) return { bytes, broken: "gone" };
  res.end();
  return { bytes, broken: undefined };
}

/** Discards a body that is not needed any more, so that its supplier is released. */
export function leaveBody(stream: AsyncIterable<Uint8Array>): void {
  // Its iterator is a generator, which does nothing when it is ended before it was begun.
  if (stream instanceof Readable) stream.destroy();
  else void stream[Symbol.asyncIterator]().return?.();
}
