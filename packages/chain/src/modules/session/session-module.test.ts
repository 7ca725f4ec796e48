import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { application, createMessage, fromApiJson, session, shared } from "@turnpike/proto";
import { drawSuppliers, sessionAt, sessionPreimage } from "@turnpike/protocol";
import { fc } from "@turnpike/testkit/property";
import {
  type Asked,
  AUTHORITY,
  ask,
  atHeight,
  emptyState,
  endBlock,
  machine,
  readSpec,
  recordedAsked,
  restAnswer,
  runMessage,
} from "../../../test/modules/shared/modules.ts";
import { planted } from "../../../test/planted.ts";
import type { TestState } from "../../../test/recorded-tx.ts";
import type { Context } from "../../state/context.ts";
import { setApplication } from "../application/state.ts";
import { getActiveServiceConfigs, serviceConfigs, setDehydratedSupplier } from "../supplier/state.ts";
import { hydrateSession } from "./hydrate.ts";
import {
  blockHashes,
  drawnSessions,
  formerDrawnSessions,
  getSessionParams,
  getSessionParamsAt,
  sessionParams,
} from "./state.ts";

const ANY_TEXT = fc.oneof(
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 60 }),
  fc.uint8Array({ minLength: 1, maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
);
const GET = "/pocket.session.Query/GetSession";
const APP = "pokt10vxuf6ww0j0dcn8hw9gcnsaa3canux2ap6twcg";

interface SessionJson {
  readonly header: Record<string, string>;
  readonly application: Record<string, unknown>;
  readonly suppliers: readonly Record<string, unknown>[];
}

interface Recording {
  readonly session_start: number;
  readonly sessions: readonly SessionJson[];
  readonly block_hashes: Readonly<Record<string, string>>;
  readonly params_at_session_start: { readonly shared: unknown; readonly session: unknown };
}

function stake(ctx: Context, found: SessionJson, activationHeight = 1n): void {
  const app = fromApiJson(application.ApplicationSchema, found.application);
  assert.ok(app.ok);
  // As a genesis has it: what a block stakes is in no session before.
  setApplication({ ...ctx, mode: "genesis" }, planted(app.message));
  for (const json of found.suppliers) {
    const read = fromApiJson(shared.SupplierSchema, json);
    assert.ok(read.ok);
    setDehydratedSupplier(ctx, planted(read.message));
    const { operatorAddress, services } = read.message;
    for (const service of services) {
      const update = { operatorAddress, service, activationHeight };
      const key = [service.serviceId, [activationHeight, operatorAddress]] as const;
      serviceConfigs.set(ctx, key, planted(createMessage(shared.ServiceConfigUpdateSchema, update)));
    }
  }
}

function asking(state: TestState, applicationAddress: string, serviceId: string, blockHeight = 0n): Asked {
  return ask(state, GET, session.QueryGetSessionRequestSchema, { applicationAddress, serviceId, blockHeight });
}

suite("recorded sessions", () => {
  for (const name of ["e2e-1", "e2e-4", "e2e-5", "e2e-7"]) {
    test(`${name}: the same ids, suppliers and order`, () => {
      const recording = readSpec<Recording>(`protocol/${name}.json`);
      const { shared: params, session: own } = recording.params_at_session_start;
      const start = BigInt(recording.session_start);
      const genesis = { shared: { params }, session: { params: own } };
      const state = emptyState(genesis, { heightBlocks: start + 3n });
      for (const [height, hash] of Object.entries(recording.block_hashes)) {
        blockHashes.set(state.ctx, BigInt(height), Buffer.from(hash, "hex"));
      }
      for (const found of recording.sessions) stake(state.ctx, found);
      for (const found of recording.sessions) {
        const { application_address: app = "", service_id: service = "" } = found.header;
        assert.deepEqual(asking(state, app, service), { body: { session: found } });
        assert.deepEqual(asking(state, app, service, start), { body: { session: found } });
      }
    });
  }

  test("the REST server's answers and refusals", () => {
    const genesis = { session: { params: { num_suppliers_per_session: "4" } } };
    const state = emptyState(genesis, { heightBlocks: 1833n });
    const now = restAnswer("session", "now").body as { session: SessionJson };
    stake(state.ctx, now.session);
    const unknown = "pokt1qqqsyqcyq5rqwzqfpg9scrgwpugpzysn7swwdp";
    const asked: Readonly<Record<string, Asked>> = {
      params: ask(state, "/pocket.session.Query/Params", session.QueryParamsRequestSchema),
      future: asking(state, APP, "anvil", 101_833n),
      negative: asking(state, APP, "anvil", -1n),
      "service without suppliers": asking(state, APP, "static"),
      "unknown service": asking(state, APP, "nosuch"),
      "unknown app": asking(state, unknown, "anvil"),
      "no service": asking(state, APP, ""),
      "no args": asking(state, "", ""),
      "service the app is not staked for": asking(state, APP, "rest"),
    };
    for (const [name, got] of Object.entries(asked)) assert.deepEqual(got, recordedAsked("session", name), name);
  });

  test("an old session has only the suppliers whose configuration is still there, as they stand in the store", () => {
    const { body } = restAnswer("session", "at old height");
    const old = (body as { session: SessionJson }).session;
    const { block_hashes } = readSpec<Recording>("protocol/e2e-1.json");
    const state = emptyState({ session: { params: { num_suppliers_per_session: "4" } } }, { heightBlocks: 1833n });
    blockHashes.set(state.ctx, 1201n, Buffer.from(block_hashes["1201"] ?? "", "hex"));
    stake(state.ctx, old);
    const newer = (restAnswer("session", "now").body as { session: SessionJson }).session;
    stake(state.ctx, { ...newer, application: old.application, suppliers: newer.suppliers.slice(1, 2) }, 1621n);
    assert.deepEqual(asking(state, APP, "anvil", 1201n), { body });
  });
});

const ANYONE = { application: { address: APP, service_configs: [{ service_id: "s" }] }, header: {}, suppliers: [] };

suite("drawing sessions", () => {
  test("as the protocol draws them from the decoded configurations, whatever these are", () => {
    const config = fc.record({
      activation: fc.bigInt(1n, 60n),
      lasts: fc.option(fc.bigInt(1n, 60n), { nil: undefined }),
      operator: fc.integer({ min: 0, max: 40 }),
      urls: fc.array(fc.string({ maxLength: 300 }), { maxLength: 3 }),
      foreign: fc.boolean(),
    });
    fc.assert(
      fc.property(
        fc.array(config, { maxLength: 40 }),
        fc.bigInt(1n, 80n),
        fc.bigInt(1n, 20n),
        (configs, height, limit) => {
          const genesis = { session: { params: { num_suppliers_per_session: limit.toString() } } };
          const state = emptyState(genesis, { heightBlocks: 80n });
          stake(state.ctx, ANYONE);
          for (const { activation, lasts, operator, urls, foreign } of configs) {
            const operatorAddress = `pokt1operator${operator}`;
            setDehydratedSupplier(state.ctx, planted(createMessage(shared.SupplierSchema, { operatorAddress })));
            const serviceId = foreign ? "s-" : "s";
            const update = createMessage(shared.ServiceConfigUpdateSchema, {
              operatorAddress,
              service: { serviceId, endpoints: urls.map((url) => ({ url })) },
              activationHeight: activation,
              deactivationHeight: lasts === undefined ? 0n : activation + lasts,
            });
            serviceConfigs.set(state.ctx, [serviceId, [activation, operatorAddress]], planted(update));
          }
          const { startHeight } = sessionAt(
            { numBlocksPerSession: 10n, sessionGridAnchorHeight: 1n, sessionNumberAtAnchor: 1n },
            height,
          );
          const blockHash = new Uint8Array(32).fill(7);
          blockHashes.set(state.ctx, startHeight, blockHash);
          const preimage = sessionPreimage({ blockHash, serviceId: "s", applicationAddress: APP, startHeight });
          const expected = drawSuppliers(preimage, getActiveServiceConfigs(state.ctx, "s", startHeight), Number(limit));
          const got = hydrateSession(state.ctx, APP, "s", height);
          if (expected.length === 0) {
            assert.equal(got.ok ? "" : got.fault.code, 1104);
            return;
          }
          assert.ok(got.ok);
          assert.deepEqual(
            got.value.suppliers.map(({ operatorAddress, services }) => [operatorAddress, services]),
            expected.map(({ operatorAddress, service }) => [operatorAddress, [service]]),
          );
        },
      ),
      { numRuns: 150 },
    );
  });

  test("a block keeps what it draws until the proofs are due, and draws again when there are to be more", () => {
    const state = emptyState({ session: { params: { num_suppliers_per_session: "2" } } }, { heightBlocks: 22n });
    stake(state.ctx, ANYONE);
    blockHashes.set(state.ctx, 11n, new Uint8Array(32).fill(7));
    for (let i = 0; i < 9; i++) {
      const operatorAddress = `pokt1operator${i}`;
      setDehydratedSupplier(state.ctx, planted(createMessage(shared.SupplierSchema, { operatorAddress })));
      const update = { operatorAddress, service: { serviceId: "s" }, activationHeight: 1n };
      serviceConfigs.set(
        state.ctx,
        ["s", [1n, operatorAddress]],
        planted(createMessage(shared.ServiceConfigUpdateSchema, update)),
      );
    }
    const kept = (): number => [...drawnSessions.entries(state.ctx)].length;
    const draw = (mode: Context["mode"], height: bigint): unknown => {
      const got = hydrateSession({ ...state.ctx, mode }, APP, "s", height);
      assert.ok(got.ok);
      return got.value;
    };
    const fresh = draw("query", 11n);
    assert.equal(kept(), 0);
    assert.deepEqual(draw("deliver", 15n), fresh);
    assert.equal(kept(), 1);
    assert.deepEqual([draw("deliver", 11n), draw("query", 11n)], [fresh, fresh]);
    sessionParams.set(state.ctx, undefined, createMessage(session.ParamsSchema, { numSuppliersPerSession: 4n }));
    assert.deepEqual(
      (draw("deliver", 11n) as session.Session).suppliers,
      (draw("query", 12n) as session.Session).suppliers,
    );
    // The session ends at 20; with the offsets 1, 4, 0 and 4 its proofs are due at 30.
    endBlock(atHeight(state, 30n));
    assert.equal(kept(), 1);
    endBlock(atHeight(state, 31n));
    assert.equal(kept(), 0);
  });

  test("no session for an application that is leaving, or without suppliers", () => {
    const state = emptyState({}, { heightBlocks: 55n });
    const code = (): number => {
      const got = hydrateSession(state.ctx, APP, "s", 55n);
      assert.ok(!got.ok);
      return got.fault.code;
    };
    assert.equal(code(), 1102);
    stake(state.ctx, ANYONE);
    assert.equal(code(), 1104);
    const write = (app: application.Application): void =>
      setApplication({ ...state.ctx, mode: "genesis" }, planted(app));
    const leaving = createMessage(application.ApplicationSchema, {
      address: APP,
      serviceConfigs: [{ serviceId: "s" }],
      unstakeSessionEndHeight: 50n,
    });
    write(leaving);
    assert.equal(code(), 1109);
    write({ ...leaving, unstakeSessionEndHeight: 60n });
    assert.equal(code(), 1104);
    write({ ...leaving, unstakeSessionEndHeight: 0n, serviceConfigs: [] });
    assert.equal(code(), 1103);
  });

  test("hostile questions get an answer", () => {
    const state = emptyState({}, { heightBlocks: 55n });
    fc.assert(
      fc.property(ANY_TEXT, fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), (text, height) => {
        const got = asking(state, text, text, height);
        assert.ok("code" in got && got.code === 3);
        const service = asking(state, APP, text, height);
        assert.ok("code" in service && (service.code === 3 || service.code === 13));
      }),
    );
  });
});

suite("parameters of sessions", () => {
  const change = (name: string, asType: session.MsgUpdateParam["asType"], authority = AUTHORITY) => ({
    authority,
    name,
    asType,
  });
  const NAME = "num_suppliers_per_session";

  test("a change holds from the next session on, and before the first one what it changed: sessions under way stay as drawn", () => {
    const state = atHeight(emptyState(), 25n);
    const init = change(NAME, { case: "asUint64", value: 4n });
    assert.ok(runMessage(state.ctx, session.MsgUpdateParamSchema, init).ok);
    const held = [24n, 25n, 30n, 31n].map((height) => getSessionParamsAt(state.ctx, height).numSuppliersPerSession);
    assert.deepEqual(held, [15n, 15n, 15n, 4n]);
    assert.equal(getSessionParams(state.ctx).numSuppliersPerSession, 4n);
    const all = { authority: AUTHORITY, params: { numSuppliersPerSession: 9n } };
    assert.ok(runMessage(atHeight(state, 41n).ctx, session.MsgUpdateParamsSchema, all).ok);
    const later = [25n, 31n, 50n, 51n].map((height) => getSessionParamsAt(state.ctx, height).numSuppliersPerSession);
    assert.deepEqual(later, [15n, 4n, 4n, 9n]);
    const out = machine.exportGenesis(state.state, state.block).session;
    const again = emptyState({ session: out });
    assert.deepEqual(machine.exportGenesis(again.state, again.block).session, out);
  });

  test("each refusal has its text", () => {
    const { ctx } = emptyState();
    const stranger = "pokt1uv05fgvml8sxsjg296ktwp4z2q6puffu45jje8";
    const texts = [
      change(NAME, { case: "asUint64", value: 0n }),
      change("nosuch", { case: "asUint64", value: 1n }),
      change(NAME, { case: undefined }),
      change(NAME, { case: "asUint64", value: 1n }, ""),
      change(NAME, { case: "asUint64", value: 1n }, stranger),
    ].map((init) => {
      const ran = runMessage(ctx, session.MsgUpdateParamSchema, init);
      return ran.ok ? "" : `${ran.fault.codespace} ${ran.fault.code} ${ran.fault.text}`;
    });
    const invalid = "the provided param is invalid";
    assert.deepEqual(texts, [
      `session 1110 number of suppliers per session (0) MUST be greater than or equal to 1: ${invalid}`,
      `session 1110 unsupported param "nosuch": ${invalid}`,
      `session 1110 invalid type for param "num_suppliers_per_session" expected *types.MsgUpdateParam_AsUint64, got <nil>: ${invalid}`,
      "sdk 7 invalid authority address (empty address string is not allowed): invalid address",
      `undefined 1 rpc error: code = InvalidArgument desc = invalid authority; expected ${AUTHORITY}, got ${stranger}: expected gov account as only signer for proposal message`,
    ]);
  });

  test("each block's hash is kept at its end", () => {
    const hash = new Uint8Array(32).fill(9);
    const state = emptyState({}, { heightBlocks: 5n, hash });
    assert.equal(blockHashes.get(state.ctx, 5n), undefined);
    endBlock(state);
    assert.deepEqual(blockHashes.get(state.ctx, 5n), hash);
  });

  test("attack: a block's hash is kept when a step beside it fails; its pruning is done in the next block", () => {
    const hash = new Uint8Array(32).fill(9);
    const { state, block, ctx } = emptyState({}, { heightBlocks: 50n, hash });
    drawnSessions.set(ctx, [1n, "old"], { limit: 1n, suppliers: [] });
    const faulty = {
      get: (key: Uint8Array) => state.get(key),
      range: (options: Parameters<typeof state.range>[0]) => {
        const isDrawn = Buffer.from(options.prefix).toString("latin1").startsWith("session/\x0c");
        if (isDrawn) throw new TypeError("a fault of the program");
        return state.range(options);
      },
    };
    const { changes, events } = machine.runBlock(faulty, block, []);
    assert.deepEqual(
      events.map(({ type }) => type),
      ["block_part_failed"],
    );
    for (const [key, value] of changes) if (value !== undefined) state.set(key, value);
    assert.deepEqual(blockHashes.get(ctx, 50n), hash);
    endBlock(atHeight({ state, block, ctx }, 51n));
    assert.deepEqual([...drawnSessions.entries(ctx)], []);
  });

  test("sessions that an earlier build drew, in another encoding, are removed and drawn again", () => {
    const { state, block, ctx } = emptyState({}, { heightBlocks: 50n, hash: new Uint8Array(32).fill(9) });
    const limitAndLengths = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 7, 3, 97, 98, 99);
    for (const height of [1n, 49n]) formerDrawnSessions.set(ctx, [height, "old"], limitAndLengths);
    endBlock({ state, block, ctx });
    assert.deepEqual([...formerDrawnSessions.entries(ctx)], []);
  });
});
