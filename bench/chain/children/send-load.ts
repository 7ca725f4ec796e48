import { connect, type Socket } from "node:net";
import { AppError } from "@turnpike/base";
import { serveParent } from "../../lib/child.ts";

/** Sends to one node. */
export interface SendRun {
  readonly port: number;
  /** For each connection its transactions, sent one after the other: the next when the last is answered. */
  readonly txs: readonly (readonly Uint8Array[])[];
}

/** Operations of this child: `broadcast_tx_sync` on kept connections. */
export type SendLoadOperations = {
  /** How long it took until all were answered, in milliseconds. Rejects when one is refused. */
  readonly send: (run: SendRun) => Promise<number>;
};

const END = "\r\n\r\n";

function requestOf(tx: Uint8Array): string {
  const params = { tx: Buffer.from(tx).toString("base64") };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "broadcast_tx_sync", params });
  return `POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}${END}${body}`;
}

/** The body of a whole answer; undefined while it is not whole. */
function bodyOf(received: string): string | undefined {
  const end = received.indexOf(END);
  if (end < 0) return undefined;
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(received.slice(0, end))?.[1]);
  const body = received.slice(end + END.length);
  return body.length === length ? body : undefined;
}

function sendAll(port: number, requests: readonly string[]): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket: Socket = connect({ port, host: "127.0.0.1", noDelay: true });
  let at = 0;
  let received = "";
  const next = (): void => {
    const request = requests[at++];
    if (request === undefined) {
      socket.destroy();
      resolve();
    } else socket.write(request);
  };
  socket.setEncoding("latin1");
  socket.on("data", (chunk: string) => {
    received += chunk;
    const body = bodyOf(received);
    if (body === undefined) return;
    received = "";
    if (body.includes('"result":{"code":0,')) next();
    else reject(new AppError("INTERNAL", { message: `A transaction was refused: ${body}` }));
  });
  socket.on("error", reject);
  socket.on("connect", next);
  return promise;
}

async function send({ port, txs }: SendRun): Promise<number> {
  const requests = txs.map((list) => list.map(requestOf));
  const startedMs = performance.now();
  await Promise.all(requests.map((list) => sendAll(port, list)));
  return performance.now() - startedMs;
}

serveParent<SendLoadOperations>({ send });
