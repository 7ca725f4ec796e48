import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { gapsOf, lateBlocks, longestMs, type Outage } from "./block-times.ts";

const blocksAt = (...times: number[]) => times.map((timeMs, i) => ({ heightBlocks: BigInt(i + 1), timeMs }));

suite("times between blocks of a drill", () => {
  const late = blocksAt(0, 700, 7_000, 7_500);

  test("a block that came later than quiet ones by more than the limit is a fault", () => {
    const gaps = gapsOf(late);
    assert.equal(longestMs(gaps), 6_300);
    const [fault, ...others] = lateBlocks(gaps, 700, 5_000);
    assert.match(fault ?? "", /^block 3 came after 6300 ms/);
    assert.deepEqual(others, []);
    assert.deepEqual(lateBlocks(gaps, 1_300, 5_000), [], "as late as the limit");
  });

  test("an outage excuses the times that it touches when it left no quorum, and no others", () => {
    const outage = (isQuorumUp: boolean, startMs: number, endMs: number): Outage => ({ isQuorumUp, startMs, endMs });
    const faults = (...outages: Outage[]): number => lateBlocks(gapsOf(late, outages), 700, 5_000).length;
    assert.equal(faults(outage(false, 6_900, 7_100)), 0);
    assert.equal(faults(outage(false, 100, 800)), 0);
    assert.equal(faults(outage(true, 6_900, 7_100)), 1);
    assert.equal(faults(outage(false, 0, 600)), 1);
    assert.equal(faults(outage(false, 7_100, 9_000)), 1);
  });
});
