import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { DeliveredLogs, readLog } from "./delivered-logs.ts";
import { type Head, HeadChain, type HeadSource, readHead } from "./head-chain.ts";

const FAR = 1_000;

/** A chain of `length` blocks that leaves the one before at a height. */
function fork(base: readonly Head[], from: number, length: number, name: string): Head[] {
  const blocks = base.slice(0, from);
  for (let number = from; number < length; number++) {
    const parentHash = blocks[number - 1]?.hash ?? "0x";
    blocks.push({ number, hash: `${name}${number}`, parentHash, raw: `${number}` });
  }
  return blocks;
}

const sourceOf = (blocks: () => readonly Head[]): HeadSource => ({
  byNumber: async (number) => blocks()[number],
  byHash: async (hash) => blocks().find((block) => block.hash === hash),
});

describe("head chain", () => {
  test("property: whatever heads get lost, and however the chain forks, what is delivered is a walk along it", async () => {
    const step = fc.record({
      grow: fc.integer({ min: 1, max: 12 }),
      back: fc.integer({ min: 0, max: 6 }),
      seen: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), async (steps) => {
        let blocks = fork([], 0, 8, "g");
        const chain = new HeadChain(FAR);
        const source = sourceOf(() => blocks);
        const first = blocks.at(-1);
        assert.ok(first);
        chain.seed(first);
        const delivered: Head[] = [first];
        for (const [at, { grow, back, seen }] of steps.entries()) {
          const length = blocks.length + grow;
          const from = blocks.length - back;
          blocks = fork(blocks, from, length, `f${at}-`);
          const head = blocks.at(-1);
          if (!seen || head === undefined) continue;
          const news = await chain.resolve(head, source);
          assert.equal(news.kind, "new");
          chain.deliver(news);
          if (news.kind === "new") delivered.push(...news.heads);
          assert.equal((await chain.resolve(head, source)).kind, "known");
          // The last block of each height, in order, is the chain.
          const last = new Map(delivered.map((one) => [one.number, one]));
          for (const block of blocks.slice(first.number)) assert.equal(last.get(block.number), block);
        }
        for (const [at, head] of delivered.entries()) {
          const earlier = delivered.slice(0, at);
          // What is before the block that the walk began at was never asked for.
          assert.ok(head.number >= first.number);
          if (head.number > first.number) assert.ok(earlier.some((one) => one.hash === head.parentHash));
          assert.ok(!earlier.some((one) => one.hash === head.hash));
        }
      }),
      { numRuns: 200 },
    );
  });

  test("too long a gap, a source without the blocks, and one that gives others", async () => {
    const blocks = fork([], 0, 40, "g");
    const chain = new HeadChain(20);
    const [first] = blocks;
    assert.ok(first && blocks[10] && blocks[39]);
    chain.seed(first);
    assert.equal(
      (
        await chain.resolve(
          blocks[39],
          sourceOf(() => blocks),
        )
      ).kind,
      "missed",
    );
    assert.equal(
      (
        await chain.resolve(
          blocks[10],
          sourceOf(() => []),
        )
      ).kind,
      "failed",
    );
    const liar: HeadSource = { byNumber: async () => blocks[3], byHash: async () => blocks[3] };
    assert.equal((await chain.resolve(blocks[10], liar)).kind, "failed");
    assert.equal(chain.lastNumber, 0);
  });

  test("soon after the first block: it is replaced, or an event of an earlier one comes late", async () => {
    const main = fork([], 0, 601, "g");
    const seed = main[600];
    assert.ok(seed);
    const begun = (): HeadChain => {
      const chain = new HeadChain(FAR);
      chain.seed(seed);
      return chain;
    };
    const [late, replaced] = [begun(), begun()];
    const [before, again] = [main[599], fork(main, 600, 601, "o")[600]];
    assert.ok(before && again);
    assert.deepEqual(late.resolveNow(before), { kind: "known" });
    assert.deepEqual(late.resolveNow({ ...before, hash: "o599" }), { kind: "known" });
    assert.deepEqual(replaced.resolveNow(again), { kind: "new", heads: [again], orphaned: [seed.hash] });

    const other = fork(main, 590, 604, "o");
    const asked: string[] = [];
    const source: HeadSource = {
      byNumber: async (number) => other[number],
      byHash: async (hash) => {
        asked.push(hash);
        return other.find((block) => block.hash === hash);
      },
    };
    const chain = begun();
    const [head] = other.slice(-1);
    assert.ok(head);
    const news = await chain.resolve(head, source);
    assert.deepEqual(news, { kind: "new", heads: other.slice(600), orphaned: [seed.hash] });
    assert.deepEqual(asked, ["o600"]);
    chain.deliver(news);
    assert.equal(chain.lastNumber, 603);
    assert.equal(chain.has(seed.hash), false);
  });

  test("a block that comes back after a reorganisation is news again", () => {
    const main = fork([], 0, 5, "g");
    const other = fork(main, 3, 6, "o");
    const chain = new HeadChain(FAR);
    const [first] = main;
    assert.ok(first);
    chain.seed(first);
    for (const head of [...main.slice(1), ...other.slice(3), ...main.slice(3)]) {
      const news = chain.resolveNow(head);
      assert.equal(news?.kind, "new");
      if (news !== undefined) chain.deliver(news);
    }
    assert.equal(chain.lastNumber, 4);
  });

  test("a header is made of a block without what only blocks have", () => {
    const block = {
      number: "0x10",
      hash: "0xb",
      parentHash: "0xa",
      transactions: ["0x1"],
      uncles: [],
      size: "0x1",
      nonce: "0x0",
    };
    assert.deepEqual(readHead(block), {
      number: 16,
      hash: "0xb",
      parentHash: "0xa",
      raw: '{"number":"0x10","hash":"0xb","parentHash":"0xa","nonce":"0x0"}',
    });
    for (const bad of [null, {}, { ...block, number: 16 }, { ...block, number: `0x${"f".repeat(20)}` }]) {
      assert.equal(readHead(bad), undefined);
    }
  });
});

describe("log memory", () => {
  const log = (block: number, index: number, removed = false): Readonly<Record<string, unknown>> => ({
    blockNumber: `0x${block.toString(16)}`,
    blockHash: `0xb${block}`,
    logIndex: `0x${index.toString(16)}`,
    removed,
  });
  const accept = (memory: DeliveredLogs, value: Readonly<Record<string, unknown>>): boolean => {
    const facts = readLog(value);
    assert.ok(facts);
    return memory.accept(facts, JSON.stringify(value));
  };

  test("each event once; taken back and given again is news", () => {
    const memory = new DeliveredLogs();
    assert.deepEqual(
      [log(1, 0), log(1, 0), log(1, 1), log(1, 0, true), log(1, 0, true), log(1, 0)].map((one) => accept(memory, one)),
      [true, false, true, true, false, true],
    );
    const back = memory.takeBack(new Set(["0xb1"]));
    assert.deepEqual(
      back.map(({ raw }) => JSON.parse(raw) as unknown),
      [log(1, 0, true), log(1, 1, true)],
    );
  });

  test("it is bounded, and says what it has forgotten", () => {
    const memory = new DeliveredLogs({ keptBlocks: 10, maxEntries: 5, maxBytes: 1_000_000 });
    for (let block = 1; block <= 6; block++) accept(memory, log(block, 0));
    assert.equal(memory.floorBlock, 1);
    accept(memory, log(14, 0));
    assert.equal(memory.floorBlock, 4);
    const small = new DeliveredLogs({ keptBlocks: 10, maxEntries: 5, maxBytes: 100 });
    accept(small, log(1, 0));
    accept(small, log(2, 0));
    assert.equal(small.floorBlock, 1);
  });
});
