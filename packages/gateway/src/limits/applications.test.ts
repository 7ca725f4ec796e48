import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type Clock, noMetrics, type ServiceId } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import { FreeRateLimits } from "./rate-limits.ts";
import { SharedCounts } from "./shared-counts.ts";
import type { LimitedApplication, LimitStore, RateLimits } from "./types.ts";

const limitsOf = (clock: Clock, store: LimitStore | undefined): RateLimits =>
  new FreeRateLimits(
    {
      perClient: { requests: 2, windowSeconds: 60, onStoreFailure: "local" },
      perEndpoint: { requests: 1_000, windowSeconds: 60, onStoreFailure: "local" },
      maxClients: 1_000,
      hashSeed: 1,
    },
    { clock, metrics: noMetrics, store },
  );

const application = (id: string, perSecond: number, accountPerSecond?: number): LimitedApplication => ({
  id,
  accountId: `account of ${id}`,
  perSecond,
  accountPerSecond,
});

suite("limits of applications", () => {
  const consume = (limits: RateLimits, of?: LimitedApplication, items = 1) =>
    limits.consume({
      clientIp: "192.0.2.1",
      serviceId: "eth" as ServiceId,
      items,
      ...(of === undefined ? {} : { application: of }),
    });

  test("processes that share counts keep one limit of each application, and no other client's count is dropped for it", async () => {
    let nowMs = 0;
    const clock: Clock = { nowMs: () => nowMs, monotonicMs: () => nowMs };
    const counts = new SharedCounts({ maxKeys: 1_000, hashSeed: 1 }, { clock });
    const store: LimitStore = {
      isUp: () => true,
      consume: async (limits, items) => counts.consume(limits, items),
      async [Symbol.asyncDispose]() {},
    };
    const workers = [limitsOf(clock, store), limitsOf(clock, store)];
    const of = (at: number): RateLimits => workers[at % 2] ?? limitsOf(clock, store);
    assert.ok((await consume(of(0))).ok);
    // Twenty applications, each with a limit of its own.
    for (let perSecond = 1; perSecond <= 20; perSecond++) {
      const one = application(`app ${perSecond}`, perSecond);
      for (let at = 0; at < perSecond; at++) assert.ok((await consume(of(at), one)).ok, `${at} of ${perSecond}`);
      const over = await consume(of(perSecond), one);
      assert.ok(!over.ok && over.retryAfterSeconds === 1);
    }
    assert.ok((await consume(of(1))).ok);
    assert.equal((await consume(of(0))).ok, false, "the client's two are still counted");
    nowMs = 1_001;
    assert.ok((await consume(of(0), application("app 7", 7), 7)).ok);
  });

  test("applications of one account share its limit", async () => {
    const limits = limitsOf(virtualClock(), undefined);
    const [one, two] = [application("one", 9, 3), { ...application("two", 9, 3), accountId: "account of one" }];
    assert.ok((await consume(limits, one, 2)).ok);
    const over = await consume(limits, two, 2);
    assert.ok(!over.ok);
    assert.equal(over.headers[1], '"application";q=9;w=1, "account";q=3;w=1, "endpoint";q=1000;w=60');
    assert.match(over.headers[3] ?? "", /^"account";r=1;/);
    assert.ok((await consume(limits, two, 1)).ok, "what was refused counts nowhere");
  });
});
