import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, request as send } from "node:http";
import { text } from "node:stream/consumers";
import { silentLog, systemClock } from "@turnpike/base";
import { createClient, memoryJournal } from "@turnpike/client";
import { virtualClock } from "@turnpike/testkit";
import { GatewayDocuments, type McpHttpOptions, type McpHttpServer, McpSession, serveMcpHttp } from "../src/index.ts";
import { countingSigner, type StandInGateway } from "./gateway.ts";

/** Options of a server that a test changes. */
export interface HttpBend extends Partial<McpHttpOptions> {
  readonly perSessionMicroUsd?: bigint;
  readonly totalUsd?: string;
  readonly nowMs?: () => number;
}

/** Starts a server over HTTP in front of a stand-in gateway. */
export async function startHttpServer(
  gateway: StandInGateway,
  { perSessionMicroUsd = 1_000_000n, totalUsd = "10", nowMs, ...opts }: HttpBend = {},
) {
  const journal = memoryJournal();
  const signer = countingSigner();
  const clock = nowMs === undefined ? systemClock : { nowMs: () => systemClock.nowMs(), monotonicMs: nowMs };
  const server = await serveMcpHttp(
    { gateway: gateway.url, version: "0", buyer: signer.address, port: 0, drainMs: 60_000, ...opts },
    {
      client: (one) =>
        createClient({
          gateway: gateway.url,
          signer,
          budget: { perCallUsd: "0.05", totalUsd },
          journal: one,
          retryForMs: 0,
        }),
      newSession: () => new McpSession({ perCallMicroUsd: 50_000n, perSessionMicroUsd }, { journal }),
      documents: new GatewayDocuments({ gateway: gateway.url }, { clock: virtualClock() }),
      log: silentLog,
      clock,
    },
  );
  return { server, signer, journal };
}

const HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" };

/** The request that begins a session. */
export const initialize = (protocolVersion = "2025-06-18") => ({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion, capabilities: {}, clientInfo: { name: "raw", version: "0" } },
});

/** One request as it is written, on a connection of its own: `fetch` sets Host itself. */
export function sendRaw(
  { port }: McpHttpServer,
  headers: Record<string, string>,
  body: string,
  { method = "POST", path = "/mcp" } = {},
): ClientRequest {
  const sent = send({ host: "127.0.0.1", port, path, method, headers: { ...HEADERS, ...headers }, agent: false });
  sent.end(method === "POST" ? body : undefined);
  return sent;
}

/** Reads the response of {@link sendRaw} to its end. */
export async function readRaw(sent: ClientRequest) {
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

/** A client that writes its messages itself: reads nothing that it is not told to, and reuses ids. */
export async function rawClient(server: McpHttpServer, protocolVersion: string) {
  const opened = await readRaw(sendRaw(server, {}, JSON.stringify(initialize(protocolVersion))));
  const headers = {
    "mcp-session-id": String(opened.headers["mcp-session-id"]),
    "mcp-protocol-version": protocolVersion,
  };
  const post = (message: unknown): ClientRequest =>
    sendRaw(server, headers, JSON.stringify(message)).on("error", () => {});
  await readRaw(post({ jsonrpc: "2.0", method: "notifications/initialized" }));
  return {
    headers,
    post,
    read: (message: unknown) => readRaw(post(message)),
  };
}
