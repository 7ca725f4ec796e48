import { once } from "node:events";
import { lstat, unlink } from "node:fs/promises";
import { connect, createServer, type ListenOptions, type Server, type Socket } from "node:net";
import { AppError, type FaultPoints, isAppError, type Log, type Metrics, noFaults } from "@turnpike/base";
import { type AbciQuerier, type DrivenApplication, MAX_BLOCK_TXS } from "@turnpike/chain";
import { cometAbci, createMessage, decodeMessage, WireScanner } from "@turnpike/proto";
import { Mempool, type MempoolOptions, MIRROR_MEMPOOL, mirrorBounds } from "../mempool/mempool.ts";
import { AnswerOutput } from "./answer-output.ts";
import { AnswerQueue } from "./answer-queue.ts";
import { FrameReader } from "./frames.ts";
import { AbciHandler } from "./handler.ts";
import { SnapshotRequests, type StateSync } from "./snapshot-requests.ts";

export interface AbciServerOptions {
  /** `unix:///path/of.sock` or `tcp://host:port`; port 0 takes a free one. */
  readonly address: string;
  /** Longest message; 128 MiB by default. The genesis is one of them, and so is every block. */
  readonly maxMessageBytes?: number;
  /** Connections at once; 16 by default. CometBFT has four. */
  readonly maxConnections?: number;
  /** Bounds of what CometBFT's mempool takes, for one of its usual size by default. */
  readonly mempool?: Partial<MempoolOptions>;
}

export interface AbciServerModules {
  /** Stays the caller's. */
  readonly application: DrivenApplication;
  /** Answers queries: the application alone knows no blocks. */
  readonly queries: AbciQuerier;
  readonly log: Log;
  readonly faults?: FaultPoints;
  /** Snapshots for CometBFT's state sync; stays the caller's. Without it there are none. */
  readonly sync?: StateSync;
  readonly metrics?: Metrics;
  /** Called after every block that was written; returns at once. */
  readonly committed?: (heightBlocks: bigint) => void;
}

/** An ABCI server that listens. Disposing ends the connections after what they are at, and waits for that. */
export interface AbciServer extends AsyncDisposable {
  /** Address in the form of CometBFT's `proxy_app`, with the port that was taken. */
  readonly address: string;
  /** Rejects when the chain has come to rules that this program does not know: it can run no block more. */
  readonly failed: Promise<never>;
}

const MAX_MESSAGE_BYTES = 128 * 1024 * 1024;
const MAX_CONNECTIONS = 16;
const LINGER_MS = 1000;
/** Requests that change nothing, so that the next may begin before they are answered; and how many of a connection may. */
const READS: ReadonlySet<string | undefined> = new Set(["echo", "flush", "info", "query"]);
const MAX_UNDER_WAY = 100;

/**
 * Serves the application to CometBFT 0.38 over its socket protocol: requests and responses of `tendermint.abci`, each
 * after its length. Every connection is answered in the order of its requests.
 * @throws AppError CONFIG_INVALID when the address is none, or cannot be listened on
 */
export async function startAbciServer(opts: AbciServerOptions, modules: AbciServerModules): Promise<AbciServer> {
  const where = await listenOptions(opts.address);
  const server = createServer();
  server.maxConnections = opts.maxConnections ?? MAX_CONNECTIONS;
  const listening = new ListeningAbciServer(opts, { ...modules, server });
  server.listen(where);
  try {
    await once(server, "listening");
  } catch (cause) {
    throw new AppError("CONFIG_INVALID", { message: `The address ${opts.address} cannot be listened on.`, cause });
  }
  modules.log.info({ address: listening.address }, "abci server listens");
  return listening;
}

class ListeningAbciServer implements AbciServer {
  readonly #opts: AbciServerOptions;
  readonly #server: Server;
  readonly #handler: AbciHandler;
  readonly #log: Log;
  readonly #connections = new Map<Socket, Promise<void>>();
  readonly #failure = Promise.withResolvers<never>();
  #upgrade: AppError | undefined;
  #closing = false;

  constructor(
    opts: AbciServerOptions,
    {
      application,
      queries,
      log,
      faults,
      metrics,
      sync,
      committed,
      server,
    }: AbciServerModules & { readonly server: Server },
  ) {
    this.#opts = opts;
    this.#server = server;
    this.#handler = new AbciHandler({
      application,
      queries,
      log,
      faults: faults ?? noFaults,
      snapshots: new SnapshotRequests({ sync, log }),
      mempool: mirrorOf(application, { ...MIRROR_MEMPOOL, ...opts.mempool }, metrics),
      committed: committed ?? (() => {}),
    });
    this.#log = log;
    // Awaiting it is optional: a rejection that is not awaited must not end the process.
    this.#failure.promise.catch(() => undefined);
    server.on("error", (cause) => log.error({ cause }, "abci server fault"));
    server.on("connection", (socket) => {
      // Reads and writes report their own faults; this listener is for those between them, which would end the process.
      socket.on("error", (cause) => log.debug({ cause }, "abci connection fault"));
      const served = this.#serve(socket).finally(() => this.#connections.delete(socket));
      this.#connections.set(socket, served);
    });
  }

  get address(): string {
    const bound = this.#server.address();
    if (bound === null || typeof bound === "string") return this.#opts.address;
    const host = bound.family === "IPv6" ? `[${bound.address}]` : bound.address;
    return `tcp://${host}:${bound.port}`;
  }

  get failed(): Promise<never> {
    return this.#failure.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing = true;
    const closed = this.#server.listening ? once(this.#server, "close") : undefined;
    this.#server.close();
    for (const socket of this.#connections.keys()) socket.destroy();
    await Promise.all(this.#connections.values());
    await closed;
  }

  async #serve(socket: Socket): Promise<void> {
    try {
      await this.#answerAll(socket);
    } catch (cause) {
      if (!this.#closing) this.#log.warn({ cause }, "abci connection ended with a fault");
    } finally {
      socket.destroy();
    }
  }

  async #answerAll(socket: Socket): Promise<void> {
    const reader = new FrameReader({ maxBytes: this.#opts.maxMessageBytes ?? MAX_MESSAGE_BYTES });
    const output = new AnswerOutput(socket);
    const queue = new AnswerQueue({
      output,
      failed: (cause) => socket.destroy(cause instanceof Error ? cause : undefined),
    });
    let isOver = false;
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      if (isOver) continue;
      reader.push(chunk);
      for (let frame = reader.next(); frame.kind !== "partial" && !isOver; frame = reader.next()) {
        const request = frame.kind === "frame" ? requestOf(frame.body) : undefined;
        if (request !== undefined && READS.has(request.case)) {
          if (queue.length >= MAX_UNDER_WAY) await queue.sent();
          if (this.#closing) return;
          queue.push(this.#answer(request));
          continue;
        }
        // What changes something is run alone, after what was asked before it.
        await queue.sent();
        const fault = frame.kind === "malformed" ? frame.fault : "the message cannot be read";
        const answer = request === undefined ? exceptionOf(fault) : await this.#answer(request);
        await output.add(answer);
        if (this.#closing) return;
        if (answer.case !== "exception") continue;
        this.#log.warn({ fault: answer.value.error }, "abci connection is closed after an exception");
        await output.end();
        isOver = true;
        // Once CometBFT has the text: it is what its log says, too.
        if (this.#upgrade !== undefined) this.#failure.reject(this.#upgrade);
        // What is still under way is read and dropped for a while: a reset would take the exception back.
        setTimeout(() => socket.destroy(), LINGER_MS).unref();
      }
      if (queue.length === 0) await output.send();
    }
    await queue.sent();
  }

  async #answer(request: cometAbci.Request["value"]): Promise<cometAbci.Response["value"] & { case: string }> {
    try {
      const answer = await this.#handler.answer(request);
      return answer.case === undefined ? exceptionOf("there is no answer") : answer;
    } catch (cause) {
      this.#log.error({ cause, request: request.case }, "abci request failed");
      if (isAppError(cause, "CHAIN_UPGRADE")) this.#upgrade = cause;
      return exceptionOf(isAppError(cause) ? cause.message : "internal error");
    }
  }
}

const PROPOSED_TXS = `${cometAbci.RequestProcessProposalSchema.typeName}.txs`;
const requests = new WireScanner({
  maxParts: () => Number.POSITIVE_INFINITY,
  maxDepth: Number.POSITIVE_INFINITY,
  maxTextBytes: () => Number.POSITIVE_INFINITY,
  maxItems: ({ name }, { typeName }) =>
    `${typeName}.${name}` === PROPOSED_TXS ? MAX_BLOCK_TXS : Number.POSITIVE_INFINITY,
});
/** Stands for a proposal that is rejected unread: no block has its height. */
const UNREAD_PROPOSAL = createMessage(cometAbci.RequestProcessProposalSchema, { height: -1n });

// A proposer's seven million transactions of one byte take twenty seconds and a gigabyte to decode.
function requestOf(body: Uint8Array): cometAbci.Request["value"] | undefined {
  if (requests.excess(cometAbci.RequestSchema, body)?.startsWith(`${PROPOSED_TXS} has more`) === true) {
    return { case: "processProposal", value: UNREAD_PROPOSAL };
  }
  const decoded = decodeMessage(cometAbci.RequestSchema, body);
  return decoded.ok ? decoded.message.value : undefined;
}

function exceptionOf(error: string): cometAbci.Response["value"] & { case: "exception" } {
  return { case: "exception", value: createMessage(cometAbci.ResponseExceptionSchema, { error }) };
}

async function listenOptions(address: string): Promise<ListenOptions> {
  const [, scheme, rest = ""] = /^(unix|tcp):\/\/(.+)$/.exec(address) ?? [];
  if (scheme === "unix") {
    await removeDeadSocket(rest);
    return { path: rest };
  }
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(rest) ?? [];
  const host = bracketed ?? plain;
  if (scheme !== "tcp" || host === undefined || Number(port) > 65_535) {
    const message = `The ABCI address "${address}" is neither unix:///path nor tcp://host:port.`;
    throw new AppError("CONFIG_INVALID", { message });
  }
  return { host, port: Number(port) };
}

// A process that was killed leaves its socket behind. One that somebody listens on stays.
async function removeDeadSocket(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found?.isSocket() !== true) return;
  const socket = connect(path);
  try {
    await once(socket, "connect");
  } catch {
    await unlink(path);
  } finally {
    socket.destroy();
  }
}

/** CometBFT compares the bytes of a transaction with a block's, and has the transactions. */
function mirrorOf(application: DrivenApplication, opts: MempoolOptions, metrics: Metrics | undefined): Mempool {
  return new Mempool(mirrorBounds(opts, application.maxBlockBytes), {
    check: (tx, kind) =>
      kind === "replacement" ? application.checkReplacement(tx) : application.check(tx, kind === "again"),
    uncheck: (tx) => application.uncheck(tx),
    factsOf: (tx) => application.factsOf(tx),
    trial: (isOver) => application.trial(isOver),
    maxDataBytes: () => BigInt(Number.MAX_SAFE_INTEGER),
    ...(metrics === undefined ? {} : { metrics }),
  });
}
