import assert from "node:assert/strict";
import { cosmosSign, encodeClosestProof, Rings, SumTrie } from "@turnpike/crypto";
import { createMessage, encodeMessage, service, type session } from "@turnpike/proto";
import {
  mineRelay,
  proofPath,
  relayBytes,
  relayHash,
  relayRequestSignBytes,
  relayResponseSignBytes,
} from "@turnpike/protocol";

const rings = new Rings();

/** A relay that was asked for and answered: the bytes of both messages. */
export interface TestRelay {
  readonly request: Uint8Array;
  readonly response: Uint8Array;
}

/** Who asks, in which ring, and who answers. */
export interface RelayParties {
  readonly header: session.SessionHeader;
  /** Compressed keys, the asker's own among them. */
  readonly ring: readonly Uint8Array[];
  readonly askerKey: Uint8Array;
  readonly supplierOperatorAddress: string;
  readonly supplierKey: Uint8Array;
}

const signBytes = (bytes: Uint8Array | undefined): Uint8Array => {
  assert.ok(bytes);
  return bytes;
};

/** Asks and answers one relay, signed as the network's gateways and relay miners sign. */
export function makeRelay(parties: RelayParties, payload: string): TestRelay {
  const { header: sessionHeader, supplierOperatorAddress } = parties;
  const meta = createMessage(service.RelayRequestMetadataSchema, { sessionHeader, supplierOperatorAddress });
  const request = createMessage(service.RelayRequestSchema, { meta, payload: Buffer.from(payload) });
  const encode = (): Uint8Array => encodeMessage(service.RelayRequestSchema, request);
  meta.signature = rings.sign(signBytes(relayRequestSignBytes(encode())), parties.ring, parties.askerKey);
  const answer = Buffer.from(`answer to ${payload}`);
  const answerMeta = createMessage(service.RelayResponseMetadataSchema, { sessionHeader });
  const response = createMessage(service.RelayResponseSchema, {
    meta: answerMeta,
    payload: answer,
    payloadHash: relayHash(answer),
  });
  const encodeAnswer = (): Uint8Array => encodeMessage(service.RelayResponseSchema, response);
  const toSign = signBytes(relayResponseSignBytes(encodeAnswer()));
  answerMeta.supplierOperatorSignature = cosmosSign(toSign, parties.supplierKey);
  return { request: encode(), response: encodeAnswer() };
}

/** A session's relays of one supplier, mined: what it claims, and how it proves it. */
export class RelayLedger {
  readonly #trie = new SumTrie();
  readonly #sessionId: string;

  constructor(header: session.SessionHeader) {
    this.#sessionId = header.sessionId;
  }

  /** Adds a relay that counts at the target. */
  add({ request, response }: TestRelay, targetHash: Uint8Array, computeUnitsPerRelay: bigint): void {
    const mined = mineRelay(signBytes(relayBytes(request, response)), targetHash, computeUnitsPerRelay);
    assert.ok(mined, "every relay counts at the base difficulty");
    this.#trie.insert(mined.key, mined.value, mined.weight);
  }

  root(): Uint8Array {
    return this.#trie.root();
  }

  /** The closest proof in the form of `MsgSubmitProof`. @param seedBlockHash of the block before the proof window */
  proof(seedBlockHash: Uint8Array): Uint8Array {
    return encodeClosestProof(this.#trie.proveClosest(proofPath(seedBlockHash, this.#sessionId)));
  }
}
