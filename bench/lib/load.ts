import { connect, type Socket } from "node:net";
import { AppError } from "@turnpike/base";
import { ownCpuMicros, serveParent } from "./child.ts";

/** Places in a request that hold another number in every request: hexadecimal digits. */
export interface Variation {
  /** Offsets of the first digits. */
  readonly at: readonly number[];
  readonly digits: number;
}

/** A place in a request that holds the numbers below `count` in turn: hexadecimal digits. */
export interface Spread {
  readonly at: number;
  readonly digits: number;
  readonly count: number;
}

/** One run of the load generator. */
export interface LoadRun {
  readonly port: number;
  /** The whole request, head and body. */
  readonly request: Uint8Array;
  /** Keep-alive connections; each has one request under way. */
  readonly connections: number;
  readonly durationMs: number;
  /** Every answer must have it. */
  readonly status: number;
  /** Undefined: all requests are the same bytes. */
  readonly vary?: Variation;
  /** No answer may have this text. */
  readonly unwanted?: string;
  /** Every answer's body is this one. */
  readonly body?: string;
  /** Requests in a second, at times that do not wait for answers. Undefined: the next as soon as the last is answered. */
  readonly ratePerSecond?: number;
  /** Most requests under way over all connections, which take turns; not with `ratePerSecond`. Undefined: one on each. */
  readonly atOnce?: number;
  /** Undefined: all requests go to the same place. */
  readonly spread?: Spread;
  /** Local addresses that connections come from, in turn, so that no client has too many. Undefined: the system chooses. */
  readonly addresses?: readonly string[];
  /** The connections stay open under this name, for later runs with it, until `close`. */
  readonly keep?: string;
}

/** What the load generator counted. */
export interface LoadResult {
  readonly answers: number;
  readonly elapsedMs: number;
  /** CPU time of the load generator itself. */
  readonly cpuMicros: number;
  readonly answerBytes: number;
  /** From when a request was due to the end of its answer. */
  readonly latencyMs: { readonly p50: number; readonly p99: number };
}

const HEAD_END = Buffer.from("\r\n\r\n");
const LAST_CHUNK = Buffer.from("0\r\n\r\n");

/** Bytes of the whole answer, or undefined while that is not known yet. */
function answerLength(received: Buffer): number | undefined {
  const end = received.indexOf(HEAD_END);
  if (end < 0) return undefined;
  const head = received.toString("latin1", 0, end);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length !== undefined) return end + 4 + Number(length);
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
    return received.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK) ? received.length : undefined;
  }
  throw new AppError("INTERNAL", { message: `An answer has no length: ${head}` });
}

/** The body of a whole answer; one in chunks may have no other. */
function bodyOf(whole: Buffer): Buffer {
  const end = whole.indexOf(HEAD_END);
  const rest = whole.subarray(end + HEAD_END.length);
  if (!/\r\ntransfer-encoding: *chunked/i.test(whole.toString("latin1", 0, end))) return rest;
  const parts: Buffer[] = [];
  for (let at = 0; ; ) {
    const line = rest.indexOf("\r\n", at);
    const size = Number.parseInt(rest.toString("latin1", at, line), 16);
    if (!(size > 0)) return Buffer.concat(parts);
    parts.push(rest.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
  }
}

/** Never the same number twice, not even in two runs of one process. */
let variations = 0;

function vary(request: Buffer, { at, digits }: Variation): void {
  for (const offset of at) {
    request.write((++variations).toString(16).padStart(digits, "0"), offset, digits, "latin1");
  }
}

const spreads = new Map<number, number>();

/** The numbers below a count go on where the last run with it has ended. */
function spreadOver(request: Buffer, { at, digits, count }: Spread): void {
  const next = ((spreads.get(count) ?? -1) + 1) % count;
  spreads.set(count, next);
  request.write(next.toString(16).padStart(digits, "0"), at, digits, "latin1");
}

/** What a connection reports to the run that uses it. */
interface Listener {
  onAnswer(connection: Connection, bytes: number): void;
  onFault(error: Error): void;
}

/** One connection; reports when its request is answered. */
class Connection {
  readonly opened: Promise<void>;
  /** Of the run that uses it now. */
  listener: Listener | undefined;
  /** What went wrong between two runs. */
  fault: Error | undefined;
  readonly #socket: Socket;
  readonly #request: Buffer;
  readonly #load: LoadRun;
  #received: Buffer | undefined;
  #length: number | undefined;
  #isOpen = true;

  constructor(load: LoadRun, at: number) {
    this.#load = load;
    this.#request = Buffer.from(load.request);
    const wanted = Buffer.from(`HTTP/1.1 ${load.status} `, "latin1");
    const body = load.body === undefined ? undefined : Buffer.from(load.body);
    const { addresses = [] } = load;
    const localAddress = addresses[at % addresses.length];
    const from = localAddress === undefined ? {} : { localAddress };
    this.#socket = connect({ port: load.port, host: "127.0.0.1", noDelay: true, ...from });
    this.opened = new Promise((resolve) => void this.#socket.once("connect", resolve));
    const fail = (error: Error): void => {
      this.fault = error;
      this.listener?.onFault(error);
    };
    this.#socket.on("data", (chunk: Buffer) => {
      this.#received = this.#received === undefined ? chunk : Buffer.concat([this.#received, chunk]);
      this.#length ??= answerLength(this.#received);
      const length = this.#length;
      if (length === undefined || this.#received.length < length) return;
      const whole = this.#received;
      this.#received = undefined;
      this.#length = undefined;
      const isWanted =
        whole.length === length &&
        whole.subarray(0, wanted.length).equals(wanted) &&
        (body === undefined || bodyOf(whole).equals(body));
      if (!isWanted || (load.unwanted !== undefined && whole.includes(load.unwanted))) {
        fail(new AppError("INTERNAL", { message: `Not the wanted answer: ${whole.toString("latin1", 0, 600)}` }));
        return;
      }
      this.listener?.onAnswer(this, length);
    });
    this.#socket.on("error", fail);
    this.#socket.on("close", () => {
      if (this.#isOpen) fail(new AppError("INTERNAL", { message: "The server closed a connection." }));
    });
  }

  send(): void {
    const { vary: variation, spread } = this.#load;
    if (variation === undefined && spread === undefined) {
      this.#socket.write(this.#request);
      return;
    }
    // A copy: the socket may still hold the bytes of the last request.
    const request = Buffer.from(this.#request);
    if (variation !== undefined) vary(request, variation);
    if (spread !== undefined) spreadOver(request, spread);
    this.#socket.write(request);
  }

  close(): void {
    this.#isOpen = false;
    this.listener = undefined;
    this.#socket.destroy();
  }
}

/** Connections that stay open between runs. */
const kept = new Map<string, readonly Connection[]>();
/** Connections that are opened at once when they are kept: a server's queue of new ones is short. */
const OPENED_AT_ONCE = 100;

/** The connections of a run: those that an earlier one kept, or new ones, of which kept ones are open before it begins. */
async function connectionsOf(load: LoadRun, listener: Listener): Promise<readonly Connection[]> {
  const { keep } = load;
  const known = keep === undefined ? undefined : kept.get(keep);
  const all: Connection[] = [...(known ?? [])];
  while (all.length < load.connections) {
    all.push(new Connection(load, all.length));
    const last = all.at(-1);
    if (last !== undefined) last.listener = listener;
    if (keep !== undefined && all.length % OPENED_AT_ONCE === 0) await last?.opened;
  }
  if (keep !== undefined) kept.set(keep, all);
  for (const connection of all) {
    connection.listener = listener;
    if (connection.fault !== undefined) listener.onFault(connection.fault);
  }
  return all;
}

function latencyOf(latenciesMs: readonly number[]): LoadResult["latencyMs"] {
  const sorted = Float64Array.from(latenciesMs).sort();
  const at = (part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;
  return { p50: at(0.5), p99: at(0.99) };
}

/** Sends the request again and again, on every connection at once, on some in turn, or at a steady rate. */
async function run(load: LoadRun): Promise<LoadResult> {
  const { promise: finished, resolve, reject } = Promise.withResolvers<void>();
  // A fault may come before the wait for it.
  finished.catch(() => {});
  const latenciesMs: number[] = [];
  const idle: Connection[] = [];
  const due: number[] = [];
  const dueMs = new Map<Connection, number>();
  const isPaced = load.ratePerSecond !== undefined;
  let answerBytes = 0;
  let stopping = false;
  let turn = load.atOnce ?? 0;

  const send = (connection: Connection, atMs: number): void => {
    dueMs.set(connection, atMs);
    connection.send();
  };
  const nextOf = (answered: Connection): Connection => {
    if (load.atOnce === undefined || isPaced) return answered;
    for (;;) {
      const next = connections[turn++ % connections.length];
      if (next !== undefined && !dueMs.has(next)) return next;
    }
  };
  const onAnswer = (connection: Connection, bytes: number): void => {
    const nowMs = performance.now();
    latenciesMs.push(nowMs - (dueMs.get(connection) ?? nowMs));
    dueMs.delete(connection);
    answerBytes = bytes;
    const nextMs = isPaced ? due.shift() : nowMs;
    if (!stopping && nextMs !== undefined) send(nextOf(connection), nextMs);
    else {
      idle.push(connection);
      if (stopping && dueMs.size === 0) resolve();
    }
  };
  const connections = await connectionsOf(load, { onAnswer, onFault: reject });
  const startCpu = ownCpuMicros();
  const startedMs = performance.now();
  idle.push(...connections);
  let sent = 0;
  const release = (): void => {
    const nowMs = performance.now();
    const rate = (load.ratePerSecond ?? 0) / 1_000;
    while (sent < (nowMs - startedMs) * rate) {
      const atMs = startedMs + sent++ / rate;
      const connection = idle.pop();
      if (connection === undefined) due.push(atMs);
      else send(connection, atMs);
    }
  };
  if (!isPaced) for (const connection of idle.splice(0, load.atOnce ?? idle.length)) send(connection, startedMs);
  const ticks = isPaced ? setInterval(release, 1) : undefined;
  const timer = setTimeout(() => {
    stopping = true;
    clearInterval(ticks);
    if (dueMs.size === 0) resolve();
  }, load.durationMs);
  try {
    await finished;
  } finally {
    clearTimeout(timer);
    clearInterval(ticks);
    for (const connection of connections) {
      if (load.keep === undefined) connection.close();
      else connection.listener = undefined;
    }
    const first = turn % Math.max(1, connections.length);
    // The next run goes on with the connection whose turn it is: none is left idle until the server closes it.
    if (load.keep !== undefined) kept.set(load.keep, [...connections.slice(first), ...connections.slice(0, first)]);
  }
  return {
    answers: latenciesMs.length,
    elapsedMs: performance.now() - startedMs,
    cpuMicros: ownCpuMicros() - startCpu,
    answerBytes,
    latencyMs: latencyOf(latenciesMs),
  };
}

/** Closes the connections that were kept under a name. */
function close(name: string): Promise<void> {
  for (const connection of kept.get(name) ?? []) connection.close();
  kept.delete(name);
  return Promise.resolve();
}

/** Operations of this child. */
export type LoadOperations = {
  readonly run: (load: LoadRun) => Promise<LoadResult>;
  readonly close: (name: string) => Promise<void>;
};

serveParent<LoadOperations>({ run, close });
