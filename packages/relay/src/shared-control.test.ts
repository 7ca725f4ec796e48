import assert from "node:assert/strict";
import { test } from "node:test";
import { type Bus, type ServiceId, silentLog } from "@turnpike/base";
import { connectBuses } from "../test/buses.ts";
import { SharedControl } from "./shared-control.ts";
import type { RelayControl, RelayFlag } from "./types.ts";

const eth = "eth" as ServiceId;

/** A control that remembers what it was told. */
function standIn() {
  const flags: Record<RelayFlag, boolean> = { cache: true, hedging: true, cross_validation: true, log_splitting: true };
  const drained = new Set<string>();
  const unknown = new Set<string>();
  const done: string[] = [];
  const control: RelayControl = {
    inspect: () => [],
    setDrained(id, operator, isDrained) {
      if (id !== eth || unknown.has(operator)) return false;
      if (isDrained) drained.add(operator);
      else drained.delete(operator);
      return true;
    },
    resetScore(id, operator) {
      done.push(`reset ${operator}`);
      return id === eth;
    },
    flags: () => flags,
    setFlag(flag, isOn) {
      flags[flag] = isOn;
    },
    clearCache: (id) => void done.push(`clear ${id ?? "all"}`),
  };
  return { control, flags, drained, unknown, done };
}

function processOf(bus: Bus, nowMs: () => number) {
  const own = standIn();
  const clock = { nowMs, monotonicMs: nowMs };
  const shared = new SharedControl({ refreshMs: 30_000 }, { bus, clock, log: silentLog, control: () => own.control });
  shared.start();
  return { ...own, shared };
}

test("what an operator changes in one process is changed in all, and in those that start later", async () => {
  const buses = connectBuses(2);
  const [a, b] = buses.buses;
  assert.ok(a !== undefined && b !== undefined);
  const one = processOf(a, () => 1_000);
  const two = processOf(b, () => 1_000);
  assert.equal(one.shared.setDrained(eth, "bad", true), true);
  assert.equal(one.shared.setDrained("no" as ServiceId, "bad", true), false);
  one.shared.setFlag("hedging", false);
  assert.equal(one.shared.resetScore(eth, "good"), true);
  one.shared.clearCache(eth);
  one.shared.clearCache();
  assert.deepEqual([...two.drained], ["bad"]);
  assert.equal(two.flags.hedging, false);
  assert.deepEqual(two.done, ["reset good", "clear eth", "clear all"]);
  const three = processOf(buses.join(), () => 1_000);
  assert.deepEqual([...three.drained], ["bad"]);
  assert.equal(three.flags.hedging, false);
  assert.deepEqual(three.done, [], "what is done once is not done again");
  const asked = buses.said.filter(({ channel, from }) => channel === "control.ask" && from === "p2");
  assert.equal(asked.length, 1);
  for (const { shared } of [one, two, three]) await shared[Symbol.asyncDispose]();
});

test("the later word counts, whatever order it comes in and however a clock goes", async () => {
  const { buses } = connectBuses(3);
  const [a, b, stranger] = buses;
  assert.ok(a !== undefined && b !== undefined && stranger !== undefined);
  const one = processOf(a, () => 60_000);
  const two = processOf(b, () => 1_000);
  one.shared.setFlag("cache", false);
  two.shared.setFlag("cache", true);
  assert.equal(one.flags.cache, true, "a clock that is behind does not lose its operator's word");
  const flag = { target: { flag: "cache" }, isOn: false, from: "p9" };
  stranger.publish("control.settings", { settings: [{ ...flag, atMs: 10 }] });
  assert.equal(one.flags.cache, true);
  const setting = { target: { service: eth, operator: "x" }, isOn: true, atMs: 1, from: "p9" };
  for (const nonsense of [
    null,
    { settings: 1 },
    { settings: [null, 1, { ...flag, atMs: Number.MAX_SAFE_INTEGER }, { ...flag, target: { flag: "__proto__" } }] },
    {
      settings: [
        { ...setting, isOn: 1 },
        { ...setting, from: "" },
        { ...setting, target: { service: eth } },
      ],
    },
    { settings: Array.from({ length: 101 }, () => setting) },
  ]) {
    stranger.publish("control.settings", nonsense);
  }
  stranger.publish("control.forgive", { service: eth });
  stranger.publish("control.clear", { service: 1 });
  assert.equal(one.flags.cache, true);
  assert.deepEqual([[...one.drained], one.done], [[], []]);
  for (const { shared } of [one, two]) await shared[Symbol.asyncDispose]();
});

test("a drain that a process cannot make yet is made once its configuration has the supplier", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const [a, b] = connectBuses(2).buses;
  assert.ok(a !== undefined && b !== undefined);
  const one = processOf(a, () => 1_000);
  const two = processOf(b, () => 1_000);
  two.unknown.add("new");
  assert.equal(one.shared.setDrained(eth, "new", true), true);
  assert.deepEqual([...two.drained], []);
  two.unknown.delete("new");
  t.mock.timers.tick(30_000);
  assert.deepEqual([...two.drained], ["new"]);
  await one.shared[Symbol.asyncDispose]();
  await two.shared[Symbol.asyncDispose]();
});
