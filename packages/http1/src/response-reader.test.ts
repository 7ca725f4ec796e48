import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { endsInLinearTime } from "@turnpike/testkit";
import { fc } from "@turnpike/testkit/property";
import { BROKEN, DONE, MORE, ResponseFields, type ResponseHead, ResponseReader } from "./response-reader.ts";

const fields = new ResponseFields(["content-type"]);

interface Read {
  readonly result: number;
  readonly status: number;
  readonly fields: Readonly<Record<string, string>>;
  readonly body: string;
  readonly mayStay: boolean;
  readonly keepAliveMs: number | undefined;
  /** True: the end of the connection makes it whole. */
  readonly endsWell: boolean;
}

/** What a reader makes of the pieces, each in one buffer that is overwritten by the next, as a connection does. */
function readPieces(pieces: readonly Buffer[], reader = new ResponseReader(fields)): Read {
  const shared = Buffer.alloc(Math.max(1, ...pieces.map(({ length }) => length)));
  let [status, found, body] = [0, {} as Record<string, string>, ""];
  const sink = {
    onHead(head: { readonly status: number; fields(): Record<string, string> }) {
      status = head.status;
      found = head.fields();
    },
    onData(bytes: Buffer, start: number, end: number) {
      assert.ok(end > start);
      body += bytes.toString("latin1", start, end);
    },
  };
  let result: number = MORE;
  reader.begin();
  for (const [at, piece] of pieces.entries()) {
    piece.copy(shared);
    result = reader.read(shared, piece.length, sink);
    shared.fill(0x7a);
    if (result === BROKEN) break;
    // What comes after a whole response is surplus, which its connection sees.
    if (result === DONE) {
      if (at < pieces.length - 1) result = BROKEN;
      break;
    }
  }
  const { mayStay, keepAliveMs } = reader;
  return { result, status, fields: found, body, mayStay, keepAliveMs, endsWell: result === MORE && reader.end() };
}

/** The same text in one piece, cut in two at every place, and byte by byte. */
function waysOf(text: string): (readonly Buffer[])[] {
  const bytes = Buffer.from(text, "latin1");
  const ways: (readonly Buffer[])[] = [[bytes], [...bytes].map((byte) => Buffer.of(byte))];
  for (let at = 1; at < bytes.length; at++) ways.push([bytes.subarray(0, at), bytes.subarray(at)]);
  return ways;
}

const OK = "HTTP/1.1 200 OK\r\n";
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`;

suite("responses, in one piece, cut at every place, and byte by byte", () => {
  for (const [what, text, body] of [
    ["a length", `${OK}Content-Length: 5\r\n\r\nhello`, "hello"],
    ["no byte", `${OK}Content-Length: 0\r\n\r\n`, ""],
    ["204 without a length", "HTTP/1.1 204 No Content\r\n\r\n", ""],
    ["304 with the length of what it stands for", "HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n", ""],
    ["chunks", `${CHUNKED}5\r\nhello\r\n00a\r\n0123456789\r\n0\r\n\r\n`, "hello0123456789"],
    ["chunks with extensions", `${CHUNKED}1;a=b;c="d;\\"\\\\";f\r\nx\r\n0;e\r\n\r\n`, "x"],
    ["trailer fields", `${CHUNKED}1\r\nx\r\n0\r\nA: b\r\nC:\r\n\r\n`, "x"],
    ["no chunk", `${CHUNKED}0\r\n\r\n`, ""],
    ["chunked in capital letters", `${OK}transfer-encoding: CHUNKED\r\n\r\n1\r\nx\r\n0\r\n\r\n`, "x"],
  ] as const) {
    test(`${what} is read`, () => {
      for (const pieces of waysOf(text)) {
        const read = readPieces(pieces);
        assert.deepEqual([read.result, read.body, read.mayStay], [DONE, body, true]);
      }
    });
  }

  test("what ends with its connection is whole by that", () => {
    for (const text of [`${OK}\r\nhello`, "HTTP/1.0 200 OK\r\n\r\nhello"]) {
      for (const pieces of waysOf(text)) {
        const { result, body, mayStay, endsWell } = readPieces(pieces);
        assert.deepEqual(
          { result, body, mayStay, endsWell },
          { result: MORE, body: "hello", mayStay: false, endsWell: true },
        );
      }
    }
  });

  test("what says its length is not whole before", () => {
    for (const text of [
      `${OK}Content-Length: 5\r\n\r\nhell`,
      `${CHUNKED}5\r\nhello\r\n0\r\n\r`,
      "HTTP/1.1 200 OK\r\nA: b",
    ]) {
      for (const pieces of waysOf(text)) {
        const { result, endsWell } = readPieces(pieces);
        assert.deepEqual([result, endsWell], [MORE, false]);
      }
    }
  });

  for (const [what, text] of [
    ["an interim response with a length", `HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n`],
    ["another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"],
    ["bytes after a body", `${OK}Content-Length: 5\r\n\r\nhello!`],
    ["bytes after no body", "HTTP/1.1 204 No Content\r\n\r\n!"],
    ["a second response", `${OK}Content-Length: 0\r\n\r\n${OK}Content-Length: 0\r\n\r\n`],
    ["bytes after the last chunk", `${CHUNKED}0\r\n\r\n!`],
    ["length and coding", `${OK}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ["two lengths", `${OK}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello`],
    ["a list of lengths", `${OK}Content-Length: 5, 5\r\n\r\nhello`],
    ["a signed length", `${OK}Content-Length: +5\r\n\r\nhello`],
    ["a length in hex", `${OK}Content-Length: 0x5\r\n\r\nhello`],
    ["an empty length", `${OK}Content-Length: \r\n\r\n`],
    ["a huge length", `${OK}Content-Length: 99999999999999999999\r\n\r\n`],
    ["another coding", `${OK}Transfer-Encoding: gzip\r\n\r\n`],
    ["two codings", `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n`],
    ["chunked twice", `${OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n`],
    ["chunks in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["an empty line before it", `\r\n${OK}Content-Length: 0\r\n\r\n`],
    ["another protocol's greeting", "SSH-2.0-OpenSSH_9.9\r\n"],
    ["a bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"],
    ["a folded field", `${OK}A: b\r\n c\r\n\r\n`],
    ["101 fields", `${OK}${"A: b\r\n".repeat(101)}\r\n`],
    ["no size", `${CHUNKED}\r\n`],
    ["a size that is no number", `${CHUNKED}x\r\n`],
    ["a signed size", `${CHUNKED}-1\r\n`],
    ["a size with a space", `${CHUNKED}1 \r\nx\r\n`],
    ["a size with 0x", `${CHUNKED}0x1\r\nx\r\n`],
    ["a size of 17 digits", `${CHUNKED}${"0".repeat(17)}\r\n\r\n`],
    ["a huge size", `${CHUNKED}ffffffffffffffff\r\n`],
    ["a size line with a bare LF", `${CHUNKED}1\nx\r\n`],
    ["a size line with a bare CR", `${CHUNKED}1\rx\r\n`],
    ["a bare CR in an extension", `${CHUNKED}1;a\rb\r\nx\r\n`],
    ["a zero byte in an extension", `${CHUNKED}1;a\0\r\nx\r\n`],
    ["an extension without a name", `${CHUNKED}1;=b\r\nx\r\n`],
    ["an empty extension", `${CHUNKED}1;\r\nx\r\n`],
    ["an extension without a value", `${CHUNKED}1;a=\r\nx\r\n`],
    ["an extension without the quote's end", `${CHUNKED}1;a="b\r\nx\r\n`],
    ["an escaped quote at the end", `${CHUNKED}1;a="b\\"\r\nx\r\n`],
    ["bytes after a quote", `${CHUNKED}1;a="b"c\r\nx\r\n`],
    ["bytes beyond ASCII in an extension", `${CHUNKED}1;a=\xe9\r\nx\r\n`],
    ["a long extension", `${CHUNKED}1;${"a".repeat(257)}`],
    ["a chunk longer than its size", `${CHUNKED}1\r\nxy\r\n0\r\n\r\n`],
    ["a chunk with a bare LF", `${CHUNKED}1\r\nx\n0\r\n\r\n`],
    ["a trailer without a name", `${CHUNKED}0\r\n: a\r\n\r\n`],
    ["a folded trailer", `${CHUNKED}0\r\nA: b\r\n c\r\n\r\n`],
    ["a trailer with a bare LF", `${CHUNKED}0\r\nA: b\n\r\n`],
    ["an empty trailer line with a bare LF", `${CHUNKED}0\r\n\n`],
  ] as const) {
    test(`${what} breaks it`, () => {
      for (const pieces of waysOf(text)) assert.equal(readPieces(pieces).result, BROKEN);
    });
  }

  test("a long head and a long trailer break it, in one piece or in many", () => {
    const head = (bytes: number): string =>
      `${OK}Content-Length: 0\r\nA: ${"b".repeat(bytes - OK.length - 26)}\r\n\r\n`;
    assert.equal(head(16_384).length, 16_384);
    const trailer = `${CHUNKED}0\r\n${`A: ${"b".repeat(100)}\r\n`.repeat(50)}`;
    const cut = (text: string, size: number): Buffer[] => {
      const bytes = Buffer.from(text);
      return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
        bytes.subarray(at * size, (at + 1) * size),
      );
    };
    for (const size of [1, 7, 1_000, 100_000]) {
      assert.equal(readPieces(cut(head(16_384), size)).result, DONE);
      assert.equal(readPieces(cut(head(16_385), size)).result, BROKEN);
      assert.equal(readPieces(cut(`${OK}A: ${"b".repeat(16_384)}`, size)).result, BROKEN);
      assert.equal(readPieces(cut(trailer, size)).result, BROKEN);
    }
  });
});

suite("what becomes of the connection", () => {
  for (const [lines, mayStay, keepAliveMs] of [
    ["Connection: keep-alive\r\n", true, undefined],
    ["Connection: close\r\n", false, undefined],
    ["Connection: Close\r\n", false, undefined],
    ["Connection: x, close\r\n", false, undefined],
    ["Connection: closed\r\n", true, undefined],
    ["Connection: close\r\nConnection: keep-alive\r\n", false, undefined],
    ["Keep-Alive: timeout=5\r\n", true, 3_000],
    ["Keep-Alive: max=3, Timeout=10\r\n", true, 8_000],
    ["Keep-Alive: timeout=2\r\n", false, 0],
    ["Keep-Alive: notimeout=2\r\n", true, undefined],
  ] as const) {
    test(JSON.stringify(lines), () => {
      const read = readPieces([Buffer.from(`${OK}${lines}Content-Length: 0\r\n\r\n`)]);
      assert.deepEqual([read.mayStay, read.keepAliveMs], [mayStay, keepAliveMs]);
    });
  }

  test("one of HTTP/1.0 is not used again, and what one response said is not said by the next", () => {
    const reader = new ResponseReader(fields);
    const read = (text: string): readonly unknown[] => {
      const { mayStay, keepAliveMs } = readPieces([Buffer.from(text)], reader);
      return [mayStay, keepAliveMs];
    };
    assert.deepEqual(read(`${OK}Keep-Alive: timeout=5\r\nContent-Length: 0\r\n\r\n`), [true, 3_000]);
    assert.deepEqual(read(`${OK}Content-Length: 0\r\n\r\n`), [true, undefined]);
    assert.deepEqual(read("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"), [
      false,
      undefined,
    ]);
  });
});

test("a sink that stops the reader is called no more", () => {
  for (const stopAt of ["head", "data"] as const) {
    for (const text of [`${OK}Content-Length: 2\r\n\r\nab`, `${CHUNKED}1\r\na\r\n1\r\nb\r\n0\r\n\r\n`]) {
      const reader = new ResponseReader(fields);
      const calls: string[] = [];
      const called = (name: "head" | "data"): void => {
        calls.push(name);
        if (name === stopAt) reader.stop();
      };
      const bytes = Buffer.from(text);
      const result = reader.read(bytes, bytes.length, { onHead: () => called("head"), onData: () => called("data") });
      assert.equal(result, BROKEN);
      assert.deepEqual(calls, stopAt === "head" ? ["head"] : ["head", "data"]);
    }
  }
});

test("fields of blanks are read in time that grows with their length", () => {
  const blanks = `${"\t".repeat(8_000)}x${" ".repeat(8_000)}`;
  const bytes = Buffer.from(`HTTP/1.1 204 No Content\r\nA:${blanks}x\r\nKeep-Alive:timeout\r\n\r\n`, "latin1");
  // The largest head is small: many of them show how each one is read.
  endsInLinearTime(() => {
    const reader = new ResponseReader(fields);
    for (let round = 0; round < 5_000; round++) {
      reader.begin();
      const onHead = (head: ResponseHead): void => assert.equal(head.allFields()[0]?.[1].length, 8_002);
      assert.equal(reader.read(bytes, bytes.length, { onHead, onData: () => undefined }), DONE);
    }
  });
});

const token = fc.string({ unit: fc.constantFrom(..."abcXYZ-09".split("")), minLength: 1, maxLength: 8 });
const body = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes).toString("latin1"));
const response = fc
  .record({
    status: fc.constantFrom(200, 201, 400, 404, 500),
    type: fc.option(token, { nil: undefined }),
    others: fc.array(
      fc.tuple(
        token.map((name) => `X${name}`),
        token,
      ),
      { maxLength: 5 },
    ),
    bodies: fc.array(body, { maxLength: 4 }),
    isChunked: fc.boolean(),
    extension: fc.constantFrom("", ";a=b"),
    trailer: fc.constantFrom("", "A: b\r\n"),
  })
  .map(({ status, type, others, bodies, isChunked, extension, trailer }) => {
    const lines = others.map(([name, value]) => `${name}: ${value}\r\n`);
    if (type !== undefined) lines.push(`CONTENT-type:\t${type} \r\n`);
    const all = bodies.join("");
    lines.push(isChunked ? "Transfer-Encoding: chunked\r\n" : `Content-Length: ${all.length}\r\n`);
    const chunks = bodies
      .filter((one) => one !== "")
      .map((one) => `${one.length.toString(16)}${extension}\r\n${one}\r\n`);
    const sent = isChunked ? `${chunks.join("")}0${extension}\r\n${trailer}\r\n` : all;
    return { status, type, all, text: `HTTP/1.1 ${status} \r\n${lines.join("")}\r\n${sent}` };
  });

test("however a response is cut, it is read the same, many over one reader", () => {
  const reader = new ResponseReader(fields);
  fc.assert(
    fc.property(response, fc.array(fc.nat(2_000), { maxLength: 20 }), ({ status, type, all, text }, cuts) => {
      const bytes = Buffer.from(text, "latin1");
      const places = [...new Set([0, ...cuts.map((cut) => cut % bytes.length), bytes.length])].sort((a, b) => a - b);
      const pieces = places.slice(1).map((place, at) => bytes.subarray(places[at], place));
      const read = readPieces(pieces, reader);
      assert.deepEqual(
        [read.result, read.status, read.fields, read.body],
        [DONE, status, type === undefined ? {} : { "content-type": type }, all],
      );
    }),
    { numRuns: 3_000 },
  );
});
