import { connect, type Socket } from "node:net";
import { AppError } from "@turnpike/base";
import { ownCpuMicros, serveParent } from "./child.ts";

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
}

/** What the load generator counted. */
export interface LoadResult {
  readonly answers: number;
  readonly elapsedMs: number;
  /** CPU time of the load generator itself. */
  readonly cpuMicros: number;
  readonly answerBytes: number;
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

/** Sends the request again and again on each connection, the next as soon as the last is answered. */
async function run(load: LoadRun): Promise<LoadResult> {
  const request = Buffer.from(load.request);
  const wanted = Buffer.from(`HTTP/1.1 ${load.status} `, "latin1");
  const sockets = new Set<Socket>();
  const { promise: finished, resolve, reject } = Promise.withResolvers<void>();
  let answers = 0;
  let answerBytes = 0;
  let stopping = false;
  const startCpu = ownCpuMicros();
  const startedMs = performance.now();

  const open = (): void => {
    const socket = connect({ port: load.port, host: "127.0.0.1", noDelay: true });
    sockets.add(socket);
    let received: Buffer | undefined;
    socket.on("data", (chunk: Buffer) => {
      received = received === undefined ? chunk : Buffer.concat([received, chunk]);
      const length = answerLength(received);
      if (length === undefined || received.length < length) return;
      const whole = received;
      received = undefined;
      if (whole.length > length || !whole.subarray(0, wanted.length).equals(wanted)) {
        return reject(
          new AppError("INTERNAL", { message: `Not the wanted answer: ${whole.toString("latin1", 0, 200)}` }),
        );
      }
      answers++;
      answerBytes = length;
      if (!stopping) return void socket.write(request);
      sockets.delete(socket);
      socket.destroy();
      if (sockets.size === 0) resolve();
    });
    socket.on("error", reject);
    socket.on("close", () => {
      if (sockets.has(socket)) reject(new AppError("INTERNAL", { message: "The server closed a connection." }));
    });
    socket.write(request);
  };

  for (let at = 0; at < load.connections; at++) open();
  const timer = setTimeout(() => {
    stopping = true;
  }, load.durationMs);
  try {
    await finished;
  } finally {
    clearTimeout(timer);
    for (const socket of sockets) socket.destroy();
  }
  return { answers, elapsedMs: performance.now() - startedMs, cpuMicros: ownCpuMicros() - startCpu, answerBytes };
}

/** Operations of this child. */
export type LoadOperations = { readonly run: (load: LoadRun) => Promise<LoadResult> };

serveParent<LoadOperations>({ run });
