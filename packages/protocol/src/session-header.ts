import { bytesSize, int64Size, NO_BYTES, type WireBytes, type WireReader, type WireWriter, wireText } from "./wire.ts";

/** A `pocket.session.SessionHeader` whose texts are strings, or bytes as they were read. */
export interface HeaderParts<Text> {
  readonly applicationAddress: Text;
  readonly serviceId: Text;
  /** Lower-case hex. */
  readonly sessionId: Text;
  readonly sessionStartBlockHeight: bigint;
  readonly sessionEndBlockHeight: bigint;
}

/** Which session a claim, a proof or a relay is of. */
export type SessionHeader = HeaderParts<string>;

/** Bytes of a header's fields. */
export function headerSize(header: HeaderParts<WireBytes>): number {
  return (
    bytesSize(header.applicationAddress) +
    bytesSize(header.serviceId) +
    bytesSize(header.sessionId) +
    int64Size(header.sessionStartBlockHeight) +
    int64Size(header.sessionEndBlockHeight)
  );
}

/** Writes a header's fields. */
export function writeHeader(writer: WireWriter, header: HeaderParts<WireBytes>): void {
  writer.bytes(1, header.applicationAddress);
  writer.bytes(2, header.serviceId);
  writer.bytes(3, header.sessionId);
  writer.int64(4, header.sessionStartBlockHeight);
  writer.int64(5, header.sessionEndBlockHeight);
}

/** Reads the header that the reader is at, merged with what was read of it before. */
export function readHeader(reader: WireReader, before: HeaderParts<Uint8Array> | undefined): HeaderParts<Uint8Array> {
  let applicationAddress = before?.applicationAddress ?? NO_BYTES;
  let serviceId = before?.serviceId ?? NO_BYTES;
  let sessionId = before?.sessionId ?? NO_BYTES;
  let sessionStartBlockHeight = before?.sessionStartBlockHeight ?? 0n;
  let sessionEndBlockHeight = before?.sessionEndBlockHeight ?? 0n;
  const outer = reader.enter();
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) applicationAddress = reader.bytes();
    else if (field === 2) serviceId = reader.bytes();
    else if (field === 3) sessionId = reader.bytes();
    else if (field === 4) sessionStartBlockHeight = reader.int64();
    else if (field === 5) sessionEndBlockHeight = reader.int64();
    else reader.skip();
  }
  reader.leave(outer);
  return { applicationAddress, serviceId, sessionId, sessionStartBlockHeight, sessionEndBlockHeight };
}

/** A header with texts; undefined when one is not UTF-8. */
export function headerTexts(header: HeaderParts<Uint8Array>): SessionHeader | undefined {
  const applicationAddress = wireText(header.applicationAddress);
  const serviceId = wireText(header.serviceId);
  const sessionId = wireText(header.sessionId);
  if (applicationAddress === undefined || serviceId === undefined || sessionId === undefined) return undefined;
  const { sessionStartBlockHeight, sessionEndBlockHeight } = header;
  return { applicationAddress, serviceId, sessionId, sessionStartBlockHeight, sessionEndBlockHeight };
}
