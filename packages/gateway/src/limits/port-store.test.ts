import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { noMetrics, type ServiceId, silentLog } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import { fc } from "@turnpike/testkit/property";
import { portPair } from "../../test/sharing/ports.ts";
import { PortStore, withFallback } from "./port-store.ts";
import { FreeRateLimits, type OnStoreFailure } from "./rate-limits.ts";
import { SharedCounts } from "./shared-counts.ts";
import type { LimitStore, StoreLimit } from "./types.ts";

const eth = "eth" as ServiceId;

/** Time stands still where no test moves it. */
const still = virtualClock();

/** Longer than any answer takes; where it is to pass, it passes by mocked timers. */
const TIMEOUT_MS = 60_000;

function primary(clock = still) {
  return new SharedCounts({ maxKeys: 1_000, hashSeed: 1 }, { clock });
}

/** A worker of a primary: its store, and the two ends between them. */
function workerOf(counts: ReturnType<typeof primary>) {
  const [worker, main] = portPair();
  main.subscribe((message) => {
    const answer = counts.answer(message);
    if (answer !== undefined) main.send(answer);
  });
  const modules = { port: worker, log: silentLog, metrics: noMetrics };
  return { worker, main, store: new PortStore({ timeoutMs: TIMEOUT_MS }, modules) };
}

function limitsOf(store: LimitStore, requests = 2_000, onStoreFailure: OnStoreFailure = "local") {
  const rule = { requests, windowSeconds: 60, onStoreFailure };
  return new FreeRateLimits(
    { perClient: rule, perEndpoint: { ...rule, requests: 1_000_000 }, maxClients: 1_000, hashSeed: 1 },
    { clock: still, metrics: noMetrics, store },
  );
}

test("four workers let exactly 2,000 of one client's 2,500 requests pass, and the requests of a turn go in one message", async () => {
  const counts = primary();
  const workers = Array.from({ length: 4 }, () => workerOf(counts));
  const limits = workers.map(({ store }) => limitsOf(store));
  const asked: Promise<boolean>[] = [];
  for (let round = 0; round < 20; round++) {
    for (let at = 0; at < 125; at++) {
      const taken = async () => await limits[at % 4]?.consume({ clientIp: "9.9.9.9", serviceId: eth, items: 1 });
      asked.push(taken().then((verdict) => verdict?.ok === true));
    }
    await turn();
  }
  const passed = (await Promise.all(asked)).filter(Boolean).length;
  assert.equal(passed, 2_000);
  const messages = workers.reduce((sum, { worker }) => sum + worker.sent.length, 0);
  assert.ok(messages <= 20 * 4, `${messages} messages for 2,500 requests`);
  for (const { store } of workers) await store[Symbol.asyncDispose]();
});

test("the counts are a sliding window over client and endpoint; what is no message is answered with nothing", () => {
  const clock = virtualClock();
  const counts = primary(clock);
  const limits: StoreLimit[] = [
    { key: "c:1.1.1.1", requests: 5, windowMs: 1_000 },
    { key: "s:eth", requests: 8, windowMs: 1_000 },
  ];
  assert.equal(counts.consume(limits, 5).refusedBy, -1);
  clock.advance(400);
  assert.deepEqual(counts.consume(limits, 1), {
    refusedBy: 0,
    waitMs: 600,
    standings: [
      { used: 5, oldestLeavesMs: 600 },
      { used: 5, oldestLeavesMs: 600 },
    ],
  });
  const [, endpoint] = limits;
  assert.ok(endpoint !== undefined);
  assert.equal(
    counts.consume([{ ...limits[0], key: "c:2.2.2.2", requests: 5, windowMs: 1_000 }, endpoint], 4).refusedBy,
    1,
  );
  counts.note(limits, 3);
  clock.advance(600);
  assert.equal(counts.consume(limits, 2).refusedBy, -1);
  assert.equal(counts.consume(limits, 1).refusedBy, 0);
  for (const nonsense of [null, 1, {}, { to: "limits" }, { to: "limits", id: 1, requests: 1, notes: [] }]) {
    assert.equal(counts.answer(nonsense), undefined);
  }
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.jsonValue(), fc.array(fc.oneof(fc.integer(), fc.string())))), (requests) => {
      const answer = counts.answer({ to: "limits", id: 1, requests, notes: requests });
      assert.equal(answer?.verdicts.length, requests.length);
    }),
  );
});

test("a primary that hangs costs some requests their time-out, then none; the policy decides meanwhile", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const counts = primary();
  const { store, worker, main } = workerOf(counts);
  const closed = limitsOf(store, 10, "closed");
  const local = limitsOf(store, 10);
  const ask = { clientIp: "9.9.9.9", serviceId: eth, items: 1 };
  assert.ok((await local.consume(ask)).ok);
  main.isHung = true;
  for (let at = 0; at < 3; at++) {
    assert.ok(store.isUp());
    const asked = closed.consume(ask);
    let isAnswered = false;
    void Promise.resolve(asked).then(() => {
      isAnswered = true;
    });
    await turn();
    context.mock.timers.tick(TIMEOUT_MS - 1);
    await turn();
    assert.equal(isAnswered, false);
    context.mock.timers.tick(1);
    assert.ok(!(await asked).ok);
  }
  assert.equal(store.isUp(), false);
  const verdict = local.consume(ask);
  assert.ok(!(verdict instanceof Promise) && verdict.ok);
  const sent = worker.sent.length;
  const knocks = async (times: number): Promise<void> => {
    for (let at = 0; at < times; at++) {
      context.mock.timers.tick(1_000);
      await turn();
      await turn();
    }
  };
  await knocks(3);
  assert.equal(worker.sent.length - sent, 3, "it is asked again once a second");
  assert.equal(store.isUp(), false);
  main.isHung = false;
  await knocks(1);
  assert.ok(store.isUp());
  await knocks(3);
  assert.equal(worker.sent.length - sent, 4, "no knocks while it answers");
  assert.ok((await closed.consume(ask)).ok);
  const waits = closed.consume(ask);
  await store[Symbol.asyncDispose]();
  assert.ok(!(await waits).ok, "what waits at the end is not left waiting");
  assert.equal(store.isUp(), false);
});

test("a port that is closed refuses at once", async () => {
  const { store, worker } = workerOf(primary());
  worker.isOpen = false;
  const closed = limitsOf(store, 10, "closed");
  assert.ok(!(await closed.consume({ clientIp: "9.9.9.9", serviceId: eth, items: 1 })).ok);
  await store[Symbol.asyncDispose]();
});

test("while Redis fails, the machine's counts go on from what Redis let pass", async () => {
  const counts = primary();
  let isUp = true;
  let mayFallBack = true;
  const redis: LimitStore = {
    isUp: () => isUp,
    consume: async (limits) => ({
      refusedBy: -1,
      waitMs: 0,
      standings: limits.map(() => ({ used: 0, oldestLeavesMs: 9 })),
    }),
    async [Symbol.asyncDispose]() {},
  };
  const workers = [workerOf(counts), workerOf(counts)];
  const limits = workers.map(({ store }) =>
    limitsOf(
      withFallback(redis, store, () => mayFallBack),
      10,
    ),
  );
  const [one, two] = limits;
  assert.ok(one !== undefined && two !== undefined);
  const ask = { clientIp: "9.9.9.9", serviceId: eth, items: 1 };
  for (let at = 0; at < 4; at++) assert.ok((await one.consume(ask)).ok);
  isUp = false;
  let passed = 0;
  for (let at = 0; at < 20; at++) if ((await two.consume(ask)).ok) passed++;
  assert.equal(passed, 6);
  mayFallBack = false;
  const alone = two.consume(ask);
  assert.ok(!(alone instanceof Promise), "another policy does not ask the machine's counts");
  for (const { store } of workers) await store[Symbol.asyncDispose]();
});
