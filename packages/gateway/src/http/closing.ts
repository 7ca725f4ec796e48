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

/** The same for a listener and the server behind it. */
export async function closeListener(listener: FastListener, server: Server): Promise<void> {
  if (!listener.net.listening) return;
  const closed = listener.close();
  server.closeIdleConnections();
  await closed;
}
