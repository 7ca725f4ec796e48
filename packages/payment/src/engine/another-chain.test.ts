import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import { AppError, isAppError, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { deployTestToken, devRpc, startAnvil } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { ANSWER, claim, NETWORK, openOwnBed, PRICE, stateOf, timeLimit } from "../../test/engine-fixtures.ts";
import { claimed, newAnswer, newEvidence, newLedger, testServer } from "../../test/ledger-fixtures.ts";
import { harnessOn, verdict, verify } from "../../test/verifier-fixtures.ts";
import { AnchoredRpc } from "../evm/anchored-rpc.ts";
import { EvmRpcClient, type RpcCall } from "../evm/rpc.ts";
import { createEngine } from "./engine.ts";

const server = testServer();
const FINALITY = 10;

/** A URL behind which the chain can be changed for another one; counts what it answers. */
async function openUrl(first: string) {
  const state = { target: first, answered: 0 };
  const pass = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { target } = state;
    const headers = { "content-type": "application/json" };
    const answer = await fetch(target, { method: "POST", headers, body: await buffer(request) });
    response.writeHead(answer.status, headers).end(Buffer.from(await answer.arrayBuffer()));
    state.answered++;
  };
  const proxy = createServer((request, response) => void pass(request, response));
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return {
    state,
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    /** Waits until so many more are answered: the engine has looked at the chain. */
    async looks(count: number): Promise<void> {
      const from = state.answered;
      await eventually("the chain is looked at", () => state.answered >= from + count);
    },
    async [Symbol.asyncDispose]() {
      proxy.closeAllConnections();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}

test("attack: another chain of the same id behind the URL ends no payment, and takes back no settlement", async () => {
  await using bed = await openOwnBed(server());
  await using other = await startAnvil({});
  await deployTestToken(other.url, { holders: [] });
  // There each window is long over.
  await devRpc(other.url, "anvil_mine", ["0x100", "0x64"]);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x20"]);
  await using url = await openUrl(bed.anvil.url);
  const nodes = new EvmRpcClient(
    { urls: [url.url], timeoutMs: 60_000, expectedChainId: 84532, restMs: 0 },
    { log: silentLog, metrics: noMetrics },
  );
  await using rpc = new AnchoredRpc(nodes, FINALITY);
  const harness = await harnessOn(bed.anvil);
  await using verifier = harness.open({ pollMs: 50 }, systemClock, rpc);
  const payer = await harness.payer();
  await using ledger = await bed.openLedger();
  const options = bed.options([await bed.relayerKey()]);
  const networks = options.networks.map((net) => ({ ...net, finalityBlocks: FINALITY }));
  const modules = { ...bed.modules(ledger), rpc: new Map([[NETWORK, rpc]]) };
  await using engine = await createEngine({ ...options, networks }, modules);
  const validBefore = BigInt((await bed.chainTime()) + 600);
  const payments = await Promise.all(
    Array.from({ length: 5 }, async () => claim(ledger, await bed.payer(PRICE), { validBefore })),
  );
  await Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit())));
  await url.looks(20);
  url.state.target = other.url;
  await url.looks(100);
  for (const payment of payments) assert.equal((await stateOf(ledger, payment)).state, "settled");
  await assert.rejects(verify(verifier, harness.pay(payer)), refused("another chain"));
  url.state.target = bed.anvil.url;
  await eventually("it is ready again", () => engine.missing().length === 0);
  const nowSeconds = await bed.chainTime();
  assert.ok(Math.abs(verifier.chainTimeSeconds(NETWORK) - nowSeconds) < 30, "the verifier saw none of its times");
  assert.equal(await verdict(verifier, harness.pay(payer)), "eoa");
  const later = await claim(ledger, await bed.payer(PRICE), { validBefore });
  await engine.settle(later, ANSWER, timeLimit());
  for (const payment of [...payments, later]) assert.equal((await stateOf(ledger, payment)).state, "settled");
});

/** A node with blocks up to a head; what it is asked for is noted. */
function nodeOf() {
  const state = { head: 100n, fork: "a", asked: [] as string[] };
  const reply = ({ method, params }: RpcCall) => {
    state.asked.push(`${method} ${String(params[0])}`);
    if (method !== "eth_getBlockByNumber") return { ok: true as const, result: "0x1" };
    const number = BigInt(String(params[0]));
    return {
      ok: true as const,
      result:
        number > state.head
          ? null
          : { number: params[0], hash: `0x${state.fork}${number.toString(16).padStart(63, "0")}` },
    };
  };
  const rpc = {
    host: "node",
    nodes: [],
    call: async (method: string, params: readonly unknown[]) => reply({ method, params }),
    batch: async (calls: readonly RpcCall[]) => calls.map(reply),
    [Symbol.asyncDispose]: async () => undefined,
  };
  return { state, rpc };
}

const refused =
  (reason: string) =>
  (error: unknown): boolean =>
    isAppError(error, "SETTLEMENT_UNAVAILABLE") && error.detail.reason === reason;

test("each question asks for a final block too, and its answer counts only with that block", async () => {
  const { state, rpc } = nodeOf();
  const anchored = new AnchoredRpc(rpc, 10);
  await anchored.call("a", []);
  anchored.saw(100n);
  await anchored.call("a", []);
  assert.deepEqual(state.asked, ["a undefined", "a undefined", "eth_getBlockByNumber 0x5a"]);
  state.asked.length = 0;
  await anchored.batch(Array.from({ length: 200 }, () => ({ method: "b", params: [] })));
  assert.equal(state.asked.filter((what) => what === "eth_getBlockByNumber 0x5a").length, 3, "in each exchange");
  state.fork = "b";
  await assert.rejects(anchored.call("a", []), refused("another chain"));
  state.fork = "a";
  state.head = 50n;
  await assert.rejects(anchored.call("a", []), refused("a final block is missing"));
  state.head = 200n;
  anchored.saw(200n);
  state.asked.length = 0;
  await anchored.call("a", []);
  assert.deepEqual(state.asked, ["a undefined", "eth_getBlockByNumber 0x5a", "eth_getBlockByNumber 0xbe"]);
  state.asked.length = 0;
  await anchored.call("a", []);
  assert.deepEqual(state.asked, ["a undefined", "eth_getBlockByNumber 0xbe"]);
});

test("a block of another chain is never taken for the next anchor", async () => {
  const { state, rpc } = nodeOf();
  const anchored = new AnchoredRpc(rpc, 10);
  anchored.saw(100n);
  await anchored.call("a", []);
  state.head = 200n;
  anchored.saw(200n);
  state.fork = "b";
  await assert.rejects(anchored.call("a", []), refused("another chain"));
  state.fork = "a";
  await anchored.call("a", []);
  await anchored.call("a", []);
  state.fork = "b";
  await assert.rejects(anchored.call("a", []), refused("another chain"));
});

test("attack: a process that starts while another chain is behind the URL has the ledger's final block as its anchor", async () => {
  const { state, rpc } = nodeOf();
  let reads = 0;
  const first = async () => {
    if (++reads === 1) throw new AppError("LEDGER_UNAVAILABLE");
    return { number: 90n, hash: `0xa${90n.toString(16).padStart(63, "0")}` };
  };
  const anchored = new AnchoredRpc(rpc, 10, first);
  state.fork = "b";
  await assert.rejects(anchored.call("a", []), { code: "LEDGER_UNAVAILABLE" });
  anchored.saw(100n);
  await assert.rejects(anchored.batch([{ method: "a", params: [] }]), refused("another chain"));
  state.fork = "a";
  assert.deepEqual(await anchored.call("a", []), { ok: true, result: "0x1" });
  assert.equal(reads, 2);
});

test("the ledger's newest final block is that of its last settlement which is final", async () => {
  await using ledger = await newLedger(server());
  assert.equal(await ledger.newestFinal(NETWORK), undefined);
  const blocks = [newEvidence(), newEvidence()];
  for (const [at, evidence] of blocks.entries()) {
    const id = await claimed(ledger);
    await ledger.journalSubmission(id, newAnswer());
    await ledger.settled(id, { ...evidence, blockNumber: BigInt(5 + at) });
  }
  const [first] = blocks;
  assert.ok(first !== undefined);
  const block = { blockNumber: 5n, blockHash: first.blockHash };
  await ledger.finalise(NETWORK, [block]);
  assert.deepEqual(await ledger.newestFinal(NETWORK), block);
});
