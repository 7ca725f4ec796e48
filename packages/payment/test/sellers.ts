import { type ChildProcess, spawn } from "node:child_process";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { serve } from "@hono/node-server";
import { USDC_ADDRESS } from "@turnpike/localnet";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware as expressPayments } from "@x402/express";
import { paymentMiddleware as honoPayments, x402ResourceServer } from "@x402/hono";
import express from "express";
import { Hono } from "hono";
import { NETWORK, PAY_TO, PRICE } from "./engine-fixtures.ts";

/** A seller that nothing of ours is in, with one thing for sale. */
export interface Seller extends AsyncDisposable {
  /** URL of its goods, by GET. */
  readonly url: string;
}

const ROUTES = {
  "GET /thing": {
    accepts: [
      {
        scheme: "exact",
        network: NETWORK as `eip155:${string}`,
        price: { asset: USDC_ADDRESS, amount: String(PRICE), extra: { name: "USDC", version: "2" } },
        payTo: PAY_TO,
        maxTimeoutSeconds: 600,
      },
    ],
    description: "A thing",
    mimeType: "application/json",
  },
};

const resourceServer = (facilitatorUrl: string): x402ResourceServer =>
  new x402ResourceServer(new HTTPFacilitatorClient({ url: facilitatorUrl })).register(
    NETWORK as `eip155:${string}`,
    new ExactEvmScheme(),
  );

async function listening(server: Pick<Server, "listening" | "once" | "address" | "close">): Promise<Seller> {
  if (!server.listening) await new Promise<void>((resolve) => server.once("listening", () => resolve()));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/thing`,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  };
}

/** `@x402/hono` on `@hono/node-server`. */
export async function honoSeller(facilitatorUrl: string): Promise<Seller> {
  const app = new Hono();
  app.use(honoPayments(ROUTES, resourceServer(facilitatorUrl)));
  app.get("/thing", (context) => context.json({ thing: true }));
  return listening(serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }) as Server);
}

/** `@x402/express` on Express. */
export async function expressSeller(facilitatorUrl: string): Promise<Seller> {
  const app = express();
  app.use(expressPayments(ROUTES, resourceServer(facilitatorUrl)));
  app.get("/thing", (_request, response) => void response.json({ thing: true }));
  return listening(createServer(app as RequestListener).listen(0, "127.0.0.1"));
}

/** A Python with `x402`, `fastapi` and `uvicorn`, by its path; tests of that seller are skipped without one. */
export const PYTHON = process.env.X402_PYTHON;

/** pip `x402`'s middleware for FastAPI on uvicorn. */
export async function fastApiSeller(facilitatorUrl: string, python: string): Promise<Seller> {
  const script = new URL("fastapi-seller.py", import.meta.url).pathname;
  const child: ChildProcess = spawn(python, [script, facilitatorUrl, NETWORK, USDC_ADDRESS, String(PRICE), PAY_TO], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  void ended.then(() => reject(new TypeError("the seller did not start")));
  if (child.stdout !== null) createInterface(child.stdout).on("line", resolve);
  const port = await promise;
  return {
    url: `http://127.0.0.1:${port}/thing`,
    async [Symbol.asyncDispose]() {
      child.kill();
      await ended;
    },
  };
}
