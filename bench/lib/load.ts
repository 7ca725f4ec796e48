import { connect, type Socket } from "node:net";
import { AppError } from "@turnpike/base";
import { ownCpuMicros, serveParent } from "./child.ts";

/** Places in a request that hold another number in every request: hexadecimal digits. */
export interface Variation {
  /** Offsets of the first digits. */
  readonly at: readonly number[];
  readonly digits: number;
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

/** One connection; tells when its request is answered. */
class Connection {
  readonly #socket: Socket;
  readonly #request: Buffer;
  readonly #load: LoadRun;
  #received: Buffer | undefined;
  #length: number | undefined;
  #isOpen = true;

  constructor(load: LoadRun, onAnswer: (connection: Connection, bytes: number) => void, onFault: (e: Error) => void) {
    this.#load = load;
    this.#request = Buffer.from(load.request);
    const wanted = Buffer.from(`HTTP/1.1 ${load.status} `, "latin1");
    const body = load.body === undefined ? undefined : Buffer.from(load.body);
    this.#socket = connect({ port: load.port, host: "127.0.0.1", noDelay: true });
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
        onFault(new AppError("INTERNAL", { message: `Not the wanted answer: ${whole.toString("latin1", 0, 600)}` }));
        return;
      }
      onAnswer(this, length);
    });
    this.#socket.on("error", onFault);
    this.#socket.on("close", () => {
      if (this.#isOpen) onFault(new AppError("INTERNAL", { message: "The server closed a connection." }));
    });
  }

  send(): void {
    if (this.#load.vary === undefined) {
      this.#socket.write(this.#request);
      return;
    }
    // A copy: the socket may still hold the bytes of the last request.
    const request = Buffer.from(this.#request);
    vary(request, this.#load.vary);
    this.#socket.write(request);
  }

  close(): void {
    this.#isOpen = false;
    this.#socket.destroy();
  }
}

/** Sends the request again and again, on every connection at once or at a steady rate. */
async function run(load: LoadRun): Promise<LoadResult> {
  const { promise: finished, resolve, reject } = Promise.withResolvers<void>();
  const latenciesMs: number[] = [];
  const idle: Connection[] = [];
  const due: number[] = [];
  const dueMs = new Map<Connection, number>();
  const isPaced = load.ratePerSecond !== undefined;
  let answerBytes = 0;
  let stopping = false;
  const startCpu = ownCpuMicros();
  const startedMs = performance.now();

  const send = (connection: Connection, atMs: number): void => {
    dueMs.set(connection, atMs);
    connection.send();
  };
  const onAnswer = (connection: Connection, bytes: number): void => {
    const nowMs = performance.now();
    latenciesMs.push(nowMs - (dueMs.get(connection) ?? nowMs));
    dueMs.delete(connection);
    answerBytes = bytes;
    const nextMs = isPaced ? due.shift() : nowMs;
    if (!stopping && nextMs !== undefined) send(connection, nextMs);
    else {
      idle.push(connection);
      if (stopping && dueMs.size === 0) resolve();
    }
  };
  const connections = Array.from({ length: load.connections }, () => new Connection(load, onAnswer, reject));
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
  if (!isPaced) for (const connection of idle.splice(0)) send(connection, startedMs);
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
    for (const connection of connections) connection.close();
  }
  const elapsedMs = performance.now() - startedMs;
  const cpuMicros = ownCpuMicros() - startCpu;
  const sorted = Float64Array.from(latenciesMs).sort();
  const at = (part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;
  return {
    answers: sorted.length,
    elapsedMs,
    cpuMicros,
    answerBytes,
    latencyMs: { p50: at(0.5), p99: at(0.99) },
  };
}

/** Operations of this child. */
export type LoadOperations = { readonly run: (load: LoadRun) => Promise<LoadResult> };

serveParent<LoadOperations>({ run });
