import assert from "node:assert/strict";
import { test } from "node:test";
import { noMetrics, type RequestId, type ServiceId, type SettlementId, silentLog } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { mintPaid, mintParsed } from "@turnpike/protocol";
import { startRecordedNode, virtualClock } from "@turnpike/testkit";
import { engineOptions } from "../../test/engine-options.ts";
import { createRelayEngine } from "../create-relay-engine.ts";
import type { CallInput } from "../families/family.ts";
import { parsePaid } from "../families/registry.ts";

const ACCOUNT = "pokt173r2dgg0jce84fq60sc7wmasvrpesfjdf93pqz";
const { services } = createCatalogue({});
const clock = virtualClock();
const bodied = (body: unknown): CallInput => ({
  verb: "POST",
  appendedPath: "",
  query: "",
  body: Buffer.from(JSON.stringify(body)),
});
const at = (verb: "GET" | "POST", appendedPath: string, query = "", body = ""): CallInput => ({
  verb,
  appendedPath,
  query,
  body: Buffer.from(body),
});

const FORMS: readonly (readonly [string, CallInput, RegExp])[] = [
  ["a bare method", bodied({ method: "status" }), /^passed \{"jsonrpc":"2.0","id":1,"result":\{"node_info"/],
  ["a bare method with an id", bodied({ method: "health", id: "a" }), /^\w+ \{"jsonrpc":"2.0","id":"a","result":\{\}/],
  [
    "a bare method with id null",
    bodied({ method: "health", id: null }),
    /^\w+ \{"jsonrpc":"2.0","id":null,"result":\{\}/,
  ],
  ["a bare method with params", bodied({ method: "block", params: { height: "103" } }), /^passed .*"height":"103"/],
  [
    "an error of the request",
    bodied({ method: "block", params: { height: "102035" } }),
    /^unchecked .*"error":\{"code":-32603.*must be less than or equal/,
  ],
  [
    "GET <path> of the consensus engine",
    bodied({ method: "GET /status" }),
    /^passed \{"jsonrpc":"2.0","id":-1,"result"/,
  ],
  ["GET with a path of the consensus engine", at("GET", "/net_info"), /^passed \{"jsonrpc":"2.0","id":-1,"result"/],
  ["GET with a path and a query", at("GET", "/validators", "?height=103"), /^passed .*"block_height":"103"/],
  ["POST with a path and a query", at("POST", "/validators", "?height=103", "{}"), /^passed .*"block_height":"103"/],
  [
    "an error of a GET (status 500)",
    at("GET", "/block", "?height=abc"),
    /^unchecked .*"id":-1,"error":\{"code":-32602/,
  ],
  [
    "GET <path> of the REST API",
    bodied({ method: `GET /cosmos/bank/v1beta1/balances/${ACCOUNT}` }),
    /^passed \{"balances":\[/,
  ],
  [
    "GET with a path of the REST API and a query",
    at("GET", `/cosmos/bank/v1beta1/balances/${ACCOUNT}/by_denom`, "?denom=upokt"),
    /^passed \{"balance":\{"denom":"upokt"/,
  ],
  [
    "not found in the REST API (status 404)",
    at("GET", `/cosmos/tx/v1beta1/txs/${"0".repeat(64)}`),
    /^unchecked \{"code":5,/,
  ],
];

test("the Cosmos-style route in every form over sockets, against recorded answers of a real node", async (t) => {
  await using node = await startRecordedNode();
  const endpoint = { operator: "recorded", urls: { comet_bft: `${node.url}/`, rest: node.url } };
  await using relay = createRelayEngine(
    {
      ...engineOptions,
      connectTimeoutMs: 60_000,
      suppliers: { pocket: { endpoints: [endpoint], timeoutMs: 2_000, maxAttempts: 2 } },
    },
    { catalogue: services, clock, log: silentLog, metrics: noMetrics, random: () => 0 },
  );
  await relay.start();
  assert.deepEqual(relay.missing("pocket" as ServiceId), []);
  const service = services.get("pocket" as ServiceId);
  assert.ok(service !== undefined);
  for (const [name, input, expected] of FORMS) {
    await t.test(name, async () => {
      const parsed = parsePaid(service, input);
      assert.ok(parsed.ok, JSON.stringify(parsed));
      const request = mintParsed({
        requestId: "r" as RequestId,
        client: "c",
        serviceId: service.id,
        call: parsed.call,
        requestHash: Buffer.alloc(32),
      });
      const deadlineMs = clock.monotonicMs() + 5_000;
      const result = await relay.send(mintPaid({ request, settlementId: "s" as SettlementId, deadlineMs }));
      const seen = result.ok ? `${result.schemaCheck} ${Buffer.from(result.body).toString()}` : result.code;
      assert.match(seen, expected);
    });
  }
});
