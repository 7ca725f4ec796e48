import { FieldTable } from "./field-table.ts";
import { contentLength, type Head, HeadParser, INCOMPLETE, isWord, REFUSED } from "./head.ts";

/** What a plain request may have, beside the fixed part of its form. */
export interface PlainFormOptions {
  /** Fields that are read by name, in lower case. Each may come once. */
  readonly fields: readonly string[];
  /** Most bytes of a head, from its first byte to the end of its empty line. */
  readonly maxHeadBytes: number;
  /** Most field lines. */
  readonly maxLines: number;
  /** Most bytes of a body. */
  readonly maxBodyBytes: number;
}

/** Fields that change how a message is framed, what its connection is for, or what its body means. */
const EXCLUDED = [
  "transfer-encoding",
  "expect",
  "upgrade",
  "trailer",
  "te",
  "content-encoding",
  // llhttp reads it as it does `Connection`.
  "proxy-connection",
  "http2-settings",
];

const POST = [0x50, 0x4f, 0x53, 0x54];
const SLASH = 0x2f;

/**
 * The plain form: POST, HTTP/1.1, a target that begins with `/`, one `Host`, one `Content-Length` within bounds,
 * `Connection` absent or `keep-alive`, no field that changes framing, and no known field twice. Every reader of HTTP/1.1
 * agrees where such a request ends.
 */
export class PlainForm {
  /** Bytes of the body whose head was read last. */
  bodyBytes = 0;
  readonly #parser: HeadParser;
  readonly #indexes = new Map<string, number>();
  readonly #excluded: number;
  readonly #host: number;
  readonly #length: number;
  readonly #connection: number;
  readonly #maxHeadBytes: number;
  readonly #maxBodyBytes: number;

  /** @throws RangeError when there are more than 31 known names */
  constructor({ fields, maxHeadBytes, maxLines, maxBodyBytes }: PlainFormOptions) {
    const names = [...new Set(["host", "content-length", "connection", ...EXCLUDED, ...fields])];
    for (const [index, name] of names.entries()) this.#indexes.set(name, index);
    this.#parser = new HeadParser(new FieldTable(names), { maxLines });
    this.#excluded = EXCLUDED.reduce((bits, name) => bits | (1 << this.indexOf(name)), 0);
    this.#host = this.indexOf("host");
    this.#length = this.indexOf("content-length");
    this.#connection = this.indexOf("connection");
    this.#maxHeadBytes = maxHeadBytes;
    this.#maxBodyBytes = maxBodyBytes;
  }

  /** The index of a known field in {@link Head}; -1 for another name. */
  indexOf(name: string): number {
    return this.#indexes.get(name) ?? -1;
  }

  /**
   * Reads the head of a request that begins at `from`, and sets {@link bodyBytes}.
   * @returns the place where its body begins, {@link INCOMPLETE}, or {@link REFUSED} when it is not plain
   */
  read(bytes: Uint8Array, from: number, end: number, head: Head): number {
    const bodyAt = this.#parser.request(bytes, from, end, head);
    if (bodyAt === INCOMPLETE) return end - from >= this.#maxHeadBytes ? REFUSED : INCOMPLETE;
    if (bodyAt === REFUSED || bodyAt - from > this.#maxHeadBytes) return REFUSED;
    return this.#isPlain(bytes, head) ? bodyAt : REFUSED;
  }

  #isPlain(bytes: Uint8Array, head: Head): boolean {
    if ((head.seen & this.#excluded) !== 0 || head.repeated !== 0) return false;
    if (!head.has(this.#host) || !head.has(this.#length)) return false;
    const { methodStart, methodEnd, targetStart, spans } = head;
    if (methodEnd - methodStart !== POST.length || bytes[targetStart] !== SLASH) return false;
    for (let i = 0; i < POST.length; i++) if (bytes[methodStart + i] !== POST[i]) return false;
    const connection = this.#connection * 2;
    if (
      head.has(this.#connection) &&
      !isWord(bytes, spans[connection] ?? 0, spans[connection + 1] ?? 0, "keep-alive")
    ) {
      return false;
    }
    const length = this.#length * 2;
    this.bodyBytes = contentLength(bytes, spans[length] ?? 0, spans[length + 1] ?? 0);
    return this.bodyBytes !== -1 && this.bodyBytes <= this.#maxBodyBytes;
  }
}
