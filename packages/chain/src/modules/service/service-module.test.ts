import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { createMessage, service, shared } from "@turnpike/proto";
import { ask, atHeight, emptyState, machine, readSpec, runMessage } from "../../../test/modules/shared/modules.ts";
import { planted } from "../../../test/planted.ts";
import { withAttribute } from "../../state/context.ts";
import { updateDifficulties } from "./difficulties.ts";
import { difficultyHistory, getComputeUnitsPerRelayAt, getDifficultyAt, services } from "./state.ts";

const OWNER = "pokt1uv05fgvml8sxsjg296ktwp4z2q6puffu45jje8";
const RECORDED_PARAMS = { add_service_fee: { denom: "upokt", amount: "1000000000" }, target_num_relays: "10" };
const GENESIS = { service: { params: RECORDED_PARAMS } };

interface HistoryBody {
  readonly relayMiningDifficultyHistory: readonly { readonly effective_height: string }[];
}

interface Settlement {
  readonly settlement_height: number;
  readonly claims_decoded: readonly { readonly count_relays: string | number; readonly session_id: string }[];
  readonly settlement_block_results: { readonly finalize_block_events: readonly { readonly type: string }[] };
  readonly relay_mining_difficulty: Readonly<Record<string, { readonly history: HistoryBody }>>;
}

const Q = "/pocket.service.Query";

suite("difficulties", () => {
  for (const [name, id, target] of [
    ["e2e-1", "anvil", "10"],
    ["e2e-4", "heavy", "12"],
  ] as const) {
    test(`${name}: the recorded event and history`, () => {
      const recording = readSpec<Settlement>(`protocol/${name}.json`);
      const history = recording.relay_mining_difficulty[id]?.history.relayMiningDifficultyHistory ?? [];
      const at = BigInt(recording.settlement_height);
      const state = emptyState({ service: { params: { ...RECORDED_PARAMS, target_num_relays: target } } });
      services.set(state.ctx, id, planted(createMessage(shared.ServiceSchema, { id })));
      if (name === "e2e-1") updateDifficulties(atHeight(state, 1165n).ctx, new Map([[id, 1n]]));
      const settling = atHeight(state, at);
      const relays = recording.claims_decoded.reduce((sum, claim) => sum + BigInt(claim.count_relays), 0n);
      updateDifficulties(settling.ctx, new Map([[id, relays]]));
      const events = recording.settlement_block_results.finalize_block_events.filter(({ type }) =>
        type.endsWith("EventRelayMiningDifficultyUpdated"),
      );
      assert.deepEqual(withAttribute(settling.ctx.events, "mode", "EndBlock"), events);
      const path = `${Q}/RelayMiningDifficultyHistory`;
      const got = ask(state, path, service.QueryRelayMiningDifficultyHistoryRequestSchema, { serviceId: id });
      assert.ok("body" in got);
      const entries = (got.body as HistoryBody).relayMiningDifficultyHistory;
      const known = history.filter(({ effective_height }) => BigInt(effective_height) <= at + 10n);
      assert.deepEqual(entries, known);
    });
  }

  test("events come in the order of the services' ids, whatever order they are given in", () => {
    const ids = ["b", "a-b", "a", "B", "a_"];
    const state = emptyState({}, { heightBlocks: 25n });
    updateDifficulties(state.ctx, new Map(ids.map((id) => [id, 5n])));
    const order = state.ctx.events.map(({ attributes }) => attributes.find(({ key }) => key === "service_id")?.value);
    assert.deepEqual(order, ['"B"', '"a"', '"a-b"', '"a_"', '"b"']);
    assert.equal(getDifficultyAt(state.ctx, "a", 30n).blockHeight, 25n);
    assert.equal(getDifficultyAt(state.ctx, "a", 31n).blockHeight, 31n);
  });
});

suite("genesis of services", () => {
  const list = ["b", "a-b", "a"].map((id, i) => ({
    id,
    name: "",
    compute_units_per_relay: `${i + 1}`,
    owner_address: OWNER,
    metadata: i === 0 ? { card: "eyJ9" } : null,
  }));

  test("goes round, in the order of the keys", () => {
    const state = emptyState({ service: { ...GENESIS.service, service_list: list } }, { heightBlocks: 25n });
    updateDifficulties(state.ctx, new Map([["a", 7n]]));
    const change = { id: "a", name: "", computeUnitsPerRelay: 9n, ownerAddress: OWNER };
    assert.ok(runMessage(state.ctx, service.MsgAddServiceSchema, { ownerAddress: OWNER, service: change }).ok);
    const out = machine.exportGenesis(state.state, state.block).service;
    const again = emptyState({ service: out });
    assert.deepEqual(machine.exportGenesis(again.state, again.block).service, out);
    // A hyphen sorts before the slash that ends a key.
    assert.deepEqual(
      [...services.entries(again.ctx)].map(([id]) => id),
      ["a-b", "a", "b"],
    );
    assert.equal(getComputeUnitsPerRelayAt(again.ctx, "a", 30n), 3n);
    assert.equal(getComputeUnitsPerRelayAt(again.ctx, "a", 31n), 9n);
  });

  test("difficulties by height go round: a claim of a session under way keeps the price that it began with", () => {
    const state = emptyState({ service: { ...GENESIS.service, service_list: list } }, { heightBlocks: 25n });
    updateDifficulties(state.ctx, new Map([["a", 400n]]));
    const later = atHeight(state, 45n);
    updateDifficulties(later.ctx, new Map([["a", 9_000n]]));
    const out = machine.exportGenesis(state.state, later.block);
    const again = emptyState(JSON.parse(JSON.stringify(out)) as Record<string, unknown>);
    for (const height of [1n, 24n, 25n, 30n, 31n, 45n, 51n, 60n]) {
      assert.deepEqual(getDifficultyAt(again.ctx, "a", height), getDifficultyAt(state.ctx, "a", height), `${height}`);
    }
    assert.notDeepEqual(getDifficultyAt(again.ctx, "a", 31n), getDifficultyAt(again.ctx, "a", 51n));
    // What is settled next goes on from there, and begins no history of its own.
    for (const { ctx } of [atHeight(state, 65n), atHeight(again, 65n)]) updateDifficulties(ctx, new Map([["a", 3n]]));
    assert.deepEqual([...difficultyHistory.entries(again.ctx)], [...difficultyHistory.entries(state.ctx)]);
  });

  test("what is not right refuses", () => {
    const start = (init: Record<string, unknown>) => () => emptyState({ service: { ...GENESIS.service, ...init } });
    assert.throws(start({ service_list: [list[0], list[0]] }), /service b: listed twice/);
    assert.throws(start({ service_list: [{ ...list[0], id: "a/b" }] }), /contains invalid characters/);
    assert.throws(start({ params: { ...RECORDED_PARAMS, target_num_relays: "0" } }), /target_num_relays must be/);
    assert.throws(start({ relayMiningDifficultyList: [{ service_id: "a" }] }), /no target of 32 bytes/);
    const update = { effective_height: "7", difficulty: { service_id: "a", target_hash: "" } };
    assert.throws(start({ relay_mining_difficulty_history: [update] }), /no target of 32 bytes/);
    assert.throws(start({ relay_mining_difficulty_history: [{ effective_height: "7" }] }), /no difficulty/);
    assert.throws(start({ relay_mining_difficulty_history: {} }), /relay_mining_difficulty_history: not a list/);
    const good = { ...update, difficulty: { service_id: "a", target_hash: `${"/".repeat(42)}8=` } };
    assert.throws(start({ relay_mining_difficulty_history: [good, good] }), /listed twice/);
    assert.throws(start({ relay_mining_difficulty_history: [{ ...good, effective_height: "-1" }] }), /no block has/);
    const early = [{ service_id: "a", effective_height: "-1", compute_units_per_relay: "1" }];
    assert.throws(start({ compute_units_per_relay_history: early }), /a height that no block has/);
  });
});
