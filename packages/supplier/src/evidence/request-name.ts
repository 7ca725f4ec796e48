import { decodeRingSignature, sha256 } from "@turnpike/crypto";
import { decodeRelayRequest, relayRequestSignBytes, splitRelay } from "@turnpike/protocol";
import { REQUEST_NAME_BYTES } from "./records.ts";

/**
 * A hash that is unique to a signed request: of its digest and of the signature's random numbers. Everything else of a valid
 * signature can be changed by anyone who saw it: the member that the ring begins with, and bytes behind its end.
 */
export function requestName(digest: Uint8Array, signature: Uint8Array): string {
  const responses = (decodeRingSignature(signature)?.responses ?? []).map((response) =>
    Buffer.from(response.buffer, response.byteOffset, response.length),
  );
  const hash = sha256(Buffer.concat([digest, ...responses.sort((a, b) => a.compare(b))]));
  // Half of a SHA-256 is unique enough, and costs half the memory.
  return Buffer.from(hash.buffer, hash.byteOffset, REQUEST_NAME_BYTES).toString("latin1");
}

/** The same of a mined relay; undefined when it is none. */
export function requestNameOf(relay: Uint8Array): string | undefined {
  const bytes = splitRelay(relay)?.request;
  const request = bytes === undefined ? undefined : decodeRelayRequest(bytes);
  const digest = bytes === undefined ? undefined : relayRequestSignBytes(bytes);
  return request === undefined || digest === undefined ? undefined : requestName(digest, request.signature);
}
