import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import type { Server } from "node:net";
import { AppError } from "./errors.ts";

/**
 * Listens, and resolves with the port; port 0 takes a free one. With `reusePort` other processes of this user may listen on
 * it too, and the system spreads connections over them.
 * @throws AppError PORT_IN_USE
 */
export function listenOn(server: Server, host: string, port: number, reusePort = false): Promise<number> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error & { code?: string }): void => {
      const busy = error.code === "EADDRINUSE" || error.code === "EACCES";
      const message = `Port ${port} on ${host} is ${error.code === "EACCES" ? "not allowed" : "in use"}.`;
      reject(busy ? new AppError("PORT_IN_USE", { message, detail: { port }, cause: error }) : error);
    };
    server.once("error", onError);
    server.listen({ host, port, ...(reusePort ? { reusePort } : {}) }, () => {
      server.off("error", onError);
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
  });
}

/** Accepts no more connections, closes the idle ones, and resolves when those in use have ended. */
export async function closeServer(server: HttpServer): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  await closed;
}
