import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { createHash, randomInt } from "node:crypto";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { suite, test } from "node:test";
import { silentLog } from "@turnpike/base";
import { openChainStore } from "@turnpike/chain-store";
import { must, scratchFolder } from "@turnpike/testkit/fixtures";
import { CHILD_CHUNK_BYTES, largeNode } from "../../test/snapshots/child.ts";
import { applyAll, openNode } from "../../test/snapshots/snapshots.ts";
import { makeSnapshot } from "./make-snapshot.ts";
import { SnapshotFolder } from "./snapshot-folder.ts";

const CHILD = join(import.meta.dirname, "../../test/snapshots/child.ts");
const KILLS = 4;
/** Chooses where a process that makes snapshots is killed. */
const SEED = randomInt(2 ** 32);
/** Least chunks of a snapshot there. */
const CHUNKS = 8;
const hex = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString("hex");

interface Child {
  readonly process: ChildProcess;
  readonly lines: string[];
  /** Resolves when it has said so much, or is gone. */
  said(lines: number): Promise<void>;
  /** Resolves when it has reported so many stages of this name. @throws AssertionError when it is gone before */
  reached(stage: string, times: number): Promise<void>;
  readonly ended: Promise<unknown>;
}

function start(...args: readonly string[]): Child {
  const child = spawn(process.execPath, [CHILD, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const input = createInterface({ input: child.stdout });
  const lines: string[] = [];
  input.on("line", (line) => void lines.push(line));
  let isOver = false;
  const ended = Promise.all([once(child, "exit"), once(input, "close")]).finally(() => {
    isOver = true;
  });
  const until = async (isThere: () => boolean): Promise<void> => {
    while (!isThere() && !isOver) await Promise.race([once(input, "line"), ended]);
  };
  return {
    process: child,
    lines,
    ended,
    said: (count) => until(() => lines.length >= count),
    async reached(stage, times) {
      const isThere = (): boolean => lines.filter((line) => line.startsWith(stage)).length >= times;
      await until(isThere);
      assert.ok(isThere(), `${stage} ${times} in ${lines.join()}`);
    },
  };
}

/** A number below `end`, the same for the same seed and name. */
const seeded = (name: string, end: number): number =>
  Number(createHash("sha256").update(`${SEED} ${name}`).digest().readBigUInt64BE() % BigInt(end));

suite("snapshots and kill -9", { timeout: 240_000 }, () => {
  test("killed while a state is restored, the store is empty or whole, and takes the snapshot again", async (t) => {
    await using scratch = await scratchFolder();
    const [fromPath, toPath] = [join(scratch.path, "from"), join(scratch.path, "to")];
    await using from = await largeNode(fromPath);
    const snapshot = await makeSnapshot({ heightBlocks: 4n, chunkBytes: CHILD_CHUNK_BYTES }, from);
    assert.ok(snapshot.chunks > 8);
    const isWhole = async (): Promise<boolean> => {
      await using store = await openChainStore({ folder: join(toPath, "store") });
      if (store.latestHeightBlocks() === undefined) {
        // Nothing is left that a genesis would stand upon.
        assert.equal(hex(store.appHashOf({ heightBlocks: 0n, changes: [], records: [] })), EMPTY);
        assert.equal([...store.records("app-start", { prefix: Buffer.alloc(0) })].length, 0);
        await store.verify();
        return false;
      }
      assert.equal(hex(store.appHash(4n)), hex(snapshot.appHash));
      await store.verify();
      return true;
    };
    for (const atReach of [2, snapshot.chunks]) {
      const child = start("restore", toPath, fromPath, `${atReach}`);
      await child.ended;
      assert.equal(child.process.signalCode, "SIGKILL");
      assert.equal(child.lines.length, atReach, child.lines.join());
      assert.equal(await isWhole(), false);
    }
    let whole = 0;
    for (let n = 0; n < KILLS; n++) {
      const child = start("restore", toPath, fromPath);
      await child.said(1 + 4 * n + randomInt(0, 4));
      child.process.kill("SIGKILL");
      await child.ended;
      if (await isWhole()) whole++;
    }
    t.diagnostic(`${2 + KILLS} kills; ${whole} of the ${KILLS} at random came after the end`);
    await using to = await openNode(toPath);
    assert.equal(await to.restorer.offer(snapshot, snapshot.appHash), "accept");
    assert.deepEqual(new Set(await applyAll(from, snapshot, to)), new Set(["accept"]));
    await to.store.verify();
  });

  test("killed while snapshots are made, every one that is listed is whole", async (t) => {
    await using scratch = await scratchFolder();
    const path = join(scratch.path, "node");
    const expected = new Map<bigint, string>();
    {
      await using node = await largeNode(path);
      const folder = new SnapshotFolder({ folder: join(scratch.path, "expected") }, { log: silentLog });
      for (const heightBlocks of [1n, 2n, 3n, 4n]) {
        const { hash } = await makeSnapshot(
          { heightBlocks, chunkBytes: CHILD_CHUNK_BYTES },
          { store: node.store, folder },
        );
        expected.set(heightBlocks, hex(hash));
      }
    }
    // At its beginning, among the chunks of the first, after two were listed, and later: the one of a height is replaced
    // then, so that there is always another.
    const stages = ["chunk", "listed", "pruned"] as const;
    const kills = [
      { stage: "open", times: 1, isListed: false },
      { stage: "chunk", times: 1 + seeded("first chunk", CHUNKS), isListed: false },
      { stage: "listed", times: 2 + seeded("listed", 4), isListed: true },
      {
        stage: stages[seeded("stage", stages.length)] ?? "chunk",
        times: 1 + seeded("later", 2 * CHUNKS),
        isListed: true,
      },
    ];
    t.diagnostic(`seed ${SEED}: ${kills.map(({ stage, times }) => `${stage} ${times}`).join(", ")}`);
    let leftovers = 0;
    for (const { stage, times, isListed } of kills) {
      const child = start("write", path);
      await child.reached(stage, times);
      child.process.kill("SIGKILL");
      await child.ended;
      const folder = new SnapshotFolder({ folder: join(path, "snapshots") }, { log: silentLog });
      leftovers += (await readdir(folder.folder).catch(() => [])).filter((name) => name.endsWith(".new")).length;
      const names = (await readdir(folder.folder).catch(() => [])).filter((name) => !name.endsWith(".new"));
      const found = await folder.list();
      assert.equal(found.length, names.length);
      if (isListed) assert.ok(found.length > 0, `nothing is listed after ${stage} ${times}, seed ${SEED}`);
      for (const { heightBlocks, hash, chunks } of found) {
        assert.equal(hex(hash), must(expected.get(heightBlocks)));
        for (let chunk = 0; chunk < chunks; chunk++) {
          assert.notEqual(await folder.load(heightBlocks, 1, chunk), undefined);
        }
      }
    }
    t.diagnostic(`${kills.length} kills left ${leftovers} snapshots half made`);
  });
});

const EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
