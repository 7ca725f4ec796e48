import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { eventually, virtualClock } from "@turnpike/testkit";
import { startTestChain } from "@turnpike/testkit/chain";
import { ChainHead } from "./chain-head.ts";

suite("ChainHead", () => {
  test("follows the newest block with its hash and time, and calls back for each in order", async () => {
    await using chain = await startTestChain();
    await using head = new ChainHead({ url: chain.rpcUrl }, { clock: systemClock });
    const first = await head.waitFor(1n);
    assert.equal(first?.heightBlocks, 1n);
    const seen: bigint[] = [];
    const listening = head.onBlock(({ heightBlocks }) => seen.push(heightBlocks));
    const wanted = head.waitFor(4n);
    await chain.reach(4n);
    const mark = await wanted;
    assert.ok(mark !== undefined && mark.heightBlocks >= 4n);
    assert.match(mark.hash, /^[0-9A-F]{64}$/);
    assert.deepEqual(head.at(mark.heightBlocks), mark);
    listening[Symbol.dispose]();
    await chain.reach(5n);
    await head.waitFor(5n);
    assert.deepEqual(seen, [2n, 3n, 4n]);
  });

  test("keeps what it knows while the node is dead, says that it is stale by the clock, and goes on without a gap", async () => {
    await using chain = await startTestChain();
    const clock = virtualClock();
    await using head = new ChainHead({ url: chain.rpcUrl, staleMs: 30_000, retryMs: 10 }, { clock });
    await head.waitFor(1n);
    assert.equal(head.isStale, false);
    const seen: bigint[] = [];
    head.onBlock(({ heightBlocks }) => seen.push(heightBlocks));
    await chain.stopRpc();
    await chain.reach(30n);
    clock.advance(30_001);
    assert.equal(head.isStale, true);
    assert.equal(head.newest?.heightBlocks, 1n);
    await chain.startRpc();
    assert.ok((await head.waitFor(30n)) !== undefined);
    assert.equal(head.isStale, false);
    assert.deepEqual(
      seen,
      Array.from({ length: 29 }, (_, i) => BigInt(i + 2)),
    );
  });

  test("a wait ends with its signal, and with the head", async () => {
    await using chain = await startTestChain();
    const head = new ChainHead({ url: chain.rpcUrl }, { clock: systemClock });
    const ended = new AbortController();
    const waits = [head.waitFor(100n, ended.signal), head.waitFor(200n)];
    ended.abort();
    assert.equal(await waits[0], undefined);
    await head[Symbol.asyncDispose]();
    assert.equal(await waits[1], undefined);
    assert.equal(await head.waitFor(300n), undefined);
  });

  test("a listener that fails neither ends the subscription nor keeps others from blocks", async () => {
    await using chain = await startTestChain();
    const errors: string[] = [];
    const log = { ...silentLog, error: (_: unknown, message: string) => void errors.push(message) };
    await using head = new ChainHead({ url: chain.rpcUrl }, { clock: systemClock, log });
    await head.waitFor(1n);
    const seen: bigint[] = [];
    head.onBlock(() => {
      throw new TypeError("broken");
    });
    head.onBlock(({ heightBlocks }) => seen.push(heightBlocks));
    await chain.reach(2n);
    await eventually("block 2 at the listener", () => seen.includes(2n));
    assert.equal(errors.length, 1);
  });
});
