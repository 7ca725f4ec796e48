import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError } from "@turnpike/base";
import type { ChainClient } from "@turnpike/chain-client";
import { failureOf } from "../../cli/output.ts";
import { heightAdvice } from "./heights.ts";

type Client = Pick<ChainClient, "query" | "status">;
const GONE = "failed to load state at height 100; version mismatch on immutable IAVL tree: invalid request";

/** A node that keeps states from one height to another. */
function nodeOf(oldest: bigint, newest: bigint): { readonly client: Client; readonly asked: bigint[] } {
  const asked: bigint[] = [];
  const query = async (_method: unknown, _request: unknown, { heightBlocks = 0n }: { heightBlocks?: bigint }) => {
    asked.push(heightBlocks);
    if (heightBlocks < oldest) return { ok: false, code: 18, codespace: "sdk", text: GONE };
    return { ok: true, value: {}, heightBlocks };
  };
  const status = async () => ({ chainId: "pocket", latestHeightBlocks: newest, latestTimeNanos: 0n });
  return { client: { query: query as unknown as Client["query"], status }, asked };
}

test("of a height that is gone it says which are kept, and asks few of them", async () => {
  const few = Array.from({ length: 20 }, (_, at) => [101n + BigInt(at), 120n] as const);
  for (const [oldest, newest] of [...few, [4_321n, 1_000_000n] as const]) {
    const { client, asked } = nodeOf(oldest, newest);
    assert.equal(
      await heightAdvice({ heightBlocks: 100n, text: GONE }, { client }),
      `Ask for a height from ${oldest} to ${newest}: this node keeps no older states.`,
    );
    assert.ok(asked.length <= 20, `${asked.length} questions`);
  }
});

test("a height to come, another refusal, and a node that stops answering", async () => {
  const { client } = nodeOf(5n, 50n);
  const future = { heightBlocks: 99n, text: "cannot query with height in the future; please provide a valid height" };
  assert.equal(await heightAdvice(future, { client }), "Ask for a height up to 50, which is the newest.");
  assert.equal(await heightAdvice({ heightBlocks: 9n, text: "key not found" }, { client }), undefined);
  const away = (): never => {
    throw new AppError("CHAIN_UNREACHABLE");
  };
  const gone = { heightBlocks: 3n, text: GONE };
  assert.equal(
    await heightAdvice(gone, { client: { ...client, query: async () => away() } }),
    "Ask for a height up to 50, which is the newest, that the node keeps.",
  );
  assert.equal(await heightAdvice(gone, { client: { ...client, status: async () => away() } }), undefined);
});

test("an error's own advice takes the place of its row's", () => {
  const failed = (advice?: string) =>
    failureOf(new AppError("CHAIN_QUERY_FAILED", advice === undefined ? {} : { advice })).advice;
  assert.deepEqual([failed(), failed("Ask for less.")], ["Fix what the message names.", "Ask for less."]);
});
