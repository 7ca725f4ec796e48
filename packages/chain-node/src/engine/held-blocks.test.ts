import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { AppError, type ErrorCode, type Log, silentLog } from "@turnpike/base";
import { HeldBlocks } from "./held-blocks.ts";

/** Blocks that fail as a test says. */
function heldBlocks() {
  const state = { fails: undefined as ErrorCode | undefined, free: 0 as number | undefined, tries: 0 };
  const said: string[] = [];
  const keep = (_: object, text: string): void => void said.push(text);
  const log: Log = { ...silentLog, info: keep, error: keep };
  const stop = new AbortController();
  const held = new HeldBlocks({
    nextHeightBlocks: () => 7n,
    freeBytes: () => state.free,
    signal: stop.signal,
    log,
  });
  const attempt = (): Promise<void> =>
    held.attempt(async () => {
      state.tries++;
      if (state.fails !== undefined) throw new AppError(state.fails);
    });
  return { state, said, stop, attempt };
}

suite("blocks that something stands in the way of", () => {
  test("a full disk is reported once, and is not written to before there is room", async () => {
    const { state, said, attempt } = heldBlocks();
    state.fails = "CHAIN_STORE_FULL";
    for (let n = 0; n < 3; n++) await attempt();
    assert.deepEqual([state.tries, said.length], [1, 1]);
    // Room that is not known, or is a quota's: it is tried.
    state.free = undefined;
    await attempt();
    assert.deepEqual([state.tries, said.length], [2, 1]);
    state.fails = "CHAIN_CLOCK";
    await attempt();
    state.fails = undefined;
    for (let n = 0; n < 2; n++) await attempt();
    assert.deepEqual(said.slice(1), ["no block is made until this is fixed; queries are answered", "blocks go on"]);
  });

  test("what a restart alone fixes is thrown, and nothing is when the node ends", async () => {
    const { state, said, stop, attempt } = heldBlocks();
    state.fails = "CHAIN_STORE";
    await assert.rejects(attempt(), { code: "CHAIN_STORE" });
    stop.abort();
    await attempt();
    assert.deepEqual(said, []);
  });
});
