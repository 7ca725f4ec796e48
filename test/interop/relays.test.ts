import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { canonicalRing, cosmosPublicKey, cosmosSign, privateKeyFromSecret, SigningThreads } from "@turnpike/crypto";
import {
  decodeHttpRequestPayload,
  decodeHttpResponsePayload,
  decodeRelayRequest,
  decodeRelayResponse,
  encodeHttpRequestPayload,
  encodeHttpResponsePayload,
  encodeRelayResponse,
  type HttpHeader,
  RelayRequestWriter,
  relayHash,
  relayRequestSignBytes,
  relayResponseDigest,
  relayResponseSignBytes,
  type SessionHeader,
} from "@turnpike/protocol";
import { withoutGo } from "./go-programs.ts";
import { buildGoRelays, bytesOfHex, type GoRelays, goHeader, goRequest, goResponse } from "./go-relays.ts";

const RELAYS = 300;
const secrets = Array.from({ length: 4 }, (_, i) => privateKeyFromSecret(Buffer.from(`interop relay ${i}`)));
const keys = secrets.map(cosmosPublicKey);
const supplierSecret = privateKeyFromSecret(Buffer.from("interop relay supplier"));
const supplierKey = cosmosPublicKey(supplierSecret);
const secretOf = (i: number): Uint8Array => secrets[i % 4] ?? supplierSecret;

/** An application and a gateway, three members, one alone with the placeholder, and one key twice. */
function ringOf(i: number): readonly Uint8Array[] {
  const own = keys[i % 4] ?? supplierKey;
  const other = keys[(i + 1) % 4] ?? supplierKey;
  if (i % 4 === 1) return canonicalRing([own]);
  if (i % 4 === 2) return [own, own];
  return i % 4 === 3 ? [other, own, keys[(i + 2) % 4] ?? own] : [own, other];
}

const supplierOf = (i: number): string => `pokt1supplier${i % 3}`;
const headerOf = (i: number): SessionHeader => ({
  applicationAddress: `pokt1application${i % 5}`,
  serviceId: ["eth", "pocket", "search"][i % 3] ?? "eth",
  sessionId: bytesToHex(relayHash(Buffer.from(`session ${i % 7}`))),
  sessionStartBlockHeight: BigInt(1 + 20 * i * i),
  sessionEndBlockHeight: BigInt(20 + 20 * i * i),
});

const body = (i: number): Uint8Array =>
  Buffer.from(i % 9 === 0 ? "" : `{"id":${i},"text":"${"ü".repeat((i * 37) % 400)}"}`);
const headersOf = (i: number): HttpHeader[] =>
  [
    ["Accept", ["application/json", "text/plain"]] as const,
    ["Content-Type", ["application/json"]] as const,
    ["X-Empty", [""]] as const,
    ["X-Umlaut", ["größe"]] as const,
  ].slice(0, i % 5);
const requestOf = (i: number) => ({
  method: ["POST", "GET"][i % 2] ?? "POST",
  url: `https://supplier.example/v1/${i}?q=${i}`,
  headers: headersOf(i),
  body: body(i),
});
const responseOf = (i: number) => ({
  statusCode: [200, 404, 201][i % 3] ?? 200,
  headers: headersOf(i + 1),
  body: body(i),
});

suite("whole relays with Go's protobuf, ring-go and decred's ECDSA", { skip: withoutGo, timeout: 400_000 }, () => {
  let go: GoRelays;
  const signing = new SigningThreads({ threads: 1 });
  const ours: { request: Uint8Array; response: Uint8Array }[] = [];

  before(async () => {
    go = buildGoRelays();
    using operator = signing.openKey(supplierSecret);
    for (let i = 0; i < RELAYS; i++) {
      using ring = signing.openRing({ members: ringOf(i), key: secretOf(i) });
      const writer = new RelayRequestWriter(headerOf(i), supplierOf(i));
      const payload = encodeHttpRequestPayload(requestOf(i));
      const signed = await signing.ringSign(ring, writer.digest(payload));
      const answer = encodeHttpResponsePayload(responseOf(i));
      const fields = {
        header: headerOf(i),
        signature: new Uint8Array(),
        payload: answer,
        error: undefined,
        payloadHash: relayHash(answer),
      };
      const signature = await signing.ecdsaSign(operator, relayResponseDigest(fields));
      assert.ok(signed.ok && signature.ok);
      const response = encodeRelayResponse({ ...fields, signature: signature.signature });
      ours.push({ request: writer.finish(payload, signed.signature), response });
    }
  });
  after(async () => {
    await signing[Symbol.asyncDispose]();
    go[Symbol.dispose]();
  });

  test(`Go reads and verifies ${RELAYS} relays of ours, and writes them again byte for byte`, async () => {
    const { requests, responses } = await go.ask({
      requests: ours.map(({ request }) => bytesToHex(request)),
      responses: ours.map(({ response }) => ({ bytes: bytesToHex(response), key: bytesToHex(supplierKey) })),
    });
    assert.equal(requests.length, RELAYS);
    assert.equal(responses.length, RELAYS);
    for (const [i, { request, response }] of ours.entries()) {
      const [asked, answered] = [requests[i], responses[i]];
      assert.deepEqual(asked, {
        valid: true,
        again: bytesToHex(request),
        payloadAgain: bytesToHex(decodeRelayRequest(request)?.payload ?? request),
        digest: bytesToHex(relayRequestSignBytes(request) ?? request),
        header: goHeader(headerOf(i)),
        supplier: supplierOf(i),
        payload: goRequest(requestOf(i)),
        hashed: false,
      });
      assert.deepEqual(answered, {
        valid: true,
        again: bytesToHex(response),
        payloadAgain: bytesToHex(decodeRelayResponse(response)?.payload ?? response),
        digest: bytesToHex(relayResponseSignBytes(response) ?? response),
        header: goHeader(headerOf(i)),
        supplier: "",
        payload: goResponse(responseOf(i)),
        hashed: true,
      });
    }
  });

  test(`we read and verify ${RELAYS} relays of Go's, and write them again byte for byte`, async () => {
    const make = Array.from({ length: RELAYS }, (_, i) => ({
      header: goHeader(headerOf(i)),
      supplier: supplierOf(i),
      members: ringOf(i).map(bytesToHex),
      key: bytesToHex(secretOf(i)),
      supplierKey: bytesToHex(supplierSecret),
      request: goRequest(requestOf(i)),
      response: goResponse(responseOf(i)),
    }));
    const { made } = await go.ask({ make });
    assert.equal(made.length, RELAYS);
    for (const [i, { request, response }] of made.entries()) {
      const asked = decodeRelayRequest(bytesOfHex(request));
      const answered = decodeRelayResponse(bytesOfHex(response));
      assert.ok(asked !== undefined && answered !== undefined, `relay ${i}`);
      assert.deepEqual(asked.header, headerOf(i));
      assert.equal(asked.supplierOperatorAddress, supplierOf(i));
      const writer = new RelayRequestWriter(headerOf(i), supplierOf(i));
      const digest = writer.digest(asked.payload);
      assert.ok((await signing.ringVerify(digest, asked.signature, ringOf(i))).ok, `request ${i}`);
      assert.equal(bytesToHex(writer.finish(asked.payload, asked.signature)), request);
      assert.equal(bytesToHex(encodeHttpRequestPayload(requestOf(i))), bytesToHex(asked.payload));
      assert.deepEqual(decodeHttpRequestPayload(asked.payload)?.headers, requestOf(i).headers);
      const signed = await signing.ecdsaVerify(relayResponseDigest(answered), answered.signature, supplierKey);
      assert.ok(signed.ok, `response ${i}`);
      // Both make the signature of RFC 6979.
      assert.equal(
        bytesToHex(cosmosSign(relayResponseDigest(answered), supplierSecret)),
        bytesToHex(answered.signature),
      );
      assert.equal(bytesToHex(encodeRelayResponse(answered)), response);
      assert.deepEqual(decodeHttpResponsePayload(answered.payload)?.headers, responseOf(i).headers);
    }
  });

  test("attack: both refuse a relay whose payload, header, supplier or signature was changed", async () => {
    const [{ request, response } = { request: supplierKey, response: supplierKey }] = ours;
    const changedAt = (whole: Uint8Array, part: Uint8Array): Uint8Array => {
      const at = Buffer.from(whole).indexOf(part);
      assert.ok(at > 0);
      const bytes = Uint8Array.from(whole);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      return bytes;
    };
    const changed = (whole: Uint8Array, text: string): Uint8Array => changedAt(whole, Buffer.from(text));
    const middle = (decodeRelayRequest(request)?.signature ?? request).subarray(80, 100);
    const bad = ["pokt1application", "pokt1supplier", "supplier.example"].map((text) => changed(request, text));
    bad.push(changedAt(request, middle));
    const answers = ["pokt1application"].map((text) => changed(response, text));
    const { requests, responses } = await go.ask({
      requests: bad.map(bytesToHex),
      responses: answers.map((bytes) => ({ bytes: bytesToHex(bytes), key: bytesToHex(supplierKey) })),
    });
    assert.deepEqual(
      [...requests, ...responses].map(({ valid }) => valid),
      [false, false, false, false, false],
    );
    for (const bytes of bad) {
      const read = decodeRelayRequest(bytes);
      const digest = relayRequestSignBytes(bytes);
      assert.ok(read && digest);
      const verdict = await signing.ringVerify(digest, read.signature, ringOf(0));
      assert.equal(verdict.ok, false);
    }
    for (const bytes of answers) {
      const read = decodeRelayResponse(bytes);
      assert.ok(read);
      const verdict = await signing.ecdsaVerify(relayResponseDigest(read), read.signature, supplierKey);
      assert.deepEqual(verdict, { ok: false, fault: "signature" });
    }
  });
});
