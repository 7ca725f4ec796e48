import { once } from "node:events";
import type { Server } from "node:http";

/** Takes no more connections, and resolves when those that there are have ended. */
export async function closeServer(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  await closed;
}
