import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { noMetrics, type ServiceId } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import type { UpstreamAnswer } from "../answers/upstream-answer.ts";
import { ChainView, chainViewDefaults } from "../chain-view/chain-view.ts";
import type { BlockRef, CacheRule } from "../families/method-traits.ts";
import { AnswerCache } from "./answer-cache.ts";
import { keyOf } from "./call-key.ts";
import { ANSWER_CACHE_BOUNDS, type AnswerCacheOptions } from "./options.ts";
import type { ServiceCache } from "./service-cache.ts";
import type { CacheMiss, CacheQuery } from "./types.ts";

const ETH = "eth" as ServiceId;
const TIP = 1_000;
const FINAL = 900;
const OPERATORS = ["a", "b", "c"];
const { unfinalAgeMs, maxAgeMs } = ANSWER_CACHE_BOUNDS;
/** As configured by default. */
const headAgeMs = 2_000;

interface Bench {
  readonly cache: AnswerCache;
  readonly eth: ServiceCache;
  readonly view: ChainView;
  readonly time: { nowMs: number };
}

function bench(options: Partial<AnswerCacheOptions> = {}, isLazy = false): Bench & { run(): void } {
  const time = { nowMs: 0 };
  const clock = { nowMs: () => time.nowMs, monotonicMs: () => time.nowMs };
  const waiting: (() => void)[] = [];
  const defer = (run: () => void): void => {
    if (isLazy) waiting.push(run);
    else run();
  };
  const cache = new AnswerCache(
    { maxBytes: 64 * 1_048_576, headAgeMs, waitsForSecond: false, ...options },
    { clock, metrics: noMetrics, defer },
  );
  const view = new ChainView({ syncAllowanceBlocks: 5 });
  speak(view, TIP, 0);
  for (const operator of OPERATORS) view.sawFinal(operator, FINAL, 0);
  const run = (): void => {
    for (const one of waiting.splice(0)) one();
  };
  return { cache, eth: cache.open(ETH, view), view, time, run };
}

/** All operators say a height. */
function speak(view: ChainView, height: number, nowMs: number): void {
  for (const operator of OPERATORS) view.reported(operator, height, nowMs);
}

function found(result: string, more: Partial<UpstreamAnswer> = {}): UpstreamAnswer {
  const body = Buffer.from(`{"jsonrpc":"2.0","id":1,"result":${result}}`);
  const base = {
    ok: true,
    status: 200,
    contentType: "application/json",
    schemaCheck: "unchecked",
    operator: "a",
  } as const;
  return { ...base, body, isError: false, ...more };
}

const blocks = (...refs: BlockRef[]): CacheRule => ({ by: "block", blocks: () => refs });
const at = (height: number): CacheRule => blocks({ height });
const foundIn: CacheRule = {
  by: "found",
  heightOf: (result) => (result as { height?: number } | null)?.height,
};
const query = (rule: CacheRule, key = "k", id: string | undefined = "1"): CacheQuery => ({
  key: keyOf(key),
  rule,
  refs: rule.by === "block" ? rule.blocks(undefined) : undefined,
  id,
});

function missOf({ eth, time }: Bench, rule: CacheRule, key?: string): CacheMiss {
  const got = eth.get(query(rule, key), time.nowMs);
  assert.equal(got?.kind, "miss");
  return got as CacheMiss;
}
/** Stores an answer to a call. */
function store(one: Bench, rule: CacheRule, result: string, more: Partial<UpstreamAnswer> = {}): void {
  one.eth.put(missOf(one, rule), found(result, more));
}
/** The kept body, or undefined. */
function kept({ eth, time }: Bench, rule: CacheRule, key?: string, id = "1"): string | undefined {
  const got = eth.get(query(rule, key, id), time.nowMs);
  return got?.kind === "hit" ? Buffer.from(got.answer.body).toString() : undefined;
}
/** Whether an answer is kept once it was stored. */
function isKept(rule: CacheRule, result = '"0x1"', more: Partial<UpstreamAnswer> = {}): boolean {
  const one = bench();
  const got = one.eth.get(query(rule), 0);
  if (got === undefined) return false;
  one.eth.put(got as CacheMiss, found(result, more));
  return kept(one, rule) !== undefined;
}

suite("bytes", () => {
  test("an answer comes back byte for byte, with the asker's id, wherever it stood", () => {
    const bodies = [
      ' {"jsonrpc":"2.0", "id" : 1 ,"result":{"b":"é","a":[1.0, 9007199254740993]} }\n',
      '{"result":"0x1","id":1,"jsonrpc":"2.0"}',
      `{"result":"${"x".repeat(10_000)}","id":1,"extra":"${"y".repeat(10_000)}","jsonrpc":"2.0"}`,
    ];
    for (const body of bodies) {
      const one = bench();
      one.eth.put(missOf(one, { by: "forever" }), found("", { body: Buffer.from(body) }));
      for (const id of ["2", '"a string, é"', "null", "-1.5e300", "9007199254740993"]) {
        const got = one.eth.get(query({ by: "forever" }, "k", id), 5);
        assert.equal(got?.kind, "hit");
        if (got?.kind !== "hit") continue;
        const wanted = body.replace(/"id"( ?: ?)1/, (_all, colon: string) => `"id"${colon}${id}`);
        assert.equal(Buffer.from(got.answer.body).toString(), wanted);
        assert.equal(got.ageMs, 5);
        const { idAt, resultAt, operator, status, schemaCheck } = got.answer;
        const text = Buffer.from(got.answer.body);
        assert.equal(text.toString("utf8", idAt?.start, idAt?.end).trim(), id);
        assert.deepEqual(
          JSON.parse(text.toString("utf8", resultAt?.start, resultAt?.end)),
          (JSON.parse(body) as { result: unknown }).result,
        );
        assert.deepEqual([operator, status, schemaCheck], ["a", 200, "unchecked"]);
      }
    }
  });

  test("an answer without an id comes back as it is, and does not mix with calls that have one", () => {
    const one = bench();
    const got = one.eth.get({ ...query(at(5)), id: undefined }, 0);
    one.eth.put(got as CacheMiss, found("", { body: Buffer.from("[1]"), contentType: "text/plain" }));
    const hit = one.eth.get({ ...query(at(5)), id: undefined }, 0);
    assert.ok(hit?.kind === "hit" && Buffer.from(hit.answer.body).toString() === "[1]");
    assert.equal(hit?.kind === "hit" && hit.answer.contentType, "text/plain");
    assert.equal(kept(one, at(5)), undefined);
  });

  test("what is given out and what was handed in do not share memory", () => {
    const one = bench();
    const big = Buffer.alloc(1_048_576);
    const answer = found(`"${"z".repeat(8_000)}"`);
    answer.body.forEach((byte, index) => {
      big[index] = byte;
    });
    one.eth.put(missOf(one, at(5)), { ...answer, body: big.subarray(0, answer.body.length) });
    big.fill(0);
    const first = one.eth.get(query(at(5)), 0);
    assert.ok(first?.kind === "hit");
    first.answer.body.fill(0);
    assert.equal(kept(one, at(5)), Buffer.from(answer.body).toString());
  });
});

suite("what is kept", () => {
  test("errors, streams, last resorts, other statuses, large and empty bodies are not", () => {
    assert.equal(isKept(at(5)), true);
    assert.equal(isKept(at(5), '"0x1"', { isError: true }), false);
    assert.equal(isKept(at(5), '"0x1"', { lastResort: "state_unavailable" }), false);
    assert.equal(isKept(at(5), '"0x1"', { status: 404 }), false);
    assert.equal(isKept(at(5), '"0x1"', { body: Buffer.alloc(0) }), false);
    assert.equal(isKept(at(5), `"${"x".repeat(ANSWER_CACHE_BOUNDS.maxEntryBytes)}"`), false);
    assert.equal(isKept(at(5), '"0x1"', { body: Buffer.from("{}") }), false);
    assert.equal(isKept(at(5), '"0x1"', { stream: (async function* () {})() }), false);
  });

  test("by block: at heights up to the newest, by hash, and not what is pending or cannot be read", () => {
    assert.equal(isKept(at(FINAL)), true);
    assert.equal(isKept(at(TIP)), true);
    assert.equal(isKept(at(TIP + 1)), false);
    assert.equal(isKept(blocks({ height: 1 }, { height: TIP + 1 })), false);
    assert.equal(isKept(blocks({ hash: "0xab" })), true);
    assert.equal(isKept(blocks({ tag: "latest" })), true);
    assert.equal(isKept(blocks({ tag: "earliest" })), true);
    assert.equal(isKept(blocks({ tag: "finalized" })), true);
    assert.equal(isKept(blocks({ tag: "safe" })), true);
    assert.equal(isKept(blocks({ tag: "pending" })), false);
    assert.equal(isKept(blocks({ height: 1 }, { tag: "pending" })), false);
    assert.equal(isKept(blocks()), false);
    assert.equal(isKept({ by: "block", blocks: () => undefined }), false);
    assert.equal(isKept(at(-1)), false);
    assert.equal(isKept({ by: "never" }), false);
  });

  test("nothing found: below finality only, and from an operator that has those blocks", () => {
    for (const nothing of ["null", "[]", "[ ]", "{}", '""', '"0x"']) {
      assert.equal(isKept(at(FINAL), nothing), true, nothing);
      assert.equal(isKept(at(FINAL), nothing, { operator: "never heard of" }), false, nothing);
      for (const rule of [
        at(FINAL + 1),
        { by: "head" } as const,
        { by: "forever" } as const,
        foundIn,
        blocks({ tag: "latest" }),
        blocks({ tag: "finalized" }),
        blocks({ hash: "0xab" }),
        blocks({ height: 1 }, { height: FINAL + 1 }),
      ]) {
        assert.equal(isKept(rule, nothing), false, `${nothing} ${rule.by}`);
      }
    }
    const one = bench();
    one.view.reported("late", FINAL - 10, 0);
    store(one, at(FINAL), "[]", { operator: "late" });
    assert.equal(kept(one, at(FINAL)), undefined);
  });

  test("found things: once they stand in a block that exists", () => {
    assert.equal(isKept(foundIn, '{"height":5}'), true);
    assert.equal(isKept(foundIn, `{"height":${TIP}}`), true);
    assert.equal(isKept(foundIn, `{"height":${TIP + 1}}`), false);
    assert.equal(isKept(foundIn, '{"height":null}'), false);
    assert.equal(isKept(foundIn, "{ }"), false);
  });

  test("a list over a range from who has its last block: others may have cut it", () => {
    const one = bench();
    one.view.reported("below", FINAL - 5, 0);
    const range = (to: number): CacheRule => blocks({ height: 5 }, { height: to });
    const [below, silent] = [{ operator: "below" }, { operator: "silent" }];
    store(one, range(FINAL), "[1]", below);
    assert.equal(kept(one, range(FINAL)), undefined);
    store(one, range(FINAL), "[1]", silent);
    assert.equal(kept(one, range(FINAL)), undefined, "its height is not known");
    store(one, range(FINAL - 5), "[1]", below);
    assert.notEqual(kept(one, range(FINAL - 5)), undefined);
    assert.equal(isKept(range(FINAL), "[1]"), true);
    assert.equal(isKept(at(FINAL), "[1]", silent), true, "one block is there or is not");
  });

  test("nothing about blocks while no height is known", () => {
    const one = bench();
    const other = one.cache.open("other" as ServiceId, new ChainView());
    for (const [key, rule] of [at(5), { by: "head" }, foundIn, blocks({ tag: "finalized" })].entries()) {
      const got = other.get(query(rule as CacheRule, `${key}`), 0);
      other.put(got as CacheMiss, found('{"height":5}'));
      assert.notEqual(other.get(query(rule as CacheRule, `${key}`), 0)?.kind, "hit");
    }
    const got = other.get(query({ by: "forever" }), 0);
    other.put(got as CacheMiss, found('"0x1"'));
    assert.equal(other.get(query({ by: "forever" }), 0)?.kind, "hit");
    assert.equal(kept(one, { by: "forever" }), undefined, "services do not share answers");
  });
});

suite("for how long", () => {
  /** Time at which a stored answer is gone while all operators go on to say the same. */
  function ageOf(rule: CacheRule, result = '"0x1"'): number {
    const one = bench();
    store(one, rule, result);
    for (;;) {
      one.time.nowMs += 250;
      if (one.time.nowMs % 10_000 === 0) speak(one.view, TIP, one.time.nowMs);
      if (kept(one, rule) === undefined || one.time.nowMs > 2 * maxAgeMs) return one.time.nowMs;
    }
  }

  test("final ones long, others in proportion to what may change", () => {
    assert.equal(ageOf(at(FINAL)), maxAgeMs);
    assert.equal(ageOf({ by: "forever" }), maxAgeMs);
    assert.equal(ageOf(foundIn, `{"height":${FINAL}}`), maxAgeMs);
    assert.equal(ageOf(at(FINAL + 1)), unfinalAgeMs);
    assert.equal(ageOf(foundIn, `{"height":${FINAL + 1}}`), unfinalAgeMs);
    assert.equal(ageOf(blocks({ hash: "0x1" })), unfinalAgeMs);
    assert.equal(ageOf({ by: "head" }), headAgeMs);
    assert.equal(ageOf(blocks({ tag: "finalized" })), headAgeMs);
    assert.equal(ageOf(blocks({ height: 1 }, { tag: "latest" })), headAgeMs);
  });

  test("a found thing that was first asked for again late counts from when it was stored", () => {
    const one = bench();
    store(one, foundIn, `{"height":${TIP}}`);
    one.time.nowMs = unfinalAgeMs;
    assert.equal(kept(one, foundIn), undefined);
  });

  test("about the newest block until there is another, or something was written", () => {
    for (const rule of [{ by: "head" } as const, blocks({ tag: "latest" }), blocks({ tag: "safe" })]) {
      const one = bench();
      store(one, rule, '"0x1"');
      assert.notEqual(kept(one, rule), undefined);
      speak(one.view, TIP + 1, 10);
      assert.equal(kept(one, rule), undefined);
      store(one, rule, '"0x2"');
      one.view.wasServed(TIP + 2, 10);
      assert.equal(kept(one, rule), undefined, "a client saw a newer block");
      store(one, rule, '"0x3"');
      one.view.wrote();
      assert.equal(kept(one, rule), undefined);
    }
  });

  test("`finalized` until another block is final", () => {
    const one = bench();
    const rule = blocks({ tag: "finalized" });
    store(one, rule, '"0x1"');
    for (const operator of OPERATORS) one.view.sawFinal(operator, FINAL + 1, 1);
    assert.equal(kept(one, rule), undefined);
  });

  test("an answer that was on its way while the block, the chain or the cache changed is not kept", () => {
    const changes: Readonly<Record<string, (one: Bench) => void>> = {
      block: (one) => speak(one.view, TIP + 1, 1),
      write: (one) => one.view.wrote(),
    };
    for (const [name, change] of Object.entries(changes)) {
      const one = bench();
      const miss = missOf(one, { by: "head" });
      change(one);
      one.eth.put(miss, found('"0x1"'));
      assert.equal(one.cache.entries, 0, name);
    }
    const one = bench();
    const miss = missOf(one, at(TIP));
    fork(one.view, TIP);
    one.eth.put(miss, found('"0x1"'));
    assert.equal(kept(one, at(TIP)), undefined);
    const cleared = missOf(one, at(5));
    one.cache.clear();
    one.eth.put(cleared, found('"0x1"'));
    assert.equal(kept(one, at(5)), undefined);
  });

  test("the same holds between the answer and the time when it is stored", () => {
    const one = bench({}, true);
    one.eth.put(missOf(one, at(TIP)), found('"0x1"'));
    fork(one.view, TIP);
    one.run();
    assert.equal(kept(one, at(TIP)), undefined);
    one.eth.put(missOf(one, at(TIP)), found('"0x2"'));
    assert.equal(kept(one, at(TIP)), undefined, "not stored yet");
    one.run();
    assert.notEqual(kept(one, at(TIP)), undefined);
  });
});

/** Operators agree on another block at a height whose parent is known. */
function fork(view: ChainView, height: number, nowMs = 0): void {
  const seen = (hash: string) => ({ heightBlocks: height, hash, parentHash: `p${height - 1}` });
  for (const operator of OPERATORS) {
    view.sawBlock(operator, { heightBlocks: height - 1, hash: `p${height - 1}`, parentHash: undefined }, nowMs);
    view.sawBlock(operator, seen("old"), nowMs);
  }
  for (const operator of OPERATORS) view.sawBlock(operator, seen("new"), nowMs);
}

suite("what is dropped", () => {
  test("blocks from a reorganisation's height on, and nothing below", () => {
    const one = bench();
    for (const height of [5, FINAL, 950, 990, 991]) one.eth.put(missOf(one, at(height), `${height}`), found('"0x1"'));
    one.eth.put(missOf(one, blocks({ hash: "0x1" }), "hash"), found('"0x1"'));
    one.eth.put(missOf(one, foundIn, "found"), found('{"height":5}'));
    one.eth.put(missOf(one, { by: "head" }, "head"), found('"0x1"'));
    one.eth.put(missOf(one, { by: "forever" }, "forever"), found('"0x1"'));
    fork(one.view, 990);
    assert.deepEqual(
      [5, FINAL, 950, 990, 991].filter((height) => kept(one, at(height), `${height}`) !== undefined),
      [5, FINAL, 950],
    );
    assert.equal(kept(one, blocks({ hash: "0x1" }), "hash"), undefined);
    assert.equal(kept(one, { by: "head" }, "head"), undefined);
    assert.notEqual(kept(one, { by: "forever" }, "forever"), undefined);
    one.eth.dropFrom(0);
    assert.equal(kept(one, at(5), "5"), undefined);
    assert.notEqual(kept(one, { by: "forever" }, "forever"), undefined);
  });

  test("an operator's answers, a service's, and all; memory goes to zero", () => {
    const one = bench();
    const other = one.cache.open("other" as ServiceId, one.view);
    one.eth.put(missOf(one, at(1), "1"), found('"0x1"', { operator: "b" }));
    one.eth.put(missOf(one, at(2), "2"), found('"0x1"'));
    other.put(other.get(query(at(1)), 0) as CacheMiss, found('"0x1"'));
    one.eth.dropOperator("b");
    assert.equal(kept(one, at(1), "1"), undefined);
    assert.notEqual(kept(one, at(2), "2"), undefined);
    one.cache.clear(ETH);
    assert.equal(kept(one, at(2), "2"), undefined);
    assert.equal(one.cache.entries, 1);
    one.cache.clear();
    assert.deepEqual([one.cache.entries, one.cache.bytes], [0, 0]);
  });

  test("a service that is opened anew starts empty, and the old handle keeps nothing", () => {
    const one = bench();
    store(one, at(1), '"0x1"');
    const again = one.cache.open(ETH, one.view);
    assert.equal(again.get(query(at(1)), 0)?.kind, "miss");
    assert.equal(one.eth.get(query(at(1)), 0), undefined);
    assert.equal(one.cache.bytes, 0);
  });

  test("no answer about a replaced block is given out, whatever happens in between", () => {
    const heights = fc.integer({ min: TIP - 30, max: TIP });
    const step = fc.oneof(
      fc.record({ kind: fc.constant("ask" as const), height: heights, found: fc.boolean() }),
      fc.record({ kind: fc.constant("answer" as const), nth: fc.nat(5) }),
      fc.record({ kind: fc.constant("fork" as const), height: heights }),
      fc.record({ kind: fc.constant("wait" as const), ms: fc.nat(6_000) }),
      fc.record({ kind: fc.constant("store" as const) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const one = bench({}, true);
        /** What is true of each block: how often it was replaced. */
        const truth = new Map<number, number>();
        const versionAt = (height: number): number => truth.get(height) ?? 0;
        const open: { readonly miss: CacheMiss; readonly height: number; readonly version: number }[] = [];
        for (let height = TIP - 31; height <= TIP; height++) sayBlock(one.view, height, 0, 0, 0);
        for (const event of steps) {
          if (event.kind === "wait") one.time.nowMs += event.ms;
          else if (event.kind === "store") one.run();
          else if (event.kind === "fork") {
            for (let height = event.height; height <= TIP; height++) truth.set(height, versionAt(height) + 1);
            const { height } = event;
            // Only the lowest is seen: the others are known to have gone with it.
            sayBlock(one.view, height, versionAt(height), versionAt(height - 1), one.time.nowMs);
            speak(one.view, TIP, one.time.nowMs);
          } else if (event.kind === "answer") {
            const [sent] = open.splice(event.nth % Math.max(1, open.length), 1);
            if (sent !== undefined) {
              one.eth.put(sent.miss, found(`{"height":${sent.height},"version":${sent.version}}`));
            }
          } else {
            const rule = event.found ? foundIn : at(event.height);
            const got = one.eth.get(query(rule, `${event.height} ${event.found}`), one.time.nowMs);
            if (got?.kind === "miss") {
              open.push({ miss: got, height: event.height, version: versionAt(event.height) });
            } else if (got?.kind === "hit") {
              const { result } = JSON.parse(Buffer.from(got.answer.body).toString()) as { result: { version: number } };
              assert.equal(result.version, versionAt(event.height), "stale");
            }
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});

function sayBlock(view: ChainView, height: number, version: number, parentVersion: number, nowMs: number): void {
  const parentHash = `v${parentVersion} ${height - 1}`;
  for (const operator of OPERATORS) {
    view.sawBlock(operator, { heightBlocks: height, hash: `v${version} ${height}`, parentHash }, nowMs);
  }
}

suite("the budget", () => {
  test("is never exceeded, and what is used stays", () => {
    const sizes = fc.array(fc.record({ key: fc.nat(300), bytes: fc.nat(9_000) }), { minLength: 50, maxLength: 400 });
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 60_000 }), sizes, (maxBytes, puts) => {
        const one = bench({ maxBytes });
        for (const { key, bytes } of puts) {
          const got = one.eth.get(query(at(5), `${key}`), 0);
          if (got?.kind === "miss") one.eth.put(got, found(`"${"x".repeat(bytes)}"`));
          assert.ok(one.cache.bytes <= maxBytes);
        }
        one.cache.clear();
        assert.deepEqual([one.cache.bytes, one.cache.entries], [0, 0]);
      }),
      { numRuns: 60 },
    );
    const one = bench({ maxBytes: 100_000 });
    one.eth.put(missOf(one, at(5), "often"), found('"0x1"'));
    for (let round = 0; round < 2_000; round++) {
      assert.notEqual(kept(one, at(5), "often"), undefined, "a scan pushed it out");
      one.eth.put(missOf(one, at(5), `once ${round}`), found('"0x1"'));
    }
    assert.ok(one.cache.entries > 50);
  });

  test("a budget of 0 keeps nothing, and asks nothing", () => {
    const one = bench({ maxBytes: 0 });
    assert.equal(one.eth.get(query(at(5)), 0), undefined);
  });

  test("answers that wait to be stored are bounded too", () => {
    const one = bench({ maxWaiting: 3 }, true);
    for (let round = 0; round < 10; round++) one.eth.put(missOf(one, at(5), `${round}`), found('"0x1"'));
    one.run();
    assert.equal(one.cache.entries, 3);
    const bytes = bench({ maxWaitingBytes: 100 }, true);
    for (let round = 0; round < 10; round++) bytes.eth.put(missOf(bytes, at(5), `${round}`), found('"0x1"'));
    bytes.run();
    assert.equal(bytes.cache.entries, 2);
  });
});

suite("defaults", () => {
  test("a chain view's last word is older than no cached head", () => {
    assert.ok(headAgeMs <= chainViewDefaults.followDownMs);
    assert.ok(ANSWER_CACHE_BOUNDS.unfinalAgeMs <= chainViewDefaults.maxAgeMs);
  });
});

test("what is about the newest block, or large, is kept when the same was asked for before; the rest at once", () => {
  const one = bench({ waitsForSecond: true });
  const isKept = (rule: CacheRule, key: string): boolean => one.eth.get(query(rule, key), 0)?.kind === "hit";
  const ask = (rule: CacheRule, key: string, result: string): void => {
    const got = one.eth.get(query(rule, key), 0);
    if (got?.kind === "miss") one.eth.put(got, found(result));
  };
  ask(at(FINAL), "small", '"0x1"');
  assert.ok(isKept(at(FINAL), "small"));
  for (const [rule, key, result] of [
    [{ by: "head" }, "head", '"0x1"'],
    [at(FINAL), "large", `"${"x".repeat(10_000)}"`],
  ] as const) {
    ask(rule, key, result);
    assert.ok(one.cache.entries <= 2);
    assert.equal(one.eth.get(query(rule, `${key} of another`), 0)?.kind === "hit", false);
    ask(rule, key, result);
    assert.ok(isKept(rule, key), key);
  }
});

test("of two calls whose keys have the same hash, neither gets the other's answer", () => {
  const one = bench();
  const of = (text: string): CacheQuery => ({ ...query(at(FINAL)), key: { text, hash: 7 } });
  const got = one.eth.get(of("a"), 0);
  assert.equal(got?.kind, "miss");
  if (got?.kind !== "miss") return;
  one.eth.put(got, found('"0x1"'));
  assert.equal(one.eth.get(of("a"), 0)?.kind, "hit");
  const other = one.eth.get(of("b"), 0);
  assert.equal(other?.kind, "miss");
  if (other?.kind !== "miss") return;
  // The newer one has the place.
  one.eth.put(other, found('"0x2"'));
  assert.equal(one.eth.get(of("b"), 0)?.kind, "hit");
  assert.equal(one.eth.get(of("a"), 0)?.kind, "miss");
  assert.equal(one.cache.entries, 1);
});
