import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type Log, type Metrics, noMetrics, silentLog } from "@turnpike/base";
import type { ChainAnswer, ChainHead, PocketQueries } from "@turnpike/chain-client";
import type { SigningThreads } from "@turnpike/crypto";
import { eventually, virtualClock } from "@turnpike/testkit";
import { chainParty } from "@turnpike/testkit/chain";
import { engineOptions } from "../../test/engine-options.ts";
import { SessionSource, type SessionSourceOptions } from "./session-source.ts";
import { SessionSuppliers } from "./session-suppliers.ts";

const GATEWAY = chainParty("gateway");
const APPLICATION = chainParty("app");
const BLOCKS = 20n;
const GRACE = 10n;
/** As the scene's metrics name what has no service. */
const LEFT_OUT = "turnpike_relay_services_left_out undefined";

const PARAMS = {
  numBlocksPerSession: BLOCKS,
  gracePeriodEndOffsetBlocks: GRACE,
  claimWindowOpenOffsetBlocks: GRACE + 1n,
  claimWindowCloseOffsetBlocks: 10n,
  proofWindowOpenOffsetBlocks: 1n,
  proofWindowCloseOffsetBlocks: 10n,
  sessionGridAnchorHeight: 0n,
  sessionNumberAtAnchor: 0n,
};

type Fault = Extract<ChainAnswer<unknown>, { ok: false }>;

interface TestStake {
  readonly address: string;
  readonly serviceConfigs: readonly { readonly serviceId: string }[];
  readonly stake?: { readonly amount: string };
}

/** A source over a stand-in for the chain's node, which a test bends. */
async function sceneOf(
  suppliers: readonly string[] = [],
  options: Partial<SessionSourceOptions> = {},
  own: readonly TestStake[] = [],
) {
  const node = {
    /** What the next question for a session gets. */
    refusal: undefined as string | undefined,
    /** What a question for this party's key gets. */
    keyFaults: new Map<string, Fault["fault"]>(),
    keysAsked: 0,
    /** Applications that are delegated to the gateway; undefined: the node cannot be asked. */
    applications: [{ address: APPLICATION.address, serviceConfigs: [{ serviceId: "eth" }] }] as
      | readonly TestStake[]
      | undefined,
    /** Of the keys that are here. */
    own,
    mostKeysAtOnce: 0,
    /** What its session ids begin with. */
    chain: "s",
    replacements: 0,
  };
  let keysOpen = 0;
  const record = {
    address: APPLICATION.address,
    delegateeGatewayAddresses: [GATEWAY.address],
    pendingUndelegations: {},
    serviceConfigs: [{ serviceId: "eth" }],
  };
  const ok = <T>(value: T) => ({ ok: true, value }) as const;
  const queries = {
    sharedParamsAt: async () => ok(PARAMS),
    applicationsOfGateway: async () =>
      node.applications === undefined ? { ok: false, fault: "unreachable", text: "" } : ok(node.applications),
    application: async (address: string) => {
      const found = node.own.find((one) => one.address === address);
      return found === undefined ? { ok: false, fault: "refused", text: "application not found" } : ok(found);
    },
    async session(applicationAddress: string, serviceId: string, heightBlocks: bigint) {
      if (node.refusal !== undefined) return { ok: false, fault: "refused", text: node.refusal };
      const number = (heightBlocks - 1n) / BLOCKS;
      const header = {
        applicationAddress,
        serviceId,
        sessionId: `${node.chain}${number}`,
        sessionStartBlockHeight: number * BLOCKS + 1n,
        sessionEndBlockHeight: (number + 1n) * BLOCKS,
      };
      const endpoints = [{ url: "https://supplier.example", rpcType: 3 }];
      const services = [{ serviceId, endpoints }];
      return ok({
        header,
        application: record,
        suppliers: suppliers.map((operatorAddress) => ({ operatorAddress, services })),
      });
    },
    async publicKey(address: string) {
      keysOpen++;
      node.mostKeysAtOnce = Math.max(node.mostKeysAtOnce, keysOpen);
      await new Promise(setImmediate);
      keysOpen--;
      node.keysAsked++;
      const fault = node.keyFaults.get(address);
      if (fault !== undefined) return { ok: false, fault, text: fault };
      return ok(address === APPLICATION.address ? APPLICATION.publicKey : GATEWAY.publicKey);
    },
  } as unknown as PocketQueries;
  let heightBlocks = 19n;
  let onBlock: (mark: { readonly heightBlocks: bigint }) => void = () => {};
  const head = {
    get newest() {
      return { heightBlocks };
    },
    get replacements() {
      return node.replacements;
    },
    waitFor: async () => ({ heightBlocks }),
    onBlock(listener: typeof onBlock) {
      onBlock = listener;
      return { [Symbol.dispose]() {} };
    },
  } as unknown as ChainHead;
  const shown = new Map<string, number>();
  const metrics: Metrics = {
    ...noMetrics,
    set: (spec, value, labels = {}) => void shown.set(`${spec.name} ${labels?.service}`, value),
    remove: (spec, labels) => void shown.delete(`${spec.name} ${labels.service}`),
  };
  const warnings: { readonly fields: unknown; readonly text: string }[] = [];
  const log: Log = { ...silentLog, warn: (fields, text) => void warnings.push({ fields, text }) };
  const source = new SessionSource(
    { gatewayKey: GATEWAY, applicationKeys: [], renewBlocks: 1_000n, maxJitterMs: 0, ...options },
    { queries, head, clock: virtualClock(), random: () => 0, metrics, log },
  );
  let changes = 0;
  source.onChange(() => changes++);
  await source.start(AbortSignal.timeout(60_000));
  return {
    node,
    source,
    shown,
    /** Warnings, but those of sessions. */
    get warnings() {
      return warnings.filter(({ text }) => text !== "no session");
    },
    services: () => [...source.serviceIds()],
    get changes() {
      return changes;
    },
    session: () => source.sessionsOf("eth")[0],
    id: () => source.sessionsOf("eth")[0]?.header.sessionId,
    operators: () => source.sessionsOf("eth")[0]?.suppliers.map(({ operatorAddress }) => operatorAddress),
    /** A block at the next height, or at another one. */
    async block(next = heightBlocks + 1n) {
      heightBlocks = next;
      onBlock({ heightBlocks });
      // What a block begins ends within some turns of the event loop: nothing of it waits for anything else.
      for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
      return heightBlocks;
    },
  };
}

suite("sessions of a gateway", () => {
  test("a node that lags and refuses the next session takes nothing from the one before, within its grace", async () => {
    const scene = await sceneOf();
    await using _ = scene.source;
    assert.equal(scene.id(), "s0");
    assert.equal(await scene.block(), 20n);
    scene.node.refusal = "block height 21 is ahead of the last committed block height 20";
    await scene.block();
    assert.equal(scene.id(), "s0", "refused at block 21");
    scene.node.refusal = undefined;
    await scene.block();
    assert.equal(scene.id(), "s1");
    // One that lags for long: the session is used to the end of its grace, and not beyond.
    scene.node.refusal = "block height 41 is ahead of the last committed block height 21";
    for (let height = 22n; height < 40n + GRACE; ) height = await scene.block();
    assert.equal(scene.id(), "s1");
    await scene.block();
    assert.equal(scene.id(), undefined);
  });

  test("the ring of a session is wiped when its grace has ended, and those of a replaced chain at once", async () => {
    const scene = await sceneOf();
    await using _ = scene.source;
    let rings = 0;
    const threads = {
      openRing() {
        rings++;
        return { [Symbol.dispose]: () => void rings-- };
      },
    } as unknown as SigningThreads;
    const modules = { source: scene.source, threads, clock: virtualClock(), metrics: noMetrics };
    await using _suppliers = new SessionSuppliers({ ...engineOptions, extraRelaysPercent: 10 }, modules);
    const counts: number[] = [];
    for (let height = 19n; height < 10n * BLOCKS; ) {
      height = await scene.block();
      counts.push(rings);
    }
    assert.equal(scene.id(), "s9");
    assert.equal(Math.max(...counts), 2, "one within its grace, and the one of now");
    assert.equal(rings, 1);
    scene.node.replacements++;
    scene.node.chain = "t";
    await scene.block(5n);
    assert.deepEqual([scene.id(), rings], ["t0", 1]);
  });

  test("attack: an application whose stake is no number takes neither the others nor the start", async () => {
    const stakes = ["1.5", "abc", "0x10", "9".repeat(2_000_000)];
    const scene = await sceneOf([], { maxRegistered: 1, originOf: () => "registered" });
    await using _ = scene.source;
    scene.node.applications = [
      ...stakes.map((amount, at) => ({
        address: `odd${at}`,
        serviceConfigs: [{ serviceId: `odd${at}` }],
        stake: { amount },
      })),
      { address: APPLICATION.address, serviceConfigs: [{ serviceId: "eth" }], stake: { amount: "5" } },
    ];
    await scene.block(2_001n);
    assert.deepEqual(scene.services(), ["eth"]);
    const again = await sceneOf([], { gatewayKey: undefined, applicationKeys: [APPLICATION] }, [
      { address: APPLICATION.address, serviceConfigs: [{ serviceId: "eth" }], stake: { amount: "1.5" } },
    ]);
    await using __ = again.source;
    assert.deepEqual(again.services(), ["eth"]);
  });

  test("of a chain restarted from genesis, at a lower height, the sessions are asked for at once", async () => {
    const scene = await sceneOf();
    await using _ = scene.source;
    await scene.block(2_001n);
    assert.equal(scene.id(), "s100");
    let looks = 0;
    scene.source.onApplications(() => looks++);
    await scene.block(5n);
    assert.deepEqual([scene.id(), looks], ["s0", 1]);
  });

  test("attack: of a chain restarted from genesis, at heights of the same session, that session is another one", async () => {
    const scene = await sceneOf();
    await using _ = scene.source;
    await scene.block(28n);
    await scene.block(29n);
    for (const [chain, height] of [
      ["t", 28n],
      ["u", 23n],
    ] as const) {
      scene.node.chain = chain;
      scene.node.replacements++;
      await scene.block(height);
      assert.equal(scene.id(), `${chain}1`);
    }
  });

  test("where the chain refuses the next session, the one before is over", async () => {
    const scene = await sceneOf();
    await using _ = scene.source;
    await scene.block();
    scene.node.refusal = "application is not staked";
    await scene.block();
    assert.equal(scene.id(), undefined);
  });

  test("suppliers whose keys could not be read are left out until they are, and those without a key for good", async () => {
    const names = Array.from({ length: 24 }, (_, at) => `supplier ${at}`);
    const scene = await sceneOf(names);
    await using _ = scene.source;
    assert.equal(scene.operators()?.length, 24);
    assert.ok(scene.node.mostKeysAtOnce <= 4, "one session's lookups leave room for others");
    scene.node.keyFaults.set("supplier 3", "busy").set("supplier 4", "unreachable").set("supplier 5", "refused");
    await scene.block();
    await scene.block();
    assert.equal(scene.id(), "s1");
    assert.equal(scene.operators()?.length, 21);
    const { changes } = scene;
    scene.node.keyFaults.delete("supplier 3");
    scene.node.keyFaults.delete("supplier 4");
    await scene.block();
    await eventually("the others", () => scene.operators()?.length === 23);
    assert.equal(scene.changes, changes + 1, "its listeners hear of it");
    assert.ok(!scene.operators()?.includes("supplier 5"));
    const asked = scene.node.keysAsked;
    await scene.block();
    assert.equal(scene.node.keysAsked, asked, "a whole session is not asked for again");
  });

  const delegated = (serviceIds: readonly string[], prefix = "app") =>
    serviceIds.map((serviceId, at) => ({ address: `${prefix}${at}`, serviceConfigs: [{ serviceId }] }));
  const numbered = (count: number, prefix: string) => Array.from({ length: count }, (_, at) => `${prefix}${at}`);

  test("of 10,000 services that strangers have applications for, a bounded number is asked for; known ones come first", async () => {
    const scene = await sceneOf([], {
      renewBlocks: 1n,
      maxRegistered: 5,
      originOf: (id) => (id === "eth" ? "known" : id.startsWith("bad") ? "refused" : "registered"),
    });
    await using _ = scene.source;
    const own = { address: APPLICATION.address, serviceConfigs: [{ serviceId: "eth" }] };
    const [one] = delegated(["early"], "early");
    assert.ok(one !== undefined);
    const early = [{ ...one, stake: { amount: "1" } }];
    scene.node.applications = [...early, own];
    await scene.block();
    assert.deepEqual(scene.services().toSorted(), ["early", "eth"]);
    scene.node.applications = [...delegated([...numbered(5_000, "bad"), ...numbered(5_000, "s")]), ...early, own];
    await scene.block();
    assert.deepEqual(scene.services().toSorted(), ["early", "eth", "s0", "s1", "s10", "s100"]);
    assert.equal(scene.shown.get(LEFT_OUT), 4_996);
    const warned = () => scene.warnings.filter(({ text }) => text === "registered services are left out").length;
    assert.equal(warned(), 1);
    await scene.block();
    assert.equal(warned(), 1, "it is logged once");
    scene.node.applications = early;
    await scene.block();
    assert.equal(scene.shown.get(LEFT_OUT), 0);
  });

  test("a new service of an own application comes before those of strangers, in whichever order they came", async () => {
    const mine = chainParty("mine");
    const options: Partial<SessionSourceOptions> = {
      renewBlocks: 1n,
      maxRegistered: 3,
      originOf: () => "registered",
      applicationKeys: [mine],
    };
    const scene = await sceneOf([], options);
    await using _ = scene.source;
    scene.node.applications = delegated(["c", "d", "e"]);
    await scene.block();
    await scene.block();
    assert.deepEqual(scene.services().toSorted(), ["c", "d", "e"]);
    scene.node.applications = delegated(["e", "d", "c", "b"]);
    scene.node.own = [{ address: mine.address, serviceConfigs: [{ serviceId: "mine" }] }];
    await scene.block();
    assert.ok(scene.source.ownServiceIds().has("mine"));
    assert.ok(scene.services().includes("mine"));
    // Sessions that have begun go on to their ends.
    while ((await scene.block()) < 2n * BLOCKS + 1n);
    assert.deepEqual(scene.services().toSorted(), ["b", "c", "mine"]);
    const later = await sceneOf([], options);
    await using __ = later.source;
    later.node.applications = scene.node.applications;
    later.node.own = scene.node.own;
    while ((await later.block()) < 2n * BLOCKS + 1n);
    assert.deepEqual(later.services().toSorted(), ["b", "c", "mine"], "a process that begins later has the same");
  });

  test("services that cannot be served although they have an application are named in the log, each once", async () => {
    const scene = await sceneOf([], {
      renewBlocks: 1n,
      originOf: (id) => (id.startsWith("bad") ? "refused" : "known"),
    });
    await using _ = scene.source;
    const named = () => scene.warnings.filter(({ text }) => text.startsWith("services of applications are not served"));
    scene.node.applications = delegated(["bad1", "good", "bad2"]);
    await scene.block();
    await scene.block();
    assert.deepEqual(
      named().map(({ fields }) => fields),
      [{ count: 2, services: ["bad1", "bad2"] }],
    );
    scene.node.applications = delegated(["bad2", ...numbered(500, "bad-")]);
    await scene.block();
    assert.deepEqual(named()[1]?.fields, { count: 500, services: numbered(10, "bad-") });
  });

  test("10,000 applications of one service leave room for those of others", async () => {
    const scene = await sceneOf([], { renewBlocks: 1n, maxApplications: 10 });
    await using _ = scene.source;
    scene.node.applications = [...delegated(numbered(10_000, "").map(() => "flooded")), ...delegated(["rare"], "rare")];
    await scene.block();
    assert.deepEqual(scene.services().toSorted(), ["eth", "flooded", "rare"]);
  });

  test("a node that cannot be asked for applications takes none away, and those that have left are no label any more", async () => {
    const scene = await sceneOf([], { renewBlocks: 1n });
    await using _ = scene.source;
    const label = "turnpike_relay_sessions eth";
    let looks = 0;
    scene.source.onApplications(() => looks++);
    assert.equal(scene.shown.get(label), 1);
    scene.node.applications = undefined;
    await scene.block();
    assert.deepEqual([scene.services(), looks], [["eth"], 0]);
    scene.node.applications = [];
    await scene.block();
    await scene.block();
    assert.deepEqual(scene.services(), []);
    assert.equal(scene.shown.has(label), false);
  });
});
