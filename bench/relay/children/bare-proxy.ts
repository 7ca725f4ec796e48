import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { AppError } from "@turnpike/base";
import { Pool } from "undici";
import { WebSocketServer } from "ws";
import { serveParent } from "../../lib/child.ts";

/** Operations of this child: the least that a proxy of Node is. */
export type BareProxyOperations = {
  readonly start: (params: { readonly upstreamPort: number; readonly connections: number }) => Promise<{
    readonly port: number;
  }>;
};

/** Takes the body, sends it on, and gives the answer back as it came: no check, no limit, no time-out, no second try. */
function pass(pool: Pool, req: IncomingMessage, res: ServerResponse): void {
  const parts: Buffer[] = [];
  req.on("data", (part: Buffer) => parts.push(part));
  req.on("end", () => {
    const body = parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
    const headers = { "content-type": "application/json" };
    pool
      .stream({ path: req.url ?? "/", method: "POST", headers, body }, (answer) => {
        res.writeHead(answer.statusCode, answer.headers);
        return res;
      })
      .catch(() => res.writeHead(502).end());
  });
}

/** As our gateway keeps connections: other sides are loaded between two rounds. */
const KEEP_ALIVE_MS = 65_000;
const owned = new AsyncDisposableStack();

serveParent<BareProxyOperations>(
  {
    async start({ upstreamPort, connections }) {
      const pool = new Pool(`http://127.0.0.1:${upstreamPort}`, { connections, pipelining: 1 });
      const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (req, res) => pass(pool, req, res));
      // For the memory of idle clients: the least that a WebSocket server of Node is.
      const sockets = new WebSocketServer({ server });
      owned.defer(() => {
        for (const socket of sockets.clients) socket.terminate();
        sockets.close();
        server.closeAllConnections();
        server.close();
        return pool.destroy();
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 4_096, resolve));
      const address = server.address();
      if (address === null || typeof address === "string") throw new AppError("INTERNAL");
      return { port: address.port };
    },
  },
  owned,
);
