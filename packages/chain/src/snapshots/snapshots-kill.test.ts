import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { suite, test } from "node:test";
import { silentLog } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { must } from "../../test/comet/recorded.ts";
import { CHILD_CHUNK_BYTES, largeNode } from "../../test/snapshots/child.ts";
import { applyAll, openNode } from "../../test/snapshots/snapshots.ts";
import { scratchFolder } from "../../test/store/model.ts";
import { openChainStore } from "../store/open-chain-store.ts";
import { makeSnapshot } from "./make-snapshot.ts";
import { SnapshotFolder } from "./snapshot-folder.ts";

const CHILD = join(import.meta.dirname, "../../test/snapshots/child.ts");
const KILLS = 4;
const hex = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString("hex");

interface Child {
  readonly process: ChildProcess;
  readonly lines: string[];
  /** Resolves when it has said so much, or is gone. */
  said(lines: number): Promise<void>;
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
  return {
    process: child,
    lines,
    ended,
    async said(count) {
      while (lines.length < count && !isOver) await Promise.race([once(input, "line"), ended]);
    },
  };
}

/** Files of the snapshot that is being made. */
async function drafted(path: string): Promise<number> {
  const folder = join(path, "snapshots");
  const none = (): string[] => [];
  const draft = (await readdir(folder).catch(none)).find((name) => name.endsWith(".new"));
  return draft === undefined ? 0 : (await readdir(join(folder, draft)).catch(none)).length;
}

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
    let [listed, leftovers] = [0, 0];
    for (let n = 0; n < KILLS; n++) {
      const child = start("write", path);
      await child.said(1 + 3 * n);
      // At its beginning, or among the chunks of one.
      if (n > 0) {
        const least = randomInt(1, 9);
        await eventually(`a snapshot with ${least} files`, async () => (await drafted(path)) >= least);
      }
      child.process.kill("SIGKILL");
      await child.ended;
      const folder = new SnapshotFolder({ folder: join(path, "snapshots") }, { log: silentLog });
      leftovers += (await readdir(folder.folder).catch(() => [])).filter((name) => name.endsWith(".new")).length;
      const names = (await readdir(folder.folder).catch(() => [])).filter((name) => !name.endsWith(".new"));
      const found = await folder.list();
      assert.equal(found.length, names.length);
      for (const { heightBlocks, hash, chunks } of found) {
        listed++;
        assert.equal(hex(hash), must(expected.get(heightBlocks)));
        for (let chunk = 0; chunk < chunks; chunk++) {
          assert.notEqual(await folder.load(heightBlocks, 1, chunk), undefined);
        }
      }
    }
    t.diagnostic(`${KILLS} kills: ${listed} snapshots were listed after them, ${leftovers} were half made`);
    assert.ok(listed > 0);
  });
});

const EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
