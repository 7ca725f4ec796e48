import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";

/** One request as it came. */
export interface RawRequest {
  /** Head and body, one character a byte. */
  readonly text: string;
  /** Of the connection that it came over, from 0. */
  readonly connection: number;
}

/** A server that answers with any bytes. */
export interface RawServer extends AsyncDisposable {
  readonly port: number;
  readonly requests: readonly RawRequest[];
  /** Of all connections so far. */
  readonly sockets: readonly Socket[];
  /** What came although the request before was not answered: a client that does not wait. */
  readonly early: readonly string[];
}

/** What {@link startRawServer} is made of. */
export interface RawServerOptions {
  /** Gets each whole request; it writes the answer and calls `answered`, or ends the socket. */
  readonly answer: (socket: Socket, request: RawRequest, answered: () => void) => void;
  readonly tls?: TlsOptions;
  readonly connected?: (socket: Socket) => void;
}

/** Starts a {@link RawServer} on loopback. */
export async function startRawServer({ answer, tls, connected }: RawServerOptions): Promise<RawServer> {
  const requests: RawRequest[] = [];
  const sockets: Socket[] = [];
  const early: string[] = [];
  const accept = (socket: Socket): void => {
    const connection = sockets.push(socket) - 1;
    let text = "";
    let isAnswering = false;
    socket.setNoDelay();
    socket.on("error", () => undefined);
    socket.on("data", (bytes) => {
      if (isAnswering) early.push(bytes.toString("latin1"));
      text += bytes.toString("latin1");
      const whole = wholeRequest(text);
      if (whole === undefined) return;
      text = text.slice(whole.length);
      isAnswering = true;
      const request = { text: whole, connection };
      requests.push(request);
      answer(socket, request, () => {
        isAnswering = false;
      });
    });
    connected?.(socket);
  };
  const server: Server = tls === undefined ? createServer(accept) : createTlsServer(tls, accept);
  server.on("tlsClientError", () => undefined);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    sockets,
    early,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

function wholeRequest(text: string): string | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return undefined;
  const length = end + 4 + Number(/\r\ncontent-length: ([0-9]+)\r\n/.exec(text.slice(0, end + 2))?.[1] ?? 0);
  return text.length < length ? undefined : text.slice(0, length);
}

/** Writes a text byte by byte, each by itself. */
export async function writeBytewise(socket: Socket, text: string): Promise<void> {
  for (const char of text) {
    if (socket.destroyed || socket.writableEnded) return;
    await new Promise((resolve) => socket.write(char, "latin1", resolve));
  }
}
