import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { suite, test } from "node:test";
import { jsonText, type Metrics, noMetrics, type RequestId, type ServiceId, silentLog } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { type FreeRequest, mintFree, mintParsed } from "@turnpike/protocol";
import { eventually, probeResult, startUpstream, type Upstream, virtualClock } from "@turnpike/testkit";
import { engineOptions } from "../../test/engine-options.ts";
import { createRelayEngine } from "../create-relay-engine.ts";
import { parseFreeRpc } from "../families/free-call.ts";
import { relayAttemptsTotal } from "../metrics.ts";
import type { RelayEngine } from "./relay-engine.ts";

const { services } = createCatalogue({});
const clock = virtualClock();
const eth = services.get("eth" as ServiceId);
assert.ok(eth !== undefined);

const DEADLINE_MS = 2_000;
/** Time-outs come so late at most: two steps of the relay's deadlines. */
const LATE_MS = 20;

interface Asked {
  readonly id: number;
  readonly method: string;
  readonly params: readonly unknown[];
}

const balance = (id: number, account: string): Asked => ({ id, method: "eth_getBalance", params: [account, "latest"] });

function request(asked: Asked, timeoutMs: number): FreeRequest {
  const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...asked }));
  const at = body.indexOf('"id":') + 5;
  const id = { start: at, end: at + String(asked.id).length };
  const { method, params } = asked;
  const texts = { bodyText: jsonText(body), rawId: String(asked.id) };
  const parsed = parseFreeRpc(eth as never, {
    method,
    params,
    body,
    ...texts,
    id,
    paramsSpan: undefined,
    isPlain: true,
  });
  assert.ok(parsed.ok);
  const facts = { requestId: "r" as RequestId, client: "c", serviceId: "eth" as ServiceId, call: parsed.call };
  return mintFree({
    request: mintParsed({ ...facts, requestHash: new Uint8Array(0) }),
    deadlineMs: clock.monotonicMs() + timeoutMs,
  });
}

/** A node that answers balances with their account; `batch` takes a batch with a poisonous call, `alone` that call. */
async function startPoisonable(
  batch: (response: ServerResponse) => void,
  alone: (response: ServerResponse) => void,
): Promise<Upstream> {
  return startUpstream(({ text }, response) => {
    const isBatch = text.startsWith("[");
    const calls = JSON.parse(isBatch ? text : `[${text}]`) as Asked[];
    if (calls.some(({ params }) => params[0] === "0xbad")) {
      (isBatch ? batch : alone)(response);
      return;
    }
    const answers = calls.map(({ id, method, params }) => {
      const isBalance = method === "eth_getBalance";
      const rest = isBalance ? `"result":"${String(params[0])}"` : probeResult({ method }, "0x1", "0x64");
      return `{"jsonrpc":"2.0","id":${id},${rest}}`;
    });
    response.end(isBatch ? `[${answers.join(",")}]` : (answers[0] ?? ""));
  });
}

function relayTo(upstream: Upstream, metrics: Metrics = noMetrics): RelayEngine {
  const endpoints = [{ operator: "one", urls: { json_rpc: upstream.url } }];
  return createRelayEngine(
    {
      ...engineOptions,
      suppliers: { eth: { endpoints, timeoutMs: 60_000, maxAttempts: 3 } },
      probeIntervalMs: 60_000,
      connectTimeoutMs: 60_000,
    },
    { catalogue: services, clock, log: silentLog, metrics, random: () => 0 },
  );
}

async function ask(relay: RelayEngine, timeoutMs = 180_000): Promise<readonly string[]> {
  const asked = [balance(1, "0x1"), balance(2, "0xbad"), balance(3, "0x3")];
  const results = await relay.sendBatch(asked.map((one) => request(one, timeoutMs)));
  return results.map((result) => (result.ok ? Buffer.from(result.body).toString() : result.code));
}

const good = (id: number): string => `{"jsonrpc":"2.0","id":${id},"result":"0x${id}"}`;

suite("a batch with one call that breaks it", () => {
  test("a supplier that fails it whole is asked call by call, and the others are answered", async () => {
    const fail = (response: ServerResponse): void => void response.writeHead(500).end("oops");
    await using upstream = await startPoisonable(fail, fail);
    await using relay = relayTo(upstream);
    assert.deepEqual(await ask(relay), [good(1), "SUPPLIERS_FAILED", good(3)]);
  });

  test("a supplier that answers when all is done: the slow call alone runs out of time", async () => {
    let hanging = 0;
    const hang = (): void => void hanging++;
    await using upstream = await startPoisonable(hang, hang);
    let answered = 0;
    const count: Metrics["count"] = (spec, labels) => {
      if (spec === relayAttemptsTotal && labels?.outcome === "good") answered++;
    };
    await using relay = relayTo(upstream, { ...noMetrics, count });
    await relay.start();
    const results = ask(relay, DEADLINE_MS);
    await eventually("the batch is sent", () => hanging === 1);
    // Half of the time is the batch's, half is left for its calls.
    clock.advance(DEADLINE_MS / 2 + LATE_MS);
    await eventually("the slow call is sent by itself", () => hanging === 2);
    await eventually("the others are answered", () => answered === 2);
    clock.advance(DEADLINE_MS / 2);
    assert.deepEqual(await results, [good(1), "DEADLINE_EXCEEDED", good(3)]);
  });
});
