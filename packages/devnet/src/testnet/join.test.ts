import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { systemClock } from "@turnpike/base";
import { startFakeRpc, statusAt } from "@turnpike/testkit";
import { trustedBlock } from "./join.ts";

const HASH = "AB".repeat(32);
const metas = (hash: string) => ({ block_metas: [{ block_id: { hash } }] });
const trusted = (urls: readonly string[], everyBlocks = 20) =>
  trustedBlock({ urls, everyBlocks }, { clock: systemClock });
const NOBODY = "http://127.0.0.1:1";

suite("the block that a joining node trusts", { timeout: 60_000 }, () => {
  test("lies behind the newest one, and every node that answers names it", async () => {
    await using one = await startFakeRpc({ status: statusAt(2_500), blockchain: metas(HASH) });
    await using other = await startFakeRpc({ status: statusAt(2_501), blockchain: metas(HASH) });
    assert.deepEqual(await trusted([NOBODY, one.url, other.url]), {
      heightBlocks: 1_500n,
      hash: HASH,
      rpcServers: [one.url, other.url],
    });
    // A young chain has none so far behind, and one that joined has not the first blocks.
    one.answers = { ...one.answers, status: statusAt(40) };
    assert.equal((await trusted([one.url])).heightBlocks, 1n);
    one.answers = { ...one.answers, status: statusAt(1_100, 900) };
    const alone = await trusted([one.url]);
    assert.deepEqual([alone.heightBlocks, alone.rpcServers], [900n, [one.url, one.url]]);
  });

  test("is none of a chain that is silent, has no block, or is two", async () => {
    await using one = await startFakeRpc({ status: statusAt(50), blockchain: metas(HASH) });
    await using other = await startFakeRpc({ status: statusAt(50), blockchain: metas("CD".repeat(32)) });
    await assert.rejects(trusted([one.url, other.url]), {
      code: "CHAIN_MISMATCH",
      message: /have different blocks 1: they are of different chains/,
    });
    await using unborn = await startFakeRpc({ status: statusAt(0, 0), blockchain: metas(HASH) });
    await using junk = await startFakeRpc({ status: statusAt(9), blockchain: { block_metas: [{ block_id: 5 }] } });
    for (const url of [NOBODY, unborn.url, junk.url]) {
      await assert.rejects(trusted([url]), {
        code: "CHAIN_UNREACHABLE",
        message: /answers with a block; the chain must run while a node joins/,
      });
    }
  });

  test("is none while there is no snapshot to join from", async () => {
    await using one = await startFakeRpc({ status: statusAt(101), blockchain: metas(HASH) });
    await assert.rejects(trusted([one.url], 100), {
      code: "CHAIN_HOME",
      message:
        "There is no snapshot to join from yet: the first is of block 100, and the chain is at block 101. Try again from block 102 on.",
    });
    await assert.rejects(trusted([one.url], 0), { code: "CHAIN_HOME", message: /^The nodes make no snapshots/ });
    one.answers = { ...one.answers, status: statusAt(102) };
    assert.equal((await trusted([one.url], 100)).heightBlocks, 1n);
  });
});
