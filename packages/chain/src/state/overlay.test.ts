import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { Derivation, RangeOptions } from "@turnpike/chain-store";
import { fc } from "@turnpike/testkit/property";
import { bytesToText, textAfterPrefix } from "./bytes.ts";
import { Overlay, type StateReads } from "./overlay.ts";

const EMPTY: StateReads = { get: () => undefined, range: () => [] };
const key = fc
  .uint8Array({ minLength: 1, maxLength: 3 })
  .map((bytes) => bytes.map((byte) => (byte % 3 === 0 ? 255 : byte % 3)));
const write = fc.record({
  key,
  value: fc.option(fc.uint8Array({ maxLength: 2 }), { nil: undefined }),
  level: fc.nat(2),
});
const range = fc.record(
  { prefix: key.map((bytes) => bytes.subarray(1)), from: key, to: key, reverse: fc.boolean() },
  { requiredKeys: ["prefix"] },
);

function expected(model: Map<string, Uint8Array>, { prefix, from, to, reverse }: RangeOptions): [string, string][] {
  const start = bytesToText(prefix);
  const entries = [...model]
    .filter(([k]) => k.startsWith(start))
    .filter(([k]) => (from === undefined || k >= bytesToText(from)) && (to === undefined || k < bytesToText(to)))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([k, v]): [string, string] => [k, bytesToText(v)]);
  return reverse === true ? entries.reverse() : entries;
}

suite("overlay", () => {
  test("stacked overlays read and walk like one sorted map, whatever lies at which level", () => {
    fc.assert(
      fc.property(fc.array(write, { maxLength: 60 }), fc.array(range, { maxLength: 6 }), (writes, ranges) => {
        const layers: Overlay[] = [];
        for (let i = 0; i < 3; i++) layers.push(new Overlay(layers[i - 1] ?? EMPTY));
        const model = new Map<string, Uint8Array>();
        for (const step of writes.toSorted((a, b) => a.level - b.level)) {
          const layer = layers[step.level];
          assert.ok(layer);
          if (step.value === undefined) {
            layer.delete(step.key);
            model.delete(bytesToText(step.key));
          } else {
            layer.set(step.key, step.value);
            model.set(bytesToText(step.key), step.value);
          }
        }
        const top = layers[2];
        assert.ok(top);
        const walk = (state: StateReads, options: RangeOptions): [string, string][] =>
          [...state.range(options)].map(([k, v]) => [bytesToText(k), bytesToText(v)]);
        for (const options of ranges) assert.deepEqual(walk(top, options), expected(model, options));
        for (const step of writes) assert.deepEqual(top.get(step.key), model.get(bytesToText(step.key)));
        const [bottom, middle] = layers;
        assert.ok(bottom && middle);
        top.commitTo(middle);
        middle.commitTo(bottom);
        const all = expected(model, { prefix: new Uint8Array(0) });
        assert.deepEqual(walk(bottom, { prefix: new Uint8Array(0) }), all);
        assert.deepEqual(
          bottom.changes().map(([k, v]) => [bytesToText(k), bytesToText(v ?? new Uint8Array(9))]),
          all,
        );
      }),
      { numRuns: 200 },
    );
  });

  test("a walk sees what is written ahead of it, and not what is deleted there", () => {
    const state = new Overlay(EMPTY);
    for (const byte of [1, 2, 3]) state.set(Uint8Array.of(byte), Uint8Array.of(byte));
    const seen: (number | undefined)[] = [];
    for (const [k] of state.range({ prefix: new Uint8Array(0) })) {
      seen.push(k[0]);
      if (k[0] === 1) {
        state.delete(Uint8Array.of(2));
        state.set(Uint8Array.of(4), Uint8Array.of(4));
        state.set(Uint8Array.of(0), Uint8Array.of(0));
      }
    }
    assert.deepEqual(seen, [1, 3, 4]);
  });

  test("a long walk that deletes and writes at each step sees what a sorted map has", () => {
    for (const reverse of [false, true]) {
      const [base, model] = [new Overlay(EMPTY), new Map<string, Uint8Array>()];
      const state = new Overlay(base);
      const keyOf = (n: number): Uint8Array => Uint8Array.of(1, n >>> 8, n & 255);
      const write = (to: Overlay, n: number): void => {
        to.set(keyOf(n), Uint8Array.of(n & 7));
        model.set(bytesToText(keyOf(n)), Uint8Array.of(n & 7));
      };
      for (let n = 0; n < 4_000; n++) write(n % 2 === 0 ? base : state, n * 4);
      const prefix = Uint8Array.of(1);
      let [steps, ahead] = [0, 0];
      for (const [one] of state.range({ prefix, reverse })) {
        const n = ((one[1] ?? 0) << 8) | (one[2] ?? 0);
        assert.deepEqual(model.get(bytesToText(one)), Uint8Array.of(n & 7));
        if (n % 4 !== 0) ahead++;
        steps++;
        state.delete(one);
        model.delete(bytesToText(one));
        // One behind the walk, which it does not meet, and one ahead, which it does.
        if (n % 40 === 0) for (const by of [-1, 1]) if (n + by > 0) write(state, n + by);
        if (n % 4_000 === 0) for (let i = 0; i < 40; i++) state.delete(keyOf(40_000 + n + i));
      }
      assert.equal(ahead, reverse ? 399 : 400);
      assert.equal(steps, 4_000 + ahead);
      assert.deepEqual(
        [...state.range({ prefix })].map(([k, v]) => [bytesToText(k), bytesToText(v)]),
        expected(model, { prefix }),
      );
    }
  });

  test("a caller who changes its bytes later does not change the state; what is as before is no change", () => {
    const base = new Overlay(EMPTY);
    const value = Uint8Array.of(7);
    base.set(Uint8Array.of(1), value);
    value[0] = 8;
    assert.deepEqual(base.get(Uint8Array.of(1)), Uint8Array.of(7));
    const over = new Overlay(base);
    over.set(Uint8Array.of(1), Uint8Array.of(7));
    over.delete(Uint8Array.of(2));
    assert.deepEqual(over.changes(), []);
    assert.equal(textAfterPrefix("\u00ff\u00ff"), undefined);
  });

  test("what is derived is as made anew, whatever was written, committed and thrown away since", () => {
    const texts: Derivation<readonly string[]> = {
      make: (entries) => [...entries].map(([k, v]) => `${bytesToText(k)}=${bytesToText(v)}`),
    };
    // The same as a sorted map, which takes changes over one by one.
    const updating: Derivation<ReadonlyMap<string, string>> = {
      make: (entries) => new Map([...entries].map(([k, v]) => [bytesToText(k), bytesToText(v)])),
      update(value, changes) {
        const next = new Map(value);
        for (const [k, v] of changes) {
          if (v === undefined) next.delete(bytesToText(k));
          else next.set(bytesToText(k), bytesToText(v));
        }
        return new Map([...next].sort(([a], [b]) => (a < b ? -1 : 1)));
      },
    };
    const step = fc.record({ write, does: fc.constantFrom("write", "write", "commit", "discard") });
    const prefixes = [[], [1], [255], [1, 2]].map((bytes) => Uint8Array.from(bytes));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), fc.boolean(), (steps, keeps) => {
        let madeBelow = 0;
        const lowest = new Overlay(EMPTY);
        lowest.set(Uint8Array.of(1, 2), Uint8Array.of(9));
        const base: StateReads = {
          get: (k) => lowest.get(k),
          range: (options) => lowest.range(options),
          ...(keeps
            ? {
                derived: (derivation, prefix) => {
                  madeBelow++;
                  return lowest.derived(derivation, prefix);
                },
              }
            : {}),
        };
        const bottom = new Overlay(base);
        let top = new Overlay(bottom);
        const check = (): void => {
          for (const prefix of prefixes) {
            for (let time = 0; time < 2; time++) {
              assert.deepEqual(top.derived(texts, prefix), texts.make(top.range({ prefix })));
              const updated = [...top.derived(updating, prefix)];
              assert.deepEqual(updated, [...updating.make(top.range({ prefix }))]);
            }
          }
        };
        check();
        assert.equal(madeBelow, keeps ? 4 * prefixes.length : 0);
        for (const { write: one, does } of steps) {
          if (does === "commit") top.commitTo(bottom);
          else if (does === "discard") top = new Overlay(bottom);
          else if (one.value === undefined) top.delete(one.key);
          else top.set(one.key, one.value);
          check();
        }
      }),
      { numRuns: 150 },
    );
  });

  test("a committed value is the layer's own, and what was read before a write below is read again", () => {
    const bottom = new Overlay(EMPTY);
    assert.equal(bottom.get(Uint8Array.of(1)), undefined);
    const top = new Overlay(bottom);
    assert.equal(top.get(Uint8Array.of(1)), undefined);
    top.set(Uint8Array.of(1), Uint8Array.of(1));
    top.commitTo(bottom);
    assert.deepEqual(bottom.get(Uint8Array.of(1)), Uint8Array.of(1));
    assert.deepEqual(top.get(Uint8Array.of(1)), Uint8Array.of(1));
    bottom.delete(Uint8Array.of(1));
    assert.equal(top.get(Uint8Array.of(1)), undefined);
  });
});
