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

/** Resolves when all of them have ended, or the time is over. */
export async function settledWithin(works: ReadonlySet<Promise<void>>, timeoutMs: number): Promise<void> {
  if (works.size === 0) return;
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, timeoutMs);
  await Promise.race([Promise.allSettled(works), late]);
  clearTimeout(timer);
}
