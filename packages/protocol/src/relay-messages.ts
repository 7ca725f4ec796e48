import { sha256 } from "@turnpike/crypto";
import {
  type HeaderParts,
  headerSize,
  headerTexts,
  readHeader,
  type SessionHeader,
  writeHeader,
} from "./session-header.ts";
import {
  bytesSize,
  fieldSize,
  NO_BYTES,
  uint32Size,
  type WireBytes,
  WireReader,
  WireWriter,
  wireText,
} from "./wire.ts";

/** A relay request whose texts are strings, or bytes as they were read. */
export interface RequestParts<Text> {
  readonly header: HeaderParts<Text> | undefined;
  readonly supplierOperatorAddress: Text;
  readonly signature: Uint8Array;
  readonly payload: Uint8Array;
}

/** A relay response of the same kind. */
export interface ResponseParts<Text> {
  readonly header: HeaderParts<Text> | undefined;
  readonly signature: Uint8Array;
  readonly payload: Uint8Array;
  readonly error: ErrorParts<Text> | undefined;
  /** Undefined when the message had none; one that is there and empty stands for the payload as well. */
  readonly payloadHash: Uint8Array | undefined;
}

interface ErrorParts<Text> {
  readonly codespace: Text;
  readonly code: number;
  readonly description: Text;
  readonly message: Text;
}

/** Why a supplier did not serve a relay: `pocket.service.RelayMinerError`. */
export type RelayMinerError = ErrorParts<string>;

/**
 * A `pocket.service.RelayRequest`. The header is undefined when the message has none; the signature is the ring's over
 * {@link RelayRequestWriter.digest}.
 */
export type RelayRequestFields = RequestParts<string>;

/** A `pocket.service.RelayResponse`. */
export interface RelayResponseFields {
  readonly header: SessionHeader | undefined;
  /** The supplier operator's, by {@link relayResponseDigest}. */
  readonly signature: Uint8Array;
  readonly payload: Uint8Array;
  readonly error: RelayMinerError | undefined;
  /** SHA-256 of the payload: it stands for the payload in what is signed and mined. Empty when there is none. */
  readonly payloadHash: Uint8Array;
}

const META = 1;
const SIGNATURE = 2;
const PAYLOAD = 2;

/** Reads the fields of a request that the reader is at, merged with what was read before. */
export function readRequest(reader: WireReader, before?: RequestParts<Uint8Array>): RequestParts<Uint8Array> {
  let header = before?.header;
  let supplierOperatorAddress = before?.supplierOperatorAddress ?? NO_BYTES;
  let signature = before?.signature ?? NO_BYTES;
  let payload = before?.payload ?? NO_BYTES;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === PAYLOAD) payload = reader.bytes();
    else if (field === META) {
      const outer = reader.enter();
      for (let inner = reader.next(); inner !== 0; inner = reader.next()) {
        if (inner === 1) header = readHeader(reader, header);
        else if (inner === SIGNATURE) signature = reader.bytes();
        else if (inner === 3) supplierOperatorAddress = reader.bytes();
        else reader.skip();
      }
      reader.leave(outer);
    } else reader.skip();
  }
  return { header, supplierOperatorAddress, signature, payload };
}

function readError(reader: WireReader, before: ErrorParts<Uint8Array> | undefined): ErrorParts<Uint8Array> {
  let codespace = before?.codespace ?? NO_BYTES;
  let code = before?.code ?? 0;
  let description = before?.description ?? NO_BYTES;
  let message = before?.message ?? NO_BYTES;
  const outer = reader.enter();
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) codespace = reader.bytes();
    else if (field === 2) code = reader.uint32();
    else if (field === 3) description = reader.bytes();
    else if (field === 4) message = reader.bytes();
    else reader.skip();
  }
  reader.leave(outer);
  return { codespace, code, description, message };
}

/** Reads the fields of a response that the reader is at, merged with what was read before. */
export function readResponse(reader: WireReader, before?: ResponseParts<Uint8Array>): ResponseParts<Uint8Array> {
  let header = before?.header;
  let signature = before?.signature ?? NO_BYTES;
  let payload = before?.payload ?? NO_BYTES;
  let error = before?.error;
  let payloadHash = before?.payloadHash;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === PAYLOAD) payload = reader.bytes();
    else if (field === 3) error = readError(reader, error);
    else if (field === 4) payloadHash = reader.bytes();
    else if (field === META) {
      const outer = reader.enter();
      for (let inner = reader.next(); inner !== 0; inner = reader.next()) {
        if (inner === 1) header = readHeader(reader, header);
        else if (inner === SIGNATURE) signature = reader.bytes();
        else reader.skip();
      }
      reader.leave(outer);
    } else reader.skip();
  }
  return { header, signature, payload, error, payloadHash };
}

/** A request read from bytes, its texts as they were; undefined when the bytes are none. */
export function parseRequest(bytes: Uint8Array): RequestParts<Uint8Array> | undefined {
  const reader = new WireReader(bytes);
  const request = readRequest(reader);
  return reader.ok ? request : undefined;
}

/** A response read from bytes, its texts as they were; undefined when the bytes are none. */
export function parseResponse(bytes: Uint8Array): ResponseParts<Uint8Array> | undefined {
  const reader = new WireReader(bytes);
  const response = readResponse(reader);
  return reader.ok ? response : undefined;
}

function headerFieldSize(header: HeaderParts<WireBytes> | undefined): number {
  return header === undefined ? 0 : fieldSize(headerSize(header));
}

function writeHeaderField(writer: WireWriter, header: HeaderParts<WireBytes> | undefined): void {
  if (header === undefined) return;
  writer.open(1, headerSize(header));
  writeHeader(writer, header);
}

function requestMetaSize(request: RequestParts<WireBytes>): number {
  return headerFieldSize(request.header) + bytesSize(request.signature) + bytesSize(request.supplierOperatorAddress);
}

/** Bytes of a request's fields. */
export function requestSize(request: RequestParts<WireBytes>): number {
  return fieldSize(requestMetaSize(request)) + bytesSize(request.payload);
}

/** Writes a request's fields. The metadata is there even when it is empty. */
export function writeRequest(writer: WireWriter, request: RequestParts<WireBytes>): void {
  writer.open(META, requestMetaSize(request));
  writeHeaderField(writer, request.header);
  writer.bytes(SIGNATURE, request.signature);
  writer.bytes(3, request.supplierOperatorAddress);
  writer.bytes(PAYLOAD, request.payload);
}

function errorSize(error: ErrorParts<WireBytes>): number {
  return bytesSize(error.codespace) + uint32Size(error.code) + bytesSize(error.description) + bytesSize(error.message);
}

function responseMetaSize(response: ResponseParts<WireBytes>): number {
  return headerFieldSize(response.header) + bytesSize(response.signature);
}

/** Bytes of a response's fields. */
export function responseSize(response: ResponseParts<WireBytes>): number {
  return (
    fieldSize(responseMetaSize(response)) +
    bytesSize(response.payload) +
    (response.error === undefined ? 0 : fieldSize(errorSize(response.error))) +
    bytesSize(response.payloadHash ?? NO_BYTES)
  );
}

/** Writes a response's fields. The metadata is there even when it is empty. */
export function writeResponse(writer: WireWriter, response: ResponseParts<WireBytes>): void {
  const { error } = response;
  writer.open(META, responseMetaSize(response));
  writeHeaderField(writer, response.header);
  writer.bytes(SIGNATURE, response.signature);
  writer.bytes(PAYLOAD, response.payload);
  if (error !== undefined) {
    writer.open(3, errorSize(error));
    writer.bytes(1, error.codespace);
    writer.uint32(2, error.code);
    writer.bytes(3, error.description);
    writer.bytes(4, error.message);
  }
  writer.bytes(4, response.payloadHash ?? NO_BYTES);
}

/** Bytes of a request. */
export function encodeRelayRequest(request: RequestParts<WireBytes>): Uint8Array {
  const writer = new WireWriter(requestSize(request));
  writeRequest(writer, request);
  return writer.finish();
}

/** Bytes of a response. */
export function encodeRelayResponse(response: ResponseParts<WireBytes>): Uint8Array {
  const writer = new WireWriter(responseSize(response));
  writeResponse(writer, response);
  return writer.finish();
}

/** SHA-256 of a request without its signature. */
export function requestDigest(request: RequestParts<WireBytes>): Uint8Array {
  return sha256(encodeRelayRequest({ ...request, signature: NO_BYTES }));
}

/** SHA-256 of a response without its signature, and without its payload where a hash stands for it. */
export function responseDigest(response: ResponseParts<WireBytes>): Uint8Array {
  const { payload, payloadHash } = response;
  const shown = payloadHash === undefined ? payload : NO_BYTES;
  return sha256(encodeRelayResponse({ ...response, signature: NO_BYTES, payload: shown }));
}

/**
 * What the supplier operator signs of a response: SHA-256 of it without signature, and without the payload where a
 * payload hash stands for it. `cosmosSign` and `cosmosVerify` hash it again.
 */
export function relayResponseDigest(response: RelayResponseFields): Uint8Array {
  return responseDigest(response.payloadHash.length === 0 ? { ...response, payloadHash: undefined } : response);
}

/**
 * Reads a request as the chain does: unknown fields are dropped, what is repeated is merged. Undefined when the bytes
 * are none, or a text is not UTF-8. `signature` and `payload` are views of `bytes`.
 */
export function decodeRelayRequest(bytes: Uint8Array): RelayRequestFields | undefined {
  const read = parseRequest(bytes);
  if (read === undefined) return undefined;
  const header = read.header === undefined ? undefined : headerTexts(read.header);
  const supplierOperatorAddress = wireText(read.supplierOperatorAddress);
  if (supplierOperatorAddress === undefined || (header === undefined && read.header !== undefined)) return undefined;
  return { header, supplierOperatorAddress, signature: read.signature, payload: read.payload };
}

function errorTexts(error: ErrorParts<Uint8Array>): RelayMinerError | undefined {
  const codespace = wireText(error.codespace);
  const description = wireText(error.description);
  const message = wireText(error.message);
  if (codespace === undefined || description === undefined || message === undefined) return undefined;
  return { codespace, code: error.code, description, message };
}

/** Reads a response by the same rules. `signature`, `payload` and `payloadHash` are views of `bytes`. */
export function decodeRelayResponse(bytes: Uint8Array): RelayResponseFields | undefined {
  const read = parseResponse(bytes);
  if (read === undefined) return undefined;
  const header = read.header === undefined ? undefined : headerTexts(read.header);
  const error = read.error === undefined ? undefined : errorTexts(read.error);
  if ((header === undefined && read.header !== undefined) || (error === undefined && read.error !== undefined)) {
    return undefined;
  }
  return { header, signature: read.signature, payload: read.payload, error, payloadHash: read.payloadHash ?? NO_BYTES };
}

/** Writes the requests of one session to one supplier: all but payload and signature is written once. */
export class RelayRequestWriter {
  readonly #header: Uint8Array;
  readonly #supplier: Uint8Array;

  constructor(header: SessionHeader, supplierOperatorAddress: string) {
    const head = new WireWriter(headerFieldSize(header));
    writeHeaderField(head, header);
    this.#header = head.finish();
    const supplier = new WireWriter(bytesSize(supplierOperatorAddress));
    supplier.bytes(3, supplierOperatorAddress);
    this.#supplier = supplier.finish();
  }

  /** What the ring signs for a payload: 32 bytes. */
  digest(payload: Uint8Array): Uint8Array {
    return sha256(this.finish(payload, NO_BYTES));
  }

  /** The request with its signature over {@link digest}. */
  finish(payload: Uint8Array, signature: Uint8Array): Uint8Array {
    const metaSize = this.#header.length + bytesSize(signature) + this.#supplier.length;
    const writer = new WireWriter(fieldSize(metaSize) + bytesSize(payload));
    writer.open(META, metaSize);
    writer.raw(this.#header);
    writer.bytes(SIGNATURE, signature);
    writer.raw(this.#supplier);
    writer.bytes(PAYLOAD, payload);
    return writer.finish();
  }
}
