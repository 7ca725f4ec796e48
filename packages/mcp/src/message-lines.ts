import { Transform, type TransformCallback } from "node:stream";
import type { RequestId } from "@modelcontextprotocol/server";
import { type ForeignJsonLimits, JsonCheck } from "@turnpike/base";

/** Bounds of one message, beside its size: over HTTP and over stdio. */
export const MESSAGE_LIMITS: Omit<ForeignJsonLimits, "maxBytes"> = { maxDepth: 128, maxValues: 100_000 };

/** Refusal of a message that is beyond {@link MESSAGE_LIMITS}. */
export const BEYOND_LIMITS = `is not JSON of at most ${MESSAGE_LIMITS.maxDepth} levels and ${MESSAGE_LIMITS.maxValues} values`;

/** Refused line: reason, and the id of its request where that is at one of its ends. */
export interface RefusedLine {
  readonly reason: string;
  readonly id: RequestId | undefined;
}

const LINE_FEED = 0x0a;
/** Bytes at each end of a line in which the id of its request is looked for. */
const END_BYTES = 512;

const ID = String.raw`"id"\s{0,9}:\s{0,9}(?:"([\w.:-]{1,128})"|(-?\d{1,15}))`;
const METHOD = String.raw`"method"\s{0,9}:\s{0,9}"[\w/]{0,128}"\s{0,9},\s{0,9}`;
const VERSION = String.raw`"jsonrpc"\s{0,9}:\s{0,9}"2\.0"\s{0,9},\s{0,9}`;
/** The last member of the outermost object: nothing else is before a line's last brace. */
const ID_AT_END = new RegExp(String.raw`[,{]\s{0,9}${ID}\s{0,9}\}\s{0,9}$`);
/** A member of the outermost object before any nested one. */
const ID_AT_START = new RegExp(String.raw`^\s{0,9}\{\s{0,9}(?:${VERSION}|${METHOD}){0,2}${ID}\s{0,9},`);

/** Id of a request of which only the ends were kept; undefined where another part of the line has it. */
function requestIdOf(start: string, end: string): RequestId | undefined {
  const [, text, number] = ID_AT_START.exec(start) ?? ID_AT_END.exec(end) ?? [];
  return text ?? (number === undefined ? undefined : Number(number));
}

/** Beginning and end of a line that is longer than its bound. */
class LongLine {
  readonly #start: string;
  #end: Buffer;

  constructor(line: Buffer) {
    this.#start = line.toString("utf8", 0, END_BYTES);
    this.#end = line.subarray(-END_BYTES);
  }

  append(part: Buffer): void {
    this.#end = Buffer.concat([this.#end, part.subarray(-END_BYTES)]).subarray(-END_BYTES);
  }

  requestId(): RequestId | undefined {
    return requestIdOf(this.#start, this.#end.toString("utf8"));
  }
}

/** Passes on whole lines that are within bounds, and reports others, of which it keeps their ends alone. */
export class MessageLines extends Transform {
  readonly #maxBytes: number;
  readonly #onRefused: (line: RefusedLine) => void;
  readonly #check = new JsonCheck(MESSAGE_LIMITS);
  #parts: Buffer[] = [];
  #length = 0;
  #longLine: LongLine | undefined;

  constructor(maxBytes: number, onRefused: (line: RefusedLine) => void) {
    super();
    this.#maxBytes = maxBytes;
    this.#onRefused = onRefused;
  }

  override _transform(chunk: Buffer, _: BufferEncoding, done: TransformCallback): void {
    let from = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, from)) {
      this.#append(chunk.subarray(from, end));
      this.#endLine();
      from = end + 1;
    }
    this.#append(chunk.subarray(from));
    done();
  }

  #append(part: Buffer): void {
    if (this.#longLine !== undefined) {
      this.#longLine.append(part);
      return;
    }
    this.#parts.push(part);
    this.#length += part.length;
    if (this.#length <= this.#maxBytes) return;
    this.#longLine = new LongLine(Buffer.concat(this.#parts));
    this.#parts = [];
  }

  #endLine(): void {
    const longLine = this.#longLine;
    const line = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#length = 0;
    this.#longLine = undefined;
    if (longLine !== undefined) {
      this.#onRefused({ reason: `is larger than ${this.#maxBytes} bytes`, id: longLine.requestId() });
      return;
    }
    this.#check.reset();
    // Broken JSON is reported by the transport: no request was in it.
    if (!this.#check.write(line) && this.#check.fault !== "syntax") {
      this.#onRefused({ reason: BEYOND_LIMITS, id: new LongLine(line).requestId() });
      return;
    }
    this.push(Buffer.concat([line, Buffer.of(LINE_FEED)]));
  }
}
