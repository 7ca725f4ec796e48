import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { bytesToHex, concatBytes } from "@turnpike/base";
import { cosmosVerify, Rings, SumTrie, sha256 } from "@turnpike/crypto";
import { fc } from "@turnpike/testkit/property";
import { base64, hex, readRecorded, readSpec } from "../test/records.ts";
import { BASE_TARGET } from "./difficulty.ts";
import {
  mineRelay,
  relayBytes,
  relayHash,
  relayRequestSignBytes,
  relayResponseSignBytes,
  splitRelay,
} from "./relay-bytes.ts";
import { decodeRelayRequest, decodeRelayResponse } from "./relay-messages.ts";

interface Exchange {
  readonly request: { readonly body: string };
  readonly response: { readonly body: string };
}

/** Session id, signature and supplier that a request or a response names. */
function metaOf(bytes: Uint8Array) {
  const message = decodeRelayRequest(bytes);
  assert.ok(message?.header);
  return {
    sessionId: message.header.sessionId,
    signature: message.signature,
    supplier: message.supplierOperatorAddress,
  };
}

const exchanges = (name: string) =>
  readSpec<Exchange[]>(`${name}-wire.json`).map(({ request, response }) => ({
    request: base64(request.body),
    response: base64(response.body),
  }));

const keys = readSpec<Record<string, string>>("public-keys.json");

suite("relay bytes", () => {
  for (const name of ["e2e-1", "e2e-7"] as const) {
    test(`recorded ${name}: relays mined from the wire give the claimed roots`, () => {
      const record = readRecorded(name);
      const tries = new Map<string, SumTrie>();
      for (const { request, response } of exchanges(name)) {
        const relay = relayBytes(request, response);
        assert.ok(relay !== undefined);
        const leaf = mineRelay(relay, BASE_TARGET, 100n);
        assert.ok(leaf !== undefined);
        const { sessionId, supplier } = metaOf(request);
        const key = `${sessionId}/${supplier}`;
        const trie = tries.get(key) ?? new SumTrie();
        trie.insert(leaf.key, leaf.value, leaf.weight);
        tries.set(key, trie);
      }
      assert.equal(record.claims_before_settlement.length, tries.size);
      for (const claim of record.claims_before_settlement) {
        const trie = tries.get(`${claim.session_header.session_id}/${claim.supplier_operator_address}`);
        assert.equal(bytesToHex(trie?.root() ?? new Uint8Array()), bytesToHex(base64(claim.root_hash)));
      }
    });
  }

  test("recorded: both signatures of every relay are over these bytes", () => {
    const rings = new Rings();
    let checked = 0;
    for (const { request, response } of exchanges("e2e-1").slice(0, 10)) {
      const digest = relayRequestSignBytes(request);
      const signBytes = relayResponseSignBytes(response);
      assert.ok(digest !== undefined && signBytes !== undefined);
      const { signature, supplier } = metaOf(request);
      const members = Object.values(keys).map((key) => base64(key));
      assert.equal(rings.verifyWithin(digest, signature, members).ok, true);
      assert.equal(
        cosmosVerify(signBytes, decodeRelayResponse(response)?.signature ?? hex(""), base64(keys[supplier] ?? "")),
        true,
      );
      checked++;
    }
    assert.equal(checked, 10);
  });

  test("attack: a changed payload, header or signer changes what is signed; a changed signature does not", () => {
    const [exchange] = exchanges("e2e-1");
    assert.ok(exchange !== undefined);
    const signed = relayRequestSignBytes(exchange.request);
    const at = (offset: number) => {
      const changed = Uint8Array.from(exchange.request);
      changed[offset] = (changed[offset] ?? 0) ^ 1;
      return relayRequestSignBytes(changed);
    };
    const signatureAt = Buffer.from(exchange.request).indexOf(Buffer.from(metaOf(exchange.request).signature));
    assert.deepEqual(at(signatureAt + 9), signed);
    assert.notDeepEqual(at(exchange.request.length - 1), signed);
    assert.notDeepEqual(at(20), signed);
  });

  test("a response's payload is signed through its hash, or itself when there is none", () => {
    const meta = hex("0a00");
    const payload = (text: string) => concatBytes(Uint8Array.of(0x12, text.length), Buffer.from(text));
    const hashField = concatBytes(Uint8Array.of(0x22, 32), sha256(Buffer.from("one")));
    const sign = (...parts: Uint8Array[]) =>
      bytesToHex(relayResponseSignBytes(concatBytes(...parts)) ?? new Uint8Array());
    assert.equal(sign(meta, payload("one"), hashField), sign(meta, payload("two"), hashField));
    assert.notEqual(sign(meta, payload("one")), sign(meta, payload("two")));
    assert.equal(sign(meta, payload("one"), hashField), bytesToHex(sha256(concatBytes(meta, hashField))));
  });

  test("bytes that say the same are the same relay: order, unknown fields, an empty meta", () => {
    const payload = hex("1201aa");
    const unknown = hex("9a06026869");
    const meta = hex("0a021200");
    assert.deepEqual(
      relayRequestSignBytes(concatBytes(payload, unknown, meta)),
      relayRequestSignBytes(concatBytes(hex("0a00"), payload)),
    );
    assert.deepEqual(relayRequestSignBytes(new Uint8Array()), sha256(hex("0a00")));
    // The miner's error has number 3 and the payload's hash 4, although the proto names them the other way round.
    const error = hex("1a021001");
    const digest = hex("220155");
    assert.equal(
      bytesToHex(relayBytes(hex("0a00"), concatBytes(hex("0a00"), digest, error)) ?? new Uint8Array()),
      "0a020a0012090a001a021001220155",
    );
  });

  test("malformed bytes are no relay", () => {
    for (const bad of [
      "0a",
      "0aff",
      "0a0501",
      "08",
      "0801",
      "12ffffffffffffffffff7f",
      "00",
      "0b",
      `0a02${"ff".repeat(2)}`,
    ]) {
      assert.equal(relayRequestSignBytes(hex(bad)), undefined, bad);
      assert.equal(relayBytes(hex(bad), hex("0a00")), undefined, bad);
      assert.equal(relayBytes(hex("0a00"), hex(bad)), undefined, bad);
    }
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const digest = relayRequestSignBytes(bytes);
        assert.ok(digest === undefined || digest.length === 32);
        relayResponseSignBytes(bytes);
        splitRelay(bytes);
      }),
    );
  });

  test("a relay is split into the two messages that it was made of, the payload of the response apart", () => {
    const [exchange] = exchanges("e2e-7");
    assert.ok(exchange !== undefined);
    const relay = relayBytes(exchange.request, exchange.response);
    assert.ok(relay !== undefined);
    const parts = splitRelay(relay);
    assert.ok(parts !== undefined);
    assert.deepEqual(Buffer.from(parts.request), Buffer.from(exchange.request));
    assert.deepEqual(relayResponseSignBytes(parts.response), relayResponseSignBytes(exchange.response));
    assert.deepEqual(relayBytes(parts.request, parts.response), relay);
    assert.deepEqual(relayHash(relay), sha256(relay));
    assert.equal(mineRelay(relay, new Uint8Array(32), 100n), undefined);
    assert.equal(splitRelay(hex("0a020a00")), undefined);
  });
});
