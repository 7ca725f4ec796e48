import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, silentLog } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import type { EvmRpc, RpcReply } from "../evm/rpc.ts";
import { SETTLEMENT_BATCH_CODE } from "../evm/settlement-batch.ts";
import { BatchContract, MAX_UNLIMITED } from "./batch-contract.ts";

const MINUTE_MS = 60_000;

function rig() {
  const clock = virtualClock();
  const node: { code: string | undefined; looks: number } = { code: "0x", looks: 0 };
  const rpc: Partial<EvmRpc> = {
    host: "node",
    async batch(calls) {
      node.looks++;
      if (node.code === undefined) throw new AppError("SETTLEMENT_UNAVAILABLE");
      return calls.map((): RpcReply => ({ ok: true, result: node.code }));
    },
  };
  const contract = new BatchContract({ rpc: rpc as EvmRpc, clock, log: silentLog });
  return { clock, node, contract, refresh: () => contract.refresh(AbortSignal.timeout(MINUTE_MS)) };
}

test("the contract is used where its own code is at its address, and looked for once a minute until then", async () => {
  const { clock, node, contract, refresh } = rig();
  for (const code of ["0x", undefined, `${SETTLEMENT_BATCH_CODE}00`, "0x6000"]) {
    node.code = code;
    await refresh();
    await refresh();
    assert.equal(contract.isUsed, false, String(code));
    clock.advance(MINUTE_MS);
  }
  assert.equal(node.looks, 4);
  node.code = SETTLEMENT_BATCH_CODE;
  await refresh();
  clock.advance(MINUTE_MS);
  await refresh();
  assert.equal(contract.isUsed, true);
  assert.equal(node.looks, 5, "it cannot be removed");
});

test("a contract that does not answer is not used until it is looked for again", async () => {
  const { clock, node, contract, refresh } = rig();
  node.code = SETTLEMENT_BATCH_CODE;
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
  node.code = SETTLEMENT_BATCH_CODE;
  await refresh();
  assert.equal(contract.limit(50), 50);
});
