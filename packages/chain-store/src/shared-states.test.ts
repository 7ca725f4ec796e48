import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { openChainStore } from "./open-chain-store.ts";
import { SharedStates } from "./shared-states.ts";
import type { Bytes, ChainStore, Derivation } from "./types.ts";

const key = (name: string): Bytes => Buffer.from(name);
const commit = (store: ChainStore, heightBlocks: bigint, entries: Readonly<Record<string, string>>): Promise<Bytes> =>
  store.commit({ heightBlocks, changes: Object.entries(entries).map(([k, v]) => [key(k), key(v)]), records: [] });
const textOf = (value: Bytes | undefined): string | undefined =>
  value === undefined ? undefined : Buffer.from(value).toString();

/** Counts how often it is made. */
function counted(): { readonly derivation: Derivation<string>; readonly made: () => number } {
  let made = 0;
  return {
    made: () => made,
    derivation: {
      make(entries) {
        made++;
        return Array.from(entries, ([, value]) => textOf(value)).join(",");
      },
    },
  };
}

suite("states that another thread writes", () => {
  test("are seen right after they were written, the past included", async () => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    await commit(store, 1n, { a: "1", b: "1" });
    await using shared = new SharedStates({ folder: folder.path, mapSizeBytes: 1 << 24 });
    assert.equal(textOf(shared.at(1n).get(key("a"))), "1");
    for (let height = 2n; height < 6n; height++) {
      await commit(store, height, { a: `${height}` });
      // Within one piece of work nothing changes.
      assert.equal(textOf(shared.at(height - 1n).get(key("a"))), `${height - 1n}`);
      assert.throws(
        () => shared.at(height),
        (error) => isAppError(error, "HEIGHT_UNAVAILABLE"),
      );
      shared.renew();
      assert.deepEqual([shared.latestHeightBlocks(), shared.earliestHeightBlocks()], [height, 1n]);
      assert.equal(textOf(shared.at(height).get(key("a"))), `${height}`);
      assert.equal(textOf(shared.at(1n).get(key("a"))), "1");
    }
    await store.prune(4n);
    shared.renew();
    assert.throws(
      () => shared.at(3n),
      (error) => isAppError(error, "HEIGHT_UNAVAILABLE"),
    );
  });

  test("what was derived of them stays while no block changes it, and no longer", async () => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    await commit(store, 1n, { "a/1": "x", "b/1": "y" });
    await using shared = new SharedStates({ folder: folder.path, mapSizeBytes: 1 << 24 });
    const { derivation, made } = counted();
    const derived = (height: bigint): string | undefined => shared.at(height).derived?.(derivation, key("a/"));
    assert.equal(derived(1n), "x");
    await commit(store, 2n, { "b/1": "z" });
    shared.renew();
    assert.deepEqual([derived(2n), made()], ["x", 1]);
    await commit(store, 3n, { "a/2": "w" });
    shared.renew();
    assert.deepEqual([derived(3n), derived(2n), made()], ["x,w", "x", 2]);
    // What pruned blocks changed is not known any more.
    await commit(store, 4n, { "a/1": "v" });
    await commit(store, 5n, { "b/1": "u" });
    await store.prune(5n);
    shared.renew();
    assert.deepEqual([derived(5n), made()], ["v,w", 3]);
  });
});
