import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { concatBytes } from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import { createMessage, decodeMessage, encodeMessage, service } from "@turnpike/proto";
import { fc } from "@turnpike/testkit/property";
import { base64, hex, readSpec } from "../test/records.ts";
import { relayBytes, relayRequestSignBytes, relayResponseSignBytes, splitRelay } from "./relay-bytes.ts";
import {
  decodeRelayRequest,
  decodeRelayResponse,
  encodeRelayRequest,
  encodeRelayResponse,
  type RelayRequestFields,
  RelayRequestWriter,
  type RelayResponseFields,
  relayResponseDigest,
} from "./relay-messages.ts";

interface Exchange {
  readonly request: { readonly body: string };
  readonly response: { readonly body: string };
}

const ERRORS = join(import.meta.dirname, "../../../test/spec/recorded-chain/relay/errors-wire.json");
const recorded = [
  ...readSpec<Exchange[]>("e2e-1-wire.json"),
  ...readSpec<Exchange[]>("e2e-7-wire.json"),
  ...(JSON.parse(readFileSync(ERRORS, "utf8")) as Exchange[]),
].map(({ request, response }) => ({ request: base64(request.body), response: base64(response.body) }));

const text = fc.oneof(fc.string({ unit: "grapheme", maxLength: 200 }), fc.constant(""), fc.constant("a\ufffdb\ufeff"));
const bytes = fc.oneof(fc.uint8Array({ maxLength: 300 }), fc.constant(new Uint8Array()));
const height = fc.oneof(
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.bigInt({ min: 0n, max: 1_000_000n }),
  fc.constantFrom(0n, -1n, 2n ** 32n, 2n ** 32n - 1n, 2n ** 35n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)),
);
const uint32 = fc.oneof(fc.integer({ min: 0, max: 2 ** 32 - 1 }), fc.constantFrom(0, 1, 128, 2 ** 31, 2 ** 32 - 1));
const header = fc.record({
  applicationAddress: text,
  serviceId: text,
  sessionId: text,
  sessionStartBlockHeight: height,
  sessionEndBlockHeight: height,
});
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
const request: fc.Arbitrary<RelayRequestFields> = fc.record({
  header: maybe(header),
  supplierOperatorAddress: text,
  signature: bytes,
  payload: bytes,
});
const response: fc.Arbitrary<RelayResponseFields> = fc.record({
  header: maybe(header),
  signature: bytes,
  payload: bytes,
  error: maybe(fc.record({ codespace: text, code: uint32, description: text, message: text })),
  payloadHash: bytes,
});

type Header = RelayRequestFields["header"];
const withHeader = (sessionHeader: Header) => (sessionHeader === undefined ? {} : { sessionHeader });

/** The bytes that the generated code makes of the same fields; the metadata is always there, as in the chain's. */
function generatedRequest({ header: head, supplierOperatorAddress, signature, payload }: RelayRequestFields) {
  const meta = createMessage(service.RelayRequestMetadataSchema, {
    supplierOperatorAddress,
    signature,
    ...withHeader(head),
  });
  return encodeMessage(service.RelayRequestSchema, createMessage(service.RelayRequestSchema, { meta, payload }));
}

function generatedResponse(fields: RelayResponseFields) {
  const { header: head, signature, payload, error, payloadHash } = fields;
  const meta = createMessage(service.RelayResponseMetadataSchema, {
    supplierOperatorSignature: signature,
    ...withHeader(head),
  });
  const message = createMessage(service.RelayResponseSchema, {
    meta,
    payload,
    payloadHash,
    ...(error === undefined ? {} : { relayMinerError: error }),
  });
  return encodeMessage(service.RelayResponseSchema, message);
}

/** The fields with bytes as hex: a view, a buffer and a copy are the same. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}
const same = (left: Uint8Array | undefined, right: Uint8Array | undefined) =>
  assert.equal(Buffer.from(left ?? []).toString("hex"), Buffer.from(right ?? []).toString("hex"));

const varint = (value: number): number[] => (value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)]);
const field = (number: number, content: Uint8Array): Uint8Array =>
  concatBytes(Uint8Array.from([...varint((number << 3) | 2), ...varint(content.length)]), content);
/** A field that no message of relays has, of any kind. */
const unknown = fc
  .tuple(fc.integer({ min: 5, max: 5_000 }), fc.integer({ min: 0, max: 3 }), bytes)
  .map(([number, kind, content]) => {
    if (kind === 0) return Uint8Array.from([...varint(number << 3), 0xff, 0x03]);
    if (kind === 1) return Uint8Array.from([...varint((number << 3) | 1), 1, 2, 3, 4, 5, 6, 7, 8]);
    if (kind === 3) return Uint8Array.from([...varint((number << 3) | 5), 1, 2, 3, 4]);
    return field(number, content);
  });

/** Fields of one message in any order, with unknown ones between them. */
const shuffled = (parts: readonly Uint8Array[], noise: readonly Uint8Array[], order: readonly number[]): Uint8Array =>
  concatBytes(
    ...[...parts, ...noise]
      .map((part, i) => ({ part, rank: order[i % Math.max(1, order.length)] ?? 0 }))
      .sort((a, b) => a.rank - b.rank)
      .map(({ part }) => part),
  );

suite("relay messages", () => {
  test("requests are written as the generated code writes them, and read again", () => {
    fc.assert(
      fc.property(request, (fields) => {
        const written = encodeRelayRequest(fields);
        same(written, generatedRequest(fields));
        assert.deepEqual(plain(decodeRelayRequest(written)), plain(fields));
      }),
      { numRuns: 300 },
    );
  });

  test("responses are written as the generated code writes them, and read again", () => {
    fc.assert(
      fc.property(response, (fields) => {
        const written = encodeRelayResponse(fields);
        same(written, generatedResponse(fields));
        assert.deepEqual(plain(decodeRelayResponse(written)), plain(fields));
      }),
      { numRuns: 300 },
    );
  });

  test("fields in any order, repeated, with unknown ones between: read as the generated code reads them", () => {
    const noise = fc.array(unknown, { maxLength: 4 });
    const order = fc.array(fc.nat(100), { minLength: 3, maxLength: 12 });
    fc.assert(
      fc.property(request, request, noise, order, (first, second, others, ranks) => {
        // A second message behind the first is merged into it, fields of the metadata too.
        const parts = [generatedRequest(first), generatedRequest(second)];
        const merged = shuffled(parts, others, ranks);
        const oracle = decodeMessage(service.RelayRequestSchema, merged);
        assert.ok(oracle.ok);
        const { meta, payload } = oracle.message;
        const wanted: RelayRequestFields = {
          header: meta?.sessionHeader,
          supplierOperatorAddress: meta?.supplierOperatorAddress ?? "",
          signature: meta?.signature ?? new Uint8Array(),
          payload,
        };
        const read = decodeRelayRequest(merged);
        assert.ok(read);
        same(encodeRelayRequest(read), generatedRequest(wanted));
        same(relayRequestSignBytes(merged), sha256(generatedRequest({ ...wanted, signature: new Uint8Array() })));
      }),
    );
    fc.assert(
      fc.property(response, response, noise, order, (first, second, others, ranks) => {
        const merged = shuffled([generatedResponse(first), generatedResponse(second)], others, ranks);
        const oracle = decodeMessage(service.RelayResponseSchema, merged);
        assert.ok(oracle.ok);
        const { meta, payload, payloadHash, relayMinerError } = oracle.message;
        const wanted: RelayResponseFields = {
          header: meta?.sessionHeader,
          signature: meta?.supplierOperatorSignature ?? new Uint8Array(),
          payload,
          payloadHash,
          error: relayMinerError,
        };
        const read = decodeRelayResponse(merged);
        assert.ok(read);
        same(encodeRelayResponse(read), generatedResponse(wanted));
        same(relayResponseDigest(read), relayResponseSignBytes(merged));
      }),
    );
  });

  test("recorded: every message is read and written back byte for byte, also by the generated code", () => {
    assert.equal(recorded.length, 29 + 81 + 7);
    let refused = 0;
    for (const { request: asked, response: answered } of recorded) {
      const req = decodeRelayRequest(asked);
      const res = decodeRelayResponse(answered);
      assert.ok(res);
      same(encodeRelayResponse(res), answered);
      same(generatedResponse(res), answered);
      same(relayResponseDigest(res), relayResponseSignBytes(answered));
      if (res.error !== undefined) refused++;
      if (req === undefined || req.header === undefined) continue;
      same(encodeRelayRequest(req), asked);
      same(generatedRequest(req), asked);
      const writer = new RelayRequestWriter(req.header, req.supplierOperatorAddress);
      same(writer.finish(req.payload, req.signature), asked);
      same(writer.digest(req.payload), relayRequestSignBytes(asked));
      const relay = relayBytes(asked, answered);
      same(splitRelay(relay ?? asked)?.request, asked);
    }
    assert.ok(refused >= 4, `${refused} answers with an error`);
  });

  test("a writer of one session writes what the whole request is, for any payload and signature", () => {
    fc.assert(
      fc.property(header, text, bytes, bytes, (head, supplierOperatorAddress, payload, signature) => {
        const writer = new RelayRequestWriter(head, supplierOperatorAddress);
        const whole = encodeRelayRequest({ header: head, supplierOperatorAddress, payload, signature });
        same(writer.finish(payload, signature), whole);
        same(writer.digest(payload), relayRequestSignBytes(whole));
      }),
    );
  });

  test("a digest of a response is over its payload only when no hash stands for it, be the hash empty", () => {
    const fields = { header: undefined, signature: hex("01"), payload: hex("aa"), error: undefined };
    const bare = relayResponseDigest({ ...fields, payloadHash: hex("") });
    same(bare, sha256(hex("0a001201aa")));
    same(relayResponseDigest({ ...fields, payloadHash: hex("07") }), sha256(hex("0a00220107")));
    // A hash that is there and empty hides the payload on the chain, too.
    same(relayResponseSignBytes(hex("0a001201aa2200")), sha256(hex("0a00")));
  });

  test("what is read are views of the bytes", () => {
    const whole = encodeRelayRequest({
      header: undefined,
      supplierOperatorAddress: "pokt1supplier",
      signature: hex("0102"),
      payload: hex("030405"),
    });
    const read = decodeRelayRequest(whole);
    assert.equal(read?.payload.buffer, whole.buffer);
    assert.equal(read?.signature.buffer, whole.buffer);
  });

  test("attack: a text that is not UTF-8 is refused, and signed as it is where bytes are asked for", () => {
    const bad = hex("0a041a02c328");
    assert.equal(decodeRelayRequest(bad), undefined);
    same(relayRequestSignBytes(bad), sha256(bad));
    assert.equal(decodeRelayRequest(hex("0a050a030a01ff")), undefined);
    assert.equal(decodeRelayResponse(hex("0a001a030a01ff")), undefined);
  });

  test("groups that are not known are skipped as the chain skips them, and must end", () => {
    // Field 9 begins a group with a varint, bytes and another group in it.
    same(encodeRelayRequest(decodeRelayRequest(hex("4b08011202aabb13144c1201aa")) ?? assert.fail()), hex("0a001201aa"));
    for (const bad of ["4b", "4b0801", "4c", "4b13144c4c", "0b0c", "4f", "4e", `${"4b".repeat(9)}${"4c".repeat(8)}`]) {
      assert.equal(decodeRelayRequest(hex(bad)), undefined, bad);
    }
    const deep = new Uint8Array(200_000).fill(0x4b, 0, 100_000).fill(0x4c, 100_000);
    assert.ok(decodeRelayRequest(deep));
    assert.equal(decodeRelayRequest(deep.subarray(1)), undefined);
  });

  test("attack: lengths and varints without end, beyond the message or within another are refused", () => {
    for (const bad of [
      "12",
      "1202aa",
      "12ffffffff0f",
      "12ffffffffffffffffff01",
      "1280808080808080808080",
      "ffffffffffffffffffff01",
      "0a0212021201",
      "0a040a022080",
      "0a060a0420ffffff",
      "1001",
      "0801",
      "0d01020304",
      "00",
      "8080808010",
      "f8ffffff7f01",
    ]) {
      assert.equal(decodeRelayRequest(hex(bad)), undefined, bad);
    }
    // The largest number that a tag may have, and one whose upper bits are dropped.
    assert.ok(decodeRelayRequest(hex("f8ffffff3f01")));
    assert.ok(decodeRelayRequest(hex("92808080808001016f")));
  });

  test("attack: no bytes make any of it throw, be they junk, cut off or changed", () => {
    const all = (junk: Uint8Array) => {
      decodeRelayRequest(junk);
      decodeRelayResponse(junk);
      relayRequestSignBytes(junk);
      relayResponseSignBytes(junk);
      splitRelay(junk);
    };
    fc.assert(fc.property(fc.uint8Array({ maxLength: 100 }), all), { numRuns: 2_000 });
    const [{ request: asked, response: answered } = { request: hex(""), response: hex("") }] = recorded;
    for (const whole of [asked, answered, relayBytes(asked, answered) ?? hex("")]) {
      for (let at = 0; at < whole.length; at++) {
        all(whole.subarray(0, at));
        const changed = Uint8Array.from(whole);
        changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8));
        all(changed);
        changed[at] = 0xff;
        all(changed);
      }
    }
  });
});
