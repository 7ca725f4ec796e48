import type { IncomingMessage } from "node:http";

/** A request's body, or why it could not be read. */
export type ReadBody =
  | { readonly ok: true; readonly bytes: Buffer }
  | { readonly ok: false; readonly why: "too large" | "broken off" };

/** Reads a body of at most so many bytes; of a longer one no more is read. */
export function readBody(req: IncomingMessage, maxBytes: number): Promise<ReadBody> {
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    let size = 0;
    req.on("data", (part: Buffer) => {
      size += part.length;
      if (size <= maxBytes) {
        parts.push(part);
        return;
      }
      req.pause();
      resolve({ ok: false, why: "too large" });
    });
    req.on("end", () => resolve({ ok: true, bytes: Buffer.concat(parts) }));
    req.on("error", () => resolve({ ok: false, why: "broken off" }));
    req.on("close", () => resolve({ ok: false, why: "broken off" }));
  });
}
