import { PassThrough, type Writable } from "node:stream";
import { silentLog } from "@turnpike/base";
import { createClient, memoryJournal } from "@turnpike/client";
import { virtualClock } from "@turnpike/testkit";
import { GatewayDocuments, McpSession, serveMcpStdio } from "../src/index.ts";
import { countingSigner, type StandInGateway } from "./gateway.ts";

/** A line that calls a service; calls of another `n` are others. */
export const callLine = (id: number, n: number): string =>
  JSON.stringify({
    jsonrpc: "2.0",
    id,
    method: "tools/call",
    params: { name: "call_service", arguments: { service_id: "eth", request: { method: "eth_blockNumber", id: n } } },
  });

const INITIALIZE = JSON.stringify({
  jsonrpc: "2.0",
  id: 0,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "raw", version: "0" } },
});

/** A server on streams, which was sent `initialize`. */
export function serveStdioOn(gateway: StandInGateway, output: Writable) {
  const signer = countingSigner();
  const journal = memoryJournal();
  const input = new PassThrough();
  const server = serveMcpStdio(
    { gateway: gateway.url, version: "0", buyer: signer.address },
    {
      client: (one) =>
        createClient({ gateway: gateway.url, signer, budget: { perCallUsd: "0.05" }, journal: one, retryForMs: 0 }),
      session: new McpSession({ perCallMicroUsd: 50_000n, perSessionMicroUsd: 1_000_000n }, { journal }),
      documents: new GatewayDocuments({ gateway: gateway.url }, { clock: virtualClock() }),
      log: silentLog,
      input,
      output,
    },
  );
  const write = (line: string): void => void input.write(`${line}\n`);
  write(INITIALIZE);
  write(JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }));
  return { signer, journal, input, write, server };
}
