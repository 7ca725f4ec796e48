import assert from "node:assert/strict";
import fs, { mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { isAppError, silentLog } from "@turnpike/base";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { SnapshotFolder } from "./snapshot-folder.ts";

const APP_HASH = Buffer.alloc(32, 7);

async function add(folder: SnapshotFolder, heightBlocks: bigint): Promise<void> {
  await using draft = await folder.draft(heightBlocks);
  await draft.add(Buffer.from(`state ${heightBlocks}`));
  await draft.finish({ appHash: APP_HASH, entries: 1 });
}

const heights = async (folder: SnapshotFolder): Promise<bigint[]> =>
  (await folder.list()).map(({ heightBlocks }) => heightBlocks);

test("what is damaged goes with the next snapshot, and does not count as one that is kept", async () => {
  await using scratch = await scratchFolder();
  const folder = new SnapshotFolder({ folder: scratch.path }, { log: silentLog });
  for (const height of [1n, 2n, 3n]) await add(folder, height);
  const chunk = join(scratch.path, "3", "chunk-0");
  const content = await readFile(chunk);
  content[0] = (content[0] ?? 0) ^ 1;
  await writeFile(chunk, content);
  assert.equal(await folder.load(3n, 1, 0), undefined);
  // Its description is damaged, and nobody asked for it yet.
  await mkdir(join(scratch.path, "4"));
  await folder.keepNewest(2);
  assert.deepEqual((await readdir(scratch.path)).sort(), ["1", "2"]);
  assert.deepEqual(await heights(folder), [2n, 1n]);
  await add(folder, 3n);
  await folder.keepNewest(2);
  assert.deepEqual(await heights(folder), [3n, 2n]);
  assert.notEqual(await folder.load(3n, 1, 0), undefined);
});

test("a snapshot that replaces one of its height is offered whole, wherever the removal of the old one ends", async (t) => {
  await using scratch = await scratchFolder();
  const folder = new SnapshotFolder({ folder: scratch.path }, { log: silentLog });
  await add(folder, 1n);
  const { rm } = fs;
  // As a kill among the files of a folder: the first chunk is gone, and the rest stays.
  t.mock.method(fs, "rm", async (path: string, options: object) => {
    const names = await readdir(path).catch((): string[] => []);
    if (!names.includes("info.json")) return rm(path, options);
    await rm(join(path, "chunk-0"));
    throw new TypeError("killed");
  });
  syncBuiltinESMExports();
  await assert.rejects(add(folder, 1n));
  t.mock.restoreAll();
  syncBuiltinESMExports();
  const next = new SnapshotFolder({ folder: scratch.path }, { log: silentLog });
  assert.deepEqual(await heights(next), [1n]);
  assert.notEqual(await next.load(1n, 1, 0), undefined);
  await next.removeLeftovers();
  assert.deepEqual(await readdir(scratch.path), ["1"]);
});

test("snapshots above the newest block are of another chain, and do not push out this one's", async () => {
  await using scratch = await scratchFolder();
  const folder = new SnapshotFolder({ folder: scratch.path }, { log: silentLog });
  for (const height of [70n, 80n, 5n, 10n]) await add(folder, height);
  await folder.keepNewest(2, 10n);
  assert.deepEqual(await heights(folder), [10n, 5n]);
});

test("a snapshot that would take the room of blocks is not made, and leaves nothing", async () => {
  await using scratch = await scratchFolder();
  let freeBytes = 1_000_000_000;
  const folder = new SnapshotFolder({ folder: scratch.path }, { log: silentLog, freeBytes: () => freeBytes });
  await add(folder, 1n);
  {
    await using draft = await folder.draft(2n);
    await draft.add(Buffer.from("some"));
    freeBytes = 268_435_456;
    const full = (error: unknown) => isAppError(error, "CHAIN_STORE_FULL");
    await assert.rejects(draft.add(Buffer.from("more")), full);
    await assert.rejects(draft.finish({ appHash: APP_HASH, entries: 1 }), full);
  }
  assert.deepEqual(await readdir(scratch.path), ["1"]);
});

test("files are their owner's alone, and what a link leads to stays when the link goes", async () => {
  await using scratch = await scratchFolder();
  const [inside, outside] = [join(scratch.path, "data", "snapshots"), join(scratch.path, "outside")];
  const folder = new SnapshotFolder({ folder: inside }, { log: silentLog });
  await add(folder, 5n);
  for (const path of [inside, join(inside, "5")]) assert.equal((await stat(path)).mode & 0o777, 0o700);
  for (const file of await readdir(join(inside, "5"))) {
    assert.equal((await stat(join(inside, "5", file))).mode & 0o777, 0o600);
  }
  await mkdir(outside);
  await writeFile(join(outside, "mine"), "mine");
  await symlink(outside, join(inside, "4"));
  await folder.keepNewest(1);
  assert.deepEqual(await readdir(inside), ["5"]);
  assert.deepEqual(await readdir(outside), ["mine"]);
});
