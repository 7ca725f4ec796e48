import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as HttpV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { startUpstream, type Upstream } from "@turnpike/testkit";
import {
  callTool,
  type McpCommand,
  type McpFolder,
  mcpFolder,
  openMcp,
  startMcp,
  type ToolResult,
  textOf,
} from "../support/mcp-process.ts";
import { type Ground, newBuyer, startGround } from "../support/network.ts";
import {
  ethAt,
  type OpenGateway,
  openGateway,
  STAND_IN_RESULT,
  type StandIn,
  startStandIn,
  untilServed,
} from "./support.ts";

type CallTool = (name: string, args: Record<string, unknown>) => Promise<ToolResult>;

/** The clients' own minute for a request includes the start of the command: on a busy machine that takes longer. */
const PATIENT = { timeout: 280_000 };

const GAS_PRICE = { service_id: "eth", request: { method: "eth_gasPrice" } };

/** A search back-end with one result. */
function startSearch(): Promise<Upstream> {
  return startUpstream((request, response) => {
    response.setHeader("content-type", "application/json");
    if (request.path !== "/v1/search") {
      response.end('{"status":"ok"}');
      return;
    }
    const { query } = JSON.parse(request.text) as { readonly query: string };
    const results = [
      {
        title: "Settlement",
        url: "https://docs.example/settle",
        snippet: "How it settles.",
        score: 1,
        source: "local",
        date: null,
      },
    ];
    response.end(JSON.stringify({ query, results }));
  });
}

suite("agents buy over MCP, with the official clients and the real command", () => {
  let ground: Ground;
  let node: StandIn;
  let search: Upstream;
  let gateway: OpenGateway;
  let folder: McpFolder;
  /** Purchases so far: the ledger must hold them and nothing else. */
  let bought = 0;

  before(async () => {
    [ground, node, search, folder] = await Promise.all([startGround(), startStandIn(), startSearch(), mcpFolder()]);
    gateway = await openGateway(ground, {
      sections: {
        suppliers: {
          ...ethAt(node.url),
          search: { endpoints: [{ operator: "local", urls: { rest: search.url } }] },
        },
      },
    });
    // Suppliers are probed at the start; agents are told of those that answer.
    await untilServed(gateway, "eth", "search");
  });
  after(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await search?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
    await folder?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  /** What every agent does: search, describe, quote, buy twice, and be refused for the budget of two calls. */
  const drive = async (tools: readonly { readonly name: string }[], call: CallTool): Promise<void> => {
    assert.ok(tools.some(({ name }) => name === "call_service"));
    const found = await call("search_services", { query: "ethereum mainnet" });
    assert.equal(found.structuredContent.services[0].id, "eth");
    const about = await call("describe_service", { service_id: "eth", operation: "eth_blockNumber" });
    assert.deepEqual(about.structuredContent.request_schema.properties.method.enum, ["eth_blockNumber"]);
    const quote = await call("get_quote", GAS_PRICE);
    assert.equal(quote.structuredContent.price_usd, "0.005000");
    const first = await call("call_service", GAS_PRICE);
    assert.notEqual(first.isError, true, textOf(first));
    bought += 1;
    assert.equal(first.structuredContent.third_party.data.result, STAND_IN_RESULT);
    assert.equal(first.structuredContent.third_party.schema_check, "passed");
    assert.match(first.structuredContent.payment.transaction, /^0x[0-9a-f]{64}$/);
    assert.match(textOf(first), /third-party data/);
    const searched = await call("web_search", { query: "how are payments settled", max_results: 3 });
    assert.notEqual(searched.isError, true, textOf(searched));
    bought += 1;
    assert.equal(searched.structuredContent.third_party.data.results[0].title, "Settlement");
    const refused = await call("call_service", GAS_PRICE);
    assert.equal(refused.isError, true);
    assert.match(textOf(refused), /^error BUDGET_SPENT: .*nothing was signed/s);
    const spending = await call("get_spending", {});
    assert.equal(spending.structuredContent.session.used_usd, "0.010000");
    assert.equal(spending.structuredContent.open_payment_count, 0);
    await gateway.assertSettled(bought);
  };

  const flags = (...more: readonly string[]): string[] => ["--gateway", gateway.url, "--per-session", "0.012", ...more];

  test("the client of the SDK's second version, over stdio, with the revision of 2026", async () => {
    const { key, address } = await newBuyer(ground);
    const client = new Client({ name: "e2e", version: "0" }, { versionNegotiation: { mode: "auto" } });
    await client.connect(new StdioClientTransport({ ...folder.command(key, ...flags()), stderr: "ignore" }), PATIENT);
    try {
      assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
      assert.match(client.getInstructions() ?? "", /within a budget/);
      const { tools } = await client.listTools(undefined, PATIENT);
      await drive(
        tools,
        async (name, args) => (await client.callTool({ name, arguments: args }, PATIENT)) as ToolResult,
      );
      assert.equal(await ground.balance(address), 90_000n);
    } finally {
      await client.close();
    }
  });

  test("the client of the SDK's first version, over stdio", async () => {
    const { key, address } = await newBuyer(ground);
    const client = new ClientV1({ name: "e2e", version: "0" });
    await client.connect(new StdioV1({ ...folder.command(key, ...flags()), stderr: "ignore" }), PATIENT);
    try {
      const { tools } = await client.listTools(undefined, PATIENT);
      await drive(
        tools,
        async (name, args) => (await client.callTool({ name, arguments: args }, undefined, PATIENT)) as ToolResult,
      );
      assert.equal(await ground.balance(address), 90_000n);
    } finally {
      await client.close();
    }
  });

  test("both clients over streamable HTTP: two sessions with budgets of their own, one total, DELETE, a graceful stop", async () => {
    const { key } = await newBuyer(ground);
    const command = folder.command(key, ...flags("--http", "--port", "0", "--total", "0.022"));
    await using mcp = startMcp(command);
    const [, url = ""] = /MCP on (http:\S+\/mcp):/.exec(await mcp.started) ?? [];
    const one = new ClientV1({ name: "e2e", version: "0" });
    const transport = new HttpV1(new URL(url));
    // The types of the first version were not made for exact optional properties.
    await one.connect(transport as Parameters<typeof one.connect>[0]);
    const two = new Client({ name: "e2e", version: "0" });
    await two.connect(new StreamableHTTPClientTransport(new URL(url)));
    const callTwo: CallTool = async (name, args) =>
      (await two.callTool({ name, arguments: args }, PATIENT)) as ToolResult;
    await drive(
      (await one.listTools(undefined, PATIENT)).tools,
      async (name, args) => (await one.callTool({ name, arguments: args }, undefined, PATIENT)) as ToolResult,
    );
    await drive((await two.listTools(undefined, PATIENT)).tools, callTwo);
    await transport.terminateSession();
    await one.close();
    const three = new Client({ name: "e2e", version: "0" });
    await three.connect(new StreamableHTTPClientTransport(new URL(url)));
    const last = (await three.callTool({ name: "call_service", arguments: GAS_PRICE }, PATIENT)) as ToolResult;
    assert.match(textOf(last), /budget of 0\.022000 USD.*nothing was signed/);
    await two.close();
    await three.close();
    mcp.child.kill("SIGTERM");
    assert.equal(await mcp.ended, 0);
  });

  test("standard output is the protocol's alone, and no key or signature is written anywhere but the journal", async () => {
    const { key } = await newBuyer(ground);
    const state = await mcpFolder();
    await using _state = state;
    const command: McpCommand = state.command(key, ...flags());
    await using mcp = startMcp(command);
    const line = await mcp.started;
    assert.match(
      line,
      /MCP on standard input and output: buys from http.*at most 0\.05 USD a call, 0\.012 USD a session/,
    );
    openMcp(mcp);
    const paid = await callTool(mcp, 2, "call_service", GAS_PRICE);
    assert.notEqual(paid.isError, true, textOf(paid));
    bought += 1;
    const second = mcp.answer(3);
    mcp.child.stdin?.write(
      'this is no JSON\n{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"nope"}}\n',
    );
    assert.match(JSON.stringify(await second), /-32602/);
    mcp.child.stdin?.end();
    assert.equal(await mcp.ended, 0);
    const journals = join(state.folder, "turnpike", "mcp");
    const [file = ""] = (await readdir(journals)).filter((name) => name.endsWith(".jsonl"));
    const [, payment = ""] = /"payment":"([^"]+)"/.exec(await readFile(join(journals, file), "utf8")) ?? [];
    assert.ok(payment.length > 200);
    const { payload } = JSON.parse(Buffer.from(payment, "base64").toString("utf8")) as {
      payload: { signature: string };
    };
    const written = [...mcp.stdout, ...mcp.stderr].join("\n");
    for (const secret of [key.slice(2), payment, payload.signature.slice(2)]) assert.ok(!written.includes(secret));
    for (const one of mcp.stdout) assert.equal((JSON.parse(one) as { jsonrpc: string }).jsonrpc, "2.0");
  });
});
