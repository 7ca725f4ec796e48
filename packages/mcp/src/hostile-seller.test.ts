import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import { suite, test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { isNestedDeeper, silentLog, systemClock } from "@turnpike/base";
import { createClient, memoryJournal, type SpendJournal } from "@turnpike/client";
import { virtualClock } from "@turnpike/testkit";
import { type HostileSeller, modesOf, SELLER_MODES, startHostileSeller } from "@turnpike/testkit/hostile-seller";
import { countingSigner, errorOf, said } from "../test/gateway.ts";
import { GatewayDocuments, McpSession, serveMcpHttp, serveMcpStdio } from "./index.ts";

const CALL = { name: "call_service", arguments: { service_id: "eth", request: { method: "eth_blockNumber" } } };
const USABLE = new Set([
  "honest",
  "answer-2000-levels",
  "answer-proto-keys",
  "answer-lone-surrogates",
  "answer-null",
  "receipt-4000-levels",
]);

interface ToolResult {
  readonly isError?: boolean;
  readonly content: readonly { readonly text?: string }[];
  readonly structuredContent?: { readonly payment: { readonly state: string; readonly price_usd: string } };
  readonly _meta?: unknown;
}

/** A buyer of a seller, and what its servers are made of. */
function buyerOf(seller: HostileSeller) {
  const signer = countingSigner();
  const journal = memoryJournal();
  const client = (one: SpendJournal) =>
    createClient({ gateway: seller.url, signer, budget: { perCallUsd: "0.05" }, journal: one, retryForMs: 0 });
  const newSession = () => new McpSession({ perCallMicroUsd: 50_000n, perSessionMicroUsd: 1_000_000n }, { journal });
  const documents = new GatewayDocuments({ gateway: seller.url }, { clock: virtualClock() });
  const opts = { gateway: seller.url, version: "0", buyer: signer.address };
  return { opts, signer, modules: { client, documents, log: silentLog }, newSession };
}

/** A server on streams, as a host has it: messages are lines. */
async function overStdio(seller: HostileSeller) {
  const { opts, signer, modules, newSession } = buyerOf(seller);
  const [input, output] = [new PassThrough(), new PassThrough()];
  const server = serveMcpStdio(opts, { ...modules, session: newSession(), input, output });
  const lines = createInterface({ input: output })[Symbol.asyncIterator]();
  let id = 0;
  const request = async (method: string, params: unknown): Promise<string> => {
    id += 1;
    input.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return String((await lines.next()).value);
  };
  await request("initialize", {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "raw", version: "0" },
  });
  input.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
  return { signer, request, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

function assertNamesTheCharge(result: ToolResult, name: string): void {
  if (USABLE.has(name)) {
    assert.notEqual(result.isError, true, said(result));
    assert.match(said(result), /^Charged once: 0\.005000 USD for eth\. Receipt: transaction 0x/);
    assert.deepEqual(result.structuredContent?.payment.state, "charged");
    assert.equal(result.structuredContent.payment.price_usd, "0.005000");
    return;
  }
  assert.equal(result.isError, true, said(result).slice(0, 300));
  assert.match(said(result), /0\.005000 USD may have been charged, once|0\.005000 USD was charged/);
  const { payment } = errorOf(result);
  assert.deepEqual([payment.state, payment.usd], ["open", "0.005000"]);
}

suite("MCP, against a hostile seller", () => {
  for (const [name, mode] of modesOf("answer", "receipt")) {
    if (name === "answer-cut-once") continue;
    test(`attack: ${name}: the call is answered over stdio, and names the charge`, async () => {
      await using seller = await startHostileSeller(mode);
      await using stdio = await overStdio(seller);
      const line = await stdio.request("tools/call", CALL);
      assert.doesNotMatch(
        line,
        /\\u[dD][89a-fA-F]/,
        "no half of a surrogate pair, which readers of some languages refuse",
      );
      const { result } = JSON.parse(line) as { result: ToolResult };
      assert.equal(isNestedDeeper(result, 100), false, "readers of some languages refuse what is nested deeply");
      assertNamesTheCharge(result, name);
      assert.deepEqual([stdio.signer.count, seller.chain.chargedUnits()], [1, 5_000n]);
      if (USABLE.has(name)) return;
      seller.mode = SELLER_MODES.honest ?? mode;
      const again = JSON.parse(await stdio.request("tools/call", CALL)) as { result: ToolResult };
      assertNamesTheCharge(again.result, "answer-null");
      assert.deepEqual([stdio.signer.count, seller.chain.chargedUnits()], [1, 5_000n]);
    });
  }

  for (const name of ["answer-2000-levels", "answer-3000-levels", "answer-6000-levels", "answer-lone-surrogates"]) {
    test(`attack: ${name}: the call is answered over HTTP, and names the charge`, async () => {
      await using seller = await startHostileSeller(SELLER_MODES[name]);
      const { opts, modules, newSession, signer } = buyerOf(seller);
      await using server = await serveMcpHttp({ ...opts, port: 0 }, { ...modules, newSession, clock: systemClock });
      const client = new Client({ name: "test", version: "0" }, { versionNegotiation: { mode: "legacy" } });
      await client.connect(new StreamableHTTPClientTransport(new URL(server.url)));
      try {
        assertNamesTheCharge((await client.callTool(CALL)) as ToolResult, name);
        assert.deepEqual([signer.count, seller.chain.chargedUnits()], [1, 5_000n]);
      } finally {
        await client.close();
      }
    });
  }
});
