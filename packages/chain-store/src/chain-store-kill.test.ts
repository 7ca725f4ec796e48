import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { changesAt, KEPT_BLOCKS } from "../test/child.ts";
import { plainAppHash, plainRange, shown, statesOf } from "../test/model.ts";
import { EMPTY_APP_HASH } from "./chain-store.ts";
import { openChainStore } from "./open-chain-store.ts";

const CHILD = join(import.meta.dirname, "../test/child.ts");
const all = { prefix: Buffer.alloc(0) };

interface Child {
  readonly process: ChildProcess;
  /** What it said. */
  readonly lines: string[];
  /** Resolves when it has said so much, or is gone. */
  said(lines: number): Promise<void>;
  readonly ended: Promise<unknown>;
}

function start(folder: string, mode: string, limitBlocks?: number): Child {
  const args = [CHILD, folder, mode];
  // The limit on a file's size stands in for a full disk; its signal is ignored, so that the write fails instead.
  const limited = ["-c", `trap '' XFSZ; ulimit -f ${limitBlocks}; exec "$0" "$@"`, process.execPath, ...args];
  const [program, given] = limitBlocks === undefined ? [process.execPath, args] : ["bash", limited];
  const child = spawn(program, given, { stdio: ["ignore", "pipe", "inherit"] });
  const lines: string[] = [];
  const input = createInterface({ input: child.stdout });
  let isOver = false;
  const ended = Promise.all([once(child, "exit"), once(input, "close")]).finally(() => {
    isOver = true;
  });
  input.on("line", (line) => void lines.push(line));
  return {
    process: child,
    lines,
    ended,
    async said(count) {
      while (lines.length < count && !isOver) await Promise.race([once(input, "line"), ended]);
    },
  };
}

const blocksIn = (lines: readonly string[]) =>
  lines.flatMap((line) => {
    const [height, appHash] = line.split(" ");
    return appHash === undefined || height === "failed" ? [] : [{ height: BigInt(height ?? ""), appHash }];
  });

/** The newest block is whole, nothing that was said is lost, and no block is missing. */
async function check(folder: string, lines: readonly string[], pruned: boolean): Promise<bigint> {
  await using store = await openChainStore({ folder });
  const newest = store.latestHeightBlocks();
  const acknowledged = blocksIn(lines);
  if (newest === undefined) {
    assert.deepEqual(acknowledged, []);
    return -1n;
  }
  const heights = Array.from({ length: Number(newest) + 1 }, (_, n) => BigInt(n));
  const states = statesOf(heights.map(changesAt));
  for (const { height, appHash } of acknowledged) {
    assert.ok(height <= newest, `block ${height} was acknowledged and is lost: the newest is ${newest}`);
    assert.equal(Buffer.from(store.appHash(height) ?? EMPTY_APP_HASH).toString("hex"), appHash);
  }
  for (const height of heights) {
    assert.notEqual(store.appHash(height), undefined);
    assert.equal(String(store.record("blocks", Buffer.from(`${height}`))), `block ${height}`);
  }
  assert.equal(store.appHash(newest + 1n), undefined);
  assert.equal(store.record("blocks", Buffer.from(`${newest + 1n}`)), undefined);
  for (const height of heights.slice(-3)) {
    const state = states[Number(height)] ?? new Map();
    if (height < store.earliestHeightBlocks()) continue;
    assert.deepEqual(shown(store.at(height).range(all)), plainRange(state, all));
    assert.equal(Buffer.from(store.appHash(height) ?? EMPTY_APP_HASH).toString("hex"), plainAppHash(state));
  }
  if (!pruned) assert.equal(store.earliestHeightBlocks(), 0n);
  else if (newest > KEPT_BLOCKS) assert.ok(newest - store.earliestHeightBlocks() <= KEPT_BLOCKS + 2n);
  await store.verify();
  return newest;
}

for (const [mode, kills] of [
  ["commit", 12],
  ["prune", 12],
] as const) {
  test(`kill -9 at any moment leaves the newest committed block whole (${mode}, ${kills} times)`, async () => {
    await using folder = await scratchFolder();
    const lines: string[] = [];
    let newest = -1n;
    for (let n = 0; n < kills; n++) {
      const child = start(folder.path, mode);
      // Some die while they open, most while they commit: "begin", "open", and then a line a block.
      await child.said(n % 4 === 0 ? 1 : 3 + randomInt(0, 12));
      child.process.kill("SIGKILL");
      await child.ended;
      lines.push(...child.lines.filter((line) => line !== "begin" && line !== "open"));
      assert.ok(!lines.some((line) => line.startsWith("failed")), lines.join(" "));
      const now = await check(folder.path, lines, mode === "prune");
      assert.ok(now >= newest);
      newest = now;
    }
    assert.ok(newest > 0n);
  });
}

test("a store is one process's at a time, and free again when that is killed", async () => {
  await using folder = await scratchFolder();
  const child = start(folder.path, "hold");
  await child.said(2);
  const busy = (error: unknown): boolean =>
    isAppError(error, "CHAIN_STORE_BUSY") && error.message.includes(folder.path);
  await assert.rejects(openChainStore({ folder: folder.path }), busy);
  child.process.kill("SIGKILL");
  await child.ended;
  await using store = await openChainStore({ folder: folder.path });
  await assert.rejects(openChainStore({ folder: folder.path }), busy);
  assert.equal(store.latestHeightBlocks(), undefined);
});

test("a disk that is full refuses the block, and keeps all before it", {
  skip: process.platform === "win32",
}, async () => {
  await using folder = await scratchFolder();
  const child = start(folder.path, "commit", 1_500);
  await child.ended;
  assert.equal(child.lines.at(-1), "failed CHAIN_STORE_FULL");
  assert.ok(blocksIn(child.lines).length > 3);
  const newest = await check(folder.path, child.lines, false);
  assert.equal(newest, blocksIn(child.lines).at(-1)?.height);
  await using store = await openChainStore({ folder: folder.path });
  await store.commit({ heightBlocks: newest + 1n, changes: changesAt(newest + 1n), records: [] });
});
