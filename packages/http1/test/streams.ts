/** Numbers from a seed, so that a stream can be had again. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** A whole number from 0 up to and without `below` (mulberry32). */
  below(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4_294_967_296) * below);
  }

  chance(percent: number): boolean {
    return this.below(100) < percent;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
}

/** One stream of a fuzz run: requests, most of them plain, some odd or broken, in pieces. */
export interface Stream {
  readonly pieces: readonly Buffer[];
  /** Requests that were put together, before anything was broken. */
  readonly requests: number;
}

const TARGETS = ["/", "/a?b=1", "/late", "/late/x", "/declined", "//b", "/\\^`{|}~", "/large/5000", '/"<>'];
const ODD_TARGETS = ["http://a/b", "*", "a", "/a b", "/a#b", "/\x7f", "/\xe9", "", "/a\tb"];
const HARMLESS = [
  "X-Note: b\r\n",
  "x-note:\t b \t\r\n",
  "X-Note:\r\n",
  "Connection: keep-alive\r\n",
  "CONNECTION: Keep-Alive\r\n",
  "User-Agent: a/1 (b; c)\r\n",
  "Accept: */*\r\n",
  "X-Bytes: \x80\xff\r\n",
  "!#$%&'*+-.^_`|~: b\r\n",
];
const ODD = [
  "Connection: close\r\n",
  "Connection: keep-alive, close\r\n",
  "Connection:\r\n",
  "Connection: \r\nConnection: keep-alive\r\n",
  "Transfer-Encoding: chunked\r\n",
  "Transfer-Encoding: identity\r\n",
  "Transfer-Encoding: chunked, identity\r\n",
  "Transfer-Encoding : chunked\r\n",
  "Transfer-Encoding:\r\n chunked\r\n",
  "transfer-encoding: CHUNKED\r\n",
  "Content-Length: 2\r\n",
  "Content-Length: +2\r\n",
  "Content-Length: 0\r\n",
  "Content-Length:\r\n",
  "Content_Length: 2\r\n",
  "Content-Length\r\n",
  "Host: b\r\n",
  "Host:\r\n",
  "Expect: 100-continue\r\n",
  "Expect: x\r\n",
  "Proxy-Connection: close\r\n",
  "Proxy-Connection: keep-alive\r\n",
  "Upgrade: h2c\r\n",
  "Keep-Alive: timeout=1\r\n",
  "Trailer: x\r\n",
  "TE: trailers\r\n",
  "Content-Encoding: gzip\r\n",
  "X-Note: a\r\nX-Note: b\r\n",
  "X: a\r\n b\r\n",
  "X: a\nY: b\r\n",
  "X: a\rY: b\r\n",
  "X : a\r\n",
  ": a\r\n",
  "X: a\0b\r\n",
  "X: a\x7fb\r\n",
  " X: a\r\n",
  "X\r\n",
];
const BETWEEN = ["\r\n", "\n", "\r", " ", "\0", "\r\n\r\n"];
const BYTES = ["\r", "\n", "\r\n", " ", "\t", ":", "\0", "0", "1", "9", "a", ",", ";", "\x7f", "\xff", "/", "#", "P"];
const METHODS = ["GET", "PUT", "HEAD", "OPTIONS", "DELETE", "post", "POSTT", "POS", "PATCH", "QUERY", "M-SEARCH"];
const VERSIONS = ["HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/1.1 ", "HTTP/01.1", "HTTP/1", "HTTPS/1.1"];

/** Makes one stream from its seed. */
export function createStream(seed: number): Stream {
  const dice = new Dice(seed);
  const requests = 1 + dice.below(8);
  const oddPercent = dice.pick([0, 5, 30]);
  let text = "";
  for (let i = 0; i < requests; i++) {
    text += dice.chance(oddPercent) ? oddRequest(dice) : plainRequest(dice);
    if (dice.chance(oddPercent / 4)) text += dice.pick(BETWEEN);
  }
  if (dice.chance(30)) text = broken(dice, text);
  return { pieces: cut(dice, Buffer.from(text, "latin1")), requests };
}

function bodyOf(dice: Dice): string {
  const kind = dice.below(100);
  if (kind < 3) return "large ".repeat(dice.below(14_000));
  if (kind < 10) return "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
  return "b".repeat(dice.below(kind < 30 ? 2_000 : 20));
}

function plainRequest(dice: Dice, lines: readonly string[] = [], target = dice.pick(TARGETS)): string {
  const body = bodyOf(dice);
  const all = [`Host: a\r\n`, `${dice.pick(["Content-Length", "content-length"])}: ${body.length}\r\n`, ...lines];
  const note = dice.below(HARMLESS.length);
  if (dice.chance(50)) all.push(HARMLESS[note] ?? "");
  for (let i = all.length - 1; i > 0; i--) {
    const j = dice.below(i + 1);
    [all[i], all[j]] = [all[j] ?? "", all[i] ?? ""];
  }
  return `POST ${target} HTTP/1.1\r\n${all.join("")}\r\n${body}`;
}

function oddRequest(dice: Dice): string {
  switch (dice.below(8)) {
    case 0:
      return plainRequest(dice, [], dice.pick(ODD_TARGETS));
    case 1:
      return plainRequest(dice).replace("POST", dice.pick(METHODS));
    case 2:
      return plainRequest(dice).replace("HTTP/1.1", dice.pick(VERSIONS));
    case 3:
      return `GET /x HTTP/1.1\r\nHost: a\r\n${dice.chance(30) ? dice.pick(ODD) : ""}\r\n`;
    case 4:
      return `POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunks(dice)}`;
    case 5:
      return plainRequest(dice, [`X: ${"a".repeat(dice.pick([16_000, 16_300, 16_384, 20_000]))}\r\n`]);
    case 6:
      return plainRequest(dice, [`X: b\r\n`.repeat(dice.pick([96, 99, 120]))]);
    default:
      return plainRequest(dice, [dice.pick(ODD), ...(dice.chance(30) ? [dice.pick(ODD)] : [])]);
  }
}

function chunks(dice: Dice): string {
  const parts = Array.from({ length: dice.below(4) }, () => {
    const data = "c".repeat(1 + dice.below(300));
    return `${data.length.toString(16)}${dice.chance(10) ? ";x=y" : ""}\r\n${data}\r\n`;
  });
  return `${parts.join("")}0\r\n${dice.chance(10) ? "X-Trailer: a\r\n" : ""}\r\n`;
}

/** Changes, inserts, removes or repeats a few bytes, or leaves the end out. */
function broken(dice: Dice, text: string): string {
  let out = text;
  for (let i = dice.below(3); i >= 0; i--) {
    // Heads are where it matters; bodies may be long.
    const at = dice.chance(70) ? dice.below(Math.min(out.length, 120)) : dice.below(out.length + 1);
    const size = dice.below(4);
    switch (dice.below(5)) {
      case 0:
        out = out.slice(0, at) + dice.pick(BYTES) + out.slice(at + 1);
        break;
      case 1:
        out = out.slice(0, at) + dice.pick(BYTES) + out.slice(at);
        break;
      case 2:
        out = out.slice(0, at) + out.slice(at + size);
        break;
      case 3:
        out = out.slice(0, at + size) + out.slice(at);
        break;
      default:
        out = out.slice(0, dice.below(out.length + 1));
    }
  }
  return out;
}

function cut(dice: Dice, bytes: Buffer): readonly Buffer[] {
  const count = dice.pick([0, 0, 1, 2, 5, 30]);
  const places = Array.from({ length: count }, () => dice.below(bytes.length + 1)).sort((a, b) => a - b);
  const pieces = [0, ...places].map((from, i) => bytes.subarray(from, places[i] ?? bytes.length));
  return pieces.filter((piece) => piece.length > 0);
}
