import { createHash } from "node:crypto";
import { utf8ToBytes } from "@turnpike/base";

/** What a payment is bound to. */
export interface HashedRequest {
  readonly verb: string;
  /** `/v1/{service_id}`. */
  readonly route: string;
  /** Appended path with its query, as received. */
  readonly path: string;
  /** Body, as received; empty when there is none. */
  readonly body: Uint8Array;
}

/**
 * SHA-256 over verb, route, appended path with query, and body, each preceded by its length in bytes as eight bytes,
 * big end first: so no two different requests give the same bytes.
 */
export function hashRequest(request: HashedRequest): Uint8Array {
  const hash = createHash("sha256");
  for (const part of [utf8ToBytes(request.verb), utf8ToBytes(request.route), utf8ToBytes(request.path), request.body]) {
    const length = Buffer.allocUnsafe(8);
    length.writeBigUInt64BE(BigInt(part.length));
    hash.update(length).update(part);
  }
  return new Uint8Array(hash.digest());
}
