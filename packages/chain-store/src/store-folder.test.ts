import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { blockOf } from "../test/model.ts";
import { openChainStore } from "./open-chain-store.ts";
import { STORE_FILE } from "./store-folder.ts";
import { Tables } from "./tables.ts";

const STAMP = Buffer.from("stamp");

async function withTables<T>(folder: string, work: (tables: Tables) => T): Promise<T> {
  const tables = new Tables({ file: join(folder, STORE_FILE), mapSizeBytes: 1 << 24, create: false });
  try {
    return work(tables);
  } finally {
    await tables.close();
  }
}

test("a store of the format before is opened, and is not for older programs from then on", async () => {
  await using folder = await scratchFolder();
  {
    await using store = await openChainStore({ folder: folder.path });
    await store.commit(blockOf(0n, [[Buffer.from("a"), Buffer.from("b")]]));
  }
  await withTables(folder.path, (tables) =>
    tables.write(() => tables.meta.put(STAMP, Buffer.from("turnpike chain store 1\n"))),
  );
  {
    await using store = await openChainStore({ folder: folder.path });
    assert.deepEqual(store.at(0n).get(Buffer.from("a")), Buffer.from("b"));
  }
  assert.equal(await withTables(folder.path, ({ meta }) => meta.get(STAMP)?.toString()), "turnpike chain store 2\n");
});
