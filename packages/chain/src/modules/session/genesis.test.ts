import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { atHeight, emptyState, endBlock, machine } from "../../../test/modules/shared/modules.ts";
import type { TestState } from "../../../test/recorded-tx.ts";
import { getBlockHash } from "./state.ts";

interface Exported {
  readonly session: { readonly block_hashes?: readonly { readonly height: string; readonly hash: string }[] };
}

const LAST = 75n;

// Sessions of 10 blocks that settle 10 blocks after their end.
function chainAt(last: bigint) {
  const state = emptyState();
  for (let height = 1n; height <= last; height++) {
    endBlock(atHeight({ ...state, block: { ...state.block, hash: new Uint8Array(32).fill(Number(height)) } }, height));
  }
  return atHeight(state, last);
}

function begun(appState: Record<string, unknown>, heightBlocks: bigint): TestState {
  const state = emptyState({}, { heightBlocks });
  const { changes } = machine.initGenesis({ get: () => undefined, range: () => [] }, state.block, appState);
  for (const [key, value] of changes) if (value !== undefined) state.state.set(key, value);
  return state;
}

suite("genesis of sessions", () => {
  test("the hashes that sessions under way are drawn by go over to the chain that begins with an export", () => {
    const state = chainAt(LAST);
    const exported = machine.exportGenesis(state.state, state.block) as unknown as Exported & Record<string, unknown>;
    const next = atHeight(begun(exported, LAST), LAST + 1n);
    // The session of 51 to 60 settles in block 70, that of 61 to 70 in block 80.
    for (let height = 61n; height <= LAST; height++) {
      assert.deepEqual(getBlockHash(next.ctx, height), new Uint8Array(32).fill(Number(height)), `${height}`);
    }
    assert.ok((exported.session.block_hashes ?? []).length < 45);
    assert.equal(getBlockHash(next.ctx, 5n).length, 0);
    assert.deepEqual(machine.exportGenesis(next.state, state.block), exported);
    assert.equal(getBlockHash(begun(exported, 0n).ctx, LAST).length, 0);
  });

  test("hashes that are none, or stand there twice are refused", () => {
    const hash = "ab".repeat(32);
    const ok = { height: "0", hash };
    emptyState({ session: { block_hashes: [ok] } });
    for (const bad of [
      "x",
      [7],
      [ok, ok],
      [{ ...ok, height: "-1" }],
      [{ ...ok, height: "9".repeat(30) }],
      [{ ...ok, hash: "ab" }],
      [{ ...ok, hash: 5 }],
    ]) {
      assert.throws(() => emptyState({ session: { block_hashes: bad } }), { code: "CONFIG_INVALID" });
    }
  });
});
