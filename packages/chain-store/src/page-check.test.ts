import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { blockOf } from "../test/model.ts";
import { openChainStore } from "./open-chain-store.ts";
import { checkPages } from "./page-check.ts";
import { Tables } from "./tables.ts";
import type { StateChange } from "./types.ts";

const PAGE_BYTES = 4_096;
const isChecked = (): boolean => true;
const damaged = (error: unknown): boolean => isAppError(error, "CHAIN_STORE_DAMAGED");
const key = (text: string): Buffer => Buffer.from(text);

/** Several levels of pages, values on pages of their own, and free pages. */
async function fill(folder: string): Promise<string> {
  await using store = await openChainStore({ folder });
  for (let height = 0; height < 12; height++) {
    const changes = Array.from({ length: 400 }, (_, i): StateChange => {
      const isGone = height > 3 && (i + height) % 11 === 0;
      return [key(`k${i}`), isGone ? undefined : Buffer.alloc(i % 50 === 0 ? 9_000 : 80, `${height} ${i}`)];
    });
    await store.commit(blockOf(BigInt(height), changes));
    if (height > 6) await store.prune(BigInt(height - 3));
  }
  return join(folder, "chain.mdb");
}

suite("pages of a store's file", { timeout: 180_000 }, () => {
  test("a sound file passes, whatever blocks and pruning made of it", async () => {
    await using folder = await scratchFolder();
    const file = await fill(folder.path);
    const { pages, entries } = await checkPages({ file, isChecked });
    assert.ok(pages > 50 && entries > 1_000, `${pages} pages, ${entries} entries`);
    await using again = await openChainStore({ folder: folder.path });
    await again.verify();
  });

  test("a map that is no whole number of pages, and a value put again shorter in one transaction, are sound", async () => {
    await using folder = await scratchFolder();
    const file = join(folder.path, "odd.mdb");
    const tables = new Tables({ file, mapSizeBytes: 1_000_003, create: true });
    for (const [longer, shorter] of [
      [300_000, 20_000],
      [9_000, 5_000],
    ] as const) {
      tables.write(() => {
        tables.latest.put(key(`k${longer}`), Buffer.alloc(longer, 1));
        tables.latest.put(key(`k${longer}`), Buffer.alloc(shorter, 2));
      });
      assert.ok((await checkPages({ file, isChecked })).pages > 3);
    }
    await tables.close();
    await checkPages({ file, isChecked });
  });

  test("what is not what LMDB wrote is refused: an entry without its place, a head, an older meta page", async () => {
    await using folder = await scratchFolder();
    const file = await fill(folder.path);
    const sound = await readFile(file);
    const isNewest = sound.readBigUInt64LE(152) > sound.readBigUInt64LE(PAGE_BYTES + 152) ? 0 : PAGE_BYTES;
    const root = Number(sound.readBigUInt64LE(isNewest + 96 + 40)) * PAGE_BYTES;
    const cases: Readonly<Record<string, (bytes: Buffer) => Buffer | undefined>> = {
      "an entry less on a page": (bytes) => void bytes.writeUInt16LE(bytes.readUInt16LE(root + 20) - 2, root + 20),
      "a page's number": (bytes) => void bytes.writeUInt8(bytes.readUInt8(root) ^ 1, root),
      "a page of the future": (bytes) => void bytes.writeBigUInt64LE(1n << 40n, root + 8),
      "two entries in each other's place": (bytes) => {
        const [first, second] = [bytes.readUInt16LE(root + 24), bytes.readUInt16LE(root + 26)];
        bytes.writeUInt16LE(second, root + 24);
        bytes.writeUInt16LE(first, root + 26);
      },
      "an older commit as the newest": (bytes) => void bytes.writeBigUInt64LE(0n, isNewest + 152),
      "a commit that was never made": (bytes) => {
        const older = PAGE_BYTES - isNewest;
        bytes.writeBigUInt64LE(bytes.readBigUInt64LE(older + 152) + 2n, older + 152);
      },
      "a file without its end": (bytes) => void bytes.fill(0, root, bytes.length),
      "a file cut off": (bytes) => bytes.subarray(0, root),
    };
    for (const [name, change] of Object.entries(cases)) {
      const whole = Buffer.from(sound);
      const bytes = change(whole) ?? whole;
      await writeFile(file, bytes);
      await assert.rejects(checkPages({ file, isChecked }), damaged, name);
      await assert.rejects(openChainStore({ folder: folder.path }), damaged, name);
      assert.ok(bytes.equals(await readFile(file)), `${name}: the file stays as it is`);
    }
    await writeFile(file, sound);
    await using store = await openChainStore({ folder: folder.path });
    assert.equal(store.latestHeightBlocks(), 11n);
  });
});
