import { decodeRingSignature, sha256 } from "@turnpike/crypto";
import { decodeRelayRequest, relayRequestSignBytes, splitRelay } from "@turnpike/protocol";
import { REQUEST_NAME_BYTES } from "../evidence/records.ts";

/**
 * The requests of a session that were served or are being served: a signed request is good for one answer. A gateway that
 * repeats a call signs anew.
 */
export class SeenRequests {
  readonly #seen = new Set<string>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#seen.size;
  }

  /** True when it is new, and there is room to remember it. */
  add(name: string): boolean {
    if (this.#seen.has(name) || this.#seen.size >= this.#most) return false;
    this.#seen.add(name);
    return true;
  }

  /** Lets a request be sent again that was not answered. */
  delete(name: string): void {
    this.#seen.delete(name);
  }
}

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
