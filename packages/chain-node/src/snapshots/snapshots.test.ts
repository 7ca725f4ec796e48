import assert from "node:assert/strict";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { isAppError, silentLog } from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import { must, scratchFolder } from "@turnpike/testkit/fixtures";
import { ADDRESSES, balanceQuery } from "../../test/abci/chain.ts";
import {
  applyAll,
  entryBytes,
  forge,
  GENESIS,
  nextBlock,
  openNode,
  startNode,
  type TestNode,
} from "../../test/snapshots/snapshots.ts";
import { CHUNK_BYTES } from "./format.ts";
import { makeSnapshot } from "./make-snapshot.ts";
import { SnapshotFolder } from "./snapshot-folder.ts";

const all = { prefix: Buffer.alloc(0) };
const hex = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString("hex");
const appHashOf = ({ store }: TestNode, height: bigint): Uint8Array => must(store.appHash(height));

const entriesOf = ({ store }: TestNode): string[] =>
  Array.from(store.at(4n).range(all), ([key, value]) => `${hex(key)}=${hex(value)}`);

async function made(node: TestNode, heightBlocks: bigint, chunkBytes = 300) {
  return makeSnapshot({ heightBlocks, chunkBytes }, node);
}

/** A node with a snapshot of block 4, and an empty one. */
async function withTwo(use: (from: TestNode, to: TestNode, path: string) => Promise<void>): Promise<void> {
  await using scratch = await scratchFolder();
  await using from = await startNode(join(scratch.path, "from"), 4);
  await using to = await openNode(join(scratch.path, "to"));
  await use(from, to, scratch.path);
}

test("a restored state has the same app hash, entries, answers and next blocks", async () => {
  await withTwo(async (from, to) => {
    // While it is made, blocks go on.
    const making = made(from, 4n);
    await nextBlock(from);
    const snapshot = await making;
    assert.ok(snapshot.chunks > 3);
    assert.equal(hex(snapshot.hash), hex(sha256(snapshot.metadata)));
    assert.deepEqual(await from.folder.list(), [snapshot]);
    assert.equal(await to.restorer.offer(snapshot, appHashOf(from, 4n)), "accept");
    assert.equal(to.application.latestHeightBlocks(), 0n);
    const results = await applyAll(from, snapshot, to);
    assert.deepEqual(new Set(results), new Set(["accept"]));
    assert.deepEqual([to.store.earliestHeightBlocks(), to.store.latestHeightBlocks()], [4n, 4n]);
    assert.equal(to.application.latestHeightBlocks(), 4n);
    assert.equal(to.application.chainId, from.application.chainId);
    assert.equal(hex(to.application.latestAppHash()), hex(appHashOf(from, 4n)));
    assert.deepEqual(entriesOf(to), entriesOf(from));
    await to.store.verify();
    const { path, data } = balanceQuery(must(ADDRESSES[1]));
    assert.deepEqual(to.application.abciQuery(path, data, 4n), from.application.abciQuery(path, data, 4n));
    assert.deepEqual(to.application.exportState(4n), from.application.exportState(4n));
    const early = to.application.abciQuery(path, data, 3n);
    assert.notEqual(early.code, 0);
    assert.equal(hex(await nextBlock(to)), hex(appHashOf(from, 5n)));
    assert.equal(hex(await nextBlock(to)), hex(await nextBlock(from)));
    assert.deepEqual(entriesOf(to), entriesOf(from));
    await to.store.verify();
  });
});

test("the same state gives the same snapshot, on any node", async () => {
  await using scratch = await scratchFolder();
  await using one = await startNode(join(scratch.path, "one"), 3);
  await using two = await startNode(join(scratch.path, "two"), 5);
  const [a, b] = await Promise.all([made(one, 3n), made(two, 3n)]);
  assert.deepEqual([hex(a.hash), hex(a.metadata), a.entries], [hex(b.hash), hex(b.metadata), b.entries]);
});

test("offers of strangers are refused by what is wrong with them", async () => {
  await withTwo(async (from, to) => {
    const snapshot = await made(from, 4n);
    const appHash = appHashOf(from, 4n);
    const offer = (change: object) => to.restorer.offer({ ...snapshot, ...change }, appHash);
    const short = snapshot.metadata.subarray(1);
    const many = Buffer.alloc(32 * 5_000);
    assert.equal(await offer({ format: 2 }), "reject-format");
    assert.equal(await offer({ format: 0 }), "reject-format");
    assert.equal(await offer({ hash: Buffer.alloc(32) }), "reject");
    assert.equal(await offer({ hash: Buffer.alloc(0) }), "reject");
    assert.equal(await offer({ chunks: snapshot.chunks + 1 }), "reject");
    assert.equal(await offer({ chunks: 0, metadata: Buffer.alloc(0), hash: sha256(Buffer.alloc(0)) }), "reject");
    assert.equal(await offer({ metadata: short, hash: sha256(short) }), "reject");
    assert.equal(await offer({ chunks: 5_000, metadata: many, hash: sha256(many) }), "reject");
    assert.equal(await offer({ chunks: 4_294_967_295 }), "reject");
    for (const heightBlocks of [0n, 1n << 63n, (1n << 64n) - 1n]) assert.equal(await offer({ heightBlocks }), "reject");
    assert.equal(await to.restorer.offer(snapshot, Buffer.alloc(0)), "reject");
    assert.equal(to.store.latestHeightBlocks(), undefined);
    assert.equal((await to.restorer.apply(0, Buffer.alloc(3), "peer")).result, "abort");
    assert.equal(await offer({}), "accept");
  });
});

test("chunks that are not the snapshot's are asked of somebody else, and their sender is refused", async () => {
  await withTwo(async (from, to) => {
    const snapshot = await made(from, 4n);
    await to.restorer.offer(snapshot, appHashOf(from, 4n));
    const [first, second] = [must(await from.folder.load(4n, 1, 0)), must(await from.folder.load(4n, 1, 1))];
    const flipped = Buffer.from(first);
    flipped[9] = (flipped[9] ?? 0) ^ 1;
    const bomb = deflateRawSync(Buffer.alloc(CHUNK_BYTES + 1));
    assert.ok(bomb.length < 10_000);
    for (const bad of [flipped, second, bomb, first.subarray(1), Buffer.alloc(0), Buffer.alloc(CHUNK_BYTES * 2)]) {
      assert.deepEqual(await to.restorer.apply(0, bad, "hostile"), { result: "retry", rejectedSenders: ["hostile"] });
    }
    assert.deepEqual(await to.restorer.apply(0, first, "peer"), { result: "accept" });
    assert.deepEqual(await to.restorer.apply(1, first, "other"), { result: "retry", rejectedSenders: ["other"] });
    for (let chunk = 1; chunk < snapshot.chunks; chunk++) {
      const packed = must(await from.folder.load(4n, 1, chunk));
      assert.equal((await to.restorer.apply(chunk, packed, "peer")).result, "accept");
    }
    assert.equal(hex(to.application.latestAppHash()), hex(appHashOf(from, 4n)));
  });
});

test("a snapshot whose sums fit and whose state is another one is refused, and an honest one taken after it", async () => {
  await withTwo(async (from, to) => {
    const honest = await made(from, 4n);
    const appHash = appHashOf(from, 4n);
    const key = (text: string) => Buffer.from(text);
    const entries = [...from.store.at(4n).range(all)].map(([k, v]) => entryBytes(k, v));
    const stream = Buffer.concat(entries);
    const other = Buffer.from(stream);
    other[other.length - 1] = (other.at(-1) ?? 0) ^ 1;
    const forged: readonly (readonly [string, readonly Uint8Array[]])[] = [
      ["another value", [other]],
      ["an entry is missing", [Buffer.concat(entries.slice(1))]],
      ["one more", [stream, entryBytes(key("\u{10ffff}"), key("x"))]],
      ["the beginning of one more", [stream, Buffer.of(0, 1, 0)]],
      ["cut off", [stream.subarray(0, -1)]],
      ["keys out of order", [Buffer.concat(entries.toReversed())]],
      ["a key twice", [stream, must(entries.at(-1))]],
      ["a key of no bytes", [entryBytes(key("k"), key("v"), [0])]],
      ["a value beyond all bounds", [entryBytes(key("k"), key("v"), [1, 4_294_967_295])]],
      ["nothing", [Buffer.alloc(0)]],
    ];
    for (const [name, chunks] of forged) {
      const { offer, packed } = await forge(4n, chunks);
      assert.equal(await to.restorer.offer(offer, appHash), "accept", name);
      const results: string[] = [];
      for (const [index, chunk] of packed.entries()) {
        results.push((await to.restorer.apply(index, chunk, "hostile")).result);
      }
      assert.equal(results.at(-1), "reject-snapshot", name);
      assert.equal(to.store.latestHeightBlocks(), undefined);
      assert.equal(to.application.latestHeightBlocks(), 0n);
    }
    // One that is broken off by another offer leaves nothing, either.
    const { offer, packed } = await forge(4n, [stream.subarray(0, 500), stream.subarray(500)]);
    await to.restorer.offer(offer, appHash);
    await to.restorer.apply(0, must(packed[0]), "peer");
    assert.equal(await to.restorer.offer(honest, appHash), "accept");
    assert.deepEqual(new Set(await applyAll(from, honest, to)), new Set(["accept"]));
    await to.store.verify();
    assert.equal(hex(await nextBlock(to)), hex(await nextBlock(from)));
  });
});

test("a store with blocks takes no snapshot; one that a snapshot brought up and no block followed takes another", async () => {
  await withTwo(async (from, to) => {
    const [third, fourth] = [await made(from, 3n), await made(from, 4n)];
    assert.equal(await from.restorer.offer(third, appHashOf(from, 3n)), "abort");
    assert.equal(from.application.latestHeightBlocks(), 4n);
    for (const [snapshot, height] of [
      [third, 3n],
      [fourth, 4n],
    ] as const) {
      assert.equal(await to.restorer.offer(snapshot, appHashOf(from, height)), "accept");
      await applyAll(from, snapshot, to);
      assert.equal(to.application.latestHeightBlocks(), height);
    }
    assert.equal(to.store.appHash(3n), undefined);
    await to.store.verify();
    await nextBlock(to);
    assert.equal(await to.restorer.offer(fourth, appHashOf(from, 4n)), "abort");
    assert.equal(to.application.latestHeightBlocks(), 5n);
  });
});

test("a state that is being restored takes no blocks, and a restore that is given up leaves an empty store", async () => {
  await withTwo(async (_, to) => {
    const refused = (error: unknown) => isAppError(error, "CHAIN_STORE");
    {
      await using restore = await to.store.restore(7n);
      await restore.add([[Buffer.from("b"), Buffer.from("1")]]);
      await assert.rejects(restore.add([[Buffer.from("a"), Buffer.from("1")]]), refused);
      await assert.rejects(restore.add([[Buffer.alloc(513), Buffer.from("1")]]), refused);
      await assert.rejects(to.store.restore(8n), refused);
      await assert.rejects(to.store.commit({ heightBlocks: 1n, changes: [], records: [] }), refused);
      assert.equal(await restore.finish(Buffer.alloc(32), []), false);
    }
    const start = await to.application.start(GENESIS);
    assert.equal(hex(start.appHash), hex(to.store.appHash(0n)));
    await to.store.verify();
  });
});

test("what is damaged on the disk is neither listed nor sent", async () => {
  await withTwo(async (from, _, path) => {
    const heights = [1n, 2n, 3n, 4n] as const;
    for (const height of heights) await made(from, height);
    const at = (height: bigint, file: string): string => join(path, "from", "snapshots", `${height}`, file);
    const flip = async (file: string): Promise<void> => {
      const content = await readFile(file);
      content[5] = (content[5] ?? 0) ^ 1;
      await writeFile(file, content);
    };
    await flip(at(1n, "metadata"));
    await flip(at(2n, "chunk-1"));
    await rm(at(3n, "chunk-0"));
    let said = 0;
    const log = { ...silentLog, error: () => void said++ };
    const folder = new SnapshotFolder({ folder: from.folder.folder }, { log });
    const listed = async (): Promise<bigint[]> => (await folder.list()).map(({ heightBlocks }) => heightBlocks);
    assert.deepEqual(await listed(), [4n, 2n]);
    assert.notEqual(await folder.load(2n, 1, 0), undefined);
    assert.equal(await folder.load(2n, 1, 1), undefined);
    assert.equal(await folder.load(2n, 1, 0), undefined);
    assert.deepEqual(await listed(), [4n]);
    assert.equal(said, 3);
    for (const [height, format, chunk] of [
      [4n, 2, 0],
      [4n, 1, 4_000_000_000],
      [5n, 1, 0],
      [0n, 1, 0],
      [(1n << 64n) - 1n, 1, 0],
    ] as const) {
      assert.equal(await folder.load(height, format, chunk), undefined);
    }
  });
});

test("leftovers go, files of others stay, and a snapshot that is not finished is none", async () => {
  await withTwo(async (from) => {
    const { folder } = from;
    {
      await using draft = await folder.draft(9n);
      await draft.add(Buffer.from("some"));
      assert.deepEqual(await folder.list(), []);
    }
    assert.deepEqual(await readdir(folder.folder), []);
    await folder.draft(8n);
    await writeFile(join(folder.folder, "notes.txt"), "mine");
    await folder.removeLeftovers();
    assert.deepEqual(await readdir(folder.folder), ["notes.txt"]);
    assert.deepEqual(await folder.list(), []);
    await assert.rejects(made(from, 0n), (error) => isAppError(error, "HEIGHT_UNAVAILABLE"));
    await assert.rejects(made(from, 5n), (error) => isAppError(error, "HEIGHT_UNAVAILABLE"));
  });
});
