import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { Clock } from "@turnpike/base";
import { seededRandom } from "../../test/quality/random.ts";
import { rpcProbeCall } from "../families/family.ts";
import { DEFAULT_PROBER, Prober, type ProberOptions, type ProbeTarget, probeKey } from "./prober.ts";
import type { ProbeNeed } from "./supplier-quality.ts";

interface FakeTarget extends ProbeTarget<string> {
  sent: number;
  read: string[];
  need: ProbeNeed;
  /** Ends the exchange that runs. */
  answer(): void;
}

function fake(key: string, need: ProbeNeed = "normal", isHeld = false): FakeTarget {
  let release = Promise.withResolvers<void>();
  const target: FakeTarget = {
    probeKey: key,
    sent: 0,
    read: [],
    need,
    answer: () => release.resolve(),
    async exchangeProbe() {
      target.sent++;
      if (isHeld) await release.promise;
      release = Promise.withResolvers<void>();
      return `${key} ${target.sent}`;
    },
    readProbe: (seen) => void target.read.push(seen),
    probeNeed: () => target.need,
  };
  return target;
}

const NO_CLOCK: Clock = { nowMs: () => 0, monotonicMs: () => 0 };

function proberOf(targets: readonly FakeTarget[], options: Partial<ProberOptions> = {}, random = () => 0.5) {
  const closing = new AbortController();
  const prober = new Prober(
    { ...DEFAULT_PROBER, ...options },
    { targets, clock: NO_CLOCK, random, signal: closing.signal },
  );
  return { prober, close: () => closing.abort() };
}

test("keys tell apart by back-end, way of speaking and calls", () => {
  const base = { backendKey: "a", rpcType: "json_rpc", calls: [rpcProbeCall("eth_chainId", [])] } as const;
  const others = [
    { ...base, backendKey: "b" },
    { ...base, rpcType: "comet_bft" } as const,
    { ...base, calls: [rpcProbeCall("eth_blockNumber", [])] },
  ];
  assert.equal(probeKey(base), probeKey({ ...base, calls: [rpcProbeCall("eth_chainId", [])] }));
  assert.equal(new Set([base, ...others].map(probeKey)).size, others.length + 1);
});

test("a target that comes later is probed; one that has gone is not", async () => {
  const [a, b, twin] = [fake("a"), fake("b"), fake("a")];
  const { prober, close } = proberOf([a]);
  await using _ = prober;
  prober.add(b);
  await turn();
  assert.equal(b.sent, 0, "nothing is sent before the start");
  await prober.start();
  assert.deepEqual([a.sent, b.sent], [1, 1]);
  prober.add(twin);
  await turn();
  assert.deepEqual([a.sent, twin.read.length], [2, 1], "its group is probed at once");
  prober.remove(a);
  await prober.probe(twin);
  assert.deepEqual([a.sent, twin.sent, a.read.length], [2, 1, 2]);
  prober.remove(twin);
  await prober.probe(twin);
  assert.equal(twin.sent, 1);
  prober.remove(twin);
  close();
});

test("those with one key share one exchange; each reads it", async () => {
  const targets = [fake("a"), fake("a"), fake("b"), fake("a")];
  const { prober, close } = proberOf(targets);
  await using _ = prober;
  await prober.start();
  assert.deepEqual(
    targets.map(({ sent }) => sent),
    [1, 0, 1, 0],
  );
  assert.deepEqual(
    targets.map(({ read }) => read),
    [["a 1"], ["a 1"], ["b 1"], ["a 1"]],
  );
  close();
});

test("a probe on demand joins the one that runs, and needs no start", async () => {
  const [a, twin] = [fake("a", "normal", true), fake("a")];
  const { prober, close } = proberOf([a, twin]);
  await using _ = prober;
  const both = [prober.probe(a), prober.probe(twin)];
  await turn();
  a.answer();
  await Promise.all(both);
  assert.deepEqual([a.sent, twin.sent, twin.read.length], [1, 0, 1]);
  await prober.probe(fake("unknown"));
  close();
});

test("no more run at once than are allowed; a place is given on when it is free", async () => {
  const targets = ["a", "b", "c", "d"].map((key) => fake(key, "normal", true));
  const { prober, close } = proberOf(targets, { maxAtOnce: 2 });
  await using _ = prober;
  const started = prober.start();
  await turn();
  assert.deepEqual(
    targets.map(({ sent }) => sent),
    [1, 1, 0, 0],
  );
  targets[0]?.answer();
  await turn();
  assert.deepEqual(
    targets.map(({ sent }) => sent),
    [1, 1, 1, 0],
  );
  for (let i = 0; i < 4; i++) {
    for (const target of targets) target.answer();
    await turn();
  }
  await started;
  assert.deepEqual(
    targets.map(({ sent }) => sent),
    [1, 1, 1, 1],
  );
  close();
});

test("a probe on demand needs no place, and leaves the queue where it stands in it", async () => {
  const [first, queued, idle] = ["a", "b", "c"].map((key) => fake(key, "normal", true));
  assert.ok(first !== undefined && queued !== undefined && idle !== undefined);
  const { prober, close } = proberOf([first, queued, idle], { maxAtOnce: 1 });
  await using _ = prober;
  const asked = prober.probe(idle);
  await turn();
  idle.answer();
  await asked;
  const started = prober.start();
  await turn();
  assert.deepEqual([first.sent, queued.sent, idle.sent], [1, 0, 1]);
  const probed = prober.probe(queued);
  await turn();
  assert.equal(queued.sent, 1);
  queued.answer();
  await probed;
  assert.deepEqual([first.read.length, queued.read.length], [0, 1]);
  first.answer();
  await turn();
  idle.answer();
  await started;
  close();
});

test("those that fail are retried soon, then later and later; the others keep their time", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const [bad, good, busy] = [fake("bad", "soon"), fake("good"), fake("busy", "rare")];
  const { prober, close } = proberOf([bad, good, busy]);
  await prober.start();
  await turn();
  const times: Record<string, number[]> = { bad: [], good: [], busy: [] };
  for (let second = 1; second <= 130; second++) {
    const before = [bad.sent, good.sent, busy.sent];
    t.mock.timers.tick(1_000);
    await turn();
    for (const [i, [name, target]] of Object.entries({ bad, good, busy }).entries()) {
      if (target.sent !== before[i]) times[name]?.push(second);
    }
  }
  assert.deepEqual(times.bad, [1, 3, 7, 15, 31, 63, 123]);
  assert.deepEqual(times.good, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130]);
  assert.deepEqual(times.busy, [30, 60, 90, 120]);
  bad.need = "normal";
  t.mock.timers.tick(60_000);
  await turn();
  const before = bad.sent;
  t.mock.timers.tick(10_000);
  await turn();
  assert.equal(bad.sent, before + 1);
  bad.need = "soon";
  t.mock.timers.tick(10_000);
  await turn();
  t.mock.timers.tick(1_000);
  await turn();
  assert.equal(bad.sent, before + 3);
  close();
  await prober[Symbol.asyncDispose]();
});

test("the dead hold up the living with half of the places at most", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const dead = ["d1", "d2", "d3", "d4"].map((key) => fake(key, "soon"));
  const alive = fake("alive");
  const { prober, close } = proberOf([...dead, alive], { maxAtOnce: 2 });
  await prober.start();
  await turn();
  for (const ms of [1_000, 2_000]) {
    t.mock.timers.tick(ms);
    await turn();
  }
  const held = ["d1", "d2", "d3", "d4"].map((key) => fake(key));
  for (const [i, target] of dead.entries()) {
    const wait = Promise.withResolvers<void>();
    const own = target.sent;
    held[i] = { ...target, answer: () => wait.resolve() };
    target.exchangeProbe = async () => {
      target.sent++;
      await wait.promise;
      return "late";
    };
    assert.ok(own > 1);
  }
  const before = alive.sent;
  t.mock.timers.tick(20_000);
  await turn();
  await turn();
  assert.equal(dead.filter(({ sent }) => sent > 3).length, 1);
  assert.ok(alive.sent > before);
  close();
  for (const one of held) one.answer();
  await prober[Symbol.asyncDispose]();
});

test("after the end nothing is sent, and those who wait are let go", async () => {
  const targets = ["a", "b"].map((key) => fake(key, "normal", true));
  const { prober, close } = proberOf(targets, { maxAtOnce: 1 });
  const started = prober.start();
  await turn();
  close();
  targets[0]?.answer();
  await started;
  await prober[Symbol.asyncDispose]();
  assert.deepEqual(
    targets.map(({ sent, read }) => [sent, read.length]),
    [
      [1, 0],
      [0, 0],
    ],
  );
  await prober.probe(targets[1] ?? fake("x"));
  assert.equal(targets[1]?.sent, 0);
});

test("what probes cost: 60 services with 5 suppliers, idle", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  // One in ten fails for ever; nobody calls, so the others are rare.
  const targets = Array.from({ length: 300 }, (_, i) => fake(`b${i}`, i % 10 === 0 ? "soon" : "rare"));
  const { prober, close } = proberOf(targets, {}, seededRandom(3));
  const started = prober.start();
  await turn();
  await started;
  const sum = (): number => targets.reduce((total, { sent }) => total + sent, 0);
  for (let second = 0; second < 120; second++) {
    t.mock.timers.tick(1_000);
    await turn();
  }
  const before = sum();
  for (let second = 0; second < 300; second++) {
    t.mock.timers.tick(1_000);
    await turn();
  }
  const perSecond = (sum() - before) / 300;
  t.diagnostic(`${perSecond.toFixed(1)} probes a second`);
  assert.ok(perSecond > 8 && perSecond < 11, `${perSecond}`);
  close();
  await prober[Symbol.asyncDispose]();
});
