import { virtualClock } from "@turnpike/testkit";
import { HttpPool, type HttpPoolOptions } from "../src/http-pool.ts";
import type { PoolRequest, RequestError, ResponseHandler } from "../src/pool-request.ts";
import { RequestHead } from "../src/request-head.ts";

/** What became of a request. */
export interface Asked {
  readonly status: number;
  readonly fields: Readonly<Record<string, string>>;
  /** One character a byte. */
  readonly body: string;
  readonly error?: RequestError;
  readonly isSent?: boolean;
}

/** A request under way. */
export interface Asking {
  readonly request: PoolRequest;
  readonly result: Promise<Asked>;
  /** Names of the handler's calls. */
  readonly calls: readonly string[];
}

/** A pool to a port of this machine, with small bounds; its time stands still, so that it closes nothing by itself. */
export function newPool(
  port: number,
  options: Partial<HttpPoolOptions> = {},
  clock = virtualClock(),
): HttpPool & Disposable {
  const pool = new HttpPool(
    {
      origin: `http://127.0.0.1:${port}`,
      connections: 1,
      maxQueued: 100,
      connectTimeoutMs: 60_000,
      fields: ["content-type"],
      ...options,
    },
    { clock },
  );
  return Object.assign(pool, { [Symbol.dispose]: () => pool.destroy() });
}

/** Head of a request, which must be one. */
export function headOf(method: "GET" | "POST", headers: Readonly<Record<string, string>> = {}): RequestHead {
  const head = RequestHead.of({ method, path: "/", host: "test", headers });
  if (head === undefined) throw new TypeError("no head");
  return head;
}

/** Sends a request: a GET without a body. `seen` is called after the handler of that name. */
export function ask(
  pool: HttpPool,
  {
    head,
    body,
    seen,
  }: {
    readonly head?: RequestHead;
    readonly body?: Uint8Array | string | undefined;
    readonly seen?: (name: "head" | "data", request: PoolRequest) => void;
  } = {},
): Asking {
  const { promise: result, resolve } = Promise.withResolvers<Asked>();
  const calls: string[] = [];
  let asked: Asked = { status: 0, fields: {}, body: "" };
  const handler: ResponseHandler = {
    onHead(response) {
      calls.push("head");
      asked = { ...asked, status: response.status, fields: response.fields() };
      seen?.("head", request);
    },
    onData(bytes, start, end) {
      calls.push("data");
      asked = { ...asked, body: asked.body + bytes.toString("latin1", start, end) };
      seen?.("data", request);
    },
    onEnd() {
      calls.push("end");
      resolve(asked);
    },
    onError(error, isSent) {
      calls.push("error");
      resolve({ ...asked, error, isSent });
    },
  };
  const request: PoolRequest = pool.send(head ?? headOf(body === undefined ? "GET" : "POST"), body, handler);
  return { request, result, calls };
}
