import { sha256 } from "@turnpike/crypto";
import { isRelayApplicable } from "./difficulty.ts";
import {
  encodeRelayRequest,
  encodeRelayResponse,
  parseRequest,
  parseResponse,
  readRequest,
  readResponse,
  requestDigest,
  requestSize,
  responseDigest,
  responseSize,
  writeRequest,
  writeResponse,
} from "./relay-messages.ts";
import { fieldSize, NO_BYTES, WireReader, WireWriter } from "./wire.ts";

/**
 * What the ring signature of a RelayRequest signs: SHA-256 of the request with an empty signature. Undefined when the
 * bytes are no RelayRequest.
 */
export function relayRequestSignBytes(request: Uint8Array): Uint8Array | undefined {
  const read = parseRequest(request);
  return read === undefined ? undefined : requestDigest(read);
}

/**
 * What the supplier's signature of a RelayResponse signs: SHA-256 of the response with an empty signature, and without
 * the payload where a payload hash stands for it. The signature scheme hashes it again. Undefined when the bytes are no
 * RelayResponse.
 */
export function relayResponseSignBytes(response: Uint8Array): Uint8Array | undefined {
  const read = parseResponse(response);
  return read === undefined ? undefined : responseDigest(read);
}

/** A relay as it is mined: both messages, without the response's payload. Undefined when either is none. */
export function relayBytes(request: Uint8Array, response: Uint8Array): Uint8Array | undefined {
  const req = parseRequest(request);
  const read = parseResponse(response);
  if (req === undefined || read === undefined) return undefined;
  const res = { ...read, payload: NO_BYTES };
  const [reqSize, resSize] = [requestSize(req), responseSize(res)];
  const writer = new WireWriter(fieldSize(reqSize) + fieldSize(resSize));
  writer.open(1, reqSize);
  writeRequest(writer, req);
  writer.open(2, resSize);
  writeResponse(writer, res);
  return writer.finish();
}

/** The bytes of the two messages of a mined relay, as the chain would write them; undefined when it is none. */
export function splitRelay(
  relay: Uint8Array,
): { readonly request: Uint8Array; readonly response: Uint8Array } | undefined {
  const reader = new WireReader(relay);
  let request: ReturnType<typeof readRequest> | undefined;
  let response: ReturnType<typeof readResponse> | undefined;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field !== 1 && field !== 2) {
      reader.skip();
      continue;
    }
    const outer = reader.enter();
    if (field === 1) request = readRequest(reader, request);
    else response = readResponse(reader, response);
    reader.leave(outer);
  }
  if (!reader.ok || request === undefined || response === undefined) return undefined;
  return { request: encodeRelayRequest(request), response: encodeRelayResponse(response) };
}

/** Hash of a mined relay, and of a response's payload: SHA-256. */
export function relayHash(bytes: Uint8Array): Uint8Array {
  return sha256(bytes);
}

/** What goes into a session's trie for one relay. Equal relays are one leaf. */
export interface MinedRelay {
  /** The relay's hash; the trie hashes it once more for the path. */
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  /** Compute units of a relay of the service at the session's start. */
  readonly weight: bigint;
}

/**
 * Mines one relay: its leaf, or undefined when it does not count at this target.
 *
 * @param relay what {@link relayBytes} gave
 */
export function mineRelay(
  relay: Uint8Array,
  targetHash: Uint8Array,
  computeUnitsPerRelay: bigint,
): MinedRelay | undefined {
  const key = relayHash(relay);
  return isRelayApplicable(key, targetHash) ? { key, value: relay, weight: computeUnitsPerRelay } : undefined;
}
