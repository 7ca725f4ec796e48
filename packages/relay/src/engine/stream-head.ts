const ID = String.raw`("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|null)`;
const VERSION = String.raw`"jsonrpc"\s*:\s*"2\.0"`;
const BEGINNING = new RegExp(
  String.raw`^\s*\{\s*(?:${VERSION}\s*,\s*"id"\s*:\s*${ID}|"id"\s*:\s*${ID}\s*,\s*${VERSION})\s*,\s*"result"\s*:\s*[[{"]`,
);
/** Members before the result are read in so many bytes. */
const BEGINNING_BYTES = 4_096;

/**
 * The beginning of a JSON-RPC result with the client's own id; undefined when it is not known to answer this call before
 * its end: then the answer has to be taken whole.
 */
export function streamHead(beginning: Buffer, wantedId: string, clientId: string | undefined): Uint8Array | undefined {
  const text = beginning.toString("latin1", 0, BEGINNING_BYTES);
  const found = BEGINNING.exec(text);
  const raw = found?.[1] ?? found?.[2];
  if (raw === undefined || raw !== Buffer.from(wantedId).toString("latin1")) return undefined;
  if (clientId === undefined) return beginning;
  const at = text.indexOf(raw, text.indexOf('"id"') + 4);
  return Buffer.concat([beginning.subarray(0, at), Buffer.from(clientId), beginning.subarray(at + raw.length)]);
}
