import { Dice } from "../../packages/http1/test/streams.ts";

/** The first bytes of every HTTP/2 client (RFC 9113 §3.4). */
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
const TYPES = { data: 0, headers: 1, priority: 2, reset: 3, settings: 4, push: 5, ping: 6, goaway: 7, window: 8 };

/** One HTTP/2 frame (RFC 9113 §4.1). */
export function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Fields as literals without indexing (RFC 7541 §6.2.2), in the order given. */
export function fieldBlock(fields: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(
    fields.flatMap(([name, value]) => [
      Buffer.from([0, name.length]),
      Buffer.from(name, "latin1"),
      Buffer.from([value.length]),
      Buffer.from(value, "latin1"),
    ]),
  );
}

const request = (path: string, contentType?: string): Buffer =>
  fieldBlock([
    [":method", "POST"],
    [":scheme", "http"],
    [":path", path],
    [":authority", "x"],
    ...(contentType === undefined ? [] : ([["content-type", contentType]] as const)),
  ]);

const END = 0x4;
const END_STREAM = 0x1;

/** The head of a stream. */
export const headers = (stream: number, path: string, contentType?: string): Buffer =>
  frame(TYPES.headers, END, stream, request(path, contentType));

/** The reset of a stream, as when its client does not wait any more. */
export const reset = (stream: number, code = 8): Buffer => {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(code);
  return frame(TYPES.reset, 0, stream, payload);
};

/** Preface and empty settings. */
export const opening = (): Buffer => Buffer.concat([PREFACE, frame(TYPES.settings, 0, 0)]);

/** Pings, or settings, of one connection. */
export const pings = (count: number): Buffer =>
  Buffer.concat([opening(), ...Array.from({ length: count }, () => frame(TYPES.ping, 0, 0, Buffer.alloc(8)))]);
export const settings = (count: number): Buffer =>
  Buffer.concat([opening(), ...Array.from({ length: count }, () => frame(TYPES.settings, 0, 0))]);

/** Streams that are opened and reset at once (CVE-2023-44487). */
export const rapidResets = (count: number, path = "/x"): Buffer =>
  Buffer.concat([
    opening(),
    ...Array.from({ length: count }, (_, at) => Buffer.concat([headers(2 * at + 1, path), reset(2 * at + 1)])),
  ]);

/** Streams that the server has to reset (CVE-2025-8671): a window that grows by nothing is their fault (RFC 9113 §6.9). */
export const forcedResets = (count: number, path = "/x"): Buffer =>
  Buffer.concat([
    opening(),
    ...Array.from({ length: count }, (_, at) =>
      Buffer.concat([
        headers(2 * at + 1, path, "application/grpc"),
        frame(TYPES.window, 0, 2 * at + 1, Buffer.alloc(4)),
      ]),
    ),
  ]);

const PATHS = [
  "/",
  "/x",
  "/pocket.service.RelayService/SendRelay",
  "/pocket.shared.Query/Params",
  "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  "*",
];
const CONTENT_TYPES = [undefined, "application/grpc", "application/grpc+proto", "text/plain", "application/grpc-web"];
const ODD_FIELDS: readonly (readonly [string, string])[] = [
  ["grpc-timeout", "x"],
  ["grpc-timeout", "1n"],
  ["grpc-encoding", "gzip"],
  ["grpc-encoding", "none"],
  ["x-cosmos-block-height", "9".repeat(100)],
  ["a-bin", "%%%"],
  ["rpc-type", "9"],
  ["Upper", "x"],
  [":late", "x"],
  ["connection", "close"],
];

function oddHeaders(dice: Dice, stream: number): Buffer {
  const contentType = dice.pick(CONTENT_TYPES);
  const all: (readonly [string, string])[] = [
    [":method", dice.pick(["POST", "GET", "CONNECT", "OPTIONS"])],
    [":scheme", "http"],
    [":path", dice.pick(PATHS)],
    [":authority", dice.pick(["x", "localhost", ""])],
    ...(contentType === undefined ? [] : ([["content-type", contentType]] as const)),
    ["te", "trailers"],
    ...(dice.chance(30) ? [dice.pick(ODD_FIELDS)] : []),
  ];
  const block = fieldBlock(all.filter(() => !dice.chance(7)));
  const flags = (dice.chance(90) ? END : 0) | (dice.chance(30) ? END_STREAM : 0);
  return frame(TYPES.headers, flags, stream, block);
}

function randomBytes(dice: Dice, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => dice.below(256)));
}

/** One frame, most of them of the kinds that servers stumble over. */
function oddFrame(dice: Dice, stream: number): Buffer {
  const roll = dice.below(100);
  if (roll < 35) return oddHeaders(dice, stream);
  if (roll < 60) return reset(stream, dice.below(14));
  if (roll < 70) {
    const message = Buffer.alloc(5);
    message.writeUInt32BE(dice.pick([0, 1, 4, 0xffffffff]), 1);
    return frame(
      TYPES.data,
      dice.chance(50) ? END_STREAM : 0,
      stream,
      dice.chance(50) ? message : randomBytes(dice, 20),
    );
  }
  if (roll < 75) return frame(TYPES.window, 0, dice.pick([0, stream]), randomBytes(dice, 4));
  if (roll < 80) return frame(TYPES.ping, dice.below(2), 0, randomBytes(dice, dice.pick([8, 7])));
  if (roll < 84) return frame(TYPES.goaway, 0, 0, Buffer.alloc(8));
  if (roll < 88)
    return frame(TYPES.settings, dice.below(2), 0, dice.chance(50) ? Buffer.alloc(0) : randomBytes(dice, 6));
  if (roll < 92) return frame(dice.below(12), dice.below(256), dice.below(8), randomBytes(dice, dice.below(40)));
  return randomBytes(dice, dice.below(60));
}

function http2Stream(dice: Dice): Buffer {
  const parts: Uint8Array[] = [dice.chance(95) ? opening() : PREFACE.subarray(0, dice.below(PREFACE.length))];
  let stream = 1;
  const count = 1 + dice.below(12);
  for (let at = 0; at < count; at++) {
    parts.push(oddFrame(dice, stream));
    if (dice.chance(40)) stream += 2;
  }
  return Buffer.concat(parts);
}

const LINES = [
  "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{}",
  "GET /websocket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
  "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
  "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
  "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
  "CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "GET / HTTP/1.1\r\nHo",
];

function http1Stream(dice: Dice): Buffer {
  const parts = Array.from({ length: 1 + dice.below(3) }, (): Uint8Array => Buffer.from(dice.pick(LINES), "latin1"));
  if (dice.chance(50)) parts.push(randomBytes(dice, dice.below(80)));
  return Buffer.concat(parts);
}

/** Bytes that one connection sends. The same seed gives the same pieces and the same end. */
export interface FuzzConnection {
  /** Written one after another, each in a turn of the event loop of its own. */
  readonly pieces: readonly Buffer[];
  readonly end: "end" | "reset" | "close";
}

/** One connection of a fuzz run: frames or heads, joined in one segment or split anywhere. */
export function fuzzConnection(seed: number): FuzzConnection {
  const dice = new Dice(seed);
  const bytes = dice.chance(65) ? http2Stream(dice) : http1Stream(dice);
  const pieces: Buffer[] = [];
  let at = 0;
  while (at < bytes.length) {
    const size = dice.chance(60) ? bytes.length : 1 + dice.below(40);
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return { pieces, end: dice.pick(["end", "reset", "close"] as const) };
}
