import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { baseQuery, createMessage, service } from "@turnpike/proto";
import { fc } from "@turnpike/testkit/property";
import {
  type Asked,
  AUTHORITY,
  ask,
  assertGrpcAnswers,
  atHeight,
  emptyState,
  recordedAsked,
  restAnswer,
  runMessage,
} from "../../../test/modules/shared/modules.ts";
import type { TestState } from "../../../test/recorded-tx.ts";
import { boundedText } from "../../state/outcome.ts";
import { updateDifficulties } from "./difficulties.ts";

const ANY_TEXT = fc.oneof(
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 60 }),
  fc.uint8Array({ minLength: 1, maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
);
const RECORDED_PARAMS = { add_service_fee: { denom: "upokt", amount: "1000000000" }, target_num_relays: "10" };

interface ListBody {
  readonly service: readonly Record<string, unknown>[];
}

/** The state that the REST server was asked in, the difficulties made by settlements of the recorded sizes. */
function recordedState(): TestState {
  const list = restAnswer("service", "list").body as ListBody;
  const genesis = {
    service: {
      params: { ...RECORDED_PARAMS, target_num_relays: "10" },
      service_list: list.service,
      compute_units_per_relay_history: [
        { service_id: "svc-new", effective_height: "261", compute_units_per_relay: "7" },
        { service_id: "svc-new", effective_height: "1571", compute_units_per_relay: "9" },
      ],
    },
  };
  const state = emptyState(genesis, { heightBlocks: 1833n });
  const settlements = [
    [1165n, 1n],
    [1225n, 29n],
    [1285n, 110n],
  ] as const;
  for (const [height, relays] of settlements) {
    updateDifficulties(atHeight(state, height).ctx, new Map([["anvil", relays]]));
  }
  const name = "target_num_relays";
  const asType = { case: "asUint64", value: 12n } as const;
  assert.ok(runMessage(state.ctx, service.MsgUpdateParamSchema, { authority: AUTHORITY, name, asType }).ok);
  return state;
}

const Q = "/pocket.service.Query";

suite("recorded answers about services", () => {
  test("lists, single services, difficulties and compute units", () => {
    const state = recordedState();
    const one = (id: string, dehydrated = false): Asked =>
      ask(state, `${Q}/Service`, service.QueryGetServiceRequestSchema, { id, dehydrated });
    const all = (init: Partial<service.QueryAllServicesRequest> = {}): Asked =>
      ask(state, `${Q}/AllServices`, service.QueryAllServicesRequestSchema, init);
    const difficulty = (serviceId: string): Asked =>
      ask(state, `${Q}/RelayMiningDifficulty`, service.QueryGetRelayMiningDifficultyRequestSchema, { serviceId });
    const difficultyAt = (blockHeight: bigint): Asked =>
      ask(state, `${Q}/RelayMiningDifficultyAtHeight`, service.QueryGetRelayMiningDifficultyAtHeightRequestSchema, {
        serviceId: "anvil",
        blockHeight,
      });
    const difficulties = (serviceId: string): Asked =>
      ask(state, `${Q}/RelayMiningDifficultyHistory`, service.QueryRelayMiningDifficultyHistoryRequestSchema, {
        serviceId,
      });
    const unitsAt = (serviceId: string, blockHeight: bigint): Asked =>
      ask(state, `${Q}/ComputeUnitsPerRelayAtHeight`, service.QueryComputeUnitsPerRelayAtHeightRequestSchema, {
        serviceId,
        blockHeight,
      });
    const units = (serviceId: string): Asked =>
      ask(state, `${Q}/ComputeUnitsPerRelayHistory`, service.QueryComputeUnitsPerRelayHistoryRequestSchema, {
        serviceId,
      });
    const pagination = createMessage(baseQuery.PageRequestSchema, { limit: 2n });
    const asked: Readonly<Record<string, Asked>> = {
      list: all(),
      "list limit 2": all({ pagination }),
      one: one("anvil"),
      "with metadata": one("svc-new"),
      "one dehydrated": one("svc-new", true),
      "not found": one("nosuch"),
      "difficulty all": ask(state, `${Q}/RelayMiningDifficultyAll`, service.QueryAllRelayMiningDifficultyRequestSchema),
      difficulty: difficulty("anvil"),
      "difficulty of a service never used": difficulty("static"),
      "difficulty unknown service": difficulty("nosuch"),
      "difficulty at height": difficultyAt(1830n),
      "difficulty at future": difficultyAt(101_833n),
      "difficulty history": difficulties("anvil"),
      "difficulty history of unused": difficulties("static"),
      "cupr at height": unitsAt("anvil", 1830n),
      "cupr unknown service": unitsAt("nosuch", 1830n),
      "cupr history": units("svc-new"),
      "cupr history never changed": units("anvil"),
    };
    for (const [name, got] of Object.entries(asked)) assert.deepEqual(got, recordedAsked("service", name), name);
    const listed = all({ dehydrated: true });
    assert.ok("body" in listed);
    const bodies = (listed.body as ListBody).service.map(({ metadata }) => metadata);
    assert.deepEqual(
      bodies,
      Array.from({ length: 9 }, () => null),
    );
  });

  test("the bytes of the gRPC server, some hundred blocks later", () => {
    const state = atHeight(recordedState(), 2191n);
    const settlements = [
      [1925n, "heavy", 53n],
      [2145n, "anvil", 1n],
    ] as const;
    for (const [height, id, relays] of settlements) {
      updateDifficulties(atHeight(state, height).ctx, new Map([[id, relays]]));
    }
    assertGrpcAnswers(state, "service");
  });

  test("the key of a page leads to the next one", () => {
    const state = recordedState();
    const page = (key: Uint8Array): { ids: unknown[]; next: string | null } => {
      const got = ask(state, `${Q}/AllServices`, service.QueryAllServicesRequestSchema, {
        pagination: { key, limit: 4n },
      });
      assert.ok("body" in got);
      const { service: list, pagination } = got.body as ListBody & { pagination: { next_key: string | null } };
      return { ids: list.map(({ id }) => id), next: pagination.next_key };
    };
    const first = page(new Uint8Array(0));
    const second = page(Buffer.from(first.next ?? "", "base64"));
    const third = page(Buffer.from(second.next ?? "", "base64"));
    const whole = (restAnswer("service", "list").body as ListBody).service.map(({ id }) => id);
    assert.deepEqual([...first.ids, ...second.ids, ...third.ids], whole);
    assert.equal(third.next, null);
  });

  test("questions about the past without a service, below zero, and in any words", () => {
    const state = recordedState();
    const at = (serviceId: string, blockHeight: bigint): Asked =>
      ask(state, `${Q}/ComputeUnitsPerRelayAtHeight`, service.QueryComputeUnitsPerRelayAtHeightRequestSchema, {
        serviceId,
        blockHeight,
      });
    assert.deepEqual(at("", 1n), { code: 3, message: "service ID is required" });
    assert.deepEqual(at("anvil", -1n), { code: 3, message: "block height must be non-negative" });
    assert.deepEqual(at("svc-new", 2n ** 63n - 1n), { body: { computeUnitsPerRelay: "9" } });
    fc.assert(
      fc.property(ANY_TEXT, (text) => {
        assert.deepEqual(at(text, 1n), { code: 5, message: boundedText(`serviceID: ${text}: service not found`) });
        const one = ask(state, `${Q}/Service`, service.QueryGetServiceRequestSchema, { id: text });
        assert.ok("code" in one && one.code === 5);
      }),
      { numRuns: 50, examples: [["x".repeat(100_000)], ["anvil/"], ["svc-new\0"]] },
    );
  });
});
