import assert from "node:assert/strict";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
import { NETWORK } from "../../test/engine-fixtures.ts";
import type { EvmRpc, RpcCall, RpcReply } from "../evm/rpc.ts";
import { classify, RpcSettlementChain } from "./chain.ts";

test("refusals of the known nodes are read as what they mean", () => {
  const cases: Readonly<Record<string, ReturnType<typeof classify>>> = {
    "already known": "sent",
    AlreadyKnown: "sent",
    "transaction already imported": "sent",
    "Known transaction": "sent",
    "nonce too low: next nonce 5, tx nonce 4": "nonce-used",
    "nonce too low": "nonce-used",
    OldNonce: "nonce-used",
    "replacement transaction underpriced": "underpriced",
    "transaction underpriced": "underpriced",
    "max fee per gas less than block base fee": "underpriced",
    "insufficient funds for gas * price + value": "no-gas",
    "Insufficient funds for gas * price + value": "no-gas",
    "execution aborted": "refused",
    "exceeds block gas limit": "refused",
    "tx fee (1.20 ether) exceeds the configured cap (1.00 ether)": "refused",
    "txpool is full": "busy",
    "rate limit exceeded": "busy",
    "internal error": "busy",
    "nonce too high": "busy",
  };
  for (const [message, kind] of Object.entries(cases)) assert.equal(classify(message), kind, message);
});

/** A node that answers calls at these blocks only, and otherwise with this error. */
function nodeWith(known: readonly unknown[], refusal: Extract<RpcReply, { ok: false }>) {
  const asked: unknown[] = [];
  const reply = ({ params }: RpcCall): RpcReply => {
    asked.push(params[1]);
    const has = known.some((block) => JSON.stringify(block) === JSON.stringify(params[1]));
    return has ? { ok: true, result: `0x${"1".padStart(64, "0")}` } : refusal;
  };
  const rpc: EvmRpc = {
    host: "node",
    nodes: [],
    call: async (method, params) => reply({ method, params }),
    batch: async (calls) => calls.map(reply),
    [Symbol.asyncDispose]: async () => undefined,
  };
  return { chain: new RpcSettlementChain(rpc), asked };
}

test("an authorization is read at one block, by its hash; a node that lags gives no answer", async () => {
  const head = { number: 16n, hash: `0x${"ab".repeat(32)}`, timeSeconds: 1, baseFee: 0n } as const;
  const key = { network: NETWORK, asset: "0x01", from: "0x02", nonce: `0x${"03".repeat(32)}` } as const;
  const byHash = { blockHash: head.hash, requireCanonical: true };
  const lags = { ok: false, code: -32_000, message: "header not found" } as const;
  const good = nodeWith([byHash], lags);
  assert.deepEqual(await good.chain.authorization(key, head), { used: true, balance: 1n });
  assert.deepEqual(good.asked, [byHash, byHash]);
  const behind = nodeWith(["latest"], lags);
  await assert.rejects(behind.chain.authorization(key, head), (error) => isAppError(error, "SETTLEMENT_UNAVAILABLE"));
  const old = nodeWith(["0x10"], { ok: false, code: -32_602, message: "invalid argument 1: hex string" });
  assert.deepEqual(await old.chain.authorization(key, head), { used: true, balance: 1n });
});

test("a pending nonce far above the mined ones is not believed: a transaction with it would never be mined", async () => {
  const pendingOf = (pending: string): Promise<number> => {
    const rpc: EvmRpc = {
      host: "node",
      nodes: [],
      call: () => Promise.reject(new TypeError("not asked")),
      batch: async (calls) =>
        calls.map(({ params }) => ({ ok: true, result: params[1] === "pending" ? pending : "0x7" })),
      [Symbol.asyncDispose]: async () => undefined,
    };
    return new RpcSettlementChain(rpc).pendingNonce("0x01");
  };
  assert.equal(await pendingOf("0x9"), 9);
  assert.equal(await pendingOf("0x5"), 7, "a pool that lags behind the blocks");
  await assert.rejects(pendingOf("0xfffffff"), (error) => isAppError(error, "SETTLEMENT_UNAVAILABLE"));
});

test("what a transaction cost is read with its receipt, with the data fee of a rollup; a node that omits it loses no evidence", async () => {
  const hash = `0x${"01".repeat(32)}`;
  const receipt = { blockNumber: "0x5", blockHash: hash, transactionHash: hash, status: "0x1", logs: [] };
  const minedOf = (cost: object) => {
    const rpc: EvmRpc = {
      host: "node",
      nodes: [],
      call: async () => ({ ok: true, result: { ...receipt, ...cost } }),
      batch: () => Promise.reject(new TypeError("not asked")),
      [Symbol.asyncDispose]: async () => undefined,
    };
    return new RpcSettlementChain(rpc).mined(hash);
  };
  const paid = { gasUsed: "0xf8b4", effectiveGasPrice: "0x3b9aca00" };
  const cost = { gas: 63_668n, gasPriceWei: 1_000_000_000n };
  assert.deepEqual((await minedOf(paid))?.cost, { ...cost, dataFeeWei: 0n });
  assert.deepEqual((await minedOf({ ...paid, l1Fee: "0x10" }))?.cost, { ...cost, dataFeeWei: 16n });
  for (const absurd of [{}, { ...paid, gasUsed: -1 }, { ...paid, effectiveGasPrice: "much" }]) {
    const mined = await minedOf(absurd);
    assert.deepEqual([mined?.succeeded, mined?.cost], [true, undefined]);
  }
});
