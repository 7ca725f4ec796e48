import type { Socket } from "node:net";

const LINGER_MS = 2_000;
const LINGER_BYTES = 2_097_152;
const CHECK_MS = 50;

/**
 * Ends a connection whose client may still be sending. To destroy it at once would be a reset, which may take the
 * answer with it. So it is half-closed, `last` being the last bytes, and what still comes is thrown away by the
 * connection's reader, within bounds of time and bytes (RFC 9112 §9.6).
 */
export function linger(socket: Socket, last?: string): void {
  if (socket.destroyed) return;
  const start = socket.bytesRead;
  let checks = Math.ceil(LINGER_MS / CHECK_MS);
  const timer = setInterval(() => {
    if (--checks <= 0 || socket.bytesRead - start > LINGER_BYTES) socket.destroy();
  }, CHECK_MS);
  socket.once("close", () => clearInterval(timer));
  if (last === undefined) socket.end();
  else socket.end(last);
}
