import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { blockOf } from "../test/model.ts";
import { openChainStore } from "./open-chain-store.ts";

const NAME = Buffer.from("b");
const VALUE = Buffer.from("value");

suite("keys that are longer than any in the store", () => {
  // LMDB itself throws at some 2,000 bytes: a question would look like a fault of the program.
  for (const length of [513, 1_000, 2_000, 100_000]) {
    test(`of ${length} bytes are not found, and bound ranges as they should`, async () => {
      await using folder = await scratchFolder();
      await using store = await openChainStore({ folder: folder.path });
      await store.commit(blockOf(0n, [[NAME, VALUE]], [{ table: "t", key: NAME, value: VALUE }]));
      // The state of an older height is read in another way.
      await store.commit(blockOf(1n, [[Buffer.from("c"), VALUE]]));
      const [before, after, zeros] = [Buffer.alloc(length, "a"), Buffer.alloc(length, "b"), Buffer.alloc(length)];
      for (const reader of [store.at(0n), store.at(1n)]) {
        const keys = (options: { prefix: Buffer; from?: Buffer; to?: Buffer; reverse?: boolean }): string[] =>
          [...reader.range(options)].map(([key]) => Buffer.from(key).toString()).filter((key) => key === "b");
        for (const key of [before, after, zeros]) {
          assert.equal(reader.get(key), undefined);
          assert.deepEqual(keys({ prefix: key }), []);
        }
        for (const reverse of [false, true]) {
          const prefix = Buffer.alloc(0);
          assert.deepEqual(keys({ prefix, from: before, reverse }), ["b"]);
          assert.deepEqual(keys({ prefix, from: zeros, reverse }), ["b"]);
          assert.deepEqual(keys({ prefix, from: after, reverse }), []);
          assert.deepEqual(keys({ prefix, to: before, reverse }), []);
          assert.deepEqual(keys({ prefix, to: after, reverse }), ["b"]);
        }
      }
      assert.equal(store.record("t", before), undefined);
      assert.deepEqual([...store.records("t", { prefix: before })], []);
      assert.equal([...store.records("t", { prefix: Buffer.alloc(0), from: before })].length, 1);
      assert.equal([...store.records("t", { prefix: Buffer.alloc(0), from: after })].length, 0);
    });
  }
});
