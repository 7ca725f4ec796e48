import assert from "node:assert/strict";
import { Agent, get } from "node:http";
import type { Socket } from "node:net";
import { after, suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { ask, newPool } from "../test/asking.ts";
import { type RawServer, startRawServer } from "../test/raw-server.ts";

interface Seen {
  readonly status: number;
  readonly type: string | undefined;
  readonly body: string;
}

/** What `node:http` makes of a response; undefined when that is none. */
function seenByNode(port: number): Promise<Seen | undefined> {
  const { promise, resolve } = Promise.withResolvers<Seen | undefined>();
  const failed = (): void => resolve(undefined);
  const agent = new Agent({ keepAlive: false });
  const request = get({ port, host: "127.0.0.1", agent }, (response) => {
    let body = "";
    response.setEncoding("latin1");
    response.on("data", (part: string) => {
      body += part;
    });
    response.on("error", failed).on("aborted", failed);
    response.on("end", () =>
      resolve({ status: response.statusCode ?? 0, type: response.headers["content-type"], body }),
    );
  });
  request.on("error", failed).on("close", failed);
  return promise;
}

async function seenByPool(port: number): Promise<Seen | undefined> {
  using pool = newPool(port);
  const { status, fields, body, error } = await ask(pool).result;
  return error === undefined ? { status, type: fields["content-type"], body } : undefined;
}

/** What the server sends next, in pieces, before it ends the connection. */
let pieces: readonly Buffer[] = [];
let server: RawServer | undefined;
const portOf = async (): Promise<number> => {
  server ??= await startRawServer({ answer: (socket) => void writePieces(socket) });
  return server.port;
};
after(() => server?.[Symbol.asyncDispose]());

async function writePieces(socket: Socket): Promise<void> {
  for (const piece of pieces) await new Promise((resolve) => socket.write(piece, resolve));
  socket.end();
}

function cut(text: string, cuts: readonly number[]): readonly Buffer[] {
  const bytes = Buffer.from(text, "latin1");
  const places = [...new Set([0, ...cuts.map((one) => one % bytes.length), bytes.length])].sort((a, b) => a - b);
  return places.slice(1).map((place, at) => bytes.subarray(places[at], place));
}

const word = fc.string({ unit: fc.constantFrom(..."abcXYZ-09".split("")), minLength: 1, maxLength: 8 });
const body = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes).toString("latin1"));
const cuts = fc.array(fc.nat(2_000), { maxLength: 4 });
const response = fc
  .record({
    version: fc.constantFrom("1.1", "1.1", "1.0"),
    status: fc.constantFrom(200, 201, 204, 304, 400, 404, 429, 500),
    reason: fc.constantFrom("", " ", " OK", " Not \xe9"),
    type: fc.option(word, { nil: undefined }),
    others: fc.array(fc.tuple(word, word), { maxLength: 4 }),
    bodies: fc.array(body, { maxLength: 3 }),
    framing: fc.constantFrom("length", "chunks", "close"),
    extension: fc.constantFrom("", ";a", ";a=b", ';a="b"'),
    trailer: fc.constantFrom("", "A: b\r\n", "A: b\r\nC:\r\n"),
  })
  .map(({ version, status, reason, type, others, bodies, framing, extension, trailer }) => {
    const isChunked = framing === "chunks" && version === "1.1";
    const hasBody = status !== 204 && status !== 304;
    const all = bodies.join("");
    const lines = others.map(([name, value]) => `X${name}: ${value}\r\n`);
    if (type !== undefined) lines.push(`content-TYPE:  ${type}\t\r\n`);
    if (isChunked) lines.push("Transfer-Encoding: chunked\r\n");
    if (framing === "length" && status !== 204) lines.push(`Content-Length: ${all.length}\r\n`);
    const chunks = bodies
      .filter((one) => one !== "")
      .map((one) => `${one.length.toString(16)}${extension}\r\n${one}\r\n`);
    const sent = isChunked ? `${chunks.join("")}0${extension}\r\n${trailer}\r\n` : all;
    return `HTTP/${version} ${status}${reason}\r\n${lines.join("")}\r\n${hasBody ? sent : ""}`;
  });

suite("responses as node:http reads them", () => {
  test("what is a response, however it is cut, is the same", async () => {
    const port = await portOf();
    await fc.assert(
      fc.asyncProperty(response, cuts, async (text, places) => {
        pieces = cut(text, places);
        const ours = await seenByPool(port);
        assert.ok(ours !== undefined);
        assert.deepEqual(ours, await seenByNode(port));
      }),
      { numRuns: 700 },
    );
  });

  test("what is damaged is refused, or the same", async () => {
    const port = await portOf();
    const damage = fc.record({
      at: fc.nat(400),
      drop: fc.integer({ min: 0, max: 2 }),
      put: fc.string({ unit: fc.constantFrom(..."\r\n\0 :;,0f5\t\xffaT".split("")), maxLength: 2 }),
    });
    let taken = 0;
    await fc.assert(
      fc.asyncProperty(
        response,
        fc.array(damage, { minLength: 1, maxLength: 2 }),
        cuts,
        async (whole, damages, places) => {
          let text = whole;
          for (const { at, drop, put } of damages) {
            const place = at % text.length;
            text = text.slice(0, place) + put + text.slice(place + drop);
          }
          pieces = cut(text, places);
          const ours = await seenByPool(port);
          if (ours === undefined) return;
          taken++;
          assert.deepEqual(ours, await seenByNode(port), JSON.stringify(text));
        },
      ),
      { numRuns: 700 },
    );
    assert.ok(taken > 50);
  });
});
