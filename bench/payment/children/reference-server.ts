import { serve } from "@hono/node-server";
import { AppError } from "@turnpike/base";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { declareDiscoveryExtension } from "@x402/extensions/bazaar";
import { paymentMiddleware, x402ResourceServer } from "@x402/hono";
import { Hono } from "hono";
import { Pool } from "undici";
import { serveParent } from "../../lib/child.ts";
import { PAY_TO, relayerKey } from "../payers.ts";
import { createReferenceFacilitator, referenceHttp } from "../reference.ts";

/** What the reference server is made of. */
export interface ReferenceServerFacts {
  readonly rpcUrl: string;
  readonly relayer: number;
}

/** Operations of this child. */
export type ReferenceServerOperations = {
  readonly start: (facts: ReferenceServerFacts) => Promise<{ readonly port: number }>;
};

const owned = new AsyncDisposableStack();

/** `@x402/hono` on `@hono/node-server`, the facilitator in the same process: no hop that we do not have either. */
async function start(facts: ReferenceServerFacts): Promise<{ readonly port: number }> {
  const facilitator = createReferenceFacilitator({
    privateKey: relayerKey(facts.relayer),
    transport: referenceHttp(facts.rpcUrl, false),
    managedNonces: true,
    pollMs: 50,
  });
  const upstream = owned.adopt(new Pool(facts.rpcUrl), (pool) => pool.destroy());
  const resourceServer = new x402ResourceServer({
    verify: (payload, requirements) => facilitator.verify(payload, requirements),
    settle: (payload, requirements) => facilitator.settle(payload, requirements),
    getSupported: async () => facilitator.getSupported() as never,
  }).register("eip155:84532", new ExactEvmScheme());
  const app = new Hono();
  app.use(
    paymentMiddleware(
      {
        "POST /v1/eth": {
          accepts: [
            { scheme: "exact", price: "$0.005", network: "eip155:84532", payTo: PAY_TO, maxTimeoutSeconds: 60 },
          ],
          description: "Ethereum JSON-RPC",
          mimeType: "application/json",
          serviceName: "Metered RPC",
          tags: ["blockchain"],
          iconUrl: "https://gateway.example/icon.png",
          extensions: {
            ...declareDiscoveryExtension({
              bodyType: "json",
              input: { method: "eth_blockNumber", params: [] },
              inputSchema: { type: "object" },
              output: { example: { data: {} } },
            }),
          },
        },
      },
      resourceServer,
    ),
  );
  app.post("/v1/eth", async (context) => {
    const { method, params } = await context.req.json<{ readonly method: string; readonly params: unknown }>();
    const { body } = await upstream.request({
      path: "/",
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    });
    return context.json(await body.json());
  });
  const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
  owned.adopt(server, (one) => new Promise<void>((resolve) => one.close(() => resolve())));
  if (!server.listening) await new Promise<void>((resolve) => server.once("listening", () => resolve()));
  const address = server.address();
  if (address === null || typeof address === "string") throw new AppError("INTERNAL");
  return { port: address.port };
}

serveParent<ReferenceServerOperations>({ start }, owned);
