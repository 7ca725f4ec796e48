import { utf8ToBytes } from "@turnpike/base";
import { bytesSize, fieldSize, NO_BYTES, uint32Size, WireReader, WireWriter, wireText } from "./wire.ts";

/** A header's name and its values, in their order. */
export type HttpHeader = readonly [name: string, values: readonly string[]];

/** An HTTP request inside a relay: `sdk.types.POKTHTTPRequest`. */
export interface HttpRequestPayload {
  readonly method: string;
  readonly url: string;
  /** Each name once when it was read; names that differ in case only are joined when it is written. */
  readonly headers: readonly HttpHeader[];
  readonly body: Uint8Array;
}

/** An HTTP response inside a relay: `sdk.types.POKTHTTPResponse`. */
export interface HttpResponsePayload {
  readonly statusCode: number;
  readonly headers: readonly HttpHeader[];
  readonly body: Uint8Array;
}

// Go's servers allow a head of a megabyte; no real one has a tenth of this many entries.
const MAX_HEADER_ENTRIES = 2_048;

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** A header's name as Go writes it (`textproto.CanonicalMIMEHeaderKey`): what is no token stays as it is. */
export function canonicalHeaderName(name: string): string {
  if (!TOKEN.test(name)) return name;
  return name.toLowerCase().replace(/(?:^|-)[a-z]/g, (letter) => letter.toUpperCase());
}

/** What the reader met of a message's headers, by name. */
class HeaderEntries {
  readonly #values = new Map<string, string[]>();
  #entries = 0;
  ok = true;

  /** Reads the map entry that the reader is at: `{ key, Header { key, values } }`. The later of two equal keys holds. */
  read(reader: WireReader): void {
    let name: string | undefined = "";
    const values: string[] = [];
    const outer = reader.enter();
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === 1) name = wireText(reader.bytes());
      else if (field === 2) this.#readValues(reader, values);
      else reader.skip();
    }
    reader.leave(outer);
    this.#count();
    if (name === undefined) this.ok = false;
    else this.#values.set(name, values);
  }

  #readValues(reader: WireReader, values: string[]): void {
    const outer = reader.enter();
    for (let field = reader.next(); field !== 0 && this.ok; field = reader.next()) {
      if (field !== 2 && field !== 1) {
        reader.skip();
        continue;
      }
      // Its own name is the map's key again, which is the one that counts.
      const text = wireText(reader.bytes());
      if (text === undefined) this.ok = false;
      else if (field === 2) {
        values.push(text);
        this.#count();
      }
    }
    reader.leave(outer);
  }

  #count(): void {
    if (++this.#entries > MAX_HEADER_ENTRIES) this.ok = false;
  }

  list(): HttpHeader[] {
    return [...this.#values];
  }
}

/** Reads a request. Undefined when the bytes are none, a text is not UTF-8, or there are too many headers. `body` is a view. */
export function decodeHttpRequestPayload(bytes: Uint8Array): HttpRequestPayload | undefined {
  const reader = new WireReader(bytes);
  const headers = new HeaderEntries();
  let method: string | undefined = "";
  let url: string | undefined = "";
  let body = NO_BYTES;
  for (let field = reader.next(); field !== 0 && headers.ok; field = reader.next()) {
    if (field === 1) method = wireText(reader.bytes());
    else if (field === 2) headers.read(reader);
    else if (field === 3) url = wireText(reader.bytes());
    else if (field === 4) body = reader.bytes();
    else reader.skip();
  }
  if (!reader.ok || !headers.ok || method === undefined || url === undefined) return undefined;
  return { method, url, headers: headers.list(), body };
}

/** Reads a response by the same rules. */
export function decodeHttpResponsePayload(bytes: Uint8Array): HttpResponsePayload | undefined {
  const reader = new WireReader(bytes);
  const headers = new HeaderEntries();
  let statusCode = 0;
  let body = NO_BYTES;
  for (let field = reader.next(); field !== 0 && headers.ok; field = reader.next()) {
    if (field === 1) statusCode = reader.uint32();
    else if (field === 2) headers.read(reader);
    else if (field === 3) body = reader.bytes();
    else reader.skip();
  }
  return reader.ok && headers.ok ? { statusCode, headers: headers.list(), body } : undefined;
}

interface HeaderToWrite {
  readonly name: string;
  readonly values: readonly string[];
  /** Bytes of the name and values as a `Header`. */
  readonly valueSize: number;
  /** Bytes of the map's entry. */
  readonly entrySize: number;
}

/** Sorts by the UTF-8 bytes of the names, which for ASCII is the order of JavaScript. */
function sortByName(list: HeaderToWrite[], ascii: boolean): HeaderToWrite[] {
  if (ascii) return list.sort((a, b) => (a.name < b.name ? -1 : 1));
  return list.sort((a, b) => Buffer.compare(utf8ToBytes(a.name), utf8ToBytes(b.name)));
}

const textSize = (text: string): number => fieldSize(Buffer.byteLength(text, "utf8"));

/** Headers as they are written: names as Go has them, each once, sorted. */
function headersToWrite(headers: readonly HttpHeader[]): HeaderToWrite[] {
  const joined = new Map<string, readonly string[]>();
  for (const [given, values] of headers) {
    const name = canonicalHeaderName(given);
    const before = joined.get(name);
    joined.set(name, before === undefined ? values : [...before, ...values]);
  }
  const list: HeaderToWrite[] = [];
  let ascii = true;
  for (const [name, values] of joined) {
    const valueSize = values.reduce((size, value) => size + textSize(value), bytesSize(name));
    list.push({ name, values, valueSize, entrySize: textSize(name) + fieldSize(valueSize) });
    ascii &&= Buffer.byteLength(name) === name.length;
  }
  return sortByName(list, ascii);
}

const headersSize = (headers: readonly HeaderToWrite[]): number =>
  headers.reduce((size, { entrySize }) => size + fieldSize(entrySize), 0);

function writeHeaders(writer: WireWriter, headers: readonly HeaderToWrite[]): void {
  for (const { name, values, valueSize, entrySize } of headers) {
    writer.open(2, entrySize);
    // Both parts of a map's entry are written even when they are empty.
    writer.always(1, name);
    writer.open(2, valueSize);
    writer.bytes(1, name);
    for (const value of values) writer.always(2, value);
  }
}

/** Bytes of a request, as Go's deterministic marshalling has them. */
export function encodeHttpRequestPayload({ method, url, headers, body }: HttpRequestPayload): Uint8Array {
  const list = headersToWrite(headers);
  const writer = new WireWriter(bytesSize(method) + headersSize(list) + bytesSize(url) + bytesSize(body));
  writer.bytes(1, method);
  writeHeaders(writer, list);
  writer.bytes(3, url);
  writer.bytes(4, body);
  return writer.finish();
}

/** Bytes of a response, by the same rules. */
export function encodeHttpResponsePayload({ statusCode, headers, body }: HttpResponsePayload): Uint8Array {
  const list = headersToWrite(headers);
  const writer = new WireWriter(uint32Size(statusCode) + headersSize(list) + bytesSize(body));
  writer.uint32(1, statusCode);
  writeHeaders(writer, list);
  writer.bytes(3, body);
  return writer.finish();
}
