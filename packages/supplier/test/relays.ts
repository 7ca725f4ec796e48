import assert from "node:assert/strict";
import { cosmosSign, Rings } from "@turnpike/crypto";
import { createMessage, encodeMessage, service } from "@turnpike/proto";
import {
  relayBytes,
  relayHash,
  relayRequestSignBytes,
  relayResponseSignBytes,
  type SessionHeader,
} from "@turnpike/protocol";

const rings = new Rings();

/** A key that signs relays. */
export interface RelayKey {
  readonly address: string;
  readonly publicKey: Uint8Array;
  readonly privateKey: Uint8Array;
}

/** Who asks, in which ring, and who answers. */
export interface RelayParties {
  readonly header: SessionHeader;
  readonly application: RelayKey;
  /** Gateways that the application delegates to; the first one signs. Without one the application does. */
  readonly gateways: readonly RelayKey[];
  readonly supplier: RelayKey;
}

const some = (bytes: Uint8Array | undefined): Uint8Array => {
  assert.ok(bytes);
  return bytes;
};

/** Asks and answers one relay, signed as the network's gateways and suppliers sign: the bytes that are mined. */
export function makeRelay({ header, application, gateways, supplier }: RelayParties, payload: string): Uint8Array {
  const meta = createMessage(service.RelayRequestMetadataSchema, {
    sessionHeader: header,
    supplierOperatorAddress: supplier.address,
  });
  const request = createMessage(service.RelayRequestSchema, { meta, payload: Buffer.from(payload) });
  const encode = (): Uint8Array => encodeMessage(service.RelayRequestSchema, request);
  const others = gateways.length === 0 ? [application.publicKey] : gateways.map(({ publicKey }) => publicKey);
  const signer = gateways[0] ?? application;
  const ring = [application.publicKey, ...others];
  meta.signature = rings.sign(some(relayRequestSignBytes(encode())), ring, signer.privateKey);
  const answer = Buffer.from(`answer to ${payload}`);
  const answerMeta = createMessage(service.RelayResponseMetadataSchema, { sessionHeader: header });
  const response = createMessage(service.RelayResponseSchema, {
    meta: answerMeta,
    payload: answer,
    payloadHash: relayHash(answer),
  });
  const encodeAnswer = (): Uint8Array => encodeMessage(service.RelayResponseSchema, response);
  const digest = some(relayResponseSignBytes(encodeAnswer()));
  answerMeta.supplierOperatorSignature = cosmosSign(digest, supplier.privateKey);
  return some(relayBytes(encode(), encodeAnswer()));
}
