import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, isAppError } from "@turnpike/base";
import type { ChainClient, IncludedTx } from "@turnpike/chain-client";
import { waitShown } from "./wait.ts";

type Client = Pick<ChainClient, "waitForTx" | "status">;

/** A client whose transaction comes at a turn, while the chain is at these heights. */
function clientOf(heights: readonly bigint[], comesAtTurn?: number): { client: Client; turns: number[] } {
  const turns: number[] = [];
  let asked = 0;
  const client: Client = {
    async waitForTx(hash, timeoutMs) {
      turns.push(timeoutMs);
      if (turns.length === comesAtTurn) return { hash, heightBlocks: 9n } as IncludedTx;
      throw new AppError("TX_UNKNOWN", { message: `${hash} is in no block yet.` });
    },
    async status() {
      const latestHeightBlocks = heights[Math.min(asked++, heights.length - 1)] ?? 0n;
      return { chainId: "pocket", latestHeightBlocks, latestTimeNanos: 0n };
    },
  };
  return { client, turns };
}

async function outcome(heights: readonly bigint[], comesAtTurn?: number) {
  const { client, turns } = clientOf(heights, comesAtTurn);
  const said: string[] = [];
  const say = (text: string): void => {
    said.push(text);
  };
  const ended = await waitShown({ hash: "AB", say, limitSeconds: 25 }, { client }).catch((error: unknown) => error);
  return { ended, said, turns };
}

test("while it waits it says at which block; the error says where the chain stands", async () => {
  const { ended, said, turns } = await outcome([4n]);
  assert.deepEqual(said, [
    "waits     the newest block is 4; 10 s of at most 25 s",
    "waits     the newest block is 4; 20 s of at most 25 s",
  ]);
  assert.deepEqual(turns, [10_000, 10_000, 5_000]);
  assert.ok(isAppError(ended, "TX_UNKNOWN"), String(ended));
  assert.equal(ended.message, "AB is in no block after 25 s of --wait; the chain stands at block 4.");
  assert.deepEqual(ended.detail, { hash: "AB" });
});

test("of a chain that goes on without it, the newest block is named", async () => {
  const { ended } = await outcome([4n, 5n, 6n]);
  assert.ok(isAppError(ended, "TX_UNKNOWN"));
  assert.match(ended.message, /; the newest block is 6\.$/);
});

test("what comes while it waits is given", async () => {
  const { ended, said } = await outcome([4n], 2);
  assert.deepEqual(ended, { hash: "AB", heightBlocks: 9n });
  assert.equal(said.length, 1);
});
