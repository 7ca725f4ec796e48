import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { txHash } from "@turnpike/cometbft";
import { openTestNode } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { childTx } from "../../test/engine/child.ts";
import { must, verifyWholeChain } from "../../test/engine/verify.ts";

const CHILD = join(import.meta.dirname, "../../test/engine/child.ts");
const KILLS = 6;

/** Lets the child make some blocks and kills it at some moment. */
async function killedRun(folder: string, kill: number): Promise<string[]> {
  const child = spawn(process.execPath, [CHILD, folder], { stdio: ["ignore", "pipe", "inherit"] });
  const lines: string[] = [];
  const input = createInterface({ input: child.stdout });
  const said = Promise.withResolvers<void>();
  // Some die while they open, most while they make blocks.
  const waitFor = kill % 3 === 0 ? 1 : 2 + randomInt(0, 12);
  input.on("line", (line) => {
    if (lines.push(line) >= waitFor) said.resolve();
  });
  const ended = Promise.all([once(child, "exit"), once(input, "close")]).finally(() => said.resolve());
  await said.promise;
  child.kill("SIGKILL");
  await ended;
  return lines.filter((line) => line !== "open");
}

test(`kill -9 at any moment leaves a chain that goes on, every block whole (${KILLS} times)`, async () => {
  await using folder = await scratchFolder();
  const lines: string[] = [];
  for (let kill = 0; kill < KILLS; kill++) {
    lines.push(...(await killedRun(folder.path, kill)));
    assert.ok(!lines.some((line) => line.startsWith("failed")), lines.join(" "));
    await using node = await openTestNode({ folder: folder.path });
    verifyWholeChain(node);
    const newest = node.blocks.latestHeightBlocks();
    for (const line of lines) {
      const [text = "", hash, appHash] = line.split(" ");
      const height = BigInt(text);
      const stored = must(node.blocks.block(height), `block ${height}, which was told of,`);
      assert.equal(bytesToHex(stored.id.hash), hash);
      assert.equal(bytesToHex(must(node.blocks.results(height)).appHash), appHash);
    }
    for (let height = 1n; height <= newest; height++) {
      const tx = must(node.blocks.tx(txHash(childTx(height - 1n))));
      assert.deepEqual([tx.heightBlocks, tx.result.code], [height, 0]);
    }
    assert.equal(node.blocks.results(newest + 1n), undefined);
    assert.equal(node.moment().heightBlocks, newest + 1n);
  }
  // Two of three waited for a block.
  assert.ok(lines.length >= KILLS - Math.ceil(KILLS / 3));
});
