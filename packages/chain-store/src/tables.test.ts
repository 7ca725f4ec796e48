import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { Tables } from "./tables.ts";

const PAGE_BYTES = 4_096;
const FLAGS_AT = 18;
const KEY = Buffer.from("a key that stands on one page");

suite("tables of a store's file", () => {
  test("a page that LMDB refuses while it reads is a damaged store, by every way to read", async () => {
    await using folder = await scratchFolder();
    const file = join(folder.path, "chain.mdb");
    const opts = { file, mapSizeBytes: 1 << 24, create: true };
    const made = new Tables(opts);
    made.write(() => made.latest.put(KEY, Buffer.from("value")));
    await made.close();
    const bytes = await readFile(file);
    for (let at = bytes.indexOf(KEY); at >= 0; at = bytes.indexOf(KEY, at + 1)) {
      bytes.writeUInt16LE(0, at - (at % PAGE_BYTES) + FLAGS_AT);
    }
    await writeFile(file, bytes);
    const reads: Readonly<Record<string, (tables: Tables) => unknown>> = {
      get: ({ latest }) => latest.get(KEY),
      entries: ({ latest }) => [...latest.entries({})],
      keys: ({ latest }) => [...latest.keys({})],
    };
    for (const [name, read] of Object.entries(reads)) {
      const tables = new Tables({ ...opts, create: false });
      try {
        assert.throws(
          () => read(tables),
          (error) => isAppError(error, "CHAIN_STORE_DAMAGED") && error.message.includes(folder.path),
          name,
        );
      } finally {
        await tables.close();
      }
    }
  });
});
