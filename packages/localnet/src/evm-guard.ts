import { Agent, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import {
  AppError,
  ConnectionGuard,
  createGuardedServer,
  createHostCheck,
  EVM_BOUNDS,
  type EvmBody,
  type EvmRules,
  errorRow,
  evmError,
  type HostCheck,
  readEvmBody,
} from "@turnpike/base";
import { WebSocket, WebSocketServer } from "ws";
import { PASSED_EVM_METHODS } from "./evm-methods.ts";

export interface EvmGuardOptions {
  /** Loopback port; 0 takes a free one. */
  readonly port: number;
  /** Address of the chain behind it: `http://127.0.0.1:<port>`. */
  readonly target: string;
}

/** A guard that listens until it is disposed. */
export interface EvmGuard extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`; its WebSocket is at the same address. */
  readonly url: string;
  readonly port: number;
}

const HOST = "127.0.0.1";
/** What anvil takes. */
const MAX_BODY_BYTES = 2 * 1024 * 1024;
/** Most bytes that wait for one side of a WebSocket. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;
/** All are of this machine: those of the gateway, of wallets and of pages. */
const CONNECTIONS = { maxConnections: 1_000, maxConnectionsPerClient: 1_000 };
const REQUEST_TIMEOUT_MS = 30_000;
/** Longer than the pause between two empty blocks, for which `eth_sendRawTransactionSync` may wait. */
const ANSWER_TIMEOUT_MS = 60_000;
/** Gas of a block of the local chain: nothing that is sent to it may use more. */
const RULES: EvmRules = { bounds: { ...EVM_BOUNDS, maxGas: 30_000_000 }, methods: PASSED_EVM_METHODS };
const JSON_TYPE = { "content-type": "application/json" };
const PARSE_ERROR = evmError("null", -32700, "Parse error");
const INTERNAL = evmError("null", -32603, "The local chain does not answer.");

async function readBody(incoming: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** What one side sends to the other; a side that does not read in time is closed. */
function forward(to: WebSocket, data: Buffer | string, isBinary: boolean): void {
  if (to.readyState !== WebSocket.OPEN) return;
  if (to.bufferedAmount > MAX_WAITING_BYTES) to.close(1013, "read too slowly");
  else to.send(data, { binary: isBinary });
}

class Guard {
  readonly #target: string;
  readonly #hosts: HostCheck;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_BODY_BYTES, perMessageDeflate: false });
  readonly #server: Server;

  constructor(target: string) {
    this.#target = target;
    this.#hosts = createHostCheck({ host: HOST });
    const guard = new ConnectionGuard(CONNECTIONS);
    const options = { requestTimeout: REQUEST_TIMEOUT_MS, maxHeaderSize: 16_384 };
    this.#server = createGuardedServer(guard, options, (incoming, response) => {
      this.#serve(incoming, response).catch(() => {
        if (response.headersSent) response.destroy();
        else response.writeHead(502, JSON_TYPE).end(INTERNAL);
      });
    });
    this.#server.on("upgrade", (incoming, socket, head) => this.#upgrade(incoming, socket, head));
  }

  async listen(port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", (cause) => {
        reject(
          new AppError("PORT_IN_USE", { message: `The local chain's guard cannot listen on port ${port}.`, cause }),
        );
      });
      this.#server.listen(port, HOST, resolve);
    });
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : port;
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets.clients) socket.terminate();
    this.#server.closeAllConnections();
    this.#agent.destroy();
    await closed;
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, headers } = incoming;
    const foreign = this.#hosts.fault(headers);
    if (foreign !== undefined) {
      const { http, rpc, message } = errorRow(foreign);
      response.writeHead(http, { ...JSON_TYPE, connection: "close" }).end(evmError("null", rpc, message));
      return;
    }
    if (headers.origin !== undefined) {
      response.setHeader("access-control-allow-origin", headers.origin).setHeader("vary", "origin");
    }
    if (method === "OPTIONS") {
      const leave = { "access-control-allow-methods": "POST", "access-control-allow-headers": "content-type" };
      response.writeHead(204, leave).end();
      return;
    }
    if (method !== "POST") {
      response.writeHead(405, { allow: "POST, OPTIONS" }).end();
      return;
    }
    const bytes = await readBody(incoming);
    if (bytes === undefined) {
      response.writeHead(413, { connection: "close" }).end();
      return;
    }
    const body = readEvmBody(bytes, RULES);
    if (body === undefined) response.writeHead(400, JSON_TYPE).end(PARSE_ERROR);
    else if (isPassed(body)) await this.#pass(bytes, response);
    else {
      const text = await this.#answer(body);
      response.writeHead(text === "" ? 204 : 200, JSON_TYPE).end(text);
    }
  }

  /** Sends a body to the chain as it came. */
  #ask(bytes: Buffer | string): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const options = { method: "POST", agent: this.#agent, headers: JSON_TYPE, timeout: ANSWER_TIMEOUT_MS };
      const asked = request(this.#target, options, resolve);
      asked.on("timeout", () => asked.destroy(new AppError("DEADLINE_EXCEEDED")));
      asked.on("error", reject);
      asked.end(bytes);
    });
  }

  async #pass(bytes: Buffer, response: ServerResponse): Promise<void> {
    const answer = await this.#ask(bytes);
    response.writeHead(answer.statusCode ?? 502, { "content-type": answer.headers["content-type"] ?? "text/plain" });
    answer.on("error", () => response.destroy());
    response.on("close", () => answer.destroy());
    answer.pipe(response);
  }

  /** The answer to a body of which the chain may see a part, or nothing. */
  async #answer({ isBatch, calls }: EvmBody): Promise<string> {
    const answers: string[] = [];
    for (const { raw, refusal } of calls) {
      answers.push(refusal ?? (await textOf(await this.#ask(raw))));
    }
    const all = answers.filter((text) => text !== "").join(",");
    return isBatch && all !== "" ? `[${all}]` : all;
  }

  #upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => socket.destroy());
    const foreign = this.#hosts.fault(incoming.headers);
    if (foreign !== undefined) {
      socket.end(`HTTP/1.1 ${errorRow(foreign).http} Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
      return;
    }
    // The chain first: who connects must not be taken for served while it is away.
    const chain = new WebSocket(this.#target.replace(/^http/, "ws"), { perMessageDeflate: false });
    chain.on("error", () => chain.terminate());
    chain.once("close", () => socket.destroy());
    socket.once("close", () => chain.terminate());
    chain.once("open", () => {
      this.#sockets.handleUpgrade(incoming, socket, head, (client) => this.#join(client, chain));
    });
  }

  #join(client: WebSocket, chain: WebSocket): void {
    client.on("error", () => client.terminate());
    chain.on("message", (data: Buffer, isBinary) => forward(client, data, isBinary));
    client.on("message", (data: Buffer) => {
      const body = readEvmBody(data, RULES);
      if (body === undefined) forward(client, PARSE_ERROR, false);
      else if (isPassed(body)) forward(chain, data, false);
      else {
        void this.#answer(body).then(
          (text) => text !== "" && forward(client, text, false),
          () => client.terminate(),
        );
      }
    });
  }
}

function isPassed({ calls }: EvmBody): boolean {
  return calls.every(({ refusal }) => refusal === undefined);
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

/**
 * Starts the way in to a development chain for everything but its owner: programs and pages of this machine alone, and only
 * methods by which a chain is read and signed transactions are sent. Web pages of other origins, and pages whose name was
 * pointed at this machine, are answered 403.
 * @throws AppError PORT_IN_USE
 */
export async function startEvmGuard({ port, target }: EvmGuardOptions): Promise<EvmGuard> {
  const guard = new Guard(target);
  const bound = await guard.listen(port);
  return { url: `http://${HOST}:${bound}`, port: bound, [Symbol.asyncDispose]: () => guard.close() };
}
