import assert from "node:assert/strict";
import { join } from "node:path";
import { suite, test } from "node:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { bytesToHex, isAppError, type Log, silentLog } from "@turnpike/base";
import { openChainStore } from "@turnpike/chain-store";
import { rfc3339ToNs } from "@turnpike/cometbft";
import { moduleAddress } from "@turnpike/crypto";
import { type Any, authz, bank, createMessage, packAny, typeUrlOf, upgrade } from "@turnpike/proto";
import { LOCAL_GENESIS, LOCAL_SIGNERS } from "@turnpike/testkit/embedded-node";
import { keptLog, scratchFolder } from "@turnpike/testkit/fixtures";
import { DEARER_BY, LATER, LATER_RULES, laterMachine, MARK_KEY } from "@turnpike/testkit/later-program";
import { History } from "../../../test/random-history.ts";
import { ChainApp } from "../../app/chain-app.ts";
import { pocketMachine } from "../../app/pocket-machine.ts";
import type { StateMachine } from "../../app/state-machine.ts";
import { RULES, type RuleSet, rulesOf } from "../../state/rules.ts";

const authority = moduleAddress("gov");
const { dao, faucet, "application-1": application } = LOCAL_SIGNERS;
const thisMachine = (skipHeights?: ReadonlySet<bigint>): StateMachine =>
  pocketMachine({ gasPrices: [], ...(skipHeights === undefined ? {} : { skipHeights }) }).machine;

type Plan = Omit<MessageInitShape<typeof upgrade.PlanSchema>, "$typeName">;
const planOf = (plan: Plan): Any =>
  packAny(
    upgrade.MsgSoftwareUpgradeSchema,
    createMessage(upgrade.MsgSoftwareUpgradeSchema, { authority, plan: { name: LATER, info: "v9.9", ...plan } }),
  );
const cancel = packAny(upgrade.MsgCancelUpgradeSchema, createMessage(upgrade.MsgCancelUpgradeSchema, { authority }));
const send = packAny(
  bank.MsgSendSchema,
  createMessage(bank.MsgSendSchema, {
    fromAddress: faucet.address,
    toAddress: application.address,
    amount: [{ denom: "upokt", amount: "5" }],
  }),
);

/** A chain on a store of its own, which a program after or before this one may open again. */
class Chain implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly folder: string;
  history: History;
  store: Awaited<ReturnType<typeof openChainStore>>;
  height = 0n;

  constructor(folder: string, store: Chain["store"], machine: StateMachine) {
    this.folder = folder;
    this.store = store;
    this.history = new History(new ChainApp({ version: "0.1.35" }, { machine, store }), []);
  }

  static async begin(
    machine: StateMachine,
    appState: Readonly<Record<string, unknown>> = LOCAL_GENESIS.app_state,
    initialHeightBlocks = 1n,
  ): Promise<Chain> {
    const folder = await scratchFolder();
    const chain = new Chain(folder.path, await openChainStore({ folder: join(folder.path, "store") }), machine);
    chain.#stack.use(folder);
    const timeNanos = rfc3339ToNs(LOCAL_GENESIS.genesis_time) ?? 0n;
    await chain.history.app.start({ chainId: "pocket", initialHeightBlocks, timeNanos, appState });
    chain.height = initialHeightBlocks - 1n;
    // Accounts are asked of the state after a block.
    await chain.block();
    return chain;
  }

  /** Another program goes on with the same store. */
  takeOver(machine: StateMachine, log: Log = silentLog): void {
    this.history = new History(new ChainApp({ version: "0.1.35" }, { machine, store: this.store, log }), []);
  }

  async block(...txs: readonly Uint8Array[]) {
    const outcome = await this.history.block(this.height + 1n, txs);
    this.height++;
    return outcome;
  }

  async byDao(message: Any): Promise<string> {
    const exec = createMessage(authz.MsgExecSchema, { grantee: dao.address, msgs: [message] });
    const { results } = await this.block(this.history.sign(dao, packAny(authz.MsgExecSchema, exec)));
    return results[0]?.log.replace(/^failed to execute message; message index: 0: .*> : /s, "") ?? "";
  }

  get hash(): string {
    return bytesToHex(this.history.app.latestAppHash());
  }

  plan(): upgrade.Plan | undefined {
    return this.history.ask(upgrade.Query.method.currentPlan, {})?.plan;
  }

  applied(name: string): bigint | undefined {
    return this.history.ask(upgrade.Query.method.appliedPlan, { name })?.height;
  }

  /** Mark that the migration of {@link LATER} writes into the state. */
  mark(): string {
    return Buffer.from(this.history.app.abciQuery("/store/later/key", MARK_KEY).value).toString();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.store[Symbol.asyncDispose]();
    await this.#stack.disposeAsync();
  }
}

suite("upgrades at a height", () => {
  test("the DAO plans and cancels, with the SDK's texts for what is no plan", async () => {
    await using chain = await Chain.begin(thisMachine());
    assert.equal(await chain.byDao(planOf({ height: 20n })), "");
    assert.deepEqual([chain.plan()?.name, chain.plan()?.height, chain.plan()?.info], [LATER, 20n, "v9.9"]);
    assert.equal(await chain.byDao(planOf({ name: "another", height: 30n })), "", "it takes the place of the first");
    assert.equal(chain.plan()?.name, "another");
    assert.equal(await chain.byDao(cancel), "");
    assert.equal(chain.plan(), undefined);
    assert.equal(await chain.byDao(cancel), "", "without a plan nothing changes");
    const refused: readonly (readonly [Plan, string])[] = [
      [{ name: "", height: 50n }, "plan: name cannot be empty: invalid request"],
      [{ height: 0n }, "plan: height must be greater than 0: invalid request"],
      [{ height: -1n }, "plan: height must be greater than 0: invalid request"],
      [{ height: 3n }, "upgrade cannot be scheduled in the past: invalid request"],
      [{ name: "v1", height: 50n }, "upgrade with name v1 has already been completed: invalid request"],
      [{ name: "n".repeat(129), height: 50n }, "plan: name must be of at most 128 bytes: invalid request"],
      [
        { info: "i".repeat(8_193), height: 50n },
        "cosmos.upgrade.v1beta1.Plan.info has 8193 bytes; the maximum is 8192: tx parse error",
      ],
      [{ height: 1n << 62n }, "plan: height must be one that a block can have: invalid request"],
    ];
    for (const [plan, text] of refused) assert.equal(await chain.byDao(planOf(plan)), text);
    assert.equal(chain.plan(), undefined);
    const ownPlan = createMessage(upgrade.MsgSoftwareUpgradeSchema, {
      authority: faucet.address,
      plan: { name: "mine", height: 99n },
    });
    const { results } = await chain.block(
      chain.history.sign(faucet, packAny(upgrade.MsgSoftwareUpgradeSchema, ownPlan)),
    );
    assert.deepEqual([results[0]?.codespace, results[0]?.code], ["upgrade", 6]);
    assert.match(
      results[0]?.log ?? "",
      new RegExp(`expected ${authority} got ${faucet.address}: expected authority account as only signer`),
    );
  });

  test("a program without the plan's rules stops before the block; one that has them goes on, and replays the whole with one hash", async () => {
    await using chain = await Chain.begin(thisMachine());
    const blocks: Uint8Array[][] = [];
    const gas: bigint[] = [];
    const step = async (...txs: Uint8Array[]): Promise<void> => {
      const { results } = await chain.block(...txs);
      blocks.push(txs);
      if (txs.length === 1) gas.push(results[0]?.gasUsed ?? 0n);
      assert.deepEqual(
        results.filter(({ code }) => code !== 0),
        [],
      );
    };
    const exec = createMessage(authz.MsgExecSchema, { grantee: dao.address, msgs: [planOf({ height: 6n })] });
    await step(chain.history.sign(dao, packAny(authz.MsgExecSchema, exec)));
    // The first one is shorter: the account's sequence is still 0.
    await step(chain.history.sign(faucet, send));
    gas.length = 0;
    for (let i = 0; i < 2; i++) await step(chain.history.sign(faucet, send));
    assert.equal(chain.height, 5n);
    const stopped = chain.hash;
    await assert.rejects(chain.block(), (error) => {
      assert.ok(isAppError(error, "CHAIN_UPGRADE"));
      assert.match(error.message, /^UPGRADE "dearer-sends" NEEDED at height: 6: v9\.9 \(this program has the rules v1/);
      const { name, height, info } = error.detail;
      assert.deepEqual({ name, height, info }, { name: LATER, height: "6", info: "v9.9" });
      return true;
    });
    assert.equal(chain.hash, stopped, "nothing of the block is written");

    chain.takeOver(laterMachine());
    for (let i = 0; i < 3; i++) await step(chain.history.sign(faucet, send));
    assert.deepEqual([chain.plan(), chain.applied(LATER)], [undefined, 6n]);
    assert.equal(chain.mark(), "6");
    assert.deepEqual(
      [1, 2, 3, 4].map((i) => (gas[i] ?? 0n) - (gas[i - 1] ?? 0n)),
      [0n, DEARER_BY, 0n, 0n],
    );

    await using replayed = await Chain.begin(laterMachine());
    assert.equal(replayed.mark(), "");
    for (const txs of blocks) await replayed.block(...txs);
    assert.equal(replayed.hash, chain.hash);
    const again = await chain.byDao(planOf({ height: 40n }));
    assert.equal(again, `upgrade with name ${LATER} has already been completed: invalid request`);
  });

  test("a plan of rules that stand behind others brings those, too, each migrated in its turn", async () => {
    const order: string[] = [];
    const second: RuleSet = {
      name: "second",
      migrate(ctx) {
        assert.ok(rulesOf(ctx).has(LATER));
        order.push(rulesOf(ctx).newest);
      },
    };
    const third: RuleSet = { name: "third", migrate: () => assert.fail("it is not planned") };
    const { machine } = pocketMachine({ gasPrices: [], rules: [...LATER_RULES, second, third] });
    await using chain = await Chain.begin(machine);
    assert.equal(await chain.byDao(planOf({ name: "second", height: 4n })), "");
    await chain.block();
    assert.deepEqual([chain.applied(LATER), chain.applied("second")], [0n, 0n]);
    await chain.block();
    assert.deepEqual([chain.applied(LATER), chain.applied("second"), chain.applied("third")], [4n, 4n, 0n]);
    assert.deepEqual([order, chain.mark()], [["second"], "4"]);
  });

  test("the zero time that the SDK's programs write is none; another one is refused, as an IBC client's state is", async () => {
    await using chain = await Chain.begin(thisMachine());
    const withTime = (seconds: bigint) => ({ height: 50n, time: { seconds, nanos: 0 } });
    assert.equal(await chain.byDao(planOf(withTime(-62_135_596_800n))), "");
    assert.equal(
      await chain.byDao(planOf(withTime(1_800_000_000n))),
      "plan: time-based upgrades have been deprecated in the SDK: invalid request",
    );
    assert.equal(
      await chain.byDao(planOf({ height: 50n, upgradedClientState: cancel })),
      "plan: upgrade logic for IBC has been moved to the IBC module: invalid request",
    );
    assert.equal(chain.plan()?.height, 50n);
  });

  test("a state of later rules is refused at the start, with their names", async () => {
    await using chain = await Chain.begin(laterMachine());
    assert.equal(await chain.byDao(planOf({ height: 3n })), "");
    await chain.block();
    assert.equal(chain.applied(LATER), 3n);
    assert.throws(
      () => chain.takeOver(thisMachine()),
      (error) => {
        assert.ok(isAppError(error, "CHAIN_RULES"));
        assert.equal(
          error.message,
          `The chain's state has the rules "${LATER}" (since block 3), and this program has ${RULES.join(", ")}.`,
        );
        return true;
      },
    );
  });

  test("an exported state takes rules and plan along, and is refused by a program without them", async () => {
    await using chain = await Chain.begin(laterMachine());
    assert.equal(await chain.byDao(planOf({ height: 3n })), "");
    await chain.block();
    assert.equal(await chain.byDao(planOf({ name: "next", height: 90n })), "");
    const { appState, heightBlocks } = chain.history.app.exportState();
    assert.deepEqual(appState.upgrade, {
      rules: [
        { name: "v1", height: "0" },
        { name: LATER, height: "3" },
      ],
      plan: { name: "next", time: "0001-01-01T00:00:00Z", height: "90", info: "v9.9", upgraded_client_state: null },
    });
    const read = JSON.parse(JSON.stringify(appState)) as Record<string, unknown>;
    await using imported = await Chain.begin(laterMachine(), read, heightBlocks + 1n);
    assert.deepEqual([imported.applied(LATER), imported.plan()?.name], [3n, "next"]);
    await assert.rejects(Chain.begin(thisMachine(), read, heightBlocks + 1n), (error) => {
      assert.ok(isAppError(error, "CONFIG_INVALID"));
      assert.match(error.message, /has the rules "dearer-sends", which this program does not know/);
      return true;
    });
    for (const wrong of [
      { rules: [] },
      { rules: [{ name: LATER, height: "0" }] },
      { rules: "v1" },
      { rules: [{ name: "v1", height: 0 }] },
      { plan: { name: "", height: "9" } },
      { plan: 7 },
    ]) {
      const broken = Chain.begin(laterMachine(), { ...LOCAL_GENESIS.app_state, upgrade: wrong });
      await assert.rejects(broken, (error) => isAppError(error, "CONFIG_INVALID"), JSON.stringify(wrong));
    }
  });

  test("a height that is skipped drops the plan, and the same rules go on", async () => {
    await using chain = await Chain.begin(thisMachine(new Set([4n])));
    assert.equal(await chain.byDao(planOf({ height: 4n })), "");
    await chain.block();
    assert.notEqual(chain.plan(), undefined);
    await chain.block();
    assert.deepEqual([chain.plan(), chain.applied(LATER)], [undefined, 0n]);
  });

  test("a plan for the height of its own block, which is due one later, is skipped by its own height", async () => {
    await using chain = await Chain.begin(thisMachine(new Set([2n])));
    assert.equal(await chain.byDao(planOf({ height: 2n })), "");
    assert.equal(chain.height, 2n);
    await chain.block();
    assert.deepEqual([chain.plan(), chain.applied(LATER)], [undefined, 0n]);
  });

  test("a store of a version whose rules had no name is adopted by the next block, and its authority's grantees may plan", async () => {
    await using chain = await Chain.begin(thisMachine());
    // State of that version: no list of rules, and no grant of the messages that it did not have.
    await chain.block();
    const rulesKey = Buffer.from("upgrade/\u0001");
    const grantTypes = [upgrade.MsgSoftwareUpgradeSchema, upgrade.MsgCancelUpgradeSchema].map(typeUrlOf);
    const keys = [...chain.store.at(chain.height).range({ prefix: Buffer.from("authz/") })].flatMap(([key]) =>
      grantTypes.some((typeUrl) => Buffer.from(key).toString("latin1").endsWith(typeUrl)) ? [Buffer.from(key)] : [],
    );
    assert.equal(keys.length, 6);
    const block = chain.store.at(chain.height).get(Buffer.from("block")) ?? assert.fail();
    chain.height++;
    const removals = [rulesKey, ...keys].map((key) => [key, undefined] as const);
    await chain.store.commit({
      heightBlocks: chain.height,
      changes: [...removals, [Buffer.from("block"), block]],
      records: [],
    });
    const { log, lines } = keptLog();
    chain.takeOver(thisMachine(), log);
    assert.match(JSON.stringify(lines), /a version whose rules had no name made the newest block/);
    await chain.block();
    assert.equal(chain.applied("v1"), 4n);
    assert.equal(await chain.byDao(planOf({ height: 9n })), "");
    assert.equal(chain.plan()?.height, 9n);
  });
});
