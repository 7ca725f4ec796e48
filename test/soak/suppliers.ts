import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { serveParent } from "../../bench/lib/child.ts";
import { LIES, type Mood, nextSpell, type Spell } from "./faults.ts";
import { createRandom, type Random } from "./random.ts";
import { blockOf, headAt, truthOf, UNFINAL_BLOCKS } from "./truth.ts";

/** Operations of this child: suppliers of one made-up chain, all but the first of them bad at times. */
export type SuppliersOperations = {
  readonly start: (params: {
    readonly count: number;
    readonly seed: number;
    readonly startMs: number;
  }) => Promise<{ readonly ports: readonly number[] }>;
  readonly counted: (params: undefined) => Promise<SupplierCounts>;
};

/** What the suppliers saw. */
export interface SupplierCounts {
  /** Answers by what was wrong with them. */
  readonly answers: Readonly<Record<string, number>>;
  readonly writes: number;
  /** Writes that came more than once. */
  readonly repeatedWrites: number;
}

interface Call {
  readonly id?: unknown;
  readonly method: string;
  readonly params?: readonly unknown[];
}

/** Suppliers, beside the one that is always good, that live and say their height. */
const STEADY = 2;
/** The good one is the slowest, so that a gateway that looks for quick answers wants the others. */
const GOOD_DELAY_MS = 12;
const STALE_BLOCKS = 5_000;
const HIGH_BLOCKS = 1_000_000;
const GOOD: Spell = { mood: "good", share: 1, durationMs: 0 };
const HTML = "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>";

const answers: Record<string, number> = {};
const writes = new Map<string, number>();
let repeatedWrites = 0;
let startMs = 0;

class Supplier {
  readonly #random: Random;
  readonly #delayMs: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #spell = GOOD;
  #port = 0;

  constructor(seed: number, delayMs: number) {
    this.#delayMs = delayMs;
    this.#random = createRandom(seed);
    this.#server = createServer((req, res) => void this.#serve(req, res).catch(() => res.destroy()));
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  get isLying(): boolean {
    return LIES.has(this.#spell.mood);
  }

  async listen(): Promise<number> {
    this.#server.listen(this.#port, "127.0.0.1");
    await once(this.#server, "listening");
    this.#port = (this.#server.address() as AddressInfo).port;
    return this.#port;
  }

  async become(spell: Spell): Promise<void> {
    const wasDead = this.#spell.mood === "dead";
    this.#spell = spell;
    if (spell.mood === "dead" && !wasDead) {
      for (const socket of this.#sockets) socket.destroy();
      this.#server.close();
    } else if (spell.mood !== "dead" && wasDead) {
      await this.listen();
    }
  }

  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const asked = JSON.parse(await text(req)) as Call | readonly Call[];
    if (this.#delayMs > 0) await pause(this.#delayMs);
    const { share } = this.#spell;
    const mood = this.#random.next() < share ? this.#spell.mood : "good";
    answers[mood] = (answers[mood] ?? 0) + 1;
    const calls = (Array.isArray(asked) ? asked : [asked]) as readonly Call[];
    if (mood !== "dead" && mood !== "reset") for (const call of calls) noteWrite(call);
    const parts = calls.filter((call) => call.id !== undefined).map((call) => this.#answer(call, mood));
    if (mood === "reversed") parts.reverse();
    if (mood === "missing-item" && parts.length > 1) parts.splice(this.#random.whole(0, parts.length - 1), 1);
    if (mood === "twice" && parts[0] !== undefined && parts.length > 1) parts[parts.length - 1] = parts[0];
    this.#write(req, res, mood, Array.isArray(asked) ? `[${parts.join(",")}]` : (parts[0] ?? ""));
  }

  #answer(call: Call, mood: Mood): string {
    const id = mood === "wrong-id" ? `"${this.#random.whole(1, 1e9)}-not-yours"` : JSON.stringify(call.id);
    const version = mood === "no-jsonrpc" ? "" : '"jsonrpc":"2.0",';
    // Another request's answer: only its id tells.
    if (mood === "wrong-id") return `{${version}"id":${id},"result":"0xbad"}`;
    if (mood === "neither") return `{${version}"id":${id}}`;
    const members = Object.entries(resultOf(call, mood)).map(([key, value]) => `"${key}":${JSON.stringify(value)}`);
    if (mood === "both") members.push('"error":{"code":-32000,"message":"both"},"result":null');
    return `{${version}"id":${id},${members.join(",")}}`;
  }

  #write(req: IncomingMessage, res: ServerResponse, mood: Mood, body: string): void {
    const json = { "content-type": "application/json" };
    const html = { "content-type": "text/html" };
    if (mood === "reset" || mood === "dead") req.socket.destroy();
    else if (mood === "slow") setTimeout(() => res.writeHead(200, json).end(body), this.#random.whole(50, 1_500));
    else if (mood === "html") res.writeHead(200, html).end(HTML);
    else if (mood === "error-page") res.writeHead(200, json).end(HTML);
    else if (mood === "empty") res.writeHead(200, json).end();
    else if (mood === "not-json") res.writeHead(200, json).end(`${body.slice(0, -1)},`);
    else if (mood === "status-500") res.writeHead(500, html).end(HTML);
    else if (mood === "status-429") res.writeHead(429, { ...json, "retry-after": "1" }).end('{"error":"slow down"}');
    else if (mood === "half-body") {
      res.writeHead(200, { ...json, "content-length": Buffer.byteLength(body) });
      res.write(body.slice(0, body.length >> 1), () => req.socket.destroy());
    } else if (mood !== "hang") res.writeHead(200, json).end(body);
  }
}

function noteWrite({ method, params }: Call): void {
  if (method !== "eth_sendRawTransaction") return;
  const raw = String(params?.[0]);
  const seen = (writes.get(raw) ?? 0) + 1;
  writes.set(raw, seen);
  if (seen === 2) repeatedWrites++;
}

function resultOf({ method, params = [] }: Call, mood: Mood): object {
  const shift = mood === "stale" ? -STALE_BLOCKS : mood === "high" ? HIGH_BLOCKS : 0;
  const head = headAt(startMs, Date.now()) + shift;
  const truth = truthOf(method, params);
  if (truth !== undefined) return truth;
  const hex = (value: number): string => `0x${value.toString(16)}`;
  if (method === "eth_chainId") return { result: "0x1" };
  if (method === "net_version") return { result: "1" };
  if (method === "eth_syncing") return { result: false };
  if (method === "eth_blockNumber") return { result: hex(head) };
  if (method === "eth_sendRawTransaction") return { result: String(params[0]).slice(0, 66) };
  if (method === "eth_getBlockByNumber") {
    const isFinal = params[0] === "finalized" || params[0] === "safe";
    return { result: blockOf(isFinal ? head - UNFINAL_BLOCKS : head) };
  }
  return { error: { code: -32601, message: `the method ${method} does not exist/is not available` } };
}

serveParent<SuppliersOperations>({
  async start(params) {
    startMs = params.startMs;
    const random = createRandom(params.seed);
    const suppliers = Array.from(
      { length: params.count },
      (_, at) => new Supplier(params.seed + at + 1, at === 0 ? GOOD_DELAY_MS : 0),
    );
    const ports: number[] = [];
    for (const supplier of suppliers) ports.push(await supplier.listen());
    const live = (supplier: Supplier, steady: boolean): void => {
      const mayLie = !suppliers.some((one) => one !== supplier && one.isLying);
      const spell = nextSpell(random, mayLie, steady);
      setTimeout(() => live(supplier, steady), spell.durationMs).unref();
      // Its port may be taken meanwhile: then it stays dead.
      void supplier.become(spell).catch(() => undefined);
    };
    const [, ...bad] = suppliers;
    for (const [at, supplier] of bad.entries()) {
      setTimeout(() => live(supplier, at < STEADY), random.whole(200, 2_000)).unref();
    }
    return { ports };
  },
  counted: () => Promise.resolve({ answers, writes: writes.size, repeatedWrites }),
});
