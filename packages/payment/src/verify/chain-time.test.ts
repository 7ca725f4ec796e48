import assert from "node:assert/strict";
import { test } from "node:test";
import { ChainClock } from "./chain-time.ts";

function setup(machineSeconds: number): { tick: (seconds: number) => void; chain: ChainClock } {
  let passed = 0;
  const clock = { nowMs: () => (machineSeconds + passed) * 1_000, monotonicMs: () => 5_000 + passed * 1_000 };
  return {
    tick: (seconds) => {
      passed += seconds;
    },
    chain: new ChainClock({ clock }),
  };
}
const near = (actual: number, expected: number): void =>
  assert.ok(Math.abs(actual - expected) < 0.01, `${actual} is not near ${expected}`);

test("before any block the machine's clock is all there is", () => near(setup(1_000).chain.nowSeconds(), 1_000));

test("a wrong machine clock no longer matters once a block was seen to appear", () => {
  for (const machine of [49_200, 100_000, 60_000]) {
    const { tick, chain } = setup(machine);
    chain.sight(1n, 50_000n);
    tick(2);
    chain.sight(2n, 50_002n);
    assert.equal(chain.learnt, true);
    near(chain.nowSeconds(), 50_002);
    tick(100);
    near(chain.nowSeconds(), 50_102);
  }
});

test("the newest block of an idle chain is old: the machine's clock counts where it is later", () => {
  const { tick, chain } = setup(50_000);
  for (let i = 0; i < 5; i++) {
    chain.sight(7n, 40_000n);
    tick(2);
  }
  assert.equal(chain.learnt, false);
  near(chain.nowSeconds(), 50_010);
  const late = setup(39_500);
  late.chain.sight(7n, 40_000n);
  near(late.chain.nowSeconds(), 40_000);
});

test("a block after a long silence is not fresh, the next one is", () => {
  const { tick, chain } = setup(90_000);
  chain.sight(1n, 50_000n);
  tick(60);
  chain.sight(2n, 50_050n);
  assert.equal(chain.learnt, false);
  tick(1);
  chain.sight(3n, 50_061n);
  assert.equal(chain.learnt, true);
  near(chain.nowSeconds(), 50_061);
});

test("blocks that come late do not set the clock back, nor do older ones", () => {
  const { tick, chain } = setup(50_000);
  chain.sight(1n, 50_000n);
  tick(2);
  chain.sight(2n, 50_002n);
  tick(5);
  chain.sight(3n, 50_004n);
  near(chain.nowSeconds(), 50_007);
  chain.sight(1n, 99_000n);
  near(chain.nowSeconds(), 50_007);
});

test("a lead no longer counts after its time", () => {
  const { tick, chain } = setup(50_000);
  chain.sight(1n, 50_000n);
  tick(2);
  chain.sight(2n, 50_062n);
  for (let i = 3n; i < 400n; i++) {
    tick(2);
    chain.sight(i, 50_000n + (i - 1n) * 2n);
  }
  near(chain.nowSeconds(), 50_000 + 398 * 2);
});

test("attack: a block of another chain, higher and later, is not believed where its time is far ahead of the machine's clock", () => {
  const { tick, chain } = setup(50_000);
  for (let i = 0n; i < 20n; i++) {
    chain.sight(100n + i, 50_000n + 2n * i);
    tick(2);
  }
  chain.sight(10_000n, 75_600n);
  near(chain.nowSeconds(), 50_040);
  assert.equal(chain.isAhead, true);
  chain.sight(120n, 50_040n);
  near(chain.nowSeconds(), 50_040);
  assert.equal(chain.isAhead, false);
});

test("attack: numbers that stay below another chain's block for a minute begin anew", () => {
  const { tick, chain } = setup(50_000);
  chain.sight(100n, 50_000n);
  tick(2);
  chain.sight(101n, 50_002n);
  chain.sight(10_000n, 50_802n);
  for (let i = 0n; i < 35n; i++) {
    tick(2);
    chain.sight(102n + i, 50_004n + 2n * i);
  }
  near(chain.nowSeconds(), 50_072);
  tick(1);
  near(chain.nowSeconds(), 50_073);
});

test("two nodes, of which one lags, begin nothing anew", () => {
  const { tick, chain } = setup(50_000);
  chain.sight(100n, 50_002n);
  for (let i = 0n; i < 60n; i++) {
    tick(2);
    chain.sight(101n + i, 50_004n + 2n * i);
    chain.sight(91n + i, 49_984n + 2n * i);
  }
  near(chain.nowSeconds(), 50_122);
});

test("a lead no longer counts after its time, also where no block has come since", () => {
  const { tick, chain } = setup(50_000);
  chain.sight(1n, 50_000n);
  tick(2);
  chain.sight(2n, 50_062n);
  tick(300);
  chain.sight(3n, 50_302n);
  tick(301);
  near(chain.nowSeconds(), 50_603);
});
