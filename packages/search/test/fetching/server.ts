import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";

/** A server of a test, on a free port of this machine. */
export interface TestServer extends AsyncDisposable {
  readonly origin: string;
  readonly port: number;
  /** Paths in the order in which they were asked for. */
  readonly asked: string[];
}

/** Answers one request of a test. */
export type Answer = (request: IncomingMessage, response: ServerResponse, path: string) => void;

/** Starts an HTTP server. */
export async function serve(answer: Answer): Promise<TestServer> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? "";
    asked.push(path);
    answer(request, response, path);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    port,
    asked,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Starts a server that speaks as it likes. */
export async function serveRaw(answer: (socket: Socket, request: string) => void): Promise<TestServer> {
  const asked: string[] = [];
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    socket.once("data", (data) => {
      const request = data.toString("latin1");
      asked.push(request.split(" ")[1] ?? "");
      answer(socket, request);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    port,
    asked,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
