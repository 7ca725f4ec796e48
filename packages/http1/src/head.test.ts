import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { FieldTable } from "./field-table.ts";
import { contentLength, Head, HeadParser, INCOMPLETE, isWord, REFUSED } from "./head.ts";

const NAMES = ["host", "content-length", "transfer-encoding", "connection"];
const [HOST, LENGTH, ENCODING, CONNECTION] = [0, 1, 2, 3];
const parser = new HeadParser(new FieldTable(NAMES), { maxLines: 4 });

function requestOf(text: string): {
  readonly end: number;
  readonly head: Head;
  readonly textOf: (i: number) => string;
} {
  const bytes = Buffer.from(text, "latin1");
  const head = new Head();
  const end = parser.request(bytes, 0, bytes.length, head);
  return { end, head, textOf: (i) => bytes.toString("latin1", head.spans[i * 2], head.spans[i * 2 + 1]) };
}

function responseOf(text: string): { readonly end: number; readonly head: Head } {
  const bytes = Buffer.from(text, "latin1");
  const head = new Head();
  return { end: parser.response(bytes, 0, bytes.length, head), head };
}

const POST = "POST /a?b=1 HTTP/1.1\r\nHost: a.example\r\ncontent-LENGTH:  12 \t\r\nX-Other: \x80 b\r\n\r\n";

suite("heads of requests", () => {
  test("method, target and known fields are found, whatever the case of their names", () => {
    const { end, head, textOf } = requestOf(`${POST}body`);
    assert.equal(end, POST.length);
    assert.equal(POST.slice(head.methodStart, head.methodEnd), "POST");
    assert.equal(POST.slice(head.targetStart, head.targetEnd), "/a?b=1");
    assert.deepEqual([textOf(HOST), textOf(LENGTH), head.lines], ["a.example", "12", 3]);
    assert.deepEqual([head.has(ENCODING), head.has(CONNECTION), head.repeated], [false, false, 0]);
  });

  test("every beginning of a head is incomplete", () => {
    const bytes = Buffer.from(POST, "latin1");
    for (let end = 0; end < bytes.length; end++) {
      assert.equal(parser.request(bytes, 0, end, new Head()), INCOMPLETE, POST.slice(0, end));
    }
  });

  test("a field that comes twice is marked", () => {
    const { end, head } = requestOf("POST / HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n");
    assert.ok(end > 0);
    assert.equal(head.repeated, 1 << HOST);
  });

  for (const [what, text] of [
    ["a line that ends in a bare LF", "POST / HTTP/1.1\nHost: a\r\n\r\n"],
    ["a field line that ends in a bare LF", "POST / HTTP/1.1\r\nHost: a\n\r\n"],
    ["an empty line of a bare LF", "POST / HTTP/1.1\r\nHost: a\r\n\n"],
    ["a bare CR in a value", "POST / HTTP/1.1\r\nHost: a\rb\r\n\r\n"],
    ["a folded line", "POST / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n"],
    ["a space before the colon", "POST / HTTP/1.1\r\nHost : a\r\n\r\n"],
    ["a field without a name", "POST / HTTP/1.1\r\n: a\r\n\r\n"],
    ["a zero byte in a value", "POST / HTTP/1.1\r\nHost: a\0\r\n\r\n"],
    ["a control character in a name", "POST / HTTP/1.1\r\nHo\x01st: a\r\n\r\n"],
    ["an empty line before the request", "\r\nPOST / HTTP/1.1\r\nHost: a\r\n\r\n"],
    ["two spaces", "POST  / HTTP/1.1\r\nHost: a\r\n\r\n"],
    ["a space in the target", "POST /a b HTTP/1.1\r\nHost: a\r\n\r\n"],
    ["a fragment", "POST /a#b HTTP/1.1\r\nHost: a\r\n\r\n"],
    ["bytes beyond ASCII in the target", "POST /\xe9 HTTP/1.1\r\nHost: a\r\n\r\n"],
    ["HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\n\r\n"],
    ["HTTP/2.0", "POST / HTTP/2.0\r\nHost: a\r\n\r\n"],
    ["a lower-case version", "POST / http/1.1\r\nHost: a\r\n\r\n"],
    ["no version", "POST /\r\nHost: a\r\n\r\n"],
    ["more lines than the bound", `POST / HTTP/1.1\r\n${"A: b\r\n".repeat(5)}\r\n`],
    ["a method without end", "A".repeat(17)],
  ] as const) {
    test(`${what} is refused`, () => {
      assert.equal(requestOf(text).end, REFUSED);
    });
  }
});

suite("heads of responses", () => {
  test("status and version are read, with and without a reason", () => {
    for (const text of ["HTTP/1.1 200 OK", "HTTP/1.1 200 ", "HTTP/1.1 200", "HTTP/1.1 200 \xe9 b"]) {
      const { end, head } = responseOf(`${text}\r\nHost: a\r\n\r\n`);
      assert.deepEqual([end, head.status, head.minorVersion], [text.length + 13, 200, 1]);
    }
    assert.equal(responseOf("HTTP/1.0 404 Not Found\r\n\r\n").head.minorVersion, 0);
  });

  test("every beginning of a head is incomplete", () => {
    const bytes = Buffer.from("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
    for (let end = 0; end < bytes.length; end++) {
      assert.equal(parser.response(bytes, 0, end, new Head()), INCOMPLETE);
    }
  });

  for (const text of [
    "HTTP/1.2 200 OK",
    "HTTP/2 200 OK  ",
    "http/1.1 200 OK",
    "HTTP/1.1  200 O",
    "HTTP/1.1 2000 OK",
    "HTTP/1.1 20 OKOK",
    "HTTP/1.1 2x0 OK",
    "HTTP/1.1 099 OK",
    "HTTP/1.1 200 O\0K",
    "ICY 200 OK     ",
  ]) {
    test(`${JSON.stringify(text)} is refused`, () => {
      assert.equal(responseOf(`${text}\r\n\r\n`).end, REFUSED);
    });
  }

  test("a status line that ends in a bare LF is refused", () => {
    assert.equal(responseOf("HTTP/1.1 200 OK\nHost: a\r\n\r\n").end, REFUSED);
  });
});

test("a table finds its own names alone, in letters of any case", () => {
  const names = ["host", "content-length", "x-a", "x_a", "~tilde", "^caret"];
  const table = new FieldTable(names);
  const find = (name: string): number => {
    const bytes = Buffer.from(name, "latin1");
    const hash = bytes.reduce((sum, byte) => (Math.imul(sum, table.seed) + (byte | 0x20)) | 0, 0);
    return table.find(bytes, 0, bytes.length, hash);
  };
  for (const [at, name] of names.entries()) assert.deepEqual([find(name), find(name.toUpperCase())], [at, at]);
  // 0x20 is what upper and lower case differ by, and what `^` and `~` do.
  for (const name of ["hos", "hostt", "x-b", "~caret", "^tilde", "\x4eost"]) assert.equal(find(name), -1);
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(..."abX-_^~".split("")), minLength: 1, maxLength: 12 }), (name) => {
      assert.equal(find(name), names.indexOf(name.toLowerCase()));
    }),
  );
});

test("a length is digits alone", () => {
  const lengthOf = (text: string): number => contentLength(Buffer.from(text), 0, text.length);
  assert.deepEqual(["0", "12", "007", "999999999999999"].map(lengthOf), [0, 12, 7, 999_999_999_999_999]);
  for (const text of ["", "+1", "-1", "1 ", "1,1", "0x1", "1e3", "1000000000000000"]) assert.equal(lengthOf(text), -1);
});

test("a word is told in letters of any case", () => {
  const is = (text: string, word: string): boolean => isWord(Buffer.from(text), 0, text.length, word);
  assert.deepEqual(
    [is("Keep-Alive", "keep-alive"), is("close", "close"), is("clos", "close"), is("c\x4cOSE", "close")],
    [true, true, false, true],
  );
});
