import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { serveParent } from "../../lib/child.ts";

/** Operations of this child: `node:http` that knows its answer by heart. */
export type BareHttpOperations = { readonly start: (params: { readonly body: string }) => Promise<{ port: number }> };

const owned = new AsyncDisposableStack();

async function start({ body }: { readonly body: string }): Promise<{ port: number }> {
  const server = createServer((req, res) => {
    req.resume();
    req.once("end", () => {
      res.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) }).end(body);
    });
  });
  owned.defer(() => void server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port };
}

serveParent<BareHttpOperations>({ start }, owned);
