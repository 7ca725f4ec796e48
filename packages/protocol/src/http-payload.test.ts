import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { concatBytes } from "@turnpike/base";
import { createMessage, decodeMessage, encodeMessage, relayHttp } from "@turnpike/proto";
import { fc } from "@turnpike/testkit/property";
import { base64, hex, readSpec } from "../test/records.ts";
import {
  canonicalHeaderName,
  decodeHttpRequestPayload,
  decodeHttpResponsePayload,
  encodeHttpRequestPayload,
  encodeHttpResponsePayload,
  type HttpHeader,
} from "./http-payload.ts";
import { decodeRelayRequest, decodeRelayResponse } from "./relay-messages.ts";

interface Exchange {
  readonly request: { readonly body: string };
  readonly response: { readonly body: string };
}

const text = fc.oneof(fc.string({ unit: "grapheme", maxLength: 150 }), fc.constant(""), fc.constant("a\ufffdb\ufeff"));
const bytes = fc.oneof(fc.uint8Array({ maxLength: 300 }), fc.constant(new Uint8Array()));
const name = fc.oneof(fc.stringMatching(/^[A-Za-z0-9-]{1,30}$/), text).map(canonicalHeaderName);
const headers: fc.Arbitrary<HttpHeader[]> = fc.uniqueArray(fc.tuple(name, fc.array(text, { maxLength: 4 })), {
  selector: ([key]) => key,
  maxLength: 12,
});
const request = fc.record({ method: text, url: text, headers, body: bytes });
const response = fc.record({ statusCode: fc.integer({ min: 0, max: 2 ** 32 - 1 }), headers, body: bytes });

const generatedHeaders = (list: readonly HttpHeader[]) =>
  Object.fromEntries(
    list.map(([key, values]) => [key, createMessage(relayHttp.HeaderSchema, { key, values: [...values] })]),
  );
const byName = (list: readonly HttpHeader[] | undefined): unknown =>
  [...(list ?? [])].map(([key, values]) => [key, [...values]]).sort(([a], [b]) => (String(a) < String(b) ? -1 : 1));
// Keys of an object in JavaScript: what is a number comes first, and `__proto__` is none.
const isPlain = (list: readonly HttpHeader[]): boolean => list.every(([key]) => key !== "__proto__");

suite("HTTP payloads", () => {
  test("requests are written as the generated code writes them, and read again", () => {
    fc.assert(
      fc.property(request, (fields) => {
        fc.pre(isPlain(fields.headers));
        const written = encodeHttpRequestPayload(fields);
        const message = createMessage(relayHttp.POKTHTTPRequestSchema, {
          method: fields.method,
          url: fields.url,
          header: generatedHeaders(fields.headers),
          bodyBz: fields.body,
        });
        assert.deepEqual(Buffer.from(written), Buffer.from(encodeMessage(relayHttp.POKTHTTPRequestSchema, message)));
        const read = decodeHttpRequestPayload(written);
        assert.ok(read);
        assert.deepEqual(
          [read.method, read.url, byName(read.headers)],
          [fields.method, fields.url, byName(fields.headers)],
        );
        assert.deepEqual(Buffer.from(read.body), Buffer.from(fields.body));
      }),
      { numRuns: 300 },
    );
  });

  test("responses are written as the generated code writes them, and read again", () => {
    fc.assert(
      fc.property(response, (fields) => {
        fc.pre(isPlain(fields.headers));
        const written = encodeHttpResponsePayload(fields);
        const message = createMessage(relayHttp.POKTHTTPResponseSchema, {
          statusCode: fields.statusCode,
          header: generatedHeaders(fields.headers),
          bodyBz: fields.body,
        });
        assert.deepEqual(Buffer.from(written), Buffer.from(encodeMessage(relayHttp.POKTHTTPResponseSchema, message)));
        const read = decodeHttpResponsePayload(written);
        assert.ok(read);
        assert.deepEqual([read.statusCode, byName(read.headers)], [fields.statusCode, byName(fields.headers)]);
        assert.deepEqual(Buffer.from(read.body), Buffer.from(fields.body));
      }),
      { numRuns: 300 },
    );
  });

  for (const file of ["e2e-1-wire.json", "e2e-7-wire.json"]) {
    test(`recorded ${file}: requests are written back byte for byte, responses but for the order of their headers`, () => {
      let requests = 0;
      for (const { request: asked, response: answered } of readSpec<Exchange[]>(file)) {
        const sent = decodeRelayRequest(base64(asked.body))?.payload;
        const got = decodeRelayResponse(base64(answered.body))?.payload;
        assert.ok(sent !== undefined && got !== undefined);
        const read = decodeHttpRequestPayload(sent);
        assert.ok(read);
        assert.deepEqual(Buffer.from(encodeHttpRequestPayload(read)), Buffer.from(sent));
        assert.equal(read.method, "POST");
        const answer = decodeHttpResponsePayload(got);
        assert.ok(answer);
        assert.equal(answer.statusCode, 200);
        const oracle = decodeMessage(relayHttp.POKTHTTPResponseSchema, got);
        assert.ok(oracle.ok);
        // Go's default marshalling draws the order of a map; its deterministic one sorts, and so do we.
        assert.deepEqual(
          Buffer.from(encodeHttpResponsePayload(answer)),
          Buffer.from(encodeMessage(relayHttp.POKTHTTPResponseSchema, oracle.message)),
        );
        requests++;
      }
      assert.ok(requests > 20);
    });
  }

  test("names are those of Go, joined where they differ in case only, and sorted", () => {
    for (const [given, wanted] of [
      ["content-type", "Content-Type"],
      ["CONTENT-TYPE", "Content-Type"],
      ["x--a-", "X--A-"],
      ["-a", "-A"],
      ["x_y-z", "X_y-Z"],
      ["bad name", "bad name"],
      ["naïve-x", "naïve-x"],
      ["", ""],
    ] as const) {
      assert.equal(canonicalHeaderName(given), wanted);
    }
    const written = encodeHttpRequestPayload({
      method: "GET",
      url: "/",
      headers: [
        ["x-b", ["1"]],
        ["Accept", ["a", ""]],
        ["X-B", ["2"]],
      ],
      body: new Uint8Array(),
    });
    assert.deepEqual(decodeHttpRequestPayload(written)?.headers, [
      ["Accept", ["a", ""]],
      ["X-B", ["1", "2"]],
    ]);
  });

  test("a header's name is its key in the map, the later of two equal ones holds, and names of objects are names", () => {
    const entry = (key: string, own: string, value: string): Uint8Array => {
      const inner = concatBytes(
        Uint8Array.of(0x0a, own.length),
        Buffer.from(own),
        Uint8Array.of(0x12, value.length),
        Buffer.from(value),
      );
      const body = concatBytes(
        Uint8Array.of(0x0a, key.length),
        Buffer.from(key),
        Uint8Array.of(0x12, inner.length),
        inner,
      );
      return concatBytes(Uint8Array.of(0x12, body.length), body);
    };
    const read = decodeHttpRequestPayload(
      concatBytes(entry("A", "other", "1"), entry("__proto__", "x", "2"), entry("A", "A", "3")),
    );
    assert.deepEqual(read?.headers, [
      ["A", ["3"]],
      ["__proto__", ["2"]],
    ]);
    // Entries without a key, without a value, and empty.
    assert.deepEqual(decodeHttpRequestPayload(hex("12021200"))?.headers, [["", []]]);
    assert.deepEqual(decodeHttpRequestPayload(hex("12030a0141"))?.headers, [["A", []]]);
    assert.deepEqual(decodeHttpRequestPayload(hex("1200"))?.headers, [["", []]]);
  });

  test("attack: too many headers or values, and texts that are not UTF-8, are refused", () => {
    const many = (count: number): Uint8Array => {
      const values = Buffer.alloc(2 * count, Buffer.from("1200", "hex"));
      const size = (length: number) => Uint8Array.of((length & 0x7f) | 0x80, length >> 7);
      const inner = concatBytes(Uint8Array.of(0x12), size(values.length), values);
      return concatBytes(Uint8Array.of(0x12), size(inner.length), inner);
    };
    assert.equal(decodeHttpRequestPayload(many(2_000))?.headers[0]?.[1].length, 2_000);
    assert.equal(decodeHttpRequestPayload(many(2_100)), undefined);
    const entries = Buffer.alloc(2 * 100_000, Buffer.from("1200", "hex"));
    assert.equal(decodeHttpRequestPayload(entries), undefined);
    assert.equal(decodeHttpResponsePayload(entries), undefined);
    for (const bad of ["0a01ff", "1a01ff", "12030a01ff", "120512031201ff"]) {
      assert.equal(decodeHttpRequestPayload(hex(bad)), undefined, bad);
    }
  });

  test("attack: no bytes make it throw, be they junk, cut off or changed", () => {
    const all = (junk: Uint8Array) => {
      decodeHttpRequestPayload(junk);
      decodeHttpResponsePayload(junk);
    };
    fc.assert(fc.property(fc.uint8Array({ maxLength: 100 }), all), { numRuns: 2_000 });
    const whole = encodeHttpRequestPayload({
      method: "POST",
      url: "http://127.0.0.1:8545/x",
      headers: [
        ["Content-Type", ["application/json"]],
        ["Accept", ["a", "b"]],
      ],
      body: Buffer.from("{}"),
    });
    for (let at = 0; at < whole.length; at++) {
      all(whole.subarray(0, at));
      for (const mask of [1, 0x80, 0xff]) {
        const changed = Uint8Array.from(whole);
        changed[at] = (changed[at] ?? 0) ^ mask;
        all(changed);
      }
    }
  });
});
