import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { RangeOptions } from "@turnpike/chain-store";
import { baseQuery, createMessage } from "@turnpike/proto";
import { textCodec, uint64Codec } from "./codecs.ts";
import { Collection } from "./collection.ts";
import { collectionPage } from "./collection-page.ts";
import type { Context } from "./context.ts";
import { GasMeter } from "./gas.ts";
import { Overlay } from "./overlay.ts";

const numbers = new Collection({ module: "m", prefix: Uint8Array.of(1), key: uint64Codec, value: textCodec });

function stateOf(count: number, textOf = (i: number): string => `${i}`) {
  const inner = new Overlay({ get: () => undefined, range: () => [] });
  const counted = { reads: 0, decodes: 0 };
  const state = new Overlay({
    get: (key) => inner.get(key),
    *range(options: RangeOptions) {
      for (const entry of inner.range(options)) {
        counted.reads++;
        yield entry;
      }
    },
  });
  const block = {
    chainId: "pocket",
    heightBlocks: 1n,
    timeNanos: 0n,
    hash: new Uint8Array(0),
    proposer: new Uint8Array(0),
  };
  const ctx: Context = { block, mode: "query", state, gas: new GasMeter(), events: [] };
  for (let i = 0; i < count; i++) numbers.set({ ...ctx, state: inner }, BigInt(i), textOf(i));
  const page = (init: Parameters<typeof createMessage<typeof baseQuery.PageRequestSchema>>[1]) => {
    const request = createMessage(baseQuery.PageRequestSchema, init);
    const item = (_: bigint, text: string): string => {
      counted.decodes++;
      return text;
    };
    const result = collectionPage(ctx, numbers, { request, item });
    assert.ok(result.ok);
    return result;
  };
  return { page, counted };
}

suite("pages", () => {
  test("no limit makes a page of more than 10,000 entries, and its next key goes on", () => {
    const { page } = stateOf(10_003);
    const first = page({ limit: (1n << 64n) - 1n });
    assert.equal(first.items.length, 10_000);
    const rest = page({ limit: (1n << 64n) - 1n, key: first.pagination.nextKey });
    assert.deepEqual(rest.items, ["10000", "10001", "10002"]);
    assert.equal(rest.pagination.nextKey.length, 0);
  });

  test("backwards, page by page, every entry comes once, and a page reads what it shows", () => {
    const { page, counted } = stateOf(500);
    const seen: string[] = [];
    let key = new Uint8Array(0);
    for (let pages = 0; pages < 50; pages++) {
      counted.reads = 0;
      const { items, pagination } = page({ limit: 10n, reverse: true, key });
      assert.ok(counted.reads <= 12, `${counted.reads}`);
      seen.push(...items);
      key = Uint8Array.from(pagination.nextKey);
    }
    assert.equal(key.length, 0);
    assert.deepEqual(
      seen,
      Array.from({ length: 500 }, (_, i) => `${499 - i}`),
    );
  });

  test("a page that is full by bytes ends early, and its next keys lead to every entry once, in both directions", () => {
    const { page } = stateOf(7, () => "a".repeat(400_000));
    for (const reverse of [false, true]) {
      const sizes: number[] = [];
      let key = new Uint8Array(0);
      do {
        const { items, pagination } = page({ limit: 10_000n, key, reverse, countTotal: true });
        assert.equal(pagination.total, key.length === 0 ? 7n : 0n);
        sizes.push(items.length);
        key = Uint8Array.from(pagination.nextKey);
      } while (key.length > 0);
      assert.deepEqual(sizes, [3, 3, 1]);
    }
    const huge = stateOf(2, () => "a".repeat(3_000_000)).page({ limit: 2n });
    assert.deepEqual([huge.items.length, huge.pagination.nextKey.length], [1, 8]);
  });

  test("entries that are passed or counted are not decoded", () => {
    const { page, counted } = stateOf(1_000);
    const { items, pagination } = page({ limit: 2n, offset: 500n, countTotal: true });
    assert.deepEqual([items, pagination.total], [["500", "501"], 1_000n]);
    assert.deepEqual([counted.reads, counted.decodes], [1_000, 2]);
  });

  test("an offset behind the end is an empty page", () => {
    const { items, pagination } = stateOf(3).page({ offset: (1n << 64n) - 1n, limit: 1n, countTotal: true });
    assert.deepEqual([items, pagination.total, pagination.nextKey.length], [[], 3n, 0]);
  });
});
