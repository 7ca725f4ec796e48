import { parseJson, trimEndOf } from "@turnpike/base";
import { Agent } from "undici";
import { engineFailed, statusFailure } from "./failure.ts";

interface EngineHttpOptions {
  /** Base URL of the API. A user and password in it are sent as Basic authorization. */
  readonly baseUrl: string;
  /** Sent with each request. Keys stand here, so they are never logged. */
  readonly headers: Readonly<Record<string, string>>;
  /** Largest answer in bytes; larger ones are cut off. */
  readonly maxAnswerBytes?: number;
  /** Most connections at once. */
  readonly connections?: number;
  /** Longest time to connect, in milliseconds. */
  readonly connectTimeoutMs?: number;
}

/** One request to an engine. */
export interface EngineRequest {
  readonly verb: "GET" | "POST";
  /** Path and query below the base URL. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
}

/** The HTTP side of one engine. Owns its connections. */
export interface EngineHttp extends AsyncDisposable {
  /** The JSON of a 200. Rejects with AppError SEARCH_ENGINE_FAILED, or with the signal's reason. */
  ask(request: EngineRequest, signal: AbortSignal): Promise<unknown>;
}

const MAX_ANSWER_BYTES = 2_097_152;
const CONNECTIONS = 32;
const CONNECT_TIMEOUT_MS = 3_000;
const JSON_LIMITS = { maxDepth: 32, maxNodes: 100_000 } as const;

/**
 * Asks one engine over HTTP: redirects are not followed, answers are neither decompressed nor longer than allowed, and
 * the signal alone bounds the time. What an engine says of its error is not read: it may repeat keys and queries.
 */
export function createEngineHttp(opts: EngineHttpOptions): EngineHttp {
  const maxAnswerBytes = opts.maxAnswerBytes ?? MAX_ANSWER_BYTES;
  const base = new URL(opts.baseUrl);
  const root = trimEndOf(base.pathname, "/");
  const headers: Record<string, string> = {
    accept: "application/json",
    "accept-encoding": "identity",
    ...opts.headers,
  };
  if (base.username !== "" || base.password !== "") {
    const user = `${decodeURIComponent(base.username)}:${decodeURIComponent(base.password)}`;
    headers.authorization = `Basic ${Buffer.from(user).toString("base64")}`;
  }
  const agent = new Agent({
    connect: { timeout: opts.connectTimeoutMs ?? CONNECT_TIMEOUT_MS },
    connections: opts.connections ?? CONNECTIONS,
    headersTimeout: 0,
    bodyTimeout: 0,
  });

  const read = async (body: AsyncIterable<Uint8Array>): Promise<Uint8Array> => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of body) {
      size += chunk.length;
      if (size > maxAnswerBytes) throw engineFailed("too_large");
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  };

  const send = async ({ verb, path, body }: EngineRequest, signal: AbortSignal): Promise<unknown> => {
    const response = await agent.request({
      origin: base.origin,
      path: `${root}${path}`,
      method: verb,
      headers: body === undefined ? headers : { ...headers, "content-type": "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
      signal,
    });
    const { statusCode, headers: answered } = response;
    const failure = statusFailure(statusCode);
    const coding = String(answered["content-encoding"] ?? "identity").toLowerCase();
    const said = Number(answered["content-length"] ?? 0);
    if (failure !== undefined || coding !== "identity" || said > maxAnswerBytes) {
      // Its end is not waited for: there may be none.
      response.body.on("error", () => {}).destroy();
      throw failure === undefined
        ? engineFailed(said > maxAnswerBytes ? "too_large" : "bad_answer")
        : engineFailed(failure, statusCode);
    }
    const parsed = parseJson(await read(response.body), JSON_LIMITS);
    if (!parsed.ok) throw engineFailed("bad_answer");
    return parsed.value;
  };

  return {
    async ask(request, signal) {
      try {
        return await send(request, signal);
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        // What undici says of a connection may name addresses; the reason is all that anybody needs.
        throw error instanceof Error && "code" in error && error.code === "SEARCH_ENGINE_FAILED"
          ? error
          : engineFailed("connection");
      }
    },
    [Symbol.asyncDispose]: () => agent.destroy(),
  };
}
