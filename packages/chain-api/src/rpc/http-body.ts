import type { IncomingMessage } from "node:http";

/** A body, or why there is none: it is too long, the server holds too much already, or the client went away. */
export type ReadBody =
  | { readonly ok: true; readonly body: Buffer }
  | { readonly ok: false; readonly reason: "too_long" | "busy" | "gone" };

/** Bounds of {@link BodyReader}. */
export interface BodyBounds {
  readonly maxBodyBytes: number;
  readonly maxBufferedBodyBytes: number;
}

/** Receives bodies of requests, each and all together bounded. */
export class BodyReader {
  readonly #bounds: BodyBounds;
  #buffered = 0;

  constructor(bounds: BodyBounds) {
    this.#bounds = bounds;
  }

  /** Reads a body to its end; never rejects. */
  read(req: IncomingMessage): Promise<ReadBody> {
    const { maxBodyBytes, maxBufferedBodyBytes } = this.#bounds;
    const { promise, resolve } = Promise.withResolvers<ReadBody>();
    const chunks: Buffer[] = [];
    let size = 0;
    let ended = false;
    const end = (outcome: ReadBody): void => {
      if (ended) return;
      ended = true;
      this.#buffered -= size;
      chunks.length = 0;
      req.removeAllListeners("data");
      req.resume();
      resolve(outcome);
    };
    req.on("data", (chunk: Buffer) => {
      if (size + chunk.length > maxBodyBytes) return end({ ok: false, reason: "too_long" });
      if (this.#buffered + chunk.length > maxBufferedBodyBytes) return end({ ok: false, reason: "busy" });
      size += chunk.length;
      this.#buffered += chunk.length;
      chunks.push(chunk);
    });
    req.on("end", () => end({ ok: true, body: Buffer.concat(chunks) }));
    req.on("error", () => end({ ok: false, reason: "gone" }));
    req.on("close", () => end({ ok: false, reason: "gone" }));
    return promise;
  }
}
