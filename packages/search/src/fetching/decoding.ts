import type { Transform } from "node:stream";
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from "node:zlib";

/** Most codings laid over each other that are undone. */
const MAX_CODINGS = 2;
/** RFC 9659: the largest window of zstd over HTTP. */
const ZSTD_WINDOW_LOG = 23;

/** Codings that are asked for. */
export const ACCEPT_ENCODING = "gzip, deflate, br, zstd";

/** One coding of a body. */
export type Coding = "gzip" | "deflate" | "br" | "zstd";

/** Reads `Content-Encoding`, in the order in which the codings are to be undone; undefined: one is unknown, or there are too many. */
export function codingsOf(header: string | undefined): readonly Coding[] | undefined {
  const codings: Coding[] = [];
  for (const part of (header ?? "").toLowerCase().split(",")) {
    const name = part.trim();
    if (name === "" || name === "identity") continue;
    if (name === "gzip" || name === "x-gzip") codings.unshift("gzip");
    else if (name === "deflate" || name === "br" || name === "zstd") codings.unshift(name);
    else return undefined;
    if (codings.length > MAX_CODINGS) return undefined;
  }
  return codings;
}

function decoder(coding: Coding, first: number): Transform {
  switch (coding) {
    case "gzip":
      return createGunzip();
    case "br":
      return createBrotliDecompress();
    case "zstd":
      return createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG } });
    case "deflate":
      // Servers send both forms; RFC 9110 means the one with a zlib head, whose low nibble is 8.
      return (first & 0x0f) === 8 ? createInflate() : createInflateRaw();
  }
}

/**
 * Undoes one coding, piece by piece. The decoder is fed only as fast as what it makes is taken, so that a bomb costs no
 * more than one piece beyond the taker's bound. Ends with an error when the data is broken or cut short.
 */
export async function* decode(source: AsyncIterable<Uint8Array>, coding: Coding): AsyncGenerator<Uint8Array> {
  const pieces = source[Symbol.asyncIterator]();
  let head = await pieces.next();
  while (head.done !== true && head.value.length === 0) head = await pieces.next();
  if (head.done === true) return;
  const transform = decoder(coding, head.value[0] ?? 0);
  const feed = async (): Promise<void> => {
    for (let next: IteratorResult<Uint8Array> = head; next.done !== true; next = await pieces.next()) {
      if (transform.destroyed) return;
      if (!transform.write(next.value)) await drained(transform);
    }
    transform.end();
  };
  const fed = feed().catch((cause: unknown) => transform.destroy(cause instanceof Error ? cause : undefined));
  try {
    for await (const piece of transform) yield piece as Uint8Array;
  } finally {
    transform.destroy();
    // Neither is waited for: a piece that never comes would hold them.
    void fed;
    pieces.return?.().catch(() => {});
  }
}

function drained(transform: Transform): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      transform.off("drain", done);
      transform.off("close", done);
      resolve();
    };
    transform.once("drain", done);
    transform.once("close", done);
  });
}
