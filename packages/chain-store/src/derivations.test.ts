import assert from "node:assert/strict";
import { test } from "node:test";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import { blockOf, shown, someHistory, someKey } from "../test/model.ts";
import { KeptDerivations } from "./derivations.ts";
import { openChainStore } from "./open-chain-store.ts";
import type { Derivation } from "./types.ts";

const texts: Derivation<readonly string[]> = { make: (entries) => shown(entries) };
const count: Derivation<{ readonly entries: number }> = { make: (entries) => ({ entries: shown(entries).length }) };

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
  const ask = (prefix: string, height: bigint): number => kept.get(derivation, Buffer.from(prefix), height, () => []);
  assert.deepEqual([ask("a", 1n), ask("a", 1n), ask("b", 1n)], [1, 1, 2]);
  kept.committed(2n, [Buffer.from("a"), Buffer.from("c")]);
  assert.deepEqual([ask("b", 2n), ask("b", 1n), ask("a", 1n), ask("a", 2n)], [2, 2, 1, 3]);
  // b was asked for longest ago.
  assert.deepEqual([ask("a", 1n), ask("a", 2n), ask("b", 2n)], [1, 3, 4]);
  kept.committed(3n, [Buffer.from("aa")]);
  assert.deepEqual([ask("b", 3n), ask("a", 3n)], [4, 5]);
});
