import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";

/** A stand-in for a supplier's WebSocket, told what to answer. */
export interface SocketStub extends AsyncDisposable {
  readonly url: string;
  /** Calls in order: `method params`. */
  readonly calls: string[];
  readonly connections: number;
  /** Sends a text to all connections. */
  broadcast(text: string): void;
  /** Ends all connections. */
  drop(): void;
}

/** A call at a stand-in. */
export interface StubCall {
  readonly id: number;
  readonly method: string;
  readonly params: unknown;
}

/** Starts a stand-in; `answer` gives the text of a call's answer, or undefined for none. */
export async function startSocketStub(
  answer: (call: StubCall, socket: WebSocket) => string | undefined,
): Promise<SocketStub> {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  const calls: string[] = [];
  let isOver = false;
  server.on("connection", (socket) => {
    socket.on("message", (data: Buffer) => {
      const call = JSON.parse(data.toString()) as StubCall;
      calls.push(`${call.method} ${JSON.stringify(call.params)}`);
      const text = answer(call, socket);
      if (text !== undefined) socket.send(text);
    });
  });
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    get connections() {
      return server.clients.size;
    },
    broadcast(text) {
      for (const client of server.clients) client.send(text);
    },
    drop() {
      for (const client of server.clients) client.terminate();
    },
    async [Symbol.asyncDispose]() {
      if (isOver) return;
      isOver = true;
      for (const client of server.clients) client.terminate();
      server.close();
      await once(server, "close");
    },
  };
}
