import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { ChainClient, PocketQueries } from "@turnpike/chain-client";
import { loadConfig } from "@turnpike/config";
import { decodeRelayResponse, type SessionHeader } from "@turnpike/protocol";
import { readSupplyReport, type SupplyReport } from "@turnpike/supplier";
import { eventually } from "@turnpike/testkit";
import { chainParty, jsonRpcPayload, signRelayRequest, startTestChain, type TestChain } from "@turnpike/testkit/chain";
import { startSupplier } from "./supplier.ts";

async function scratch(): Promise<{ readonly folder: string } & AsyncDisposable> {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-wiring-supplier-"));
  return { folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
}

async function backEnd(): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer((_, response) => response.end('{"jsonrpc":"2.0","id":1,"result":"0x2a"}'));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A proxy before a node, which keeps questions for sessions to itself while it holds. */
async function holdingProxy(nodeUrl: string) {
  const to = new URL(nodeUrl);
  const held = { isHolding: false, count: 0 };
  const sockets = new Set<Socket>();
  const server = createTcpServer((client) => {
    const node = connect(Number(to.port), to.hostname);
    for (const [socket, other] of [
      [client, node],
      [node, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => other.destroy());
    }
    client.on("data", (bytes) => {
      if (held.isHolding && bytes.includes("Query/GetSession")) held.count++;
      else node.write(bytes);
    });
    node.pipe(client);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    held,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function sessionOf(chain: TestChain, queries: PocketQueries, name: string): Promise<SessionHeader> {
  const found = await queries.session(chainParty(name).address, "eth", chain.heightBlocks);
  assert.ok(found.ok && found.value.header !== undefined);
  const { $typeName: _, ...header } = found.value.header;
  return header;
}

async function statusOf(metricsUrl: string): Promise<SupplyReport> {
  const answer = await fetch(`${metricsUrl}/status`);
  assert.equal(answer.status, 200);
  return (await answer.json()) as SupplyReport;
}

suite("a supplier as it is wired", () => {
  test("two operators of one process serve, claim, prove and are paid; the status says so, live and from the folder", async () => {
    await using chain = await startTestChain({
      params: { proof: { proof_request_probability: 1 } },
      suppliers: { "wired supplier": { services: ["eth"] }, "wired second": { services: ["eth"] } },
    });
    await chain.reach(2n);
    await using node = await backEnd();
    await using state = await scratch();
    const names = ["wired supplier", "wired second"] as const;
    for (const name of names) {
      const privateKey = Buffer.from(chainParty(name).privateKey).toString("hex");
      await writeFile(join(state.folder, `${name}.json`), JSON.stringify({ privateKey }), { mode: 0o600 });
    }
    const stateFolder = join(state.folder, "relays");
    const config = loadConfig({
      env: {},
      overrides: {
        supplier: {
          nodeUrl: chain.rpcUrl,
          stateFolder,
          keys: names.map((name) => ({ operatorKeyFile: join(state.folder, `${name}.json`), port: 0 })),
          services: { eth: { backends: { json_rpc: { url: node.url } } } },
          metrics: { port: 0 },
          signingThreads: 0,
        },
      },
    });
    const running = await startSupplier(config, { log: silentLog });
    await using _ = running;
    await using client = new ChainClient({ url: chain.rpcUrl }, { clock: systemClock });
    const queries = new PocketQueries({}, { client, clock: systemClock });
    const header = await sessionOf(chain, queries, "app");
    for (const [at, { address, url }] of running.operators.entries()) {
      for (let id = 0; id <= at; id++) {
        const body = signRelayRequest(header, jsonRpcPayload(`{"id":${id}}`), { supplierOperatorAddress: address });
        const answer = await fetch(url, { method: "POST", body: Buffer.from(body) });
        assert.equal(answer.status, 200);
        assert.notEqual(decodeRelayResponse(new Uint8Array(await answer.arrayBuffer()))?.signature.length, 0);
      }
    }
    const { metricsUrl } = running;
    assert.ok(metricsUrl);
    const open = await statusOf(metricsUrl);
    assert.deepEqual(
      open.operators.map(({ operatorAddress, all }) => [operatorAddress, all.relays.mined]),
      running.operators.map(({ address }, at) => [address, String(at + 1)]),
    );
    const phases = new Set<string>();
    // One block after the other, each when both operators have worked after the one before.
    for (let height = chain.heightBlocks; height < 22n; height = chain.heightBlocks) {
      await chain.produce();
      await eventually(`work after block ${height + 1n}`, async () => {
        const text = await (await fetch(`${metricsUrl}/metrics`)).text();
        const seen = [...text.matchAll(/^turnpike_supplier_claims_height_blocks\{[^}]*\} (\d+)$/gm)];
        return seen.length === 2 && seen.every(([, at]) => BigInt(at ?? 0) > height);
      });
      for (const { sessions } of (await statusOf(metricsUrl)).operators) phases.add(sessions[0]?.phase ?? "");
    }
    assert.deepEqual([...phases], ["open", "sealed", "claimed", "proven", "settled"]);
    const live = await statusOf(metricsUrl);
    assert.deepEqual(
      live.operators.map(({ all }) => [all.relays.settled, all.upokt.expected, all.upokt.settled, all.lost]),
      [
        ["1", "4200", "4200", {}],
        ["2", "8400", "8400", {}],
      ],
    );
    const metrics = await (await fetch(`${metricsUrl}/metrics`)).text();
    assert.match(metrics, /turnpike_supplier_relay_duration_seconds_count\{service="eth"\} 3/);
    assert.match(metrics, /turnpike_supplier_evidence_relays_total\{service="eth",outcome="mined"\} 3/);
    await running[Symbol.asyncDispose]();
    const stored = await readSupplyReport(stateFolder);
    assert.deepEqual(
      new Map(stored.operators.map(({ operatorAddress, all }) => [operatorAddress, `${all.upokt.settled}`])),
      new Map(live.operators.map(({ operatorAddress, all }) => [operatorAddress, `${all.upokt.settled}`])),
    );
  });

  test("unsigned relays that keep the node's answers open do not delay claims", async () => {
    await using chain = await startTestChain({ suppliers: { "wired supplier": { services: ["eth"] } } });
    await chain.reach(2n);
    await using node = await backEnd();
    await using proxy = await holdingProxy(chain.rpcUrl);
    await using state = await scratch();
    const operatorKeyFile = join(state.folder, "key.json");
    const privateKey = Buffer.from(chainParty("wired supplier").privateKey).toString("hex");
    await writeFile(operatorKeyFile, JSON.stringify({ privateKey }), { mode: 0o600 });
    const config = loadConfig({
      env: {},
      overrides: {
        supplier: {
          nodeUrl: proxy.url,
          stateFolder: join(state.folder, "relays"),
          keys: [{ operatorKeyFile, port: 0 }],
          services: { eth: { backends: { json_rpc: { url: node.url } } } },
          metrics: { port: 0 },
          signingThreads: 0,
        },
      },
    });
    await using running = await startSupplier(config, { log: silentLog });
    const [operator = assert.fail()] = running.operators;
    await using client = new ChainClient({ url: chain.rpcUrl }, { clock: systemClock });
    const queries = new PocketQueries({}, { client, clock: systemClock });
    const post = (header: SessionHeader, signal?: AbortSignal): Promise<Response> => {
      const body = signRelayRequest(header, jsonRpcPayload("{}"), { supplierOperatorAddress: operator.address });
      return fetch(operator.url, {
        method: "POST",
        body: Buffer.from(body),
        ...(signal === undefined ? {} : { signal }),
      });
    };
    const worked = (heightBlocks: bigint): Promise<boolean> =>
      eventually(`work after block ${heightBlocks}`, async () => {
        const text = await (await fetch(`${running.metricsUrl}/metrics`)).text();
        return text.includes(`claims_height_blocks{operator="${operator.address}"} ${heightBlocks}\n`);
      });
    assert.equal((await post(await sessionOf(chain, queries, "app"))).status, 200);
    await chain.reach(7n);
    await worked(7n);
    const header = await sessionOf(chain, queries, "app");
    proxy.held.isHolding = true;
    const ended = new AbortController();
    const ends = Array.from({ length: 64 }, async (_, i) => {
      const { address } = chainParty(`stranger ${i}`);
      await post({ ...header, applicationAddress: address }, ended.signal).catch(() => {});
      return "a stranger's relay";
    });
    // As many as the serving client has connections.
    await eventually("questions that are held", () => proxy.held.count >= 8);
    // The runner asks for the claims on the chain.
    await chain.produce();
    const work = worked(8n).then(() => "the claim runner");
    assert.equal(await Promise.race([work, ...ends]), "the claim runner");
    ended.abort();
    await Promise.all(ends);
  });
});
