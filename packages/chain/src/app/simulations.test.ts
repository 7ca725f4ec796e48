import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { TxResult } from "../state/outcome.ts";
import { MAX_TX_BYTES } from "../tx/tx-bounds.ts";
import { Simulations } from "./simulations.ts";

const BOUNDS = { maxGas: 7n, maxWaiting: 2 };
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
  const pauses: { readonly timeMs: number; readonly end: () => void }[] = [];
  const simulate = (tx: Uint8Array, maxGas: bigint): TxResult => {
    nowMs += 250;
    ran.push(tx[0] ?? 0);
    if (tx[0] === 99) throw new Error("broken");
    return result(maxGas);
  };
  const queue = new Simulations(BOUNDS, {
    pauses: true,
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    wait: (timeMs) => new Promise((end) => pauses.push({ timeMs, end })),
  });
  const simulations = {
    run: async (tx: Uint8Array, client?: string): Promise<TxResult | undefined> =>
      queue.sizeFault(tx) ?? queue.run(tx, simulate, client),
  };
  return { simulations, ran, pauses };
}

suite("simulations", () => {
  test("run one at a time, each followed by a pause as long as the run; a full queue refuses", async () => {
    const { simulations, ran, pauses } = begin();
    const all = [1, 2, 3, 4].map((n) => simulations.run(Uint8Array.of(n)));
    assert.equal(await all[3], undefined);
    assert.deepEqual(ran, [1]);
    for (const expected of [
      [1, 2],
      [1, 2, 3],
      [1, 2, 3],
    ]) {
      const { timeMs, end } = pauses.shift() ?? assert.fail();
      assert.equal(timeMs, 250);
      end();
      await new Promise(setImmediate);
      assert.deepEqual(ran, expected);
    }
    assert.deepEqual(
      (await Promise.all(all.slice(0, 3))).map((one) => one?.gasUsed),
      [7n, 7n, 7n],
    );
    // Nothing runs and nothing pauses any more: the next one begins at once.
    const next = simulations.run(Uint8Array.of(5));
    assert.deepEqual(ran, [1, 2, 3, 5]);
    assert.equal((await next)?.code, 0);
  });

  test("a simulation that throws does not stop the queue", async () => {
    const { simulations, ran, pauses } = begin();
    const [broken, fine] = [simulations.run(Uint8Array.of(99)), simulations.run(Uint8Array.of(1))];
    await assert.rejects(broken, /broken/);
    pauses.shift()?.end();
    assert.equal((await fine)?.code, 0);
    assert.deepEqual(ran, [99, 1]);
  });

  test("large transactions do not starve small ones: the shortest runs first, the longest is refused", async () => {
    const { simulations, ran, pauses } = begin();
    const large = [7, 8, 9].map((n) => simulations.run(new Uint8Array(100).fill(n)));
    const small = simulations.run(new Uint8Array(10).fill(1));
    assert.equal(await large[2], undefined);
    pauses.shift()?.end();
    assert.equal((await small)?.code, 0);
    assert.deepEqual(ran, [7, 1]);
    pauses.shift()?.end();
    assert.equal((await large[1])?.code, 0);
    assert.deepEqual(ran, [7, 1, 8]);
  });

  test("attack: one client's small transactions leave a place and a turn to another's larger one", async () => {
    const { simulations, ran, pauses } = begin();
    const flood = [1, 2, 3].map((n) => simulations.run(Uint8Array.of(n), "192.0.2.1"));
    const other = simulations.run(new Uint8Array(100).fill(9), "198.51.100.1");
    assert.equal(await flood[2], undefined);
    for (let i = 0; i < 2; i++) {
      pauses.shift()?.end();
      await new Promise(setImmediate);
    }
    assert.equal((await other)?.code, 0);
    assert.deepEqual(ran, [1, 2, 9]);
  });

  test("a transaction over the mempool's size limit is refused without a run", async () => {
    const { simulations, ran } = begin();
    const { code, codespace, log } = (await simulations.run(new Uint8Array(MAX_TX_BYTES + 1))) ?? assert.fail();
    assert.deepEqual([code, codespace], [21, "sdk"]);
    assert.equal(log, "Tx too large. Max size is 1048576, but got 1048577: tx too large");
    assert.deepEqual(ran, []);
    assert.equal((await simulations.run(new Uint8Array(MAX_TX_BYTES)))?.code, 0);
  });
});
