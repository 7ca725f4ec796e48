import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, before, suite, test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { isAppError } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { errorOf, receipt, type StandInGateway, said, startStandInGateway } from "../test/gateway.ts";
import { type HttpBend, initialize, readRaw, sendRaw, startHttpServer } from "../test/http-server.ts";
import type { McpHttpServer } from "./index.ts";

const BLOCK = { method: "eth_blockNumber", params: [] };
const INITIALIZE = initialize();

suite("MCP over streamable HTTP", () => {
  let gateway: StandInGateway;
  before(async () => {
    gateway = await startStandInGateway();
  });
  after(async () => {
    await gateway?.[Symbol.asyncDispose]();
  });

  const served = (bend?: HttpBend) => startHttpServer(gateway, bend);

  const raw = (
    server: McpHttpServer,
    headers: Record<string, string>,
    body: string = JSON.stringify(INITIALIZE),
    method = "POST",
    path = "/mcp",
  ) => readRaw(sendRaw(server, headers, body, { method, path }));

  const client = async ({ url }: McpHttpServer, mode: "legacy" | "auto" = "legacy") => {
    const made = new Client({ name: "test", version: "0" }, { versionNegotiation: { mode } });
    const transport = new StreamableHTTPClientTransport(new URL(url));
    await made.connect(transport);
    const buy = (id: number) =>
      made.callTool({ name: "call_service", arguments: { service_id: "eth", request: { ...BLOCK, id } } });
    return { made, transport, buy, [Symbol.asyncDispose]: () => made.close() };
  };

  test("attack: two sessions do not share a session's budget, and share the total", async () => {
    const { server, signer } = await served({ perSessionMicroUsd: 10_000n, totalUsd: "0.015" });
    await using _server = server;
    await using one = await client(server);
    await using two = await client(server);
    assert.equal(server.sessions(), 2);
    assert.equal((await one.buy(1)).isError, undefined);
    assert.equal((await one.buy(2)).isError, undefined);
    assert.match(said(await one.buy(3)), /left/);
    assert.equal((await two.buy(4)).isError, undefined);
    const last = await two.buy(5);
    assert.equal(errorOf(last).code, "BUDGET_SPENT");
    assert.match(said(last), /budget of 0\.015000 USD/);
    assert.equal(signer.count, 3);
  });

  for (const mode of ["legacy", "auto"] as const) {
    test(`attack: a result that cannot be delivered is there for the identical call, once paid: ${mode}`, async () => {
      const { server, signer, journal } = await served();
      await using _server = server;
      const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      gateway.onPaid = (_, response) => {
        arrive();
        void released.then(() => response.writeHead(200, receipt()).end(JSON.stringify({ portal: {}, data: 1 })));
        return true;
      };
      const gone = await client(server, mode);
      gone.buy(1).catch(() => undefined);
      await arrived;
      await gone.made.close();
      await using next = await client(server, mode);
      release();
      // Over HTTP without sessions a connection that ends is a call that is cancelled.
      if (mode === "legacy") await eventually("it has ended", () => journal.sums().chargedMicroUsd > 0n);
      const result = await next.buy(1);
      assert.equal(result.isError, undefined, said(result));
      const { payment } = result.structuredContent as { payment: { resumed: boolean } };
      if (mode === "legacy") assert.equal(payment.resumed, true);
      assert.deepEqual([signer.count, journal.sums().chargedMicroUsd], [1, 5_000n]);
      await eventually("it is acknowledged", () => journal.pendingCount() === 0);
      gateway.onPaid = undefined;
    });
  }

  test("attack: identical calls of two sessions at once are paid once, and both have the answer", async () => {
    const { server, signer, journal } = await served();
    await using _server = server;
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    gateway.onPaid = (_, response) => {
      arrive();
      void released.then(() => response.writeHead(200, receipt()).end(JSON.stringify({ portal: {}, data: 1 })));
      return true;
    };
    await using one = await client(server);
    await using two = await client(server);
    const first = one.buy(1);
    await arrived;
    const second = two.buy(1);
    await two.made.callTool({ name: "get_spending", arguments: {} });
    release();
    for (const [at, result] of (await Promise.all([first, second])).entries()) {
      assert.equal(result.isError, undefined, said(result));
      const { payment } = result.structuredContent as { payment: { resumed: boolean } };
      assert.equal(payment.resumed, at === 1);
    }
    assert.deepEqual([signer.count, journal.sums().chargedMicroUsd], [1, 5_000n]);
    await eventually("it is acknowledged", () => journal.pendingCount() === 0);
    gateway.onPaid = undefined;
  });

  test("clients of the revision without sessions share one budget", async () => {
    const { server, signer } = await served({ perSessionMicroUsd: 10_000n });
    await using _server = server;
    await using one = await client(server, "auto");
    await using two = await client(server, "auto");
    assert.equal(server.sessions(), 0, "the revision of 2026 was negotiated");
    assert.equal((await one.buy(1)).isError, undefined);
    assert.equal((await two.buy(2)).isError, undefined);
    assert.equal(errorOf(await two.buy(3)).code, "BUDGET_SPENT");
    assert.equal(signer.count, 2);
  });

  test("attack: DNS rebinding: a foreign Host, or the Origin of a page, is refused", async () => {
    const { server } = await served({ allowedHosts: ["agents.example"], allowedOrigins: ["https://agents.example"] });
    await using _server = server;
    for (const host of [
      "evil.example",
      "evil.example:3333",
      "127.0.0.1.evil.example",
      "localhost.evil.example",
      "[::1",
    ]) {
      assert.equal((await raw(server, { host })).status, 403, host);
    }
    for (const origin of [
      "https://evil.example",
      "null",
      "http://localhost:8000",
      "https://agents.example.evil.example",
    ]) {
      assert.equal((await raw(server, { origin })).status, 403, origin);
    }
    assert.equal(server.sessions(), 0);
    for (const host of ["localhost", "127.0.0.1:80", "[::1]:3333", "AGENTS.example"]) {
      assert.equal((await raw(server, { host })).status, 200, host);
    }
    const allowed = await raw(server, { origin: "https://agents.example" });
    assert.equal(allowed.headers["access-control-allow-origin"], "https://agents.example");
    const before = await raw(server, { origin: "https://agents.example" }, "", "OPTIONS");
    assert.equal(before.status, 204);
  });

  test("attack: an address that others reach needs a token, and only who bears it is served", async () => {
    await assert.rejects(served({ host: "0.0.0.0" }), (error) => isAppError(error, "USAGE"));
    const { server } = await served({ host: "0.0.0.0", token: "a-token-of-this-test" });
    await using _server = server;
    for (const authorization of ["", "Bearer", "Bearer wrong", "Basic a-token-of-this-test", "a-token-of-this-test"]) {
      const answer = await raw(server, { authorization });
      assert.equal(answer.status, 401, authorization);
      assert.match(answer.headers["www-authenticate"] ?? "", /^Bearer/);
    }
    assert.equal((await raw(server, { authorization: "Bearer a-token-of-this-test" })).status, 200);
    const rebound = await raw(server, { authorization: "Bearer a-token-of-this-test", host: "evil.example" });
    assert.equal(rebound.status, 403);
  });

  test("attack: sessions are bounded, and DELETE ends one", async () => {
    const { server } = await served({ maxSessions: 2 });
    await using _server = server;
    const first = await raw(server, {});
    await raw(server, {});
    const full = await raw(server, {});
    assert.equal(full.status, 503);
    assert.match(full.body, /Too many sessions/);
    const id = String(first.headers["mcp-session-id"]);
    assert.equal((await raw(server, { "mcp-session-id": id }, "", "DELETE")).status, 200);
    assert.equal(server.sessions(), 1);
    const list = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "tools/list" });
    assert.equal((await raw(server, { "mcp-session-id": id }, list)).status, 404);
    assert.equal((await raw(server, {})).status, 200);
  });

  test("a session that asks nothing is ended; its id is no way back to its budget", async () => {
    let now = 0;
    const { server } = await served({ idleMs: 60_000, nowMs: () => now, maxSessions: 1 });
    await using _server = server;
    const first = await raw(server, {});
    now = 59_000;
    assert.equal((await raw(server, {})).status, 503);
    now = 61_000;
    assert.equal((await raw(server, {})).status, 200);
    const list = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "tools/list" });
    const gone = await raw(server, { "mcp-session-id": String(first.headers["mcp-session-id"]) }, list);
    assert.equal(gone.status, 404);
  });

  test("attack: bodies that are too large, no JSON, or of another type, and other paths", async () => {
    const { server } = await served({ maxBodyBytes: 2_000 });
    await using _server = server;
    assert.equal((await raw(server, {}, "x".repeat(3_000))).status, 413);
    assert.equal((await raw(server, {}, "{")).status, 400);
    assert.equal((await raw(server, { "content-type": "text/plain" })).status, 415);
    assert.equal((await raw(server, {}, "[]")).status, 400);
    assert.equal((await raw(server, {}, '{"jsonrpc":"2.0","id":1,"method":"tools/list"}')).status, 400);
    assert.equal((await raw(server, {}, "", "GET")).status, 405);
    assert.equal((await raw(server, {}, JSON.stringify(INITIALIZE), "POST", "/")).status, 404);
    assert.equal((await raw(server, { "mcp-session-id": "guessed" })).status, 404);
    assert.equal(server.sessions(), 0);
  });

  test("a port that is taken is reported", async () => {
    const { server } = await served();
    await using _server = server;
    await assert.rejects(served({ port: server.port }), (error) => isAppError(error, "PORT_IN_USE"));
  });

  test("a stop lets a call under way end, and takes no new ones", async () => {
    const { promise: arrived, resolve } = Promise.withResolvers<() => void>();
    gateway.onPaid = (_, response) => {
      const body = JSON.stringify({ portal: { schemaCheck: "passed" }, data: "late" });
      resolve(() => {
        response.writeHead(200, { "content-type": "application/json", ...receipt() }).end(body);
      });
      return true;
    };
    const { server, journal } = await served();
    await using one = await client(server);
    const call = one.buy(1);
    const answer = await arrived;
    gateway.onPaid = undefined;
    const stopped = server[Symbol.asyncDispose]();
    answer();
    assert.match(said(await call), /late/);
    await stopped;
    assert.equal(journal.sums().openMicroUsd, 0n);
    const socket = connect(server.port, "127.0.0.1");
    await assert.rejects(once(socket, "connect"));
  });

  test("a stop that a call outlasts leaves its payment open, in the journal", async () => {
    const { promise: arrived, resolve } = Promise.withResolvers<void>();
    gateway.onPaid = () => {
      resolve();
      return true;
    };
    const { server, journal } = await served({ drainMs: 10 });
    await using one = await client(server);
    void one.buy(1).catch(() => {});
    await arrived;
    gateway.onPaid = undefined;
    await server[Symbol.asyncDispose]();
    assert.equal(journal.open().length, 1);
  });
});
