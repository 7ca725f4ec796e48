import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { cutAt, exchange } from "../test/exchange.ts";
import { startListener, startReference, type TestListener } from "../test/reference.ts";

const HOST = "Host: a\r\n";
const post = (fields: string, body = "hi", target = "/"): string =>
  `POST ${target} HTTP/1.1\r\n${HOST}Content-Length: ${Buffer.byteLength(body, "latin1")}\r\n${fields}\r\n${body}`;
const PLAIN = post("");
const LATE = post("", "late", "/late");
const GET = `GET /x HTTP/1.1\r\n${HOST}\r\n`;
const CHUNKED = `POST /c HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n`;
const UPGRADE = `GET /u HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nhead`;
const withLines = (lines: string, body = "hi"): string => `POST /odd HTTP/1.1\r\n${lines}\r\n${body}`;
const LENGTH = "Content-Length: 2\r\n";

/** Of each: its bytes, and how many of its requests the fast way answers when they come whole. */
const CASES: Readonly<Record<string, readonly [bytes: string, handled: number]>> = {
  "a plain request": [PLAIN, 1],
  "an empty body": [post("", ""), 1],
  "a body of all bytes": [post("", String.fromCharCode(...Array.from({ length: 256 }, (_, i) => i))), 1],
  "a field that is read": [post("X-Note: b c \r\n"), 1],
  "a field that is read, twice": [post("X-Note: b\r\nx-note: c\r\n"), 0],
  "keep-alive": [post("Connection: Keep-Alive\r\n") + PLAIN, 2],
  "keep-alive and another": [post("Connection: keep-alive, x\r\n") + PLAIN, 0],
  close: [post("Connection: close\r\n") + PLAIN, 0],
  "proxy-connection": [post("Proxy-Connection: close\r\n") + PLAIN, 0],
  "two plain ones": [PLAIN + PLAIN, 2],
  "a late one and a plain one": [LATE + PLAIN, 2],
  "a late one and a GET": [LATE + GET, 1],
  "a late one and half of one": [LATE + PLAIN.slice(0, 10), 1],
  "a late one and a broken one": [`${LATE}nonsense\r\n\r\n`, 1],
  "plain, GET, plain": [PLAIN + GET + PLAIN, 1],
  "plain, plain, chunked": [PLAIN + PLAIN + CHUNKED, 2],
  "chunked and plain": [CHUNKED + PLAIN, 0],
  declined: [post("", "hi", "/declined") + PLAIN, 0],
  "an upgrade": [UPGRADE, 0],
  "plain, expect": [PLAIN + post("Expect: 100-continue\r\n"), 1],
  "another expectation": [post("Expect: x\r\n"), 0],
  "an empty line between": [`${PLAIN}\r\n${PLAIN}`, 1],
  "a line of rest after a body": [`${PLAIN}x\r\n${PLAIN}`, 1],
  "length and chunks": [withLines(`${HOST}${LENGTH}Transfer-Encoding: chunked\r\n`, "0\r\n\r\n"), 0],
  "chunks and length": [withLines(`${HOST}Transfer-Encoding: chunked\r\n${LENGTH}`, "0\r\n\r\n"), 0],
  "plain, then length and chunks": [
    PLAIN + withLines(`${HOST}${LENGTH}Transfer-Encoding: chunked\r\n`, `0\r\n\r\n${PLAIN}`),
    1,
  ],
  "chunks under a control character": [withLines(`${HOST}Transfer-Encoding: \x0bchunked\r\n`, "0\r\n\r\n"), 0],
  "chunks under another coding": [withLines(`${HOST}Transfer-Encoding: gzip, chunked\r\n`, "0\r\n\r\n"), 0],
  "two lengths": [withLines(`${HOST}${LENGTH}${LENGTH}`), 0],
  "two other lengths": [withLines(`${HOST}${LENGTH}Content-Length: 3\r\n`), 0],
  ...Object.fromEntries(
    ["2, 2", "+2", "-2", "0x2", "2 2", "2\t2", "2\v", "", "1e1", "99999999999999999999"].map((value) => [
      `a length of ${JSON.stringify(value)}`,
      [withLines(`${HOST}Content-Length: ${value}\r\n`), 0] as const,
    ]),
  ),
  // Spaces and tabs around a value are no part of it, and `node:http` reads it so.
  ...Object.fromEntries(
    ["02", "2\t", "\t2", " 2 \t", "\t 2\t \t"].map((value) => [
      `a length of ${JSON.stringify(value)}, which is one`,
      [withLines(`${HOST}Content-Length: ${value}\r\n`), 1] as const,
    ]),
  ),
  "a space before the colon": [withLines(`${HOST}Content-Length : 2\r\n`), 0],
  "two hosts": [withLines(`${HOST}${HOST}${LENGTH}`), 0],
  "no host": [withLines(LENGTH), 0],
  "a folded line": [withLines(`${HOST}X: a\r\n b\r\n${LENGTH}`), 0],
  "a bare LF in the request line": [PLAIN.replace("1.1\r\n", "1.1\n"), 0],
  "a bare LF after a field": [PLAIN.replace("Host: a\r\n", "Host: a\n"), 0],
  "a bare LF at the head's end": [PLAIN.replace("\r\n\r\n", "\r\n\n"), 0],
  "a bare CR": [PLAIN.replace("Host: a", "Host: a\rX: b"), 0],
  "a zero byte": [post("X: a\0b\r\n"), 0],
  "bytes beyond ASCII": [post("X: a\xff\xe9b\r\n"), 1],
  "a field without a name": [post(": x\r\n"), 0],
  "HTTP/1.0": [PLAIN.replace("HTTP/1.1", "HTTP/1.0"), 0],
  "HTTP/2.0": ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0],
  "a lower-case method": [PLAIN.replace("POST", "post"), 0],
  "a longer method": [PLAIN.replace("POST", "POSTS"), 0],
  "an absolute target": [PLAIN.replace("POST /", "POST http://a/"), 0],
  "a target of another host": [PLAIN.replace("POST /", "POST //b/"), 1],
  "a fragment": [PLAIN.replace("POST /", "POST /a#b"), 0],
  "two spaces": [PLAIN.replace("POST /", "POST  /"), 0],
  "a leading space": [` ${PLAIN}`, 0],
  "a coded body": [post("Content-Encoding: gzip\r\n"), 0],
  trailers: [post("Trailer: x\r\n"), 0],
  TE: [post("TE: trailers\r\n"), 0],
  "a large body": [post("", "b".repeat(65_537)) + PLAIN, 0],
  "the largest body": [post("", "b".repeat(65_536)) + PLAIN, 2],
  "a huge head": [post(`X: ${"a".repeat(40_000)}\r\n`), 0],
  "a head that goes on": [`POST / HTTP/1.1\r\nX: ${"a".repeat(100_000)}`, 0],
  "many lines": [post("X: a\r\n".repeat(150)) + PLAIN, 0],
  "a large response": [post("", "hi", "/large/30000") + PLAIN, 2],
  "a response larger than a buffer": [post("", "hi", "/large/300000") + PLAIN, 2],
  "half a head": [PLAIN.slice(0, 30), 0],
  "half a body": [PLAIN.slice(0, -1), 0],
  nothing: ["", 0],
};

suite("odd requests meet the same fate on the fast way as at node:http alone", { concurrency: 4 }, () => {
  let listening: TestListener;
  let reference: Awaited<ReturnType<typeof startReference>>;
  before(async () => {
    listening = await startListener();
    reference = await startReference();
  });
  after(async () => {
    await listening[Symbol.asyncDispose]();
    await reference[Symbol.asyncDispose]();
  });

  test("an upgrade behind a plain request is one, in one packet as in two", async () => {
    const whole = await exchange(listening.port, [Buffer.from(PLAIN + UPGRADE)]);
    assert.match(whole.text, /^HTTP\/1\.1 200 OK\r\n.*POST \/ hiHTTP\/1\.1 101 Switching Protocols\r\n\r\n4$/s);
  });

  for (const [name, [text, handled]] of Object.entries(CASES)) {
    test(name, async () => {
      const bytes = Buffer.from(text, "latin1");
      const cuts: (readonly Buffer[])[] = [[bytes]];
      if (bytes.length <= 1_000) cuts.push(cutAt(bytes, Array.from({ length: bytes.length }, (_, i) => i).slice(1)));
      for (const every of [7, 31, 61, 4_001]) {
        const places = Array.from({ length: Math.floor((bytes.length - 1) / every) }, (_, i) => (i + 1) * every);
        if (places.length < 60) cuts.push(cutAt(bytes, places));
      }
      for (const pieces of cuts) {
        const [ours, theirs] = [await exchange(listening.port, pieces), await exchange(reference.port, pieces)];
        assert.equal(ours.text, theirs.text, `in ${pieces.length} pieces`);
      }
    });

    test(`${name}: what the fast way answers of it`, async () => {
      await using own = await startListener();
      await exchange(own.port, [Buffer.from(text, "latin1")]);
      assert.equal(own.listener.counts.handled, handled);
      assert.equal(own.listener.heldBytes, 0);
    });
  }
});
