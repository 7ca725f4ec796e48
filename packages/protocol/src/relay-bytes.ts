import { sha256 } from "@turnpike/crypto";
import { isRelayApplicable } from "./difficulty.ts";

import { readMessage, type WireField, type WireMessage, type WireShape, writeMessage } from "./wire.ts";

const BYTES: WireField = { kind: "bytes" };
const SESSION_HEADER: WireShape = new Map<number, WireField>([
  [1, BYTES],
  [2, BYTES],
  [3, BYTES],
  [4, { kind: "integer", bits: 64 }],
  [5, { kind: "integer", bits: 64 }],
]);
const REQUEST_META: WireShape = new Map<number, WireField>([
  [1, { kind: "message", shape: SESSION_HEADER }],
  [2, BYTES],
  [3, BYTES],
]);
const REQUEST: WireShape = new Map<number, WireField>([
  [1, { kind: "message", shape: REQUEST_META, always: true }],
  [2, BYTES],
]);
const RESPONSE_META: WireShape = new Map<number, WireField>([
  [1, { kind: "message", shape: SESSION_HEADER }],
  [2, BYTES],
]);
const RESPONSE: WireShape = new Map<number, WireField>([
  [1, { kind: "message", shape: RESPONSE_META, always: true }],
  [2, BYTES],
  [
    3,
    {
      kind: "message",
      shape: new Map<number, WireField>([
        [1, BYTES],
        [2, { kind: "integer", bits: 32 }],
        [3, BYTES],
        [4, BYTES],
      ]),
    },
  ],
  [4, BYTES],
]);
const RELAY: WireShape = new Map<number, WireField>([
  [1, { kind: "message", shape: REQUEST }],
  [2, { kind: "message", shape: RESPONSE }],
]);

const META = 1;
const SIGNATURE = 2;
const PAYLOAD = 2;
const PAYLOAD_HASH = 4;

/** The message without its signature, in a copy: a message read from the caller's bytes is never changed twice. */
function unsigned(message: WireMessage): WireMessage {
  const meta = message.get(META);
  const copy = new Map(message);
  if (meta instanceof Map) {
    const bare = new Map(meta);
    bare.delete(SIGNATURE);
    copy.set(META, bare);
  }
  return copy;
}

function without(message: WireMessage, number: number): WireMessage {
  const copy = new Map(message);
  copy.delete(number);
  return copy;
}

/**
 * What the ring signature of a RelayRequest signs: SHA-256 of the request with an empty signature. Undefined when the
 * bytes are no RelayRequest.
 */
export function relayRequestSignBytes(request: Uint8Array): Uint8Array | undefined {
  const message = readMessage(request, REQUEST);
  return message === undefined ? undefined : sha256(writeMessage(unsigned(message), REQUEST));
}

/**
 * What the supplier's signature of a RelayResponse signs: SHA-256 of the response with an empty signature, and without
 * the payload where a payload hash stands for it. The signature scheme hashes it again. Undefined when the bytes are no
 * RelayResponse.
 */
export function relayResponseSignBytes(response: Uint8Array): Uint8Array | undefined {
  const message = readMessage(response, RESPONSE);
  if (message === undefined) return undefined;
  const bare = unsigned(message);
  return sha256(writeMessage(message.has(PAYLOAD_HASH) ? without(bare, PAYLOAD) : bare, RESPONSE));
}

/** A relay as it is mined: both messages, without the response's payload. Undefined when either is none. */
export function relayBytes(request: Uint8Array, response: Uint8Array): Uint8Array | undefined {
  const req = readMessage(request, REQUEST);
  const res = readMessage(response, RESPONSE);
  if (req === undefined || res === undefined) return undefined;
  return writeMessage(
    new Map([
      [1, req],
      [2, without(res, PAYLOAD)],
    ]),
    RELAY,
  );
}

/** The bytes of the two messages of a mined relay, as the chain would write them; undefined when it is none. */
export function splitRelay(
  relay: Uint8Array,
): { readonly request: Uint8Array; readonly response: Uint8Array } | undefined {
  const message = readMessage(relay, RELAY);
  const request = message?.get(1);
  const response = message?.get(2);
  if (!(request instanceof Map) || !(response instanceof Map)) return undefined;
  return { request: writeMessage(request, REQUEST), response: writeMessage(response, RESPONSE) };
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
