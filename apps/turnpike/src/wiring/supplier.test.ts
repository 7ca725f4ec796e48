import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
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
});
