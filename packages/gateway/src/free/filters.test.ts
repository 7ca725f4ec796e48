import assert from "node:assert/strict";
import { request } from "node:http";
import { suite, test } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { createRelayEngine } from "@turnpike/relay";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { rpcAnswer, startEvmUpstream } from "@turnpike/testkit";
import { relayOptions } from "../../test/options.ts";
import { startTestGateway, type TestGateway } from "../../test/stand-ins.ts";

/** Sends a call from an address of this machine; its answer as text. */
async function post(to: TestGateway, localAddress: string, body: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const sent = request(`${to.url}/relay/eth`, { method: "POST", localAddress, agent: false }, (res) => {
    const parts: Buffer[] = [];
    res.on("data", (part: Buffer) => parts.push(part));
    res.on("end", () => resolve(Buffer.concat(parts).toString()));
  });
  sent.on("error", reject);
  sent.end(body);
  return promise;
}

const call = (method: string, params: unknown = []): string =>
  JSON.stringify({ jsonrpc: "2.0", id: 7, method, params });
const NOT_FOUND = '{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"filter not found"}}';

suite("filters on the free relay", () => {
  test("a client's filter cannot be read, emptied or removed by another, alone, in a batch or as a notification", async () => {
    // Numbers its filters one after another, as some nodes do, and does not distinguish clients.
    let made = 0;
    await using node = await startEvmUpstream((asked, response) => {
      const isNew = asked.method.startsWith("eth_new");
      response.end(rpcAnswer(asked, `"result":${isNew ? `"0x${++made}"` : "[1]"}`));
    });
    const modules = {
      catalogue: createCatalogue().services,
      clock: systemClock,
      log: silentLog,
      metrics: new PrometheusMetrics({ processMetrics: false }),
      random: Math.random,
    };
    const endpoints = [{ operator: "node", urls: { json_rpc: node.url } }];
    await using relay = createRelayEngine(
      { ...relayOptions, suppliers: { eth: { endpoints, timeoutMs: 60_000, maxAttempts: 2 } } },
      modules,
    );
    await using to = await startTestGateway({}, { catalogue: createCatalogue(), relay });
    const [owner, other] = ["127.0.0.9", "127.0.0.10"];
    const { result: id } = JSON.parse(await post(to, owner, call("eth_newFilter", [{}]))) as { result: string };
    const before = node.paid().length;
    for (const method of ["eth_getFilterChanges", "eth_getFilterLogs", "eth_uninstallFilter"]) {
      for (const tried of [id, "0x1"]) {
        assert.equal(await post(to, other, call(method, [tried])), NOT_FOUND, method);
        assert.equal(await post(to, other, `[${call(method, [tried])}]`), `[${NOT_FOUND}]`);
        await post(to, other, JSON.stringify({ jsonrpc: "2.0", method, params: [tried] }));
      }
    }
    assert.equal(node.paid().length, before);
    assert.match(await post(to, owner, call("eth_getFilterChanges", [id])), /"result":\[1\]/);
    assert.equal(JSON.stringify(node.paid().at(-1)?.params), '["0x1"]');
  });
});
