import assert from "node:assert/strict";
import { test } from "node:test";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import { blockOf, shown, someHistory, someKey } from "../test/model.ts";
import { KeptDerivations } from "./derivations.ts";
import { openChainStore } from "./open-chain-store.ts";
import type { Bytes, Derivation } from "./types.ts";

const latin = (bytes: Bytes): string => Buffer.from(bytes).toString("latin1");
const NO_ENTRIES = { all: () => [], get: () => undefined };

const texts: Derivation<readonly string[]> = { make: (entries) => shown(entries) };
const count: Derivation<{ readonly entries: number }> = { make: (entries) => ({ entries: shown(entries).length }) };

/** The entries as a map that takes changes over. */
const updating: Derivation<ReadonlyMap<string, string>> = {
  make: (entries) => new Map([...entries].map(([key, value]) => [latin(key), latin(value)])),
  update(value, changes) {
    const next = new Map(value);
    for (const [key, entry] of changes) {
      if (entry === undefined) next.delete(latin(key));
      else next.set(latin(key), latin(entry));
    }
    return new Map([...next].sort(([a], [b]) => (a < b ? -1 : 1)));
  },
};

test("at every height, whatever was asked before and committed since, a derivation is as made anew", async () => {
  await fc.assert(
    fc.asyncProperty(someHistory, fc.array(someKey, { minLength: 1, maxLength: 3 }), async (history, prefixes) => {
      await using folder = await scratchFolder();
      await using store = await openChainStore({ folder: folder.path });
      for (const [n, changes] of history.entries()) {
        await store.commit(blockOf(BigInt(n), changes));
        for (let height = n; height >= 0; height -= 3) {
          const reader = store.at(BigInt(height));
          for (const prefix of [...prefixes, Buffer.alloc(0)]) {
            const anew = shown(reader.range({ prefix }));
            assert.deepEqual(reader.derived?.(texts, prefix), anew);
            assert.equal(reader.derived?.(count, prefix).entries, anew.length);
            const updated = reader.derived?.(updating, prefix);
            assert.deepEqual([...(updated ?? [])], [...updating.make(reader.range({ prefix }))]);
          }
        }
      }
    }),
    { numRuns: 25 },
  );
});

test("what no block changed is made once; a changed one, another prefix and one that had to go are made again", () => {
  let made = 0;
  const derivation: Derivation<number> = { make: () => ++made };
  const kept = new KeptDerivations({ maxKept: 2 });
  const ask = (prefix: string, height: bigint): number => kept.get(derivation, Buffer.from(prefix), height, NO_ENTRIES);
  assert.deepEqual([ask("a", 1n), ask("a", 1n), ask("b", 1n)], [1, 1, 2]);
  kept.committed(2n, [Buffer.from("a"), Buffer.from("c")]);
  assert.deepEqual([ask("b", 2n), ask("b", 1n), ask("a", 1n), ask("a", 2n)], [2, 2, 1, 3]);
  // b was asked for longest ago.
  assert.deepEqual([ask("a", 1n), ask("a", 2n), ask("b", 2n)], [1, 3, 4]);
  kept.committed(3n, [Buffer.from("aa")]);
  assert.deepEqual([ask("b", 3n), ask("a", 3n)], [4, 5]);
});

test("a changed entry updates what was made before, once it is queried, and an older height keeps its value", () => {
  const calls: string[] = [];
  const derivation: Derivation<string> = {
    make: () => {
      calls.push("make");
      return "made";
    },
    update: (value, changes) => {
      calls.push(`update ${changes.map(([key, entry]) => `${String(key)}=${String(entry)}`).join(",")}`);
      return `${value}+${changes.length}`;
    },
  };
  const derivations = new KeptDerivations({ maxKept: 8 });
  const query = (height: bigint): string =>
    derivations.get(derivation, Buffer.from("a"), height, {
      all: () => [],
      get: (key) => (String(key) === "a2" ? undefined : Buffer.from(`${height}`)),
    });
  assert.equal(query(1n), "made");
  derivations.committed(
    2n,
    ["a1", "a2", "b"].map((key) => Buffer.from(key)),
  );
  derivations.committed(3n, [Buffer.from("a3")]);
  derivations.committed(4n, [Buffer.from("b")]);
  assert.deepEqual(calls, ["make"]);
  assert.deepEqual([query(4n), query(3n), query(1n)], ["made+3", "made+3", "made"]);
  assert.deepEqual(calls, ["make", "update a1=4,a2=undefined,a3=4"]);
  // No query came for block 2 while it was the newest.
  assert.equal(query(2n), "made");
  derivations.committed(5n, [Buffer.from("a1")]);
  assert.equal(query(5n), "made+3+1");
});
