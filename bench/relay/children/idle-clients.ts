import { connect, type Socket } from "node:net";
import { AppError } from "@turnpike/base";
import { serveParent } from "../../lib/child.ts";

/** WebSockets that are opened and left alone. */
export interface IdleRun {
  readonly port: number;
  readonly host: string;
  readonly clients: number;
  /** Local addresses that they come from, so that no client has too many. */
  readonly addresses: readonly string[];
}

/** Operations of this child. */
export type IdleOperations = {
  readonly open: (run: IdleRun) => Promise<void>;
  readonly close: (params: undefined) => Promise<void>;
};

const AT_ONCE = 100;
const PING = 0x89;
const PONG = Buffer.from([0x8a, 0x80, 0, 0, 0, 0]);
const sockets = new Set<Socket>();

function openOne(run: IdleRun, at: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const localAddress = run.addresses[at % run.addresses.length];
  const socket = connect({
    port: run.port,
    host: "127.0.0.1",
    ...(localAddress === undefined ? {} : { localAddress }),
  });
  sockets.add(socket);
  const head = [
    "GET / HTTP/1.1",
    `Host: ${run.host}`,
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    `Sec-WebSocket-Key: ${Buffer.alloc(16).toString("base64")}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  let isOpen = false;
  socket.on("data", (chunk: Buffer) => {
    if (isOpen) {
      // The only frames that an idle client gets are pings without a payload.
      if (chunk[0] === PING) socket.write(PONG);
      return;
    }
    isOpen = true;
    const text = chunk.toString("latin1", 0, 200);
    if (text.startsWith("HTTP/1.1 101 ")) resolve();
    else reject(new AppError("INTERNAL", { message: `A WebSocket was refused: ${text}` }));
  });
  socket.on("error", reject);
  socket.on("close", () => {
    if (sockets.delete(socket)) reject(new AppError("INTERNAL", { message: "A WebSocket was closed." }));
  });
  return promise;
}

serveParent<IdleOperations>({
  async open(run) {
    for (let at = 0; at < run.clients; at += AT_ONCE) {
      const count = Math.min(AT_ONCE, run.clients - at);
      await Promise.all(Array.from({ length: count }, (_, offset) => openOne(run, at + offset)));
    }
  },
  close() {
    const all = [...sockets];
    sockets.clear();
    for (const socket of all) socket.destroy();
    return Promise.resolve();
  },
});
