import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { TxResult } from "../tx/run-tx.ts";
import { Simulations } from "./simulations.ts";

const BOUNDS = { maxTxBytes: 100, maxGas: 7n, maxWaiting: 2 };
const result = (gasUsed: bigint): TxResult => ({
  code: 0,
  codespace: "",
  log: "",
  data: new Uint8Array(0),
  gasWanted: 0n,
  gasUsed,
  events: [],
});

/** Simulations that take 250 ms each, on a clock that the test moves. */
function begin() {
  let nowMs = 0;
  const ran: number[] = [];
  const rests: { readonly timeMs: number; readonly end: () => void }[] = [];
  const simulations = new Simulations(BOUNDS, {
    simulate(tx, maxGas) {
      nowMs += 250;
      ran.push(tx[0] ?? 0);
      if (tx[0] === 99) throw new Error("broken");
      return result(maxGas);
    },
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    wait: (timeMs) => new Promise((end) => rests.push({ timeMs, end })),
  });
  return { simulations, ran, rests };
}

suite("simulations", () => {
  test("one at a time, each followed by a rest as long as it took; of those that wait, as many as may", async () => {
    const { simulations, ran, rests } = begin();
    const all = [1, 2, 3, 4].map((n) => simulations.run(Uint8Array.of(n)));
    assert.equal(await all[3], undefined);
    assert.deepEqual(ran, [1]);
    for (const expected of [
      [1, 2],
      [1, 2, 3],
      [1, 2, 3],
    ]) {
      const { timeMs, end } = rests.shift() ?? assert.fail();
      assert.equal(timeMs, 250);
      end();
      await new Promise(setImmediate);
      assert.deepEqual(ran, expected);
    }
    assert.deepEqual(
      (await Promise.all(all.slice(0, 3))).map((one) => one?.gasUsed),
      [7n, 7n, 7n],
    );
    // Nothing runs and nothing rests any more: the next one begins at once.
    const next = simulations.run(Uint8Array.of(5));
    assert.deepEqual(ran, [1, 2, 3, 5]);
    assert.equal((await next)?.code, 0);
  });

  test("one that fails takes the others' turn from nobody", async () => {
    const { simulations, ran, rests } = begin();
    const [broken, fine] = [simulations.run(Uint8Array.of(99)), simulations.run(Uint8Array.of(1))];
    await assert.rejects(broken, /broken/);
    rests.shift()?.end();
    assert.equal((await fine)?.code, 0);
    assert.deepEqual(ran, [99, 1]);
  });

  test("large ones that fill the queue keep no wallet from its own: the shortest goes first, the longest is refused", async () => {
    const { simulations, ran, rests } = begin();
    const large = [7, 8, 9].map((n) => simulations.run(new Uint8Array(100).fill(n)));
    const small = simulations.run(new Uint8Array(10).fill(1));
    assert.equal(await large[2], undefined);
    rests.shift()?.end();
    assert.equal((await small)?.code, 0);
    assert.deepEqual(ran, [7, 1]);
    rests.shift()?.end();
    assert.equal((await large[1])?.code, 0);
    assert.deepEqual(ran, [7, 1, 8]);
  });

  test("what no mempool takes is not run", async () => {
    const { simulations, ran } = begin();
    const { code, codespace, log } = (await simulations.run(new Uint8Array(101))) ?? assert.fail();
    assert.deepEqual([code, codespace], [21, "sdk"]);
    assert.equal(log, "Tx too large. Max size is 100, but got 101: tx too large");
    assert.deepEqual(ran, []);
    assert.equal((await simulations.run(new Uint8Array(100)))?.code, 0);
  });
});
