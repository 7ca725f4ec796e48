import { once } from "node:events";
import { AppError } from "@turnpike/base";
import { WebSocket } from "ws";

/** A WebSocket client that keeps what it is sent. */
export interface SocketClient extends AsyncDisposable {
  readonly socket: WebSocket;
  /** Texts that were received. */
  readonly texts: string[];
  send(text: string): void;
  /** The first text of which this holds, from the beginning. */
  find(wanted: (text: string) => boolean): Promise<string>;
  /** Sends a call and waits for the text with its id. */
  call(id: number, method: string, params?: unknown): Promise<Readonly<Record<string, unknown>>>;
  /** Waits for as many texts. */
  until(count: number): Promise<void>;
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
}

/** Connects a client. */
export async function openSocket(url: string, headers: Readonly<Record<string, string>> = {}): Promise<SocketClient> {
  const socket = new WebSocket(url, { perMessageDeflate: false, headers });
  const texts: string[] = [];
  const wakes = new Set<() => void>();
  socket.on("message", (data: Buffer) => {
    texts.push(data.toString());
    for (const wake of wakes) wake();
  });
  const closed = once(socket, "close").then(([code, reason]: unknown[]) => ({
    code: Number(code),
    reason: String(reason),
  }));
  socket.on("error", () => {});
  await once(socket, "open");
  const when = (isDone: () => boolean): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = (): void => {
      if (!isDone()) return;
      wakes.delete(wake);
      resolve();
    };
    wakes.add(wake);
    wake();
    return promise;
  };
  const client: SocketClient = {
    socket,
    texts,
    closed,
    send: (text) => socket.send(text),
    async find(wanted) {
      let found: string | undefined;
      await when(() => {
        found = texts.find(wanted);
        return found !== undefined;
      });
      return found ?? "";
    },
    async call(id, method, params = []) {
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
      const text = await client.find((one) => (JSON.parse(one) as { id?: unknown }).id === id);
      return JSON.parse(text) as Readonly<Record<string, unknown>>;
    },
    until: (count) => when(() => texts.length >= count),
    async [Symbol.asyncDispose]() {
      socket.terminate();
    },
  };
  return client;
}

/** The HTTP answer to an upgrade that is refused. */
export async function refusedUpgrade(
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly status: number; readonly headers: Readonly<Record<string, unknown>>; readonly body: string }> {
  const socket = new WebSocket(url, { headers });
  socket.on("error", () => {});
  socket.once("open", () => {
    socket.terminate();
    socket.emit("error", new AppError("INTERNAL", { message: `${url} is open; it should have been refused` }));
  });
  const [, response] = (await once(socket, "unexpected-response")) as [
    unknown,
    NodeJS.ReadableStream & { statusCode: number; headers: Readonly<Record<string, unknown>> },
  ];
  let body = "";
  for await (const part of response) body += String(part);
  return { status: response.statusCode, headers: response.headers, body };
}
