import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { after, before, beforeEach, suite, test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { eventually } from "@turnpike/testkit";
import { type PaidRequest, receipt, type StandInGateway, said, startStandInGateway } from "../test/gateway.ts";
import { rawClient, readRaw, sendRaw, startHttpServer } from "../test/http-server.ts";

const VERSIONS = ["2025-03-26", "2025-06-18"];

const call = (id: number | string, n: number) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name: "call_service", arguments: { service_id: "eth", request: { method: "eth_blockNumber", id: n } } },
});

const isResumed = (body: string): boolean => /"resumed":true/.test(body);

suite("delivery of bought answers over HTTP", () => {
  let gateway: StandInGateway;
  let paid: { readonly request: PaidRequest; readonly response: ServerResponse }[];
  before(async () => {
    gateway = await startStandInGateway();
  });
  beforeEach(() => {
    gateway.paid.length = 0;
    paid = [];
    gateway.onPaid = (request, response) => paid.push({ request, response }) > 0;
  });
  after(async () => {
    await gateway?.[Symbol.asyncDispose]();
  });

  const arrival = async (n: number) => {
    const isOf = ({ request }: { readonly request: PaidRequest }): boolean =>
      (request.body as { readonly id: number }).id === n;
    await eventually("the payment arrives", () => paid.some(isOf));
    const { response } = paid.find(isOf) ?? assert.fail();
    return (data: unknown) => response.writeHead(200, receipt()).end(JSON.stringify({ portal: {}, data }));
  };
  const paymentsOf = (n: number): number =>
    new Set(gateway.paid.filter(({ body }) => (body as { readonly id: number }).id === n).map(({ payment }) => payment))
      .size;

  for (const version of VERSIONS) {
    test(`attack: a batch is refused before anything is bought: ${version}`, async () => {
      const { server, signer } = await startHttpServer(gateway);
      await using _server = server;
      const client = await rawClient(server, version);
      for (const batch of [[call(11, 1), call(12, 2)], [call(11, 1)], []]) {
        const { status, body } = await client.read(batch);
        assert.equal(status, 400);
        const { error, id } = JSON.parse(body) as { error: { code: number; message: string }; id: unknown };
        assert.deepEqual([error.code, id], [-32_600, null]);
        assert.match(error.message, /batch/i);
      }
      assert.equal(signer.count, 0);
    });

    test(`attack: a second request with an id in flight is refused, and the first has its own answer: ${version}`, async () => {
      const { server, signer, journal } = await startHttpServer(gateway);
      await using _server = server;
      const client = await rawClient(server, version);
      const first = client.read(call(1, 1));
      const sell = await arrival(1);
      const second = await client.read(call(1, 2));
      assert.equal(second.status, 400, second.body);
      assert.match(second.body, /in flight/);
      assert.equal(signer.count, 1);
      sell("ANSWER-1");
      assert.match((await first).body, /ANSWER-1/);
      await eventually("it is acknowledged", () => journal.pendingCount() === 0);
      const later = client.read(call(1, 2));
      (await arrival(2))("ANSWER-2");
      assert.match((await later).body, /ANSWER-2/, "an id may be used again when its answer was sent");
    });

    test(`attack: the id of a call stays in flight when its connection is gone: ${version}`, async () => {
      const { server, journal } = await startHttpServer(gateway);
      await using _server = server;
      const client = await rawClient(server, version);
      const gone = client.post(call(1, 1));
      const sell = await arrival(1);
      gone.destroy();
      await once(gone, "close");
      await eventually("its connection is closed", async () => (await client.read(call(1, 2))).status === 400);
      sell("ANSWER-1");
      await eventually("it has ended", () => journal.sums().chargedMicroUsd > 0n);
      assert.equal(journal.pendingCount(), 1);
      const again = client.read(call(2, 1));
      await eventually("it is presented again", () => paid.length >= 2);
      paid[1]?.response.writeHead(200, receipt()).end(JSON.stringify({ portal: {}, data: "ANSWER-1" }));
      const { body } = await again;
      assert.deepEqual([isResumed(body), paymentsOf(1)], [true, 1], body);
      await eventually("it is acknowledged", () => journal.pendingCount() === 0);
    });

    test(`attack: a client that reads nothing leaves its answer presentable: ${version}`, async () => {
      const { server, signer, journal } = await startHttpServer(gateway, { maxDataCharacters: 4_000_000 });
      await using _server = server;
      const client = await rawClient(server, version);
      const deaf = client.post(call(11, 1));
      deaf.on("response", (response) => response.pause().on("error", () => {}));
      (await arrival(1))("x".repeat(3_000_000));
      await eventually("it has ended", () => journal.sums().chargedMicroUsd > 0n);
      await eventually("the server writes", () => (deaf.socket?.bytesRead ?? 0) > 10_000);
      assert.equal(journal.pendingCount(), 1);
      deaf.destroy();
      await once(deaf, "close");
      gateway.onPaid = undefined;
      const { body } = await client.read(call(13, 1));
      assert.deepEqual([isResumed(body), signer.count, paymentsOf(1)], [true, 1, 1]);
      await eventually("it is acknowledged", () => journal.pendingCount() === 0);
    });

    test(`attack: a session that is ended while its call is in flight acknowledges nothing: ${version}`, async () => {
      const { server, journal } = await startHttpServer(gateway);
      await using _server = server;
      const client = await rawClient(server, version);
      const cut = client.read(call(1, 1)).catch(() => undefined);
      const sell = await arrival(1);
      await readRaw(sendRaw(server, client.headers, "", { method: "DELETE" }));
      sell("ANSWER-1");
      await cut;
      await eventually("it has ended", () => journal.pendingCount() === 1);
      const next = await rawClient(server, version);
      gateway.onPaid = undefined;
      const { body } = await next.read(call(2, 1));
      assert.deepEqual([isResumed(body), paymentsOf(1)], [true, 1], body);
    });
  }

  test("the official client's answers are acknowledged, one after another and at once", async () => {
    gateway.onPaid = undefined;
    const { server, signer, journal } = await startHttpServer(gateway);
    await using _server = server;
    for (const mode of ["legacy", "auto"] as const) {
      const client = new Client({ name: "test", version: "0" }, { versionNegotiation: { mode } });
      await client.connect(new StreamableHTTPClientTransport(new URL(server.url)));
      const before = signer.count;
      const results = await Promise.all([1, 2, 3].map((n) => client.callTool(call(0, n).params)));
      for (const result of results) assert.equal(result.isError, undefined, said(result));
      await eventually("all are acknowledged", () => journal.pendingCount() === 0);
      const again = await client.callTool(call(0, 1).params);
      assert.equal(isResumed(JSON.stringify(again.structuredContent)), false, "an answer that was delivered is over");
      await eventually("all are acknowledged", () => journal.pendingCount() === 0);
      assert.equal(signer.count - before, 4);
      await client.close();
    }
  });
});
