import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { seededRandom } from "../../test/quality/random.ts";
import { type Candidate, DEFAULT_SELECTION, type SelectionOptions, SupplierPool, takeNext } from "./selection.ts";
import { sharesOf } from "./shares.ts";
import { DEFAULT_QUALITY, SupplierQuality } from "./supplier-quality.ts";

interface Member extends Candidate {
  readonly name: string;
  isDrained: boolean;
  isWrongChain: boolean;
  isVerified: boolean;
  behind: boolean;
}

const NOW = 1_000_000;

function member(name: string, latencyMs = 20, fields: Partial<Member> = {}): Member {
  const quality = new SupplierQuality(DEFAULT_QUALITY);
  if (latencyMs > 0) for (let i = 300; i > 0; i--) quality.good(NOW - i * 1_000, latencyMs);
  const [operator = name] = name.split(":");
  return {
    name,
    operator,
    quality,
    isDrained: false,
    isWrongChain: false,
    isVerified: true,
    behind: false,
    isBehind() {
      return this.behind;
    },
    ...fields,
  };
}

function open({ quality }: Candidate): void {
  for (let i = 0; i < 20; i++) quality.failed(NOW, "timeout");
}

function poolOf(members: readonly Member[], random = seededRandom(1), options: Partial<SelectionOptions> = {}) {
  return new SupplierPool({ ...DEFAULT_SELECTION, ...options, members }, { random });
}

/** Part of the first attempts by name, of 20,000 calls. */
function firsts(pool: SupplierPool<Member>, operation = "op"): Map<string, number> {
  const counts = new Map<string, number>();
  for (let i = 0; i < 20_000; i++) {
    const [first] = pool.order(operation, NOW);
    if (first !== undefined) counts.set(first.name, (counts.get(first.name) ?? 0) + 1 / 20_000);
  }
  return counts;
}

const isNear = (part: number | undefined, wanted: number): void =>
  assert.ok(Math.abs((part ?? 0) - wanted) < 0.015, `${part} is not near ${wanted}`);
const names = (list: readonly Member[]): string => list.map(({ name }) => name).join(" ");

test("shares sum to 1, none is above the cap while more than 1/cap healthy operators are there", () => {
  const endpoint = fc.record({
    operator: fc.constantFrom("a", "b", "c", "d", "e", "f"),
    weight: fc.double({ min: 0.001, max: 5, noNaN: true }),
    isHealthy: fc.boolean(),
  });
  fc.assert(
    fc.property(
      fc.array(endpoint, { minLength: 1, maxLength: 12 }),
      fc.double({ min: 0.1, max: 1, noNaN: true }),
      (list, cap) => {
        const shares = sharesOf(list, cap);
        assert.ok(Math.abs(shares.reduce((sum, share) => sum + share, 0) - 1) < 1e-9);
        assert.ok(shares.every((share) => share >= 0));
        const healthy = new Set(list.filter(({ isHealthy }) => isHealthy).map(({ operator }) => operator));
        if (healthy.size * cap <= 1) return;
        for (const operator of healthy) {
          const own = shares.reduce((sum, share, i) => sum + (list[i]?.operator === operator ? share : 0), 0);
          assert.ok(own <= cap + 1e-9, `${operator} has ${own} of ${cap}`);
        }
      },
    ),
  );
});

test("equal suppliers get equal parts, a quicker one more; nobody gets more than the cap", () => {
  const even = firsts(poolOf([member("a"), member("b"), member("c")]));
  for (const name of ["a", "b", "c"]) isNear(even.get(name), 1 / 3);
  const uneven = firsts(poolOf([member("a", 20), member("b", 40)]));
  // The median of two is the quicker one: 1/(20+10) to 1/(40+10).
  isNear(uneven.get("a"), 50 / 80);
  const capped = firsts(poolOf([member("a", 10), member("b", 1_000), member("c", 1_000), member("d", 1_000)]));
  isNear(capped.get("a"), 0.5);
  const uncapped = firsts(poolOf([member("a", 10), member("b", 1_000)]));
  assert.ok((uncapped.get("a") ?? 0) > 0.9);
});

test("a long list of endpoints is no larger part: the endpoints of an operator share it", () => {
  const pool = poolOf([member("a:1"), member("a:2"), member("a:3"), member("a:4"), member("b"), member("c")]);
  const found = firsts(pool);
  for (const name of ["a:1", "a:2", "a:3", "a:4"]) isNear(found.get(name), 1 / 12);
  isNear(found.get("b"), 1 / 3);
  assert.deepEqual([...pool.shares(NOW).keys()], ["a", "b", "c"]);
  for (const part of pool.shares(NOW).values()) isNear(part, 1 / 3);
});

test("the cap is a setting, and holds while enough others are healthy, whatever their latencies", () => {
  for (const maxOperatorShare of [0.3, 0.5, 0.65]) {
    const random = seededRandom(7);
    for (let round = 0; round < 5; round++) {
      const members = ["a", "b", "c", "d"].map((name) => member(name, 1 + 500 * random() ** 4));
      const found = firsts(poolOf(members, random, { maxOperatorShare }));
      for (const part of found.values()) assert.ok(part <= maxOperatorShare + 0.015, `${part}`);
    }
  }
});

test("a supplier in probation gets a tenth of the first attempts, and is no last resort", () => {
  const [a, b, c] = [member("a"), member("b"), member("c")];
  open(c);
  assert.equal(c.quality.state(NOW), "open");
  const later = NOW + c.quality.view(NOW).openForMs;
  const pool = poolOf([a, b, c]);
  let first = 0;
  for (let i = 0; i < 20_000; i++) {
    const ordered = pool.order("op", later);
    assert.equal(ordered.length, 3);
    if (ordered[0] === c) first += 1 / 20_000;
    else assert.equal(ordered[2], c);
  }
  isNear(first, 0.1);
  isNear(pool.shares(later).get("c"), 0.1);
  const alone = poolOf([c]);
  assert.equal(names(alone.order("op", later)), "c");
  assert.equal(alone.shares(later).get("c"), 1);
});

test("behind, open and lacking suppliers come last, in this order; drained and wrong ones do not come", () => {
  const lacking = member("lacking");
  lacking.quality.lacks("op", NOW);
  const [dead, down] = [member("failing"), member("open")];
  for (const one of [dead, down]) open(one);
  down.quality.probeGood(NOW, 1);
  const members = [
    dead,
    down,
    lacking,
    member("behind", 20, { behind: true }),
    member("unverified", 20, { isVerified: false }),
    member("drained", 20, { isDrained: true }),
    member("wrong", 20, { isWrongChain: true }),
    member("silent"),
    member("good"),
  ];
  const pool = poolOf(members);
  for (let i = 0; i < 100; i++) {
    const ordered = pool.order("op", NOW);
    assert.equal(names(ordered.slice(2)), "unverified behind open failing lacking");
    assert.equal(names(ordered.slice(0, 2)).split(" ").sort().join(" "), "good silent");
  }
  assert.equal(names(pool.order("other", NOW)).split(" ").slice(-3).join(" "), "behind open failing");
});

test("the list is never empty while anybody may be asked, and nobody stands in it twice", () => {
  const kind = fc.record({
    isDrained: fc.boolean(),
    isWrongChain: fc.boolean(),
    isVerified: fc.boolean(),
    behind: fc.boolean(),
    operator: fc.constantFrom("a", "b", "c"),
    trouble: fc.constantFrom("none", "open", "probation", "resting", "lacking"),
  });
  fc.assert(
    fc.property(fc.array(kind, { maxLength: 40 }), fc.nat(), (kinds, seed) => {
      const members = kinds.map(({ trouble, ...fields }, i) => {
        const one = member(`m${i}`, 0, fields);
        if (trouble === "open") open(one);
        if (trouble === "probation") for (let n = 0; n < 20; n++) one.quality.failed(NOW - 1_000, "timeout");
        if (trouble === "resting") one.quality.pause(NOW, 5_000);
        if (trouble === "lacking") one.quality.lacks("op", NOW);
        return one;
      });
      const wanted = members.filter((one) => !one.isDrained && !one.isWrongChain);
      for (const random of [seededRandom(seed), () => 0, () => 0.97, () => 1 - 2 ** -32]) {
        const pool = poolOf(members, random);
        for (let i = 0; i < 2; i++) {
          const ordered = pool.order("op", NOW);
          assert.deepEqual(new Set(ordered), new Set(wanted));
          assert.equal(ordered.length, wanted.length);
        }
      }
    }),
  );
});

test("a change counts at the next call: drained, opened, behind", () => {
  const [a, b] = [member("a"), member("b")];
  const pool = poolOf([a, b]);
  pool.order("op", NOW);
  a.isDrained = true;
  assert.equal(names(pool.order("op", NOW)), "b");
  b.isDrained = true;
  assert.equal(names(pool.order("op", NOW)), "");
  a.isDrained = false;
  b.isDrained = false;
  open(a);
  assert.equal(names(pool.order("op", NOW)), "b a");
  b.behind = true;
  assert.equal(names(pool.order("op", NOW)), "b a");
  a.quality.reset(NOW);
  assert.equal(names(pool.order("op", NOW)), "a b");
});

test("scores count: one in ten wrong costs most of a part", () => {
  const [a, b, c] = [member("a"), member("b"), member("c")];
  for (let i = 200; i > 0; i--) c.quality.failed(NOW - i * 1_000, "http_status", 20);
  for (let i = 200; i > 0; i--) for (let n = 0; n < 9; n++) c.quality.good(NOW - i, 20);
  const part = firsts(poolOf([a, b, c])).get("c") ?? 0;
  assert.ok(part > 0.001 && part < 0.25, `${part}`);
});

test("a random number of 0 gives the plain order; suppliers that nothing is known of are equal", () => {
  const members = ["a", "b", "c", "d"].map((name) => member(name, 0));
  assert.equal(names(poolOf(members, () => 0).order("op", NOW)), "a b c d");
  for (const part of firsts(poolOf(members)).values()) isNear(part, 0.25);
  const seconds = new Map<string, number>();
  const pool = poolOf(members);
  for (let i = 0; i < 20_000; i++) {
    const pair = names(pool.order("op", NOW).slice(0, 2));
    seconds.set(pair, (seconds.get(pair) ?? 0) + 1 / 20_000);
  }
  assert.equal(seconds.size, 12);
  for (const part of seconds.values()) isNear(part, 1 / 12);
});

test("of hundreds, first and second places go by share too, and all are in the list once", () => {
  const members = Array.from({ length: 200 }, (_, at) => member(`m${at}`, at < 100 ? 20 : 80));
  const pool = poolOf(members);
  const [firstPlaces, secondPlaces] = [new Set<string>(), new Set<string>()];
  let quick = 0;
  let secondQuick = 0;
  for (let i = 0; i < 10_000; i++) {
    const ordered = pool.order("op", NOW);
    assert.equal(new Set(ordered).size, 200);
    const [first, second] = ordered;
    firstPlaces.add(first?.name ?? "");
    secondPlaces.add(second?.name ?? "");
    quick += (first?.quality.latencyMs ?? 0) < 40 ? 1 / 10_000 : 0;
    secondQuick += (second?.quality.latencyMs ?? 0) < 40 ? 1 / 10_000 : 0;
  }
  const shares = pool.shares(NOW);
  const wanted = members.slice(0, 100).reduce((sum, { operator }) => sum + (shares.get(operator) ?? 0), 0);
  assert.ok(wanted > 0.7 && wanted < 0.8);
  isNear(quick, wanted);
  isNear(secondQuick, wanted);
  assert.equal(firstPlaces.size, 200);
  assert.equal(secondPlaces.size, 200);
});

test("of hundreds, too, one in probation gets its part alone, and a drained one no place", () => {
  const members = Array.from({ length: 60 }, (_, at) => member(`m${at}`));
  for (const one of members.slice(0, 20)) open(one);
  const later = NOW + Math.max(...members.map(({ quality }) => quality.view(NOW).openForMs));
  const pool = poolOf(members);
  const onProbation = new Set(members.slice(0, 20));
  let first = 0;
  for (let i = 0; i < 20_000; i++) {
    const ordered = pool.order("op", later);
    assert.equal(new Set(ordered).size, 60);
    if (ordered[0] !== undefined && onProbation.has(ordered[0])) first += 1 / 20_000;
    else assert.ok(ordered.slice(40).every((one) => onProbation.has(one)));
  }
  isNear(first, 0.1);
  const [, , , drained] = members;
  assert.ok(drained !== undefined);
  drained.isDrained = true;
  for (let i = 0; i < 100; i++) assert.ok(!pool.order("op", later).includes(drained));
});

test("the next supplier is of an operator that was not asked yet, where there is one", () => {
  const list = [member("a:1"), member("a:2"), member("b")];
  const asked = new Set(["a"]);
  assert.equal(takeNext(list, asked)?.name, "b");
  assert.equal(takeNext(list, asked)?.name, "a:1");
  assert.equal(takeNext([], asked), undefined);
});
