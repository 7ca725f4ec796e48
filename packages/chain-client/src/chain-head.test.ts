import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type Log, silentLog, systemClock } from "@turnpike/base";
import { eventually, startChainProxy, virtualClock } from "@turnpike/testkit";
import { startTestChain } from "@turnpike/testkit/chain";
import { ChainHead } from "./chain-head.ts";

const NINTH = { minHeight: "9", maxHeight: "9" };
const FAR_HEIGHT = '"last_block_height":"1000000"';

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

  test("a node that is behind takes nothing back, and is followed again once it has more", async () => {
    await using chain = await startTestChain();
    await chain.reach(9n);
    await using proxy = await startChainProxy(chain.rpcUrl);
    const log = logged();
    await using head = new ChainHead({ url: proxy.url, pingMs: 50, retryMs: 1 }, { clock: systemClock, log });
    await head.waitFor(9n);
    const seen: bigint[] = [];
    head.onBlock(({ heightBlocks }) => seen.push(heightBlocks));
    const past = { minHeight: "3", maxHeight: "3" };
    proxy.answerWith(async (asked, ask) => {
      if (asked.method === "blockchain") return ask({ ...asked, params: past });
      const answer = await ask();
      if (asked.method !== "abci_info") return answer;
      return { ...answer, result: { response: { last_block_height: "3" } } };
    });
    await eventually("the node is behind", async () => {
      await chain.produce();
      return log.errors.includes("the node is behind");
    });
    assert.equal(head.newest?.heightBlocks, 9n);
    proxy.answerWith(undefined);
    const { heightBlocks } = chain;
    await head.waitFor(heightBlocks);
    assert.ok(seen.at(-1) === heightBlocks && seen.every((height) => height > 9n), seen.join(" "));
    assert.ok(!log.errors.includes("the node's chain was replaced"));
  });

  test("attack: one block of the far future does not end the chain for good: after ten minutes the node's are followed", async () => {
    await using chain = await startTestChain();
    await chain.reach(9n);
    await using proxy = await startChainProxy(chain.rpcUrl);
    const log = logged();
    const clock = virtualClock();
    await using head = new ChainHead({ url: proxy.url, pingMs: 50, retryMs: 1 }, { clock, log });
    await head.waitFor(9n);
    proxy.answerWith(async (asked, ask) => {
      const isBlocks = asked.method === "blockchain";
      const isHigh = Number(asked.params.minHeight) > 1_000;
      const text = JSON.stringify(await ask(isBlocks && isHigh ? { ...asked, params: NINTH } : undefined));
      if (asked.method === "abci_info") return JSON.parse(text.replace(/"last_block_height":"\d+"/, FAR_HEIGHT));
      if (!isBlocks) return JSON.parse(text);
      // The first one ends the subscription, which begins again with the newest block.
      if (!isHigh) return JSON.parse(text.replace(/("last_block_id":{"hash":")\w+/g, `$1${"AB".repeat(32)}`));
      return JSON.parse(
        text.replace(/"height":"9"/g, '"height":"1000000"').replace(/"time":"[^"]*"/g, '"time":"2199-01-01T00:00:00Z"'),
      );
    });
    await eventually("the block of the future", async () => {
      await chain.produce();
      return head.newest?.heightBlocks === 1_000_000n;
    });
    proxy.answerWith(undefined);
    await eventually("the node is behind", async () => {
      await chain.produce();
      return log.errors.includes("the node is behind");
    });
    clock.advance(599_000);
    await chain.produce();
    assert.deepEqual([head.newest?.heightBlocks, head.isStale], [1_000_000n, false]);
    clock.advance(1_001);
    assert.equal(head.isStale, true, "its time says that blocks are years apart");
    await eventually("the node's blocks", async () => {
      await chain.produce();
      return head.replacements === 1;
    });
    await head.waitFor(chain.heightBlocks);
    assert.equal(head.newest?.heightBlocks, chain.heightBlocks);
    assert.deepEqual([head.replacements, head.isStale], [1, false]);
  });

  test("a chain restarted from genesis is followed from its lower height on; one with another id is not", async () => {
    await using chain = await startTestChain();
    await chain.reach(30n);
    await using proxy = await startChainProxy(chain.rpcUrl);
    const log = logged();
    await using head = new ChainHead({ url: proxy.url, pingMs: 50, retryMs: 1 }, { clock: systemClock, log });
    await head.waitFor(30n);
    await using other = await startTestChain({ chainId: "pocket-other" });
    await other.reach(70n);
    proxy.moveTo(other.rpcUrl);
    await eventually("the other chain", () => log.errors.some((one) => one.includes("pocket-other")));
    assert.equal(head.newest?.heightBlocks, 30n);
    await using anew = await startTestChain();
    await anew.reach(3n);
    proxy.moveTo(anew.rpcUrl);
    await eventually("the restarted chain", () => head.newest?.heightBlocks === 3n);
    assert.ok(log.errors.includes("the node's chain was replaced"));
    await anew.produce();
    await head.waitFor(4n);
  });
});

/** What was logged as an error: the message, or that of its cause. */
function logged(): Log & { readonly errors: readonly string[] } {
  const errors: string[] = [];
  const error = ({ cause }: Readonly<Record<string, unknown>>, message: string): void => {
    errors.push(cause instanceof Error ? cause.message : message);
  };
  return { ...silentLog, error, errors };
}
