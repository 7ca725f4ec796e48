import { trimFieldValue } from "@turnpike/base";
import { ChunkedReader } from "./chunked.ts";
import { FieldTable } from "./field-table.ts";
import { contentLength, Head, HeadParser, INCOMPLETE, isWord, REFUSED } from "./head.ts";

/** Gets one response while it arrives. What it throws breaks the response off. */
export interface ResponseSink {
  /** The head is read; what it shows is there during the call only. */
  onHead(head: ResponseHead): void;
  /** Bytes of the body, in order and at least one: `bytes[start, end)`, there during the call only. */
  onData(bytes: Buffer, start: number, end: number): void;
}

/** More bytes of the response must come. */
export const MORE = 0;
/** The response is whole. */
export const DONE = 1;
/** What came is no response, or more than one. */
export const BROKEN = -1;
/** Result of {@link ResponseReader.read}. */
export type ReadResult = typeof MORE | typeof DONE | typeof BROKEN;

const MAX_HEAD_BYTES = 16_384;
const MAX_HEAD_LINES = 100;
/** Interim responses that are passed over before one response: early hints come in a few. */
const MAX_INTERIM = 8;
const SWITCHING_PROTOCOLS = 101;
/** A head in pieces is looked at with each piece up to here, then with each line. */
const EAGER_HEAD_BYTES = 1_024;
/** Time that a server's `Keep-Alive` says is cut by this: the request is on its way when the server closes. */
const KEEP_ALIVE_MARGIN_MS = 2_000;
const TAB = 0x09;
const LF = 0x0a;
const SPACE = 0x20;
const NO_BYTES = Buffer.alloc(0);

const FRAMING_FIELDS = ["content-length", "transfer-encoding", "connection", "keep-alive"];
const [LENGTH, ENCODING, CONNECTION, KEEP_ALIVE] = [0, 1, 2, 3] as const;
const LENGTH_BITS = (1 << LENGTH) | (1 << ENCODING);

const READ_HEAD = 0;
const READ_LENGTH = 1;
const READ_CHUNKS = 2;
const READ_UNTIL_CLOSE = 3;

/** The parser of heads and the names of their fields, for all connections of a client. */
export class ResponseFields {
  /** Names that {@link ResponseHead.fields} shows, in lower case. */
  readonly names: readonly string[];
  readonly parser: HeadParser;

  /** @param names in lower case, without those of a body's length and of the connection; at most 27 */
  constructor(names: readonly string[]) {
    this.names = names;
    this.parser = new HeadParser(new FieldTable([...FRAMING_FIELDS, ...names]), { maxLines: MAX_HEAD_LINES });
  }
}

/** The head of one response. */
export class ResponseHead {
  readonly #names: readonly string[];
  readonly #head: Head;
  /** The bytes that the head was read from, which is `[start, end)` of them. */
  bytes: Buffer = NO_BYTES;
  start = 0;
  end = 0;
  /** Bytes of the body; -1 when it is known only at the end. */
  contentLength = -1;

  constructor(names: readonly string[], head: Head) {
    this.#names = names;
    this.#head = head;
  }

  get status(): number {
    return this.#head.status;
  }

  /** All field lines in their order: names in lower case, values of one character a byte. */
  allFields(): [name: string, value: string][] {
    // Whole lines in CR LF, each with a colon: the parser takes nothing else.
    const [, ...lines] = this.bytes.toString("latin1", this.start, this.end).split("\r\n");
    const fields: [string, string][] = [];
    for (const line of lines) {
      if (line === "") continue;
      const colon = line.indexOf(":");
      fields.push([line.slice(0, colon).toLowerCase(), trimFieldValue(line.slice(colon + 1))]);
    }
    return fields;
  }

  /** The known fields, by their names in lower case; of a field that comes again, the last. One character a byte. */
  fields(): Record<string, string> {
    const fields: Record<string, string> = {};
    for (const [at, name] of this.#names.entries()) {
      const index = FRAMING_FIELDS.length + at;
      if (this.#head.has(index)) fields[name] = textOf(this.bytes, this.#head, index);
    }
    return fields;
  }
}

function textOf(bytes: Buffer, head: Head, index: number): string {
  return bytes.toString("latin1", head.spans[index * 2], head.spans[index * 2 + 1]);
}

function isFieldWord(bytes: Buffer, head: Head, index: number, word: string): boolean {
  return isWord(bytes, head.spans[index * 2] ?? 0, head.spans[index * 2 + 1] ?? 0, word);
}

/**
 * Reads the responses of one connection, one at a time, from bytes as they come. Strict: what could be understood in two
 * ways is {@link BROKEN}. Interim responses are passed over (RFC 9110 §15.2), but for a switch of protocols.
 */
export class ResponseReader {
  readonly #parser: HeadParser;
  readonly #head = new Head();
  readonly #shown: ResponseHead;
  readonly #chunked = new ChunkedReader();
  #state = READ_HEAD;
  /** The beginning of a head whose end has not come. */
  #carry: Buffer | undefined;
  #interim = 0;
  /** Bytes of the body that are to come. */
  #left = 0;
  #isStopped = false;
  #mayStay = false;
  #keepAliveMs: number | undefined;
  #keepAliveText = "";
  #keepAliveTextMs: number | undefined;

  constructor(fields: ResponseFields) {
    this.#parser = fields.parser;
    this.#shown = new ResponseHead(fields.names, this.#head);
  }

  /** True when the connection may serve another request, after {@link DONE}. */
  get mayStay(): boolean {
    return this.#mayStay;
  }

  /** How long the server keeps the connection, less a margin, after {@link DONE}; undefined when it does not say so. */
  get keepAliveMs(): number | undefined {
    return this.#keepAliveMs;
  }

  /** Gets ready for the response to the next request. */
  begin(): void {
    this.#state = READ_HEAD;
    this.#carry = undefined;
    this.#interim = 0;
    this.#mayStay = false;
  }

  /** Calls no sink any more. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Reads what has come: `bytes[0, end)`. */
  read(bytes: Buffer, end: number, sink: ResponseSink): ReadResult {
    if (this.#state !== READ_HEAD) return this.#readBody(bytes, 0, end, sink);
    const carry = this.#carry;
    if (carry === undefined) return this.#readHead(bytes, end, sink);
    const all = Buffer.concat([carry, bytes.subarray(0, end)]);
    const isLineWhole = bytes.subarray(0, end).includes(LF);
    if (isLineWhole || all.length <= EAGER_HEAD_BYTES) return this.#readHead(all, all.length, sink);
    this.#carry = all;
    return all.length > MAX_HEAD_BYTES ? BROKEN : MORE;
  }

  /** The server has ended the connection. True: the response is whole, since only this end marks its length. */
  end(): boolean {
    return this.#state === READ_UNTIL_CLOSE;
  }

  #readHead(bytes: Buffer, end: number, sink: ResponseSink): ReadResult {
    let from = 0;
    let at = this.#parser.response(bytes, from, end, this.#head);
    while (at > from && this.#isInterim()) {
      if (at - from > MAX_HEAD_BYTES || ++this.#interim > MAX_INTERIM) return BROKEN;
      from = at;
      at = from === end ? INCOMPLETE : this.#parser.response(bytes, from, end, this.#head);
    }
    if (at === REFUSED) return BROKEN;
    if (at === INCOMPLETE) {
      if (end - from > MAX_HEAD_BYTES) return BROKEN;
      // The connection's own buffer is read into again.
      this.#carry = from === end ? undefined : Buffer.from(bytes.subarray(from, end));
      return MORE;
    }
    this.#carry = undefined;
    if (at - from > MAX_HEAD_BYTES || !this.#frame(bytes)) return BROKEN;
    this.#shown.bytes = bytes;
    this.#shown.start = from;
    this.#shown.end = at;
    sink.onHead(this.#shown);
    this.#shown.bytes = NO_BYTES;
    return this.#isStopped ? BROKEN : this.#readBody(bytes, at, end, sink);
  }

  /** True for a head after which another one comes. One that says a length is none: it could be understood in two ways. */
  #isInterim(): boolean {
    const { status, seen } = this.#head;
    return status < 200 && status !== SWITCHING_PROTOCOLS && (seen & LENGTH_BITS) === 0;
  }

  /** How long the body is (RFC 9112 §6.3), and what becomes of the connection. False: that is not plain. */
  #frame(bytes: Buffer): boolean {
    const head = this.#head;
    const { status, spans } = head;
    if (status < 200 || (head.repeated & LENGTH_BITS) !== 0 || (head.seen & LENGTH_BITS) === LENGTH_BITS) return false;
    let length = -1;
    if (head.has(LENGTH)) {
      length = contentLength(bytes, spans[LENGTH * 2] ?? 0, spans[LENGTH * 2 + 1] ?? 0);
      if (length === -1) return false;
    }
    const isChunked = head.has(ENCODING);
    if (isChunked && (head.minorVersion === 0 || !isFieldWord(bytes, head, ENCODING, "chunked"))) return false;
    // llhttp takes this for another coding, and so for a body without length.
    if (isChunked && hasTabBehind(bytes, spans[ENCODING * 2 + 1] ?? 0)) return false;
    if (status === 204 || status === 304) length = 0;
    this.#readKeepAlive(bytes);
    this.#left = length;
    this.#shown.contentLength = length;
    if (length !== -1) this.#state = READ_LENGTH;
    else if (isChunked) {
      this.#state = READ_CHUNKS;
      this.#chunked.reset();
    } else {
      this.#state = READ_UNTIL_CLOSE;
      this.#mayStay = false;
    }
    return true;
  }

  #readKeepAlive(bytes: Buffer): void {
    const head = this.#head;
    this.#mayStay = head.minorVersion === 1 && !closes(bytes, head);
    this.#keepAliveMs = undefined;
    if (!head.has(KEEP_ALIVE)) return;
    const text = textOf(bytes, head, KEEP_ALIVE);
    if (text !== this.#keepAliveText) {
      this.#keepAliveText = text;
      const seconds = /(?:^|[,; \t])timeout[ \t]*=[ \t]*"?([0-9]{1,7})/i.exec(text)?.[1];
      this.#keepAliveTextMs = seconds === undefined ? undefined : Number(seconds) * 1_000 - KEEP_ALIVE_MARGIN_MS;
    }
    this.#keepAliveMs = this.#keepAliveTextMs;
    if (this.#keepAliveMs !== undefined && this.#keepAliveMs <= 0) this.#mayStay = false;
  }

  #readBody(bytes: Buffer, from: number, end: number, sink: ResponseSink): ReadResult {
    if (this.#state === READ_CHUNKS) return this.#readChunks(bytes, from, end, sink);
    const count = end - from;
    if (this.#state === READ_LENGTH) {
      if (count > this.#left) return BROKEN;
      this.#left -= count;
    }
    if (count > 0) {
      sink.onData(bytes, from, end);
      if (this.#isStopped) return BROKEN;
    }
    return this.#state === READ_LENGTH && this.#left === 0 ? DONE : MORE;
  }

  #readChunks(bytes: Buffer, from: number, end: number, sink: ResponseSink): ReadResult {
    const at = this.#chunked.read(bytes, from, end, (part, start, stop) => {
      sink.onData(part, start, stop);
      return !this.#isStopped;
    });
    if (at === INCOMPLETE) return MORE;
    return at === end ? DONE : BROKEN;
  }
}

/** True when a tab is among the white space that begins at `from`. */
function hasTabBehind(bytes: Buffer, from: number): boolean {
  for (let at = from; at < bytes.length; at++) {
    if (bytes[at] === TAB) return true;
    if (bytes[at] !== SPACE) return false;
  }
  return false;
}

/** True when the server says that it closes the connection. */
function closes(bytes: Buffer, head: Head): boolean {
  if (!head.has(CONNECTION) || isFieldWord(bytes, head, CONNECTION, "keep-alive")) {
    // Only the last of several is known.
    return (head.repeated & (1 << CONNECTION)) !== 0;
  }
  return /(?:^|[, \t])close(?:$|[, \t])/i.test(textOf(bytes, head, CONNECTION));
}
