import { connect } from "node:net";
import type pg from "pg";

// PostgreSQL's manual, "Message Formats": CancelRequest.
const CANCEL_CODE = 80_877_102;
const CANCEL_TIMEOUT_MS = 2_000;
/** What was sent a moment ago may begin only after it was asked to end; without asking again it would run its whole time. */
const AGAIN_MS = 300;

/** Parts of the driver's client that its types leave out. */
interface Inner {
  readonly processID?: unknown;
  readonly secretKey?: unknown;
  readonly connection?: { readonly stream?: { destroy?(): void } };
}

/**
 * Ends what a connection is doing, and the connection: the server is asked to cancel, twice, and the socket is closed
 * without waiting for it. The request to cancel names this connection alone, which is never used again, so that it cannot
 * end another's statement. Where it does not get through, the statement's time-out ends it.
 */
export function sever(client: pg.PoolClient): void {
  const { processID, secretKey, connection } = client as unknown as Inner;
  if (typeof processID === "number" && typeof secretKey === "number") {
    const ask = (): void => cancel(client as unknown as pg.Client, processID, secretKey);
    ask();
    setTimeout(ask, AGAIN_MS).unref();
  }
  connection?.stream?.destroy?.();
}

function cancel({ host, port }: pg.Client, processId: number, secretKey: number): void {
  const message = Buffer.alloc(16);
  message.writeInt32BE(16, 0);
  message.writeInt32BE(CANCEL_CODE, 4);
  message.writeInt32BE(processId, 8);
  message.writeInt32BE(secretKey, 12);
  const socket = host.startsWith("/") ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  socket.setTimeout(CANCEL_TIMEOUT_MS, () => socket.destroy());
  socket.on("error", () => undefined);
  socket.on("connect", () => socket.end(message));
  socket.resume();
  socket.unref();
}
