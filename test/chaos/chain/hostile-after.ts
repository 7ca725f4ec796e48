import assert from "node:assert/strict";
import { silentLog } from "@turnpike/base";
import { CometRpc } from "@turnpike/chain-node";
import { moduleAddress } from "@turnpike/crypto";
import { exportChain } from "../../../apps/turnpike/src/wiring/chain.ts";
import { assertReplayed, readDecided, replay } from "../../support/chain/replay.ts";
import type { ChainProcess } from "./hostile-node.ts";

interface Coins {
  readonly denom: string;
  readonly amount: string;
}

interface Staked {
  readonly stake?: Coins | null;
}

interface AppState {
  readonly bank: {
    readonly balances: readonly { readonly address: string; readonly coins: readonly Coins[] }[];
    readonly supply: readonly Coins[];
  };
  readonly application: { readonly application_list: readonly Staked[] };
  readonly gateway: { readonly gateway_list: readonly Staked[] };
}

const sum = (amounts: Iterable<bigint>): bigint => {
  let total = 0n;
  for (const amount of amounts) total += amount;
  return total;
};
const staked = (list: readonly Staked[]): bigint => sum(list.map(({ stake }) => BigInt(stake?.amount ?? "0")));

/** Asserts that a stopped node's state has all of its money: the supply is the balances, and modules hold their stakes. */
export async function assertBooks(node: ChainProcess): Promise<void> {
  const { app_state } = await exportChain(node.home, { log: silentLog }, undefined);
  const { bank, application, gateway } = app_state as unknown as AppState;
  const held = new Map<string, bigint>();
  const totals = new Map<string, bigint>();
  for (const { address, coins } of bank.balances) {
    for (const { denom, amount } of coins) {
      assert.ok(BigInt(amount) > 0n, `${address} has ${amount} ${denom}`);
      totals.set(denom, (totals.get(denom) ?? 0n) + BigInt(amount));
      if (denom === "upokt") held.set(address, BigInt(amount));
    }
  }
  assert.deepEqual(totals, new Map(bank.supply.map(({ denom, amount }) => [denom, BigInt(amount)])));
  assert.deepEqual([...totals.keys()], ["upokt"]);
  const of = (module: string): bigint => held.get(moduleAddress(module)) ?? 0n;
  assert.equal(of("application"), staked(application.application_list));
  assert.equal(of("gateway"), staked(gateway.gateway_list));
}

/** Runs the node's blocks again from its genesis: results and app hashes must be the same. Gives the blocks' number. */
export async function assertReplay(node: ChainProcess): Promise<number> {
  const decided = await readDecided(node.rpcUrl, node.genesis);
  assertReplayed(decided, await replay(decided));
  return decided.blocks.length;
}

/** Longest time between two blocks that follow each other, in milliseconds, by their headers. */
export async function longestGapMs(rpcUrl: string, from: bigint, to: bigint): Promise<number> {
  using rpc = new CometRpc({ url: rpcUrl });
  let [longest, before] = [0, 0];
  for (let min = from; min <= to; min += 20n) {
    const max = min + 19n < to ? min + 19n : to;
    const answer = await rpc.call("blockchain", { minHeight: `${min}`, maxHeight: `${max}` });
    assert.ok(answer.ok);
    const { block_metas: metas } = answer.result as { block_metas: { header: { time: string } }[] };
    for (const { header } of metas.reverse()) {
      const at = Date.parse(header.time);
      if (before > 0) longest = Math.max(longest, at - before);
      before = at;
    }
  }
  return longest;
}
