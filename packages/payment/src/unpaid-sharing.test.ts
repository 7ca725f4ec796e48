import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Bus, BusListeners } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import { type UnpaidAttempt, UnpaidLimit } from "./unpaid-limit.ts";
import { UnpaidSharing } from "./unpaid-sharing.ts";

const RULE = { burst: 20, perSecond: 1 / 1_024 };

/** Stand-ins for buses of one Redis: each hears what the others publish. */
function fakeBuses(count: number): readonly Bus[] {
  const all = Array.from({ length: count }, () => new BusListeners(assert.ifError));
  return all.map((own, at) => ({
    id: String(at),
    publish(channel, message) {
      for (const other of all)
        if (other !== own) other.deliver(channel, JSON.parse(JSON.stringify(message)), String(at));
    },
    subscribe: (channel, listener) => own.subscribe(channel, listener),
  }));
}

/** Limits of one machine each, unless their groups are alike. */
function machines(t: TestContext, groups: readonly { readonly group: string; readonly workers?: number }[]) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const buses = fakeBuses(groups.length);
  return groups.map(({ group, workers = 1 }, at) => {
    const bus = buses[at];
    assert.ok(bus !== undefined);
    const sharing = new UnpaidSharing({ group, workers }, { bus });
    const rule = { burst: RULE.burst / workers, perSecond: RULE.perSecond / workers };
    const clock = virtualClock();
    const limit = new UnpaidLimit(() => rule, { clock, shared: sharing.limit("client") });
    return { limit, bus, clock, sharing };
  });
}

function begun(limit: UnpaidLimit, key = "a"): UnpaidAttempt {
  const attempt = limit.begin(key);
  assert.ok(attempt.ok, `${key} has no token`);
  return attempt;
}

/** Tokens that a key has. */
function left(limit: UnpaidLimit, key = "a"): number {
  const taken: UnpaidAttempt[] = [];
  for (let attempt = limit.begin(key); attempt.ok; attempt = limit.begin(key)) taken.push(attempt);
  for (const attempt of taken) attempt.excused();
  return taken.length;
}

test("attack: a client that spends its tokens at one machine has none at another, a second later", (t) => {
  const [one, other] = machines(t, [{ group: "x" }, { group: "y" }]);
  assert.ok(one !== undefined && other !== undefined);
  for (let times = 0; times < 20; times++) begun(one.limit).unpaid();
  assert.equal(left(other.limit), 20, "not yet");
  t.mock.timers.tick(1_000);
  assert.equal(other.limit.begin("a").ok, false);
  assert.equal(left(other.limit, "b"), 20, "another client");
});

test("what is paid, and what settles late, comes back at all machines", (t) => {
  const [one, other] = machines(t, [{ group: "x" }, { group: "y" }]);
  assert.ok(one !== undefined && other !== undefined);
  for (let times = 0; times < 5; times++) begun(one.limit).paid();
  const pending = begun(one.limit);
  one.clock.advance(2_000);
  pending.unpaid("stl_1");
  begun(one.limit).excused();
  t.mock.timers.tick(1_000);
  assert.deepEqual([left(one.limit), left(other.limit)], [22, 22]);
  one.limit.settled("stl_1");
  t.mock.timers.tick(1_000);
  assert.deepEqual([left(one.limit), left(other.limit)], [25, 25]);
});

test("workers of one machine have split the limit, and take their part of what another machine spends", (t) => {
  const [one, sibling, other] = machines(t, [{ group: "x", workers: 2 }, { group: "x", workers: 2 }, { group: "y" }]);
  assert.ok(one !== undefined && sibling !== undefined && other !== undefined);
  for (let times = 0; times < 4; times++) begun(one.limit).unpaid();
  t.mock.timers.tick(1_000);
  assert.deepEqual([left(one.limit), left(sibling.limit), left(other.limit)], [6, 10, 16]);
  for (let times = 0; times < 10; times++) begun(other.limit).unpaid();
  t.mock.timers.tick(1_000);
  assert.deepEqual([left(one.limit), left(sibling.limit), left(other.limit)], [1, 5, 6]);
});

test("attack: messages that are none change nothing, and none takes a client further than a minute", (t) => {
  const [one, other] = machines(t, [{ group: "x" }, { group: "y" }]);
  assert.ok(one !== undefined && other !== undefined);
  for (const message of [
    null,
    { group: "z", changes: 1 },
    { group: "z", changes: [null, ["client a"], ["client a", "5"], ["client a", null], ["other a", -5]] },
    { group: "x", changes: [["client a", -5]] },
    { group: "z", changes: [[`client ${"a".repeat(200)}`, -5]] },
  ]) {
    other.bus.publish("unpaid", message);
  }
  assert.equal(left(one.limit), 20);
  other.bus.publish("unpaid", { group: "z", changes: [["client a", -1e300]] });
  assert.ok(one.limit.waitSeconds("a") <= 60);
});
