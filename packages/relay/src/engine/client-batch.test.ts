import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { jsonText, noMetrics, type RequestId, type ServiceId, silentLog } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { type FreeRequest, mintFree, mintParsed } from "@turnpike/protocol";
import { eventually, rpcAnswer, startEvmUpstream, type Upstream, virtualClock } from "@turnpike/testkit";
import { engineOptions } from "../../test/engine-options.ts";
import { createRelayEngine } from "../create-relay-engine.ts";
import { parseFreeRpc } from "../families/free-call.ts";
import type { RelayOutcome } from "../types.ts";
import type { RelayEngine } from "./relay-engine.ts";

const { services } = createCatalogue({});
const clock = virtualClock();
const eth = services.get("eth" as ServiceId);
assert.ok(eth !== undefined);

const MIB = 1_048_576;
/** What the answers of one batch are together at most. */
const MOST = 32 * MIB;
const CALLS = 40;

function request(id: number, method: string, params: readonly unknown[]): FreeRequest {
  const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
  const at = body.indexOf('"id":') + 5;
  const span = { start: at, end: at + String(id).length };
  const read = { body, bodyText: jsonText(body), id: span, rawId: String(id), paramsSpan: undefined, isPlain: true };
  const parsed = parseFreeRpc(eth as never, { method, params, ...read });
  assert.ok(parsed.ok);
  const facts = { requestId: "r" as RequestId, client: "c", serviceId: "eth" as ServiceId, call: parsed.call };
  return mintFree({
    request: mintParsed({ ...facts, requestHash: new Uint8Array(0) }),
    deadlineMs: clock.monotonicMs() + 180_000,
  });
}

const logs = (id: number, topic = "0x1"): FreeRequest =>
  request(id, "eth_getLogs", [{ fromBlock: "0x1", toBlock: "0x1", topics: [topic] }]);

const block = (id: number): FreeRequest => request(id, "eth_getBlockByNumber", ["0x1", true]);
const sent = (id: number): FreeRequest => request(id, "eth_sendRawTransaction", ["0x00"]);

/** A node whose every answer but that to a transaction has so many bytes. */
function startLarge(bytes: number): Promise<Upstream> {
  return startEvmUpstream((call, response) => {
    if (call.method === "eth_sendRawTransaction") response.end(rpcAnswer(call, '"result":"0xabc"'));
    else response.end(rpcAnswer(call, `"result":[{"number":"0x1","data":"${"a".repeat(bytes)}"}]`));
  });
}

function relayTo(upstream: Upstream): RelayEngine {
  const endpoints = [{ operator: "one", urls: { json_rpc: upstream.url } }];
  const suppliers = { eth: { endpoints, timeoutMs: 60_000, maxAttempts: 1 } };
  const modules = { catalogue: services, clock, log: silentLog, metrics: noMetrics, random: () => 0 };
  return createRelayEngine({ ...engineOptions, suppliers, probeIntervalMs: 60_000, connectTimeoutMs: 60_000 }, modules);
}

/** Bytes of the answers, and how many there are none of because they are too much. */
function weigh(results: readonly RelayOutcome[]): { readonly bytes: number; readonly refused: number } {
  let bytes = 0;
  let refused = 0;
  for (const result of results) {
    if (result.ok) bytes += result.body.length;
    else {
      assert.equal(result.code, "ANSWER_TOO_LARGE");
      refused++;
    }
  }
  return { bytes, refused };
}

suite("the answers of one batch together are bounded", () => {
  test("equal calls: the answer is copied no more often than there is room", async () => {
    await using upstream = await startLarge(MIB);
    await using relay = relayTo(upstream);
    const results = await relay.sendBatch(Array.from({ length: CALLS }, (_, id) => logs(id)));
    const { bytes, refused } = weigh(results);
    assert.ok(bytes <= MOST && bytes > MOST - 2 * MIB, String(bytes));
    assert.ok(refused > 0);
    for (const [id, result] of results.entries()) {
      if (result.ok) assert.ok(Buffer.from(result.body.subarray(0, 40)).includes(`"id":${id},`));
    }
    assert.equal(upstream.paid().length, 1);
  });

  test("calls that differ: those there is no room for are not even asked for, but for what may write", async () => {
    await using upstream = await startLarge(MIB);
    await using relay = relayTo(upstream);
    const calls = Array.from({ length: 2 * CALLS }, (_, id) => logs(id, `0x${id}`));
    const results = await relay.sendBatch([...calls, sent(1_000)]);
    const last = results.at(-1);
    assert.ok(last?.ok === true && Buffer.from(last.body).includes('"0xabc"'));
    assert.ok(weigh(results).bytes <= MOST + 1_024);
    assert.ok(upstream.paid().length < calls.length, String(upstream.paid().length));
  });

  test("kept answers count too", async () => {
    await using upstream = await startLarge(MIB - 4_096);
    await using relay = relayTo(upstream);
    // Large answers are kept when they are asked for again.
    for (let id = 0; id < 3; id++) {
      assert.ok((await relay.send(block(id))).ok);
      // An answer is kept when the turn that gave it is over.
      await new Promise((resolve) => setImmediate(resolve));
    }
    await eventually("the answer is kept", () => relay.memory.cache.entries === 1);
    const asked = upstream.paid().length;
    const { bytes, refused } = weigh(await relay.sendBatch(Array.from({ length: CALLS }, (_, id) => block(id))));
    assert.equal(upstream.paid().length, asked, "the answers were not kept");
    assert.ok(bytes <= MOST, String(bytes));
    assert.ok(refused > 0);
  });

  test("what others wait for is theirs, whatever room the batch has", async () => {
    const isAsked = Promise.withResolvers<void>();
    const mayAnswer = Promise.withResolvers<void>();
    const text = `"result":[{"data":"${"a".repeat(MIB - 4_096)}"}]`;
    await using upstream = await startEvmUpstream((call, response) => {
      isAsked.resolve();
      void mayAnswer.promise.then(() => response.end(rpcAnswer(call, text)));
    });
    await using relay = relayTo(upstream);
    const batch = relay.sendBatch(Array.from({ length: CALLS }, (_, id) => logs(id)));
    await isAsked.promise;
    const other = relay.send(logs(7_777));
    mayAnswer.resolve();
    assert.ok(weigh(await batch).refused > 0);
    const result = await other;
    assert.ok(result.ok && Buffer.from(result.body.subarray(0, 40)).includes('"id":7777,'));
    assert.equal(upstream.paid().length, 1);
  });
});
