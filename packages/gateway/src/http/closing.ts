import { once } from "node:events";
import type { Server } from "node:http";
import type { FastListener } from "@turnpike/http1";

/** Takes no more connections, and resolves when those that there are have ended. */
export async function closeServer(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  await closed;
}

/**
 * The same for a listener, which closes the server behind it. The server's idle connections are not closed here once more:
 * for it, one is idle that it was just handed in the middle of a request.
 */
export async function closeListener(listener: FastListener): Promise<void> {
  if (listener.net.listening) await listener.close();
}
