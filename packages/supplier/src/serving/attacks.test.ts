import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { application, createMessage, packAny } from "@turnpike/proto";
import type { SessionHeader } from "@turnpike/protocol";
import { virtualClock } from "@turnpike/testkit";
import { chainParty } from "@turnpike/testkit/chain";
import { type ServedRig, serveRig } from "../../test/served-rig.ts";
import { startBackEnd, startCounting, THREE_RELAYS } from "../../test/serving-rig.ts";
import { scratchFolder } from "../../test/sessions.ts";
import { PROVE_ALL, SupplierRig, startSupplier } from "../../test/supplier-rig.ts";

suite("attacks on a supplier's pay", () => {
  test("calls at once beyond what the application can pay: exactly as many are worked on as are paid", async () => {
    await using backEnd = await startCounting();
    await using rig = await SupplierRig.start(THREE_RELAYS);
    await using served = await serveRig(rig, backEnd.url);
    const header = await rig.header();
    const answers = await Promise.all(Array.from({ length: 40 }, () => served.send(served.sign(header))));
    assert.equal(answers.filter(({ status }) => status === 200).length, 3);
    assert.equal(answers.filter(({ status }) => status === 429).length, 37);
    assert.equal(backEnd.asked(), 3);
    const late = await served.send(served.sign(header));
    assert.match(late.text, /session relay limit reached: claimable portion fully consumed/);
    await rig.reach(22n);
    const { outcome } = rig.stateOf(header);
    assert.ok(outcome?.kind === "settled");
    // Nothing of it was beyond the application's means.
    assert.deepEqual([outcome.claimedUpokt, outcome.settledUpokt], [30_000_000n, 30_000_000n]);
  });

  test("work that failed uses nothing of the budget, and its request may be sent again", async () => {
    let isDown = true;
    await using backEnd = await startBackEnd((_, response) => {
      response.statusCode = isDown ? 500 : 200;
      response.end("{}");
    });
    await using rig = await SupplierRig.start(THREE_RELAYS);
    await using served = await serveRig(rig, backEnd.url);
    const header = await rig.header();
    const requests = Array.from({ length: 4 }, () => served.sign(header));
    for (const request of requests) assert.equal((await served.send(request)).status, 500);
    isDown = false;
    const statuses: number[] = [];
    for (const request of requests) statuses.push((await served.send(request)).status);
    assert.deepEqual(statuses, [200, 200, 200, 429]);
  });

  test("a restart is no new budget, and what was served before it is not served again", async () => {
    await using backEnd = await startCounting();
    await using rig = await SupplierRig.start(THREE_RELAYS);
    const header = await rig.header();
    let first: Uint8Array;
    {
      await using served = await serveRig(rig, backEnd.url);
      first = served.sign(header);
      assert.equal((await served.send(first)).status, 200);
      assert.equal((await served.send(served.sign(header))).status, 200);
    }
    await rig.stopSupplier();
    await rig.startSupplier();
    await using served = await serveRig(rig, backEnd.url);
    const [again, ...rest] = await Promise.all([
      served.send(first),
      ...Array.from({ length: 10 }, () => served.send(served.sign(header))),
    ]);
    assert.equal(again?.status, 403, again?.text);
    assert.match(again?.text ?? "", /served before/);
    assert.equal(rest.filter(({ status }) => status === 200).length, 1);
    assert.equal(rest.filter(({ status }) => status === 429).length, 9);
    assert.equal(backEnd.asked(), 3);
    assert.equal(rig.running.store.session(rig.running.operator, header.sessionId)?.counts.mined, 3);
  });

  test("forged requests do not make the supplier ask the chain for each, nor wait for a dead node", async () => {
    await using backEnd = await startCounting();
    await using rig = await SupplierRig.start();
    await using served = await serveRig(rig, backEnd.url);
    const header = await rig.header();
    assert.equal((await served.send(served.sign(header))).status, 200);
    const { queries } = rig.running;
    let asked = 0;
    const application = queries.application.bind(queries);
    queries.application = (...args) => {
      asked++;
      return application(...args);
    };
    const forged = (): Uint8Array => served.sign(header, "{}", { signer: "stranger" });
    for (let i = 0; i < 20; i++) assert.equal((await served.send(forged())).status, 403);
    assert.ok(asked <= 1, `${asked} questions for 20 forged requests of one block`);
    await rig.chain.stopRpc();
    const answers = await Promise.all([
      ...Array.from({ length: 20 }, () => served.send(forged())),
      ...Array.from({ length: 20 }, () => served.send(served.sign(header))),
    ]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [...Array.from({ length: 20 }, () => 403), ...Array.from({ length: 20 }, () => 200)],
    );
    assert.ok(asked <= 1);
    await rig.chain.startRpc();
    assert.equal(backEnd.asked(), 21);
  });

  test("with a dead node a known session goes on; one that is not known is refused, and served as soon as the node is back", async () => {
    await using backEnd = await startCounting();
    await using rig = await SupplierRig.start({
      applications: {
        app: { service: "eth", gateways: ["gateway"] },
        app2: { service: "eth", gateways: ["gateway"] },
      },
    });
    const header = await rig.header();
    const other = await rig.header("app2");
    // Now the test knows both, and the supplier neither.
    await rig.stopSupplier();
    await rig.startSupplier();
    await using fresh = await serveRig(rig, backEnd.url);
    assert.equal((await fresh.send(fresh.sign(header))).status, 200);
    await rig.chain.stopRpc();
    for (let i = 0; i < 10; i++) assert.equal((await fresh.send(fresh.sign(header))).status, 200);
    const unknown = await fresh.send(fresh.sign(other, "{}", { application: "app2" }));
    assert.deepEqual(
      [unknown.status, unknown.text],
      [503, '{"error":"service temporarily unavailable","service":"eth"}'],
    );
    await rig.chain.startRpc();
    assert.equal((await fresh.send(fresh.sign(other, "{}", { application: "app2" }))).status, 200);
    assert.equal(backEnd.asked(), 12);
    assert.deepEqual(fresh.refused, ["chain_unreachable"]);
  });

  test("a session that is claimed while a relay is under way: the late answer is neither signed nor sold", async () => {
    const held: (() => void)[] = [];
    const arrived = Promise.withResolvers<void>();
    await using backEnd = await startBackEnd((_, response) => {
      if (held.length === 0) held.push(() => void response.end("late"));
      else response.end("{}");
      arrived.resolve();
    });
    await using rig = await SupplierRig.start(PROVE_ALL);
    await using served = await serveRig(rig, backEnd.url);
    const header = await rig.header();
    const late = served.send(served.sign(header));
    await arrived.promise;
    held.push(() => {});
    assert.equal((await served.send(served.sign(header))).status, 200);
    // The claim waits for it, as long as there is time.
    await rig.reach(10n);
    assert.equal(rig.stateOf(header).phase, "open");
    await rig.reach(13n);
    assert.notEqual(rig.stateOf(header).phase, "open");
    held[0]?.();
    const answer = await late;
    assert.equal(answer.status, 403);
    assert.match(answer.text, /session expired, session end height: 6/);
    await rig.reach(22n);
    const { outcome, claim } = rig.stateOf(header);
    assert.ok(outcome?.kind === "settled");
    assert.deepEqual([claim?.relays, outcome.settledUpokt], [1n, 4_200n]);
  });

  test("a relay that ends in time is in the claim that waited for it", async () => {
    const arrived = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    await using backEnd = await startBackEnd((_, response) => {
      arrived.resolve();
      void release.promise.then(() => response.end("{}"));
    });
    await using rig = await SupplierRig.start(PROVE_ALL);
    await using served = await serveRig(rig, backEnd.url);
    const header = await rig.header();
    const slow = served.send(served.sign(header));
    await arrived.promise;
    await rig.reach(9n);
    release.resolve();
    assert.equal((await slow).status, 200);
    await rig.reach(22n);
    const { outcome } = rig.stateOf(header);
    assert.ok(outcome?.kind === "settled" && outcome.settledUpokt === 4_200n);
  });

  /** One session may be unsettled by the windows' sum. A relay is 10 POKT, of 110 POKT, and a tenth is minted on top. */
  const ONE_PENDING = {
    applications: { app: { service: "eth", gateways: ["gateway"], stakeUpokt: 110_000_000n } },
    shared: {
      computeUnitsToTokensMultiplier: 100_000_000_000n,
      numBlocksPerSession: 10n,
      gracePeriodEndOffsetBlocks: 1n,
      claimWindowOpenOffsetBlocks: 1n,
      claimWindowCloseOffsetBlocks: 3n,
      proofWindowOpenOffsetBlocks: 1n,
      proofWindowCloseOffsetBlocks: 4n,
    },
  };

  test("attack: two sessions at once for one stake: no relay is served that the stake does not pay", async () => {
    await using backEnd = await startCounting();
    await using rig = await SupplierRig.start(ONE_PENDING);
    await using served = await serveRig(rig, backEnd.url);
    const serveAll = async (header: SessionHeader): Promise<number> => {
      for (let relays = 0; ; relays++) {
        if ((await served.send(served.sign(header))).status !== 200) return relays;
      }
    };
    const first = await rig.header();
    for (let relays = 0; relays < 4; relays++) assert.equal((await served.send(served.sign(first))).status, 200);
    await rig.reach(first.sessionEndBlockHeight + 1n);
    const second = await rig.header();
    assert.notEqual(second.sessionId, first.sessionId);
    // Of the six that are not used, the first session may use three in its grace.
    const early = await serveAll(second);
    assert.equal(early, 3);
    assert.equal(await serveAll(first), 3);
    await rig.reach(second.sessionEndBlockHeight);
    assert.equal(await serveAll(second), 0);
    await rig.reach(second.sessionEndBlockHeight + 11n);
    const [one, two] = [rig.stateOf(first).outcome, rig.stateOf(second).outcome];
    assert.ok(one?.kind === "settled" && two?.kind === "settled");
    assert.deepEqual([one.claimedUpokt, one.settledUpokt], [70_000_000n, 70_000_000n]);
    assert.deepEqual([two.claimedUpokt, two.settledUpokt], [30_000_000n, 30_000_000n]);
  });

  test("attack: unsigned relays of the next session take nothing of an application's budget in the grace of this one", async () => {
    await using backEnd = await startCounting();
    await using rig = await SupplierRig.start(ONE_PENDING);
    await using served = await serveRig(rig, backEnd.url);
    const first = await rig.header();
    for (let relays = 0; relays < 4; relays++) assert.equal((await served.send(served.sign(first))).status, 200);
    await rig.reach(first.sessionEndBlockHeight + 1n);
    const forged = served.sign(await rig.header(), "{}", { signer: "stranger" });
    assert.equal((await served.send(forged)).status, 403);
    for (let relays = 0; relays < 6; relays++) assert.equal((await served.send(served.sign(first))).status, 200);
    assert.equal((await served.send(served.sign(first))).status, 429);
  });

  test("attack: after a restart a session in its grace gets no budget beside the one of the next session", async () => {
    await using backEnd = await startCounting();
    await using rig = await SupplierRig.start(ONE_PENDING);
    const first = await rig.header();
    let second: SessionHeader;
    {
      await using served = await serveRig(rig, backEnd.url);
      for (let relays = 0; relays < 4; relays++) assert.equal((await served.send(served.sign(first))).status, 200);
      await rig.reach(first.sessionEndBlockHeight + 1n);
      second = await rig.header();
      for (let relays = 0; relays < 3; relays++) assert.equal((await served.send(served.sign(second))).status, 200);
      assert.equal((await served.send(served.sign(second))).status, 429);
    }
    await rig.stopSupplier();
    await rig.startSupplier();
    await using served = await serveRig(rig, backEnd.url);
    assert.equal((await served.send(served.sign(first))).status, 429);
    // The three relays that the first session did not use are free for the second one.
    for (let relays = 0; relays < 3; relays++) assert.equal((await served.send(served.sign(second))).status, 200);
    assert.equal((await served.send(served.sign(second))).status, 429);
  });

  test("attack: an application spends its stake at another supplier first: a tenth is at risk until that is settled", async () => {
    await using backEnd = await startCounting();
    await using rig = await SupplierRig.start({
      ...ONE_PENDING,
      suppliers: { supplier: { services: ["eth"] }, second: { services: ["eth"] } },
      shared: { ...ONE_PENDING.shared, computeUnitsToTokensMultiplier: 10_000_000_000n },
    });
    await using folder = await scratchFolder();
    await using other = await startSupplier(rig.chain.rpcUrl, folder.folder, { name: "second" });
    await other.head.waitFor(rig.chain.heightBlocks);
    await using served = await serveRig(rig, backEnd.url);
    await using careful = await serveRig(rig, backEnd.url, { unsettledPercent: 0 });
    await using second = await serveRig({ running: other }, backEnd.url, {}, "second");
    const serveAll = async (supplier: ServedRig, header: SessionHeader): Promise<number> => {
      for (let relays = 0; ; relays++) {
        if ((await supplier.send(supplier.sign(header))).status !== 200) return relays;
      }
    };
    const reach = async (heightBlocks: bigint): Promise<void> => {
      while (rig.chain.heightBlocks < heightBlocks) {
        await rig.block();
        await other.runner.processed(rig.chain.heightBlocks);
      }
    };
    const first = await rig.header();
    assert.equal(await serveAll(second, first), 50);
    await reach(first.sessionEndBlockHeight + 1n);
    const next = await rig.header();
    assert.equal(await serveAll(careful, next), 0);
    // A relay is 1.1 POKT with what is minted on top: a tenth of the supplier's 55.
    assert.equal(await serveAll(served, next), 5);
    await reach(first.sessionEndBlockHeight + 10n);
    // Half of the 55 POKT that are left.
    assert.equal(await serveAll(served, next), 20);
    await reach(next.sessionEndBlockHeight + 11n);
    const { outcome } = rig.stateOf(next);
    assert.ok(outcome?.kind === "settled");
    assert.deepEqual([outcome.claimedUpokt, outcome.settledUpokt], [25_000_000n, 25_000_000n]);
  });

  test("three suppliers that serve all they may are paid for all of it, by stake and by a spend limit", async () => {
    const names = ["supplier", "second", "third"];
    await using backEnd = await startCounting();
    // A relay is 3 POKT. Of 100 POKT a third is for a session, and a third of it for each; a tenth is minted on top.
    await using rig = await SupplierRig.start({
      applications: { app: { service: "eth", gateways: ["gateway"], stakeUpokt: 100_000_000n } },
      suppliers: Object.fromEntries(names.map((name) => [name, { services: ["eth"] }])),
      shared: { computeUnitsToTokensMultiplier: 30_000_000_000n },
    });
    await using stack = new AsyncDisposableStack();
    const others = new Map([["supplier", rig.running]]);
    for (const name of names.slice(1)) {
      const { folder } = stack.use(await scratchFolder());
      const other = stack.use(await startSupplier(rig.chain.rpcUrl, folder, { name }));
      await other.head.waitFor(rig.chain.heightBlocks);
      others.set(name, other);
    }
    const served = new Map<string, ServedRig>();
    for (const [name, running] of others) {
      served.set(name, stack.use(await serveRig({ running }, backEnd.url, {}, name)));
    }
    const block = async (): Promise<void> => {
      await rig.chain.produce();
      await Promise.all([...others.values()].map(({ runner }) => runner.processed(rig.chain.heightBlocks)));
    };
    const serveAll = async (relays: number): Promise<SessionHeader> => {
      const header = await rig.header();
      for (const supplier of served.values()) {
        const statuses: number[] = [];
        for (let i = 0; i <= relays; i++) statuses.push((await supplier.send(supplier.sign(header))).status);
        assert.deepEqual(statuses, [...Array.from({ length: relays }, () => 200), 429]);
      }
      return header;
    };
    const first = await serveAll(3);
    // A limit holds for what is settled after it, of earlier sessions too.
    while (rig.chain.heightBlocks < 22n) await block();
    const { client } = rig.running;
    const limit = createMessage(application.MsgStakeApplicationSchema, {
      address: chainParty("app").address,
      stake: { denom: "upokt", amount: "400000000" },
      services: [{ serviceId: "eth" }],
      perSessionSpendLimit: { denom: "upokt", amount: "20000000" },
    });
    const signed = await client.sign(chainParty("app"), [packAny(application.MsgStakeApplicationSchema, limit)]);
    assert.equal((await client.broadcast(signed)).code, 0);
    while (rig.chain.heightBlocks < 25n) await block();
    const second = await serveAll(2);
    while (rig.chain.heightBlocks < 46n) await block();
    for (const [{ sessionId }, upokt] of [
      [first, 9_000_000n],
      [second, 6_000_000n],
    ] as const) {
      for (const { store, operator } of others.values()) {
        const outcome = store.session(operator, sessionId)?.state.outcome;
        assert.ok(outcome?.kind === "settled");
        assert.deepEqual([outcome.claimedUpokt, outcome.settledUpokt], [upokt, upokt]);
      }
    }
  });

  test("a chain node that takes questions and never answers delays no relay of a known session", async () => {
    await using backEnd = await startCounting();
    await using rig = await SupplierRig.start();
    await using served = await serveRig(rig, backEnd.url);
    const header = await rig.header();
    assert.equal((await served.send(served.sign(header))).status, 200);
    const { client } = rig.running;
    let asked = 0;
    const silence = <T>(): Promise<T> => {
      asked++;
      return new Promise(() => {});
    };
    client.query = () => silence();
    client.call = () => silence();
    // None of these can end before the node answers, if any of them waits for it.
    const answers = await Promise.all(Array.from({ length: 50 }, () => served.send(served.sign(header))));
    assert.ok(answers.every(({ status }) => status === 200));
    assert.equal(asked, 0);
  });

  test("large requests of some applications, sent at once, take their part of the disk and leave the reserve", async () => {
    await using backEnd = await startCounting();
    const clock = virtualClock();
    const applications = Object.fromEntries(
      ["a", "b", "c", "d", "e", "honest"].map((name) => [name, { service: "eth", gateways: ["gateway"] }]),
    );
    const leastFreeBytes = 2_000_000;
    const capacityBytes = leastFreeBytes + 4_000_000;
    const logs = () => rig.running.store.sessions(rig.running.operator);
    const bytesOf = (names: readonly string[]): number => {
      const addresses = names.map((name) => chainParty(name).address);
      const ofThem = logs().filter(({ head }) => addresses.includes(head.header.applicationAddress));
      return ofThem.reduce((sum, { logBytes }) => sum + logBytes, 0);
    };
    const freeBytes = async (): Promise<number> => capacityBytes - bytesOf(Object.keys(applications));
    await using rig = await SupplierRig.start(
      { applications },
      { clock, freeBytes, store: { leastFreeBytes, keepLogsMs: 3_600_000 } },
    );
    await using served = await serveRig(rig, backEnd.url);
    const large = (at: number): string => JSON.stringify({ method: "m", id: at, params: ["x".repeat(100_000)] });
    /** Sends relays at once, all within the second for which free space is not measured again. */
    const attack = async (name: string, count: number): Promise<number> => {
      const header = await rig.header(name);
      const answers = await Promise.all(
        Array.from({ length: count }, (_, at) => served.send(served.sign(header, large(at), { application: name }))),
      );
      return answers.filter(({ status }) => status === 200).length;
    };
    assert.equal(await attack("a", 30), 9, "relays of 100 kB in a quarter of 4 MB");
    assert.ok(bytesOf(["a"]) <= 1_000_000, `${bytesOf(["a"])} bytes`);
    for (const name of ["b", "c"]) assert.equal(await attack(name, 30), 9);
    const honest = async () => served.send(served.sign(await rig.header("honest"), "{}", { application: "honest" }));
    assert.equal((await honest()).status, 200);
    for (const name of ["d", "e"]) await attack(name, 30);
    const attackers = ["a", "b", "c", "d", "e"];
    assert.ok(bytesOf([...attackers, "honest"]) <= 4_000_000, "the reserve is left");
    assert.ok(backEnd.asked() <= 5 * 30 + 1);
    const worked = backEnd.asked();
    await attack("a", 30);
    assert.equal(backEnd.asked(), worked, "no work for relays that cannot be written down");
    // Logs of settled sessions are kept for an hour, and leave early where there is no room.
    for (const session of logs()) {
      // As the claim runner does.
      const outcome = { kind: "lost", heightBlocks: 22n, why: "proof-missing", text: "", penaltyUpokt: 0n } as const;
      await session.update({ phase: "lost", outcome, finishedAtMs: clock.nowMs() });
      await session.unload();
    }
    await rig.reach(7n);
    assert.ok(bytesOf(attackers) > 3_500_000);
    clock.advance(1_000);
    assert.equal(await attack("a", 5), 5);
    assert.equal((await honest()).status, 200);
    assert.ok(bytesOf(attackers) <= 4_000_000, `${bytesOf(attackers)} bytes`);
    clock.advance(3_600_000);
    await rig.running.store.prune(rig.running.operator);
    assert.ok(bytesOf(attackers) < 600_000, `${bytesOf(attackers)} bytes are left an hour after settlement`);
  });
});
