import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { agreedHeight } from "./agreed-height.ts";
import { ChainView, chainViewDefaults } from "./chain-view.ts";

const { maxAgeMs, followDownMs, finalDepthBlocks } = chainViewDefaults;

/** A view in which each operator has said its height. */
function viewOf(heights: Readonly<Record<string, number>>, syncAllowanceBlocks = 5): ChainView {
  const view = new ChainView({ syncAllowanceBlocks });
  for (const [operator, height] of Object.entries(heights)) view.reported(operator, height, 0);
  return view;
}

const member = (operator: string) => ({ operator, isProbed: true });

const block = (heightBlocks: number, fork = "a", parentFork = fork) => ({
  heightBlocks,
  hash: `${fork}${heightBlocks}`,
  parentHash: `${parentFork}${heightBlocks - 1}`,
});

suite("tip", () => {
  test("is unknown while nobody says, one operator's word, and the median of three or more", () => {
    assert.equal(new ChainView().tip(0), undefined);
    assert.equal(viewOf({ a: 100 }).tip(0), 100);
    assert.equal(viewOf({ a: 100, b: 101, c: 103 }).tip(0), 101);
    for (const lie of [0, 1, 1e15, Number.NaN, -5, 1.5, Number.POSITIVE_INFINITY]) {
      const tip = viewOf({ a: 100, b: 101, liar: lie }).tip(0) ?? 0;
      assert.ok(tip === 100 || tip === 101, `${lie} makes ${tip}`);
    }
  });

  test("of two operators the higher counts, unless it is absurd or does not follow from before", () => {
    assert.equal(viewOf({ stuck: 20_000_000, live: 20_005_000 }).tip(0), 20_005_000);
    assert.equal(viewOf({ honest: 20_000_000, liar: 1e15 }).tip(0), 20_000_000);
    const view = viewOf({ a: 1_000, b: 1_001 });
    view.reported("a", 900_000, 1_000);
    view.reported("b", 1_002, 1_000);
    assert.equal(view.tip(1_000), 1_002);
    assert.equal(view.isBehind("b", 1_000), false);
  });

  test("one of two that creeps ahead gets no further than the chain's pace, and makes nothing final", () => {
    const view = new ChainView({ syncAllowanceBlocks: 5 });
    const heightAt = (nowMs: number): number => 1_000 + Math.floor(nowMs / 12_000);
    let nowMs = 0;
    for (; nowMs < 600_000; nowMs += 10_000) {
      for (const operator of ["honest", "liar"]) view.reported(operator, heightAt(nowMs), nowMs);
    }
    let lie = heightAt(nowMs);
    let honest = lie;
    for (; nowMs < 900_000; nowMs += 50) {
      if (nowMs % 10_000 === 0) {
        honest = heightAt(nowMs);
        view.reported("honest", honest, nowMs);
      }
      while (view.mayServe(lie + 1, nowMs)) lie++;
      view.reported("liar", lie, nowMs);
      const tip = view.tip(nowMs) ?? 0;
      assert.ok(tip >= honest && tip <= honest + 110, `tip ${tip} of ${honest}`);
      assert.ok((view.final(nowMs) ?? 0) <= honest - finalDepthBlocks);
    }
  });

  test("a stuck operator of two is behind", () => {
    const view = viewOf({ a: 1_000, b: 1_000 });
    for (let second = 1; second <= 60; second++) {
      view.reported("a", 1_000 + second, second * 1_000);
      view.reported("b", 1_000, second * 1_000);
    }
    assert.equal(view.tip(60_000), 1_060);
    assert.equal(view.isBehind("b", 60_000), true);
    assert.equal(view.isBehind("a", 60_000), false);
    assert.equal(view.isBehind("nobody", 60_000), false);
  });

  test("a height of 0 is unknown while others know better, and a height where all say so", () => {
    assert.equal(viewOf({ starting: 0, b: 7 }).tip(0), 7);
    assert.equal(viewOf({ s: 0, t: 0, u: 0, v: 0, a: 6, b: 6, c: 7 }).tip(0), 6);
    assert.equal(viewOf({ a: 0 }).tip(0), 0);
  });

  test("heights age out", () => {
    const view = viewOf({ a: 100 });
    assert.equal(view.tip(maxAgeMs), 100);
    assert.equal(view.tip(maxAgeMs + 1_000), undefined);
    assert.equal(view.heightOf("a", maxAgeMs + 1_000), undefined);
  });

  test("a liar that is known first is corrected as soon as a majority is known", () => {
    const view = new ChainView();
    view.reported("liar", 1e12, 0);
    view.wasServed(1e12, 0);
    assert.equal(view.final(0), 1e12 - finalDepthBlocks);
    const dropped: number[] = [];
    view.onReorg((from) => dropped.push(from));
    view.reported("a", 100, 1);
    view.reported("b", 100, 2);
    view.reported("c", 101, 3);
    assert.ok([100, 101].includes(view.tip(3) ?? 0));
    assert.ok((view.served(3) ?? 0) <= 101);
    assert.ok((view.final(3) ?? 0) <= 101);
    assert.deepEqual(dropped, [0], "what was thought final is not");
    assert.equal(view.mayServe(100, 3), true);
  });

  test("stays within what honest operators say, whatever one liar says and when", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 6 }),
        fc.array(
          fc.record({
            who: fc.nat(6),
            grow: fc.nat(3),
            lie: fc.oneof(fc.nat(200), fc.integer({ min: 0, max: 2 ** 50 }), fc.constant(0)),
            waitMs: fc.nat(8_000),
          }),
          { maxLength: 120 },
        ),
        (honest, steps) => {
          const view = new ChainView({ syncAllowanceBlocks: 10 });
          const heights = Array.from({ length: honest }, (_, at) => 100 + at);
          for (const [at, height] of heights.entries()) view.reported(`honest${at}`, height, 0);
          let highest = Math.max(...heights);
          let final = view.final(0) ?? -1;
          let nowMs = 1;
          for (const { who, grow, lie, waitMs } of steps) {
            nowMs += waitMs;
            const at = who % (honest + 1);
            if (at === honest) {
              view.reported("liar", lie, nowMs);
              view.sawFinal("liar", lie, nowMs);
              view.sawBlock("liar", { ...block(lie, "x") }, nowMs);
            } else {
              heights[at] = (heights[at] ?? 0) + grow;
              view.reported(`honest${at}`, heights[at] ?? 0, nowMs);
              view.sawFinal(`honest${at}`, (heights[at] ?? 0) - 20, nowMs);
            }
            // Keeps all of them known: who is silent for long does not count.
            for (const [other, height] of heights.entries()) view.reported(`honest${other}`, height, nowMs);
            highest = Math.max(highest, ...heights);
            const tip = view.tip(nowMs) ?? -1;
            assert.ok(tip >= Math.min(...heights) && tip <= highest, `tip ${tip} of ${heights.join()}`);
            const nowFinal = view.final(nowMs) ?? -1;
            assert.ok(nowFinal <= tip && nowFinal >= final, "final goes up, and never above the tip");
            final = nowFinal;
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  test("agreed heights are an honest one, or between two, while liars are no quorum", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 1_000 }), { minLength: 2, maxLength: 9 }),
        fc.array(fc.integer({ min: 0, max: 2 ** 50 }), { maxLength: 8 }),
        fc.nat(9),
        (honest, lies, outstanding) => {
          const liars = lies.slice(0, honest.length - 1);
          const heights = [...honest, ...liars];
          const facts = { beforeBlocks: undefined, headroomBlocks: 5, reachBlocks: 5, outstanding };
          // A height of 0 is no vote, so fewer may remain.
          const votes = heights.filter((height) => height > 0).length;
          if (votes + outstanding < 3) return;
          const agreed = agreedHeight(heights, facts);
          const isNear = Math.max(...honest) - Math.min(...honest) <= facts.headroomBlocks;
          if (isNear && honest.length > (votes + outstanding) / 2) assert.ok(agreed !== undefined);
          // Those who are outstanding may be honest or not.
          if (agreed === undefined || liars.length > (votes + outstanding) / 2) return;
          assert.ok(agreed >= Math.min(...honest) - 5 && agreed <= Math.max(...honest) + 5, `${agreed}`);
          if (outstanding === 0 && votes % 2 === 1) {
            assert.ok(agreed >= Math.min(...honest) && agreed <= Math.max(...honest));
          }
        },
      ),
      { numRuns: 1_000 },
    );
  });

  test("halves of a set that contradict each other at the start agree once one of them stays where it is", () => {
    const view = new ChainView({ syncAllowanceBlocks: 25 });
    view.setMembers(["a", "b", "c", "d"].map(member));
    for (let nowMs = 0; nowMs <= 240_000; nowMs += 10_000) {
      for (const stuck of ["a", "b"]) view.reported(stuck, 1_000, nowMs);
      for (const live of ["c", "d"]) view.reported(live, 5_000 + nowMs / 10_000, nowMs);
      const isOpen = nowMs < 100_000;
      assert.equal(view.tip(nowMs), isOpen ? undefined : 5_000 + nowMs / 10_000, `${nowMs}`);
      if (isOpen) assert.equal(view.isBehind("a", nowMs), false);
    }
    assert.equal(view.isBehind("a", 240_000), true);
    assert.equal(view.isBehind("c", 240_000), false);
  });

  test("a new set of suppliers goes on from what the one before agreed on", () => {
    const view = new ChainView({ syncAllowanceBlocks: 25 });
    view.setMembers(["a", "b", "c"].map(member));
    for (const operator of ["a", "b", "c"]) view.reported(operator, 1_000, 0);
    view.setMembers(["d", "e", "f"].map(member));
    view.reported("d", 9_000, 1_000);
    view.reported("a", 9_000, 1_000);
    assert.equal(view.tip(1_000), 1_000);
    assert.equal(view.mayServe(9_000, 1_000), false);
    view.reported("e", 1_001, 1_000);
    view.reported("f", 1_001, 1_000);
    assert.equal(view.tip(1_000), 1_001);
    assert.deepEqual([view.isBehind("e", 1_000), view.isOpen(1_000)], [false, false]);
  });

  test("a set of one or two is heard at once, and others are waited for until they fail to answer", () => {
    const two = new ChainView();
    two.setMembers(["a", "b"].map(member));
    two.reported("a", 100, 0);
    assert.deepEqual([two.tip(0), two.isOpen(0)], [100, false]);
    const view = new ChainView();
    view.setMembers(["a", "b", "c", "d"].map(member));
    view.reported("a", 100, 0);
    assert.deepEqual([view.tip(0), view.isOpen(0)], [undefined, true]);
    view.gaveNoHeight("b");
    view.isOfOtherChain("c");
    assert.deepEqual([view.tip(0), view.isOpen(0)], [100, false]);
  });
});

suite("final", () => {
  test("is the lower median of what operators say, and the depth where too few do", () => {
    const view = viewOf({ a: 1_000, b: 1_000, c: 1_000 });
    assert.equal(view.final(0), 1_000 - finalDepthBlocks);
    view.sawFinal("a", 1_000, 0);
    assert.equal(view.final(0), 1_000 - finalDepthBlocks, "one of several may lie");
    view.sawFinal("b", 936, 0);
    assert.equal(view.final(0), 936);
    view.sawFinal("c", 937, 0);
    assert.equal(view.final(0), 937);
    for (const operator of ["a", "b", "c"]) view.sawFinal(operator, 2_000, 0);
    assert.equal(view.final(0), 1_000, "never above the tip");
    view.sawFinal("a", 5, 0);
    view.sawFinal("b", 5, 0);
    assert.equal(view.final(0), 1_000, "never back");
  });

  test("is undefined on a chain that is shorter than the depth", () => {
    assert.equal(viewOf({ a: 50 }).final(0), undefined);
  });

  test("what a single operator called final is not held against more of them", () => {
    const view = viewOf({ a: 1_000 });
    view.sawFinal("a", 1_000, 0);
    assert.equal(view.final(0), 1_000);
    view.reported("b", 1_000, 1);
    assert.equal(view.final(1), 1_000 - finalDepthBlocks);
  });
});

suite("what clients were shown", () => {
  test("does not go back, and does not take in absurd heights", () => {
    const view = viewOf({ a: 100, b: 100, c: 100 });
    assert.equal(view.mayServe(102, 0), true);
    view.wasServed(102, 0);
    assert.equal(view.mayServe(101, 0), false);
    assert.equal(view.mayServe(102, 0), true);
    assert.equal(view.mayServe(1e9, 0), false);
    view.wasServed(1e9, 0);
    assert.equal(view.served(0), 102);
    assert.equal(view.newest(0), 102);
  });

  test("room for growth comes with time", () => {
    const view = viewOf({ a: 100, b: 100, c: 100 });
    assert.equal(view.mayServe(200, 0), false);
    assert.equal(view.mayServe(200, 10_000), true);
    for (const operator of ["a", "b", "c"]) view.reported(operator, 100, 1_000_000);
    assert.equal(view.mayServe(100_000, 1_000_000), false, "not without end");
  });

  test("what was said some time ago holds back nobody who says something newer now", () => {
    const view = viewOf({ a: 1_009, b: 1_009, c: 1_009 }, 2);
    view.reported("a", 1_019, 700);
    assert.equal(view.mayServe(1_019, 700), true);
    view.wasServed(1_019, 700);
    view.reported("b", 1_014, 700);
    assert.equal(view.mayServe(1_020, 700), true, "c may be as far by now");
    assert.equal(view.mayServe(1_100, 700), false);
    view.reported("c", 1_010, 700);
    assert.equal(view.mayServe(1_020, 700), false);
  });

  /** Four operators of a chain with a block each `blockMs`, all heard for 60 s; they last spoke at 60 s. */
  function grown(blockMs: number): { readonly view: ChainView; readonly height: number } {
    const view = new ChainView({ syncAllowanceBlocks: 25 });
    const heightAt = (nowMs: number): number => 1_000 + Math.floor(nowMs / blockMs);
    for (let nowMs = 0; nowMs <= 60_000; nowMs += 1_000) {
      for (const operator of ["a", "b", "c", "d"]) view.reported(operator, heightAt(nowMs), nowMs);
    }
    return { view, height: heightAt(60_000) };
  }

  test("is not moved by the sync allowance when one of several lies", () => {
    const view = viewOf({ a: 1_005, b: 1_005, c: 1_005, d: 1_005, liar: 1_030 }, 25);
    assert.equal(view.mayServe(1_030, 0), false);
    view.wasServed(1_030, 0);
    assert.equal(view.served(0), undefined);
    const { view: slow, height } = grown(2_000);
    slow.reported("liar", height + 3, 60_000);
    assert.equal(slow.mayServe(height + 3, 60_000), false);
    assert.equal(slow.mayServe(height + 2, 60_000), true);
  });

  test("is not moved by one liar beside a supplier that was not heard for long", () => {
    const view = new ChainView({ syncAllowanceBlocks: 25 });
    for (let nowMs = 0; nowMs <= 90_000; nowMs += 1_000) {
      const height = 1_000 + Math.floor(nowMs / 2_000);
      for (const operator of ["a", "b", "c"]) view.reported(operator, height, nowMs);
      if (nowMs <= 20_000) view.reported("dead", height, nowMs);
    }
    view.reported("liar", 1_050, 90_000);
    assert.equal(view.mayServe(1_050, 90_000), false);
  });

  test("is not moved by two liars of five beyond the sync allowance", () => {
    const view = viewOf({ a: 1_005, b: 1_005, c: 1_005, one: 1e12, other: 1e12 }, 25);
    assert.equal(view.mayServe(1e12, 0), false);
    assert.equal(view.mayServe(1_031, 0), false);
  });

  test("may be that of one quick supplier: a block ahead, or some on a chain with several in a second", () => {
    for (const [blockMs, ahead] of [
      [12_000, 1],
      [2_000, 2],
      [250, 8],
    ] as const) {
      const { view, height } = grown(blockMs);
      view.reported("a", height + ahead, 60_000);
      assert.equal(view.mayServe(height + ahead, 60_000), true, `${blockMs}`);
      // The others were heard nine seconds ago, and the chain went on.
      const later = height + Math.ceil(9_000 / blockMs) + ahead;
      view.reported("a", later, 69_000);
      assert.equal(view.mayServe(later, 69_000), true, `${blockMs}`);
    }
  });

  test("follows a chain that went back, when the majority says so long enough", () => {
    const view = viewOf({ a: 500, b: 500, c: 500 });
    view.wasServed(500, 0);
    for (const operator of ["a", "b", "c"]) view.reported(operator, 3, 1_000);
    assert.equal(view.mayServe(3, 1_000), false);
    view.reported("a", 3, followDownMs + 1_000);
    assert.equal(view.mayServe(3, followDownMs + 1_000), false, "one of three is not enough");
    view.reported("b", 3, followDownMs + 1_000);
    assert.equal(view.tip(followDownMs + 1_000), 3);
    assert.equal(view.mayServe(3, followDownMs + 1_000), true);
  });

  test("a height that one operator alone goes on to claim does not lock out the others", () => {
    const view = viewOf({ a: 1_000, b: 1_000, liar: 1_004 });
    view.wasServed(1_004, 0);
    assert.equal(view.mayServe(1_000, 0), false);
    const laterMs = followDownMs + 1;
    for (const [operator, height] of Object.entries({ a: 1_001, b: 1_001, liar: 1_004 })) {
      view.reported(operator, height, laterMs);
    }
    assert.equal(view.mayServe(1_001, laterMs), true);
  });

  test("a reset of a chain with one operator, seen by a block, is followed at once", () => {
    const view = viewOf({ anvil: 100 });
    const dropped: number[] = [];
    view.onReorg((from) => dropped.push(from));
    view.sawBlock("anvil", block(4), 0);
    view.wasServed(100, 0);
    view.reported("anvil", 4, 1_000);
    assert.equal(view.mayServe(4, 1_000), false);
    view.sawBlock("anvil", block(4, "b"), 1_000);
    assert.deepEqual(dropped, [0]);
    assert.equal(view.tip(1_000), 4);
    assert.equal(view.mayServe(4, 1_000), true);
  });

  test("never goes back within the time in which a chain that went back is not followed", () => {
    const step = fc.record({ who: fc.nat(3), grow: fc.nat(3), lie: fc.nat(400), waitMs: fc.nat(followDownMs / 200) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 199 }), (steps) => {
        const view = new ChainView({ syncAllowanceBlocks: 4 });
        const heights = [100, 101, 102];
        for (const [at, height] of heights.entries()) view.reported(`honest${at}`, height, 0);
        let shown = -1;
        let nowMs = 0;
        for (const { who, grow, lie, waitMs } of steps) {
          nowMs += waitMs;
          if (who < 3) heights[who] = (heights[who] ?? 0) + grow;
          const height = heights[who] ?? lie;
          const operator = who < 3 ? `honest${who}` : "liar";
          view.reported(operator, height, nowMs);
          if (!view.mayServe(height, nowMs)) continue;
          assert.ok(height >= shown, `${height} after ${shown}`);
          assert.ok(height <= Math.max(...heights) + 4 + 20 * (followDownMs / 1_000), "absurd");
          view.wasServed(height, nowMs);
          shown = height;
        }
      }),
      { numRuns: 300 },
    );
  });

  test("does not go back over hours in which the honest ones only grow", () => {
    const step = fc.record({ who: fc.nat(3), grow: fc.nat(2), lie: fc.nat(400), waitMs: fc.nat(20_000) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
        const view = new ChainView({ syncAllowanceBlocks: 4 });
        let height = 100;
        for (const at of [0, 1, 2]) view.reported(`honest${at}`, height, 0);
        let shown = -1;
        let nowMs = 0;
        for (const { who, grow, lie, waitMs } of steps) {
          nowMs += waitMs;
          if (who === 3) {
            view.reported("liar", lie, nowMs);
            continue;
          }
          height += grow;
          view.reported(`honest${who}`, height, nowMs);
          if (!view.mayServe(height, nowMs)) continue;
          assert.ok(height >= shown);
          view.wasServed(height, nowMs);
          shown = height;
          assert.ok((view.served(nowMs) ?? 0) <= height, "a liar that is not served moves nothing");
        }
      }),
      { numRuns: 200 },
    );
  });
});

suite("marks", () => {
  test("the head's changes with the newest height and with a write, and with nothing else", () => {
    const view = viewOf({ a: 100, b: 100, c: 100 });
    const mark = view.headMark(0);
    view.reported("a", 100, 10);
    view.reported("a", 101, 10);
    assert.equal(view.headMark(5_000), mark);
    view.wasServed(101, 5_000);
    const shown = view.headMark(5_000);
    assert.notEqual(shown, mark);
    view.reported("b", 101, 5_001);
    assert.equal(view.headMark(5_001), shown, "the tip caught up with what was shown");
    view.wrote();
    assert.notEqual(view.headMark(5_001), shown);
  });

  test("the time between blocks is measured", () => {
    const view = new ChainView({ syncAllowanceBlocks: 150 });
    assert.equal(view.blockTimeMs, 2_000);
    for (let at = 0; at <= 240; at++) {
      for (const operator of ["a", "b", "c"]) view.reported(operator, at, at * 250);
    }
    assert.ok(Math.abs(view.blockTimeMs - 250) < 30, `${view.blockTimeMs}`);
  });

  test("heights that come in bursts do not make a chain look quicker", () => {
    const view = new ChainView();
    for (let at = 0; at <= 30; at++) {
      for (const [more, operator] of ["a", "b", "c"].entries()) {
        view.reported(operator, 100 + at * 40 + more * 3, at * 10_000 + more * 5);
      }
    }
    assert.ok(Math.abs(view.blockTimeMs - 250) < 30, `${view.blockTimeMs}`);
  });
});

suite("reorganisations", () => {
  function seen(view: ChainView): number[] {
    const dropped: number[] = [];
    view.onReorg((from) => dropped.push(from));
    return dropped;
  }

  test("are reported from the height of the fork, once a second operator confirms", () => {
    const view = viewOf({ a: 1_000, b: 1_000, c: 1_000 });
    const dropped = seen(view);
    for (const operator of ["a", "b", "c"]) {
      view.sawBlock(operator, block(999), 0);
      view.sawBlock(operator, block(1_000), 0);
    }
    const mark = view.headMark(0);
    const { forkMark } = view;
    view.sawBlock("a", block(1_000, "b", "a"), 1);
    assert.deepEqual(dropped, []);
    view.sawBlock("b", block(1_000, "b", "a"), 2);
    assert.deepEqual(dropped, [1_000]);
    assert.notEqual(view.headMark(2), mark);
    assert.notEqual(view.forkMark, forkMark);
  });

  test("are reported from the first block that is not final where the fork's height is not known", () => {
    const view = viewOf({ a: 1_000, b: 1_000 });
    const dropped = seen(view);
    for (const operator of ["a", "b"]) view.sawBlock(operator, block(1_000), 0);
    for (const operator of ["a", "b"]) view.sawBlock(operator, block(1_001, "b"), 1);
    assert.deepEqual(dropped, [1_001 - finalDepthBlocks + 1]);
  });

  test("are seen by a parent, and by one operator where there is one", () => {
    const view = viewOf({ a: 10 });
    const dropped = seen(view);
    view.sawBlock("a", block(10), 0);
    view.sawBlock("a", block(11, "b"), 1);
    assert.deepEqual(dropped, [0]);
  });

  test("a liar of several cannot tell one", () => {
    const view = viewOf({ a: 1_000, b: 1_000, liar: 1_000 });
    const dropped = seen(view);
    for (let height = 990; height <= 1_000; height++) {
      for (const operator of ["a", "b"]) view.sawBlock(operator, block(height), 0);
    }
    for (let round = 0; round < 500; round++) view.sawBlock("liar", block(990 + (round % 11), `x${round}`), round);
    assert.deepEqual(dropped, []);
  });

  test("a liar that sides with each of two forks in turn is not listened to for long", () => {
    const view = viewOf({ a: 1_000, b: 1_000, liar: 1_000 });
    const dropped = seen(view);
    view.sawBlock("a", block(1_000, "a"), 0);
    view.sawBlock("b", block(1_000, "b"), 0);
    for (let round = 0; round < 1_000; round++) view.sawBlock("liar", block(1_000, round % 2 === 0 ? "b" : "a"), round);
    assert.ok(dropped.length > 0 && dropped.length < 20, `${dropped.length}`);
  });

  test("what is remembered of blocks is bounded, and absurd heights are not", () => {
    const view = viewOf({ a: 1_000, b: 1_000, c: 1_000 });
    const dropped = seen(view);
    for (let height = 1; height < 5_000; height++) view.sawBlock("c", block(height * 1_000), 0);
    for (const operator of ["a", "b"]) view.sawBlock(operator, block(9_000_000, "b"), 0);
    assert.deepEqual(dropped, []);
    assert.ok((view.tip(0) ?? 0) >= 1_000);
  });
});

suite("suppliers", () => {
  test("at height 0 are behind those with blocks beyond the allowance, whoever spoke first", () => {
    const view = viewOf({ syncing: 0, a: 20_000_000, b: 20_000_001 });
    assert.equal(view.isBehind("syncing", 0), true);
    view.reported("syncing", 0, 1_000);
    assert.equal(view.isBehind("syncing", 1_000), true);
    view.reported("syncing", 20_000_001, 2_000);
    assert.equal(view.isBehind("syncing", 2_000), false);
    assert.equal(viewOf({ starting: 0, b: 5 }).isBehind("starting", 0), false);
    const fresh = viewOf({ a: 0, b: 0, c: 0 });
    for (const operator of ["a", "b", "c"]) assert.equal(fresh.isBehind(operator, 0), false);
  });

  test("an operator below a block that exists says nothing about it", () => {
    const view = viewOf({ a: 1_000, b: 1_000, late: 900 });
    assert.equal(view.isBeyond("late", 950, 0), true);
    assert.equal(view.isBeyond("late", 900, 0), false);
    assert.equal(view.isBeyond("late", 1_001, 0), false, "nobody has that block");
    assert.equal(view.isBeyond("a", 950, 0), false);
    assert.equal(view.isBeyond("unknown", 950, 0), false);
    assert.equal(view.isReached(1_000, 0), true);
    assert.equal(view.isReached(1_001, 0), false);
    assert.equal(view.isReached(5, maxAgeMs + 1), false);
  });

  test("is behind by what it lagged when it spoke, not by what the chain grew since", () => {
    const view = viewOf({ a: 100, b: 100, c: 100 });
    view.reported("a", 140, 9_000);
    view.reported("b", 140, 9_000);
    assert.equal(view.tip(9_000), 140);
    assert.equal(view.isBehind("c", 9_000), false);
    view.reported("c", 134, 9_001);
    assert.equal(view.isBehind("c", 9_001), true);
    view.reported("c", 135, 9_002);
    assert.equal(view.isBehind("c", 9_002), false);
  });
});
