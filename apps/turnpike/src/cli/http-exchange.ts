import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";

/** A response with its body. */
export interface HttpReply {
  readonly status: number;
  readonly body: Buffer;
}

export interface HttpExchangeOptions {
  readonly verb: "GET" | "POST" | "PUT";
  /** Of the Authorization header, where one is needed. */
  readonly token?: string;
  /** JSON. */
  readonly body?: string | undefined;
  readonly timeoutMs: number;
  /** Of the response. */
  readonly maxBytes: number;
}

/** One request on a connection of its own. Rejects when there is no whole response in time. */
export function httpExchange(
  url: URL,
  { verb, token, body, timeoutMs, maxBytes }: HttpExchangeOptions,
): Promise<HttpReply> {
  const { promise, resolve, reject } = Promise.withResolvers<HttpReply>();
  const send = url.protocol === "https:" ? httpsRequest : httpRequest;
  const headers = {
    ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    ...(body === undefined ? {} : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) }),
  };
  const signal = AbortSignal.timeout(timeoutMs);
  const request = send(url, { method: verb, headers, agent: false, signal }, (response) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    response.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > maxBytes) response.destroy(new RangeError("too large"));
      else chunks.push(chunk);
    });
    response.on("error", reject);
    response.on("end", () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }));
  });
  request.on("error", reject);
  request.end(body);
  return promise;
}
