import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, silentLog } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import type { EvmRpc, RpcCall, RpcReply } from "../evm/rpc.ts";
import { SETTLEMENT_BATCH_CODE } from "../evm/settlement-batch.ts";
import { BatchContract, MAX_UNLIMITED } from "./batch-contract.ts";

const MINUTE_MS = 60_000;

const FINALITY_BLOCKS = 3;

/** A contract on a chain of blocks of a node, which knows no code of a block before `oldest`. */
function rig() {
  const clock = virtualClock();
  const node = { code: new Map<number, string>([[0, "0x"]]), isSilent: false, head: 0, oldest: 0, looks: 0 };
  const codeAt = (block: number): string => {
    const since = [...node.code.keys()].filter((at) => at <= block);
    return node.code.get(Math.max(...since)) ?? "0x";
  };
  const answer = ({ method, params }: RpcCall): RpcReply => {
    if (method === "eth_blockNumber") return { ok: true, result: `0x${node.head.toString(16)}` };
    const block = params[1] === "latest" ? node.head : Number(params[1]);
    if (block < node.oldest) return { ok: false, code: -32_000, message: "missing trie node" };
    return { ok: true, result: codeAt(block) };
  };
  const rpc: Partial<EvmRpc> = {
    host: "node",
    call: async (method, params) => answer({ method, params }),
    async batch(calls) {
      node.looks++;
      if (node.isSilent) throw new AppError("SETTLEMENT_UNAVAILABLE");
      return calls.map(answer);
    },
  };
  const contract = new BatchContract(
    { finalityBlocks: FINALITY_BLOCKS },
    { rpc: rpc as EvmRpc, clock, log: silentLog },
  );
  return { clock, node, contract, refresh: () => contract.refresh(AbortSignal.timeout(MINUTE_MS)) };
}

test("the contract is used where its own code is at its address, and looked for once a minute until then", async () => {
  const { clock, node, contract, refresh } = rig();
  for (const code of ["0x", undefined, `${SETTLEMENT_BATCH_CODE}00`, "0x6000"]) {
    node.isSilent = code === undefined;
    node.code.set(0, code ?? "0x");
    await refresh();
    await refresh();
    assert.equal(contract.isUsed, false, String(code));
    clock.advance(MINUTE_MS);
  }
  assert.equal(node.looks, 4);
  node.isSilent = false;
  node.code.set(0, SETTLEMENT_BATCH_CODE);
  await refresh();
  clock.advance(MINUTE_MS);
  await refresh();
  assert.equal(contract.isUsed, true);
  assert.equal(node.looks, 5, "it cannot be removed");
});

test("a contract is not used before its deployment is so deep that no re-organisation takes it, nor where the node cannot show that", async () => {
  const { clock, node, contract, refresh } = rig();
  const isUsedAt = async (head: number): Promise<boolean> => {
    node.head = head;
    clock.advance(MINUTE_MS);
    await refresh();
    return contract.isUsed;
  };
  node.code.set(5, SETTLEMENT_BATCH_CODE);
  assert.equal(await isUsedAt(5), false);
  assert.equal(await isUsedAt(5 + FINALITY_BLOCKS - 1), false);
  node.oldest = 6;
  assert.equal(await isUsedAt(5 + FINALITY_BLOCKS), false);
  assert.equal(await isUsedAt(6 + FINALITY_BLOCKS), true);
});

test("a contract that does not answer is not used until it is looked for again", async () => {
  const { clock, node, contract, refresh } = rig();
  node.code.set(0, SETTLEMENT_BATCH_CODE);
  await refresh();
  contract.distrust();
  await refresh();
  assert.equal(contract.isUsed, false);
  clock.advance(MINUTE_MS);
  await refresh();
  assert.equal(contract.isUsed, true);
});

test("at most eight payments share a transaction without the contract", async () => {
  const { node, contract, refresh } = rig();
  assert.deepEqual(
    [4, 50].map((maxBatch) => contract.limit(maxBatch)),
    [4, MAX_UNLIMITED],
  );
  node.code.set(0, SETTLEMENT_BATCH_CODE);
  await refresh();
  assert.equal(contract.limit(50), 50);
});
