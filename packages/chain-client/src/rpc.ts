import { AppError, type Clock, isAppError, isRecord } from "@turnpike/base";
import type { Pool } from "undici";

export interface ChainRpcOptions {
  /** CometBFT's RPC: `http://127.0.0.1:26657`. */
  readonly url: string;
  /** Longest wait for one answer; 10,000 by default. */
  readonly timeoutMs?: number;
  /** Longest answer; 256 MiB by default. */
  readonly maxAnswerBytes?: number;
  /** Connections at once; 8 by default. */
  readonly connections?: number;
}

export interface ChainClientModules {
  readonly clock: Clock;
}

/** A JSON-RPC error of the node. */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data: string;
}

/** A result, or the node's error. */
export type RpcAnswer =
  | { readonly ok: true; readonly result: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly error: RpcError };

const TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 268_435_456;

function textOf(value: unknown): string {
  return typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
}

const MAX_WORDS = 200;

/** The words of a refusal, in one short line. */
function wordsOf(body: unknown): string {
  const error = isRecord(body) && isRecord(body.error) ? body.error : {};
  const words = textOf(error.data) || textOf(error.message) || (typeof body === "string" ? body : "");
  const line = words
    .replaceAll(/[^\x20-\x7e]+/g, " ")
    .trim()
    .slice(0, MAX_WORDS);
  return line === "" ? "" : ` (${line})`;
}

/** Calls of CometBFT's RPC. */
export class ChainRpc implements AsyncDisposable {
  readonly #url: URL;
  readonly #timeoutMs: number;
  readonly #maxBytes: number;
  readonly #connections: number;
  #pool: Promise<Pool> | undefined;
  #isClosed = false;
  #id = 0;

  /** @throws AppError USAGE when the URL is none */
  constructor({ url, timeoutMs, maxAnswerBytes, connections }: ChainRpcOptions) {
    const http = url.replace(/^tcp:/, "http:");
    if (!URL.canParse(http) || !/^https?:/.test(http)) {
      throw new AppError("USAGE", { message: `${url} is no address of a node; expected http://host:port.` });
    }
    this.#url = new URL(http);
    this.#timeoutMs = timeoutMs ?? TIMEOUT_MS;
    this.#maxBytes = maxAnswerBytes ?? MAX_ANSWER_BYTES;
    this.#connections = connections ?? 8;
  }

  /** Asks one method. @throws AppError CHAIN_UNREACHABLE when the node does not answer, or not in JSON-RPC */
  async call(method: string, params: Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<RpcAnswer> {
    const id = ++this.#id;
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    const { status, body } = await this.#send(
      JSON.stringify({ jsonrpc: "2.0", id, method, params }),
      signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    ).catch((cause: unknown) => {
      signal?.throwIfAborted();
      throw isAppError(cause) ? cause : this.#unreachable(cause);
    });
    if (isRecord(body) && body.id === id) {
      if (isRecord(body.result)) return { ok: true, result: body.result };
      if (isRecord(body.error)) {
        const { code, message, data } = body.error;
        return { ok: false, error: { code: Number(code), message: textOf(message), data: textOf(data) } };
      }
    }
    throw this.#noRpc(status, body);
  }

  // Loaded with the first request: a node signs its genesis by this package and asks no other.
  #opened(): Promise<Pool> {
    this.#pool ??= import("undici").then(({ Pool }) => new Pool(this.#url.origin, { connections: this.#connections }));
    return this.#pool;
  }

  async #send(text: string, signal: AbortSignal): Promise<{ readonly status: number; readonly body: unknown }> {
    if (this.#isClosed) throw this.#unreachable(new AppError("INTERNAL", { message: "This client is closed." }));
    const pool = await this.#opened();
    const answer = await pool.request({
      method: "POST",
      path: `${this.#url.pathname}${this.#url.search}`,
      headers: { "content-type": "application/json" },
      body: text,
      signal,
    });
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of answer.body) {
      const part = Buffer.from(chunk);
      bytes += part.length;
      if (bytes > this.#maxBytes)
        throw new AppError("CHAIN_UNREACHABLE", { message: "The node's answer is too long." });
      chunks.push(part);
    }
    const status = answer.statusCode;
    const answered = Buffer.concat(chunks).toString("utf8");
    try {
      return { status, body: JSON.parse(answered) };
    } catch (cause) {
      throw this.#noRpc(status, answered, cause);
    }
  }

  /** An answer that is none to the call. A node that refuses the request itself, such as for its length, says so in it. */
  #noRpc(status: number, body: unknown, cause?: unknown): AppError {
    const { host } = this.#url;
    const answer = status < 400 ? "answers" : `answers ${status}${wordsOf(body)}`;
    const message = `${host} ${answer}, but not as a node's RPC does; its usual port is 26657 (1317 is REST, 9090 gRPC).`;
    return new AppError("CHAIN_UNREACHABLE", {
      message,
      detail: { status },
      ...(cause === undefined ? {} : { cause }),
    });
  }

  #unreachable(cause: unknown): AppError {
    const { host } = this.#url;
    return new AppError("CHAIN_UNREACHABLE", { message: `The chain's node at ${host} does not answer.`, cause });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    await (await this.#pool)?.destroy();
  }
}
