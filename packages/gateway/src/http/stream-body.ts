import type { ServerResponse } from "node:http";

/** Resolves when more can be written, or the client has left. */
function writable(res: ServerResponse): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = (): void => {
    res.off("drain", done);
    res.off("close", done);
    resolve();
  };
  res.on("drain", done);
  res.on("close", done);
  return promise;
}

/**
 * Writes a body while it arrives, no faster than the client takes it. When it breaks off, the connection is destroyed:
 * its status is already on its way, and the client must not take what it has for the whole. Resolves with the bytes that
 * were written; never rejects.
 */
export async function streamBody(res: ServerResponse, stream: AsyncIterable<Uint8Array>): Promise<number> {
  let bytes = 0;
  try {
    for await (const chunk of stream) {
      if (res.destroyed) return bytes;
      bytes += chunk.length;
      if (!res.write(chunk)) await writable(res);
    }
    res.end();
  } catch {
    res.destroy();
  }
  return bytes;
}

/** Leaves a body that nobody wants any more, so that its supplier is let go. */
export function leaveBody(stream: AsyncIterable<Uint8Array>): void {
  void stream[Symbol.asyncIterator]().return?.();
}
