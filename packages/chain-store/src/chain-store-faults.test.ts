import assert from "node:assert/strict";
import { mkdir, readFile, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { type ErrorCode, isAppError } from "@turnpike/base";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { open } from "lmdb";
import { blockOf, shown } from "../test/model.ts";
import { openChainStore } from "./open-chain-store.ts";
import type { StateChange } from "./types.ts";

const key = (text: string): Buffer => Buffer.from(text);
const FILE = "chain.mdb";
const all = { prefix: Buffer.alloc(0) };

/** That the code is this one, and the message names the folder. */
const refused = (code: ErrorCode, folder?: string) => (error: unknown) => {
  assert.ok(isAppError(error, code), String(error));
  if (folder !== undefined) assert.match(error.message, new RegExp(folder));
  return true;
};

async function filled(folder: string, value = "a value that stands in the file once"): Promise<void> {
  await using store = await openChainStore({ folder });
  const changes = Array.from({ length: 500 }, (_, i): StateChange => [key(`k${i}`), key(`${value} ${i};`)]);
  await store.commit(blockOf(0n, changes));
}

/** Changes a byte wherever these bytes stand in the file; how often. */
async function flip(file: string, bytes: Uint8Array, at = 0): Promise<number> {
  const content = await readFile(file);
  let count = 0;
  for (let found = content.indexOf(bytes); found !== -1; found = content.indexOf(bytes, found + 1), count++) {
    content[found + at] = (content[found + at] ?? 0) ^ 0x55;
  }
  await writeFile(file, content);
  return count;
}

for (const point of ["chain-store.commit", "chain-store.planned"]) {
  test(`a store that is closed at ${point} refuses the block and keeps what was`, async () => {
    await using folder = await scratchFolder();
    await filled(folder.path);
    let closed: PromiseLike<void> | undefined;
    const faults = {
      reach: (name: string) => {
        if (name === point) closed = store[Symbol.asyncDispose]();
      },
    };
    const store = await openChainStore({ folder: folder.path }, { faults });
    const reader = store.at(0n);
    await assert.rejects(store.commit(blockOf(1n, [[key("k1"), undefined]])), refused("CHAIN_STORE", folder.path));
    await closed;
    assert.throws(() => reader.get(key("k1")), refused("CHAIN_STORE"));
    assert.throws(() => store.record("blocks", key("k1")), refused("CHAIN_STORE"));
    assert.throws(() => store.appHash(0n), refused("CHAIN_STORE"));
    await assert.rejects(store.commit(blockOf(1n, [])), refused("CHAIN_STORE"));
    await assert.rejects(store.prune(0n), refused("CHAIN_STORE"));
    await using again = await openChainStore({ folder: folder.path });
    assert.equal(again.latestHeightBlocks(), 0n);
    assert.equal(shown(again.at(0n).range(all)).length, 500);
    await again.verify();
  });
}

test("closing waits for the block that is being written", async () => {
  await using folder = await scratchFolder();
  const store = await openChainStore({ folder: folder.path });
  await store.commit(blockOf(0n, [[key("a"), key("1")]]));
  const outcome = store.commit(blockOf(1n, [[key("a"), key("2")]])).then(
    () => 1n,
    () => 0n,
  );
  await store[Symbol.asyncDispose]();
  await using again = await openChainStore({ folder: folder.path });
  assert.equal(again.latestHeightBlocks(), await outcome);
});

test("a fault while a block is planned leaves the store as it was, and the block can be tried again", async () => {
  await using folder = await scratchFolder();
  let broken = true;
  const faults = {
    reach: (name: string) => {
      if (broken && name === "chain-store.planned") throw new TypeError("a fault of the test");
    },
  };
  await using store = await openChainStore({ folder: folder.path }, { faults });
  await assert.rejects(store.commit(blockOf(0n, [[key("a"), key("1")]])), TypeError);
  assert.equal(store.latestHeightBlocks(), undefined);
  broken = false;
  await store.commit(blockOf(0n, [[key("b"), key("1")]]));
  assert.deepEqual(
    [...store.at(0n).range(all)].map(([name]) => Buffer.from(name).toString()),
    ["b"],
  );
});

test("a damaged value is an error, never a state", async () => {
  await using folder = await scratchFolder();
  await filled(folder.path);
  assert.ok((await flip(join(folder.path, FILE), key("stands in the file once 77;"), 3)) >= 1);
  await assert.rejects(openChainStore({ folder: folder.path }), refused("CHAIN_STORE_DAMAGED", folder.path));
  // What is damaged while the store is open, or in a file too long to be read whole, is found by whoever reads it.
  await using store = await openChainStore({ folder: folder.path, check: "none" });
  const reader = store.at(0n);
  assert.notEqual(reader.get(key("k76")), undefined);
  assert.throws(() => reader.get(key("k77")), refused("CHAIN_STORE_DAMAGED"));
  assert.throws(() => shown(reader.range(all)), refused("CHAIN_STORE_DAMAGED"));
  await assert.rejects(store.verify(), refused("CHAIN_STORE_DAMAGED"));
  await assert.rejects(store.commit(blockOf(1n, [[key("k77"), key("x")]])), refused("CHAIN_STORE_DAMAGED"));
  assert.equal(store.latestHeightBlocks(), 0n);
});

test("a damaged app hash is found when the store is opened", async () => {
  await using folder = await scratchFolder();
  await filled(folder.path);
  let appHash: Uint8Array = Buffer.alloc(0);
  {
    await using store = await openChainStore({ folder: folder.path });
    appHash = store.appHash(0n) ?? appHash;
  }
  assert.ok((await flip(join(folder.path, FILE), appHash, 5)) >= 2);
  await assert.rejects(openChainStore({ folder: folder.path }), refused("CHAIN_STORE_DAMAGED"));
});

test("a file that was cut off is refused", async () => {
  await using folder = await scratchFolder();
  await filled(folder.path);
  const file = join(folder.path, FILE);
  await truncate(file, (await stat(file)).size - 8_192);
  await assert.rejects(openChainStore({ folder: folder.path }), refused("CHAIN_STORE_DAMAGED", folder.path));
});

test("files of other programs and of other formats are refused by name, and stay as they are", async () => {
  await using folder = await scratchFolder();
  const at = (name: string): string => join(folder.path, name);
  const place = async (name: string, file: string, content: string | Buffer): Promise<string> => {
    await mkdir(at(name));
    await writeFile(join(at(name), file), content);
    return at(name);
  };
  const notes = await place("notes", "notes.txt", "mine");
  await assert.rejects(openChainStore({ folder: notes }), refused("CHAIN_STORE", "notes.txt"));
  const text = await place("text", FILE, "x".repeat(10_000));
  await assert.rejects(openChainStore({ folder: text }), refused("CHAIN_STORE", text));
  const empty = await place("empty", FILE, "");
  await assert.rejects(openChainStore({ folder: empty }), refused("CHAIN_STORE", empty));
  await writeFile(at("file"), "a file");
  await assert.rejects(openChainStore({ folder: at("file") }), refused("CHAIN_STORE", at("file")));

  await mkdir(at("foreign"));
  const foreign = open({ path: join(at("foreign"), FILE), noSubdir: true, overlappingSync: false });
  foreign.putSync("theirs", "data");
  await foreign.close();
  const before = await readFile(join(at("foreign"), FILE));
  await assert.rejects(openChainStore({ folder: at("foreign") }), refused("CHAIN_STORE", at("foreign")));
  assert.deepEqual(await readFile(join(at("foreign"), FILE)), before);

  await filled(at("newer"));
  await flip(join(at("newer"), FILE), key("turnpike chain store 2"), 21);
  await assert.rejects(openChainStore({ folder: at("newer"), check: "none" }), refused("CHAIN_STORE", at("newer")));
});

test("slow readers do not make the file grow", async () => {
  const sizeAfter = async (readers: number): Promise<number> => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    const block = (n: number): StateChange[] =>
      Array.from({ length: 1_000 }, (_, i): StateChange => [key(`k${i}`), i % 40 === n % 40 ? key(`${n}`) : key("x")]);
    await store.commit(blockOf(0n, block(0)));
    const open: Iterator<unknown>[] = [];
    for (let n = 1; n <= 30; n++) {
      for (let i = 0; i < readers; i++)
        open.push(
          store
            .at(BigInt(n - 1))
            .range(all)
            [Symbol.iterator](),
        );
      for (const range of open) range.next();
      await store.commit(blockOf(BigInt(n), block(n)));
    }
    return (await stat(join(folder.path, FILE))).size;
  };
  assert.equal(await sizeAfter(2), await sizeAfter(0));
});
