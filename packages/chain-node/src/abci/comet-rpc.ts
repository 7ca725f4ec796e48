import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { AppError, isRecord } from "@turnpike/base";

export interface CometRpcOptions {
  /** CometBFT's RPC, such as `http://127.0.0.1:26657`. */
  readonly url: string;
  /** Longest time of one question; 15 s by default. */
  readonly timeoutMs?: number;
  /** Longest answer; 128 MiB by default: results of a whole block are one. */
  readonly maxAnswerBytes?: number;
  /** Connections at once; 16 by default. What is more waits. */
  readonly maxConnections?: number;
}

/** Answer of a method: what it gives, or the text of its error. */
export type RpcAnswer = { readonly ok: true; readonly result: unknown } | { readonly ok: false; readonly text: string };

const TIMEOUT_MS = 15_000;
const MAX_ANSWER_BYTES = 128 * 1024 * 1024;
const MAX_CONNECTIONS = 16;

/** Asks CometBFT's JSON-RPC over HTTP. */
export class CometRpc implements Disposable {
  readonly #url: URL;
  readonly #timeoutMs: number;
  readonly #maxAnswerBytes: number;
  readonly #agent: Agent;

  /** @throws AppError CONFIG_INVALID when the URL is none of HTTP */
  constructor(opts: CometRpcOptions) {
    const url = URL.canParse(opts.url) ? new URL(opts.url) : undefined;
    if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
      throw new AppError("CONFIG_INVALID", { message: `The RPC address "${opts.url}" is no URL of HTTP.` });
    }
    this.#url = url;
    this.#timeoutMs = opts.timeoutMs ?? TIMEOUT_MS;
    this.#maxAnswerBytes = opts.maxAnswerBytes ?? MAX_ANSWER_BYTES;
    const limits = { keepAlive: true, maxSockets: opts.maxConnections ?? MAX_CONNECTIONS };
    this.#agent = url.protocol === "https:" ? new TlsAgent(limits) : new Agent(limits);
  }

  /** @throws AppError CHAIN_UNREACHABLE when there is no answer, or none of JSON-RPC */
  async call(method: string, params: Readonly<Record<string, unknown>>): Promise<RpcAnswer> {
    const answer = await this.#post(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
    if (isRecord(answer)) {
      const { result, error } = answer;
      if (isRecord(error)) return { ok: false, text: errorText(error) };
      if (result !== undefined) return { ok: true, result };
    }
    throw unreachable(`${method} was answered with something else than JSON-RPC.`);
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }

  async #post(body: string): Promise<unknown> {
    const signal = AbortSignal.timeout(this.#timeoutMs);
    const ask = this.#url.protocol === "https:" ? tlsRequest : request;
    try {
      const asked = ask(this.#url, {
        method: "POST",
        agent: this.#agent,
        signal,
        headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
      });
      asked.end(body);
      const [response] = (await once(asked, "response", { signal })) as [IncomingMessage];
      const bytes = await this.#read(response);
      return JSON.parse(bytes.toString("utf8"));
    } catch (cause) {
      if (cause instanceof AppError) throw cause;
      throw new AppError("CHAIN_UNREACHABLE", { cause });
    }
  }

  async #read(response: IncomingMessage): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      sizeBytes += chunk.length;
      // Leaving the loop ends the connection.
      if (sizeBytes > this.#maxAnswerBytes)
        throw unreachable(`An answer is longer than ${this.#maxAnswerBytes} bytes.`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }
}

function errorText({ data, message }: Readonly<Record<string, unknown>>): string {
  if (typeof data === "string" && data !== "") return data;
  return typeof message === "string" ? message : "error";
}

/** A fault of the connection, or of the other side. */
export function unreachable(message: string): AppError {
  return new AppError("CHAIN_UNREACHABLE", { message });
}
