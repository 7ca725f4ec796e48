import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { createMessage, shared } from "@turnpike/proto";
import { sessionAt } from "@turnpike/protocol";
import { readRecordedTx } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import {
  AUTHORITY,
  ask,
  assertGrpcAnswers,
  atHeight,
  emptyState,
  endBlock,
  machine,
  recordedAsked,
  restAnswer,
  runExecuted,
  runMessage,
} from "../../../test/modules/shared/modules.ts";
import { stateOf } from "../../../test/recorded-tx.ts";
import { goQuoted } from "../../state/go-text.ts";
import { DEFAULT_SHARED_PARAMS } from "./params.ts";
import { getSharedParams, getSharedParamsAt, sharedParamsHistory } from "./state.ts";

const GENESIS = {
  params: {
    ...(restAnswer("shared", "params at height 5").body as { params: Record<string, string> }).params,
  },
};

type ParamValue = shared.MsgUpdateParam["asType"];
const number = (value: bigint): ParamValue => ({ case: "asUint64", value });

function changeText(name: string, asType: ParamValue, authority = AUTHORITY): string {
  const changed = runMessage(emptyState().ctx, shared.MsgUpdateParamSchema, { authority, name, asType });
  assert.ok(!changed.ok);
  return `${changed.fault.codespace} ${changed.fault.code} ${changed.fault.text}`;
}

function fullText(init: Partial<shared.Params>): string {
  const params = { ...DEFAULT_SHARED_PARAMS, ...init };
  const changed = runMessage(emptyState().ctx, shared.MsgUpdateParamsSchema, { authority: AUTHORITY, params });
  assert.ok(!changed.ok);
  return `${changed.fault.codespace} ${changed.fault.code} ${changed.fault.text}`;
}

suite("shared parameters as recorded", () => {
  test("a parameter that is not right has the module's own code and text", () => {
    const recorded = readRecordedTx("fail-params-shared-invalid");
    const ran = runExecuted(stateOf(machine, recorded).ctx, recorded);
    assert.ok(!ran.ok);
    const response = recorded.result?.tx_response;
    assert.equal(`failed to execute message; message index: 0: msg 0: ${ran.fault.text}`, response?.raw_log);
    assert.deepEqual([ran.fault.code, ran.fault.codespace], [response?.code, response?.codespace]);
  });

  test("a changed price holds at once, and in the history from the next session on", () => {
    const recorded = readRecordedTx("params-shared-multiplier");
    const state = stateOf(machine, recorded, { appState: { shared: GENESIS } });
    assert.equal(runExecuted(state.ctx, recorded).ok, true);
    assert.equal(getSharedParams(state.ctx).computeUnitsToTokensMultiplier, 43_000_000n);
    const later = atHeight(state, 1833n);
    const asking = [
      ["params at height", 1830n],
      ["params at height 5", 5n],
      ["params at future", 101_833n],
    ] as const;
    for (const [name, height] of asking) {
      const got = ask(later, "/pocket.shared.Query/ParamsAtHeight", shared.QueryParamsAtHeightRequestSchema, {
        height,
      });
      assert.deepEqual(got, recordedAsked("shared", name));
    }
    const now = ask(later, "/pocket.shared.Query/Params", shared.QueryParamsRequestSchema);
    assert.deepEqual(now, recordedAsked("shared", "params"));
    assertGrpcAnswers(atHeight(state, 2191n), "shared");
    assert.equal(getSharedParamsAt(state.ctx, 1630n).computeUnitsToTokensMultiplier, 42_000_000n);
    assert.equal(getSharedParamsAt(state.ctx, 1631n).computeUnitsToTokensMultiplier, 43_000_000n);
  });

  test("a height that no block has is refused", () => {
    const path = "/pocket.shared.Query/ParamsAtHeight";
    const got = ask(emptyState(), path, shared.QueryParamsAtHeightRequestSchema, { height: -1n });
    assert.deepEqual(got, { code: 3, message: "height must be non-negative" });
    const furthest = { height: 2n ** 63n - 1n };
    assert.ok("body" in ask(emptyState(), path, shared.QueryParamsAtHeightRequestSchema, furthest));
  });
});

suite("changes of shared parameters", () => {
  test("each refusal has its text", () => {
    const texts = [
      changeText("num_blocks_per_session", number(0n)),
      changeText("nosuch", number(1n)),
      changeText("toString", number(1n)),
      changeText('a"\n\u{1f600}\u200b', number(1n)),
      changeText("num_blocks_per_session", { case: undefined }),
      changeText("num_blocks_per_session", { case: "asString", value: "1" }),
      changeText("compute_unit_cost_granularity", number(0n)),
      changeText("gateway_unbonding_period_sessions", number(0n)),
      changeText("num_blocks_per_session", number(1n), "pokt1nosuch"),
      changeText("num_blocks_per_session", number(9n), "pokt1uv05fgvml8sxsjg296ktwp4z2q6puffu45jje8"),
      changeText("num_blocks_per_session", number(1n)),
      fullText({ gracePeriodEndOffsetBlocks: 2n }),
      fullText({ claimWindowCloseOffsetBlocks: 60n }),
      fullText({ supplierUnbondingPeriodSessions: 7n, claimWindowCloseOffsetBlocks: 60n }),
      fullText({ numBlocksPerSession: 2n ** 63n }),
      fullText({
        gracePeriodEndOffsetBlocks: 0n,
        claimWindowOpenOffsetBlocks: 0n,
        claimWindowCloseOffsetBlocks: 0n,
        proofWindowOpenOffsetBlocks: 0n,
        proofWindowCloseOffsetBlocks: 0n,
      }),
    ];
    const param = "the provided param is invalid";
    const invalidName = "the provided param name is invalid";
    const signer = "expected gov account as only signer for proposal message";
    const status = "undefined 1 rpc error: code = InvalidArgument desc =";
    assert.deepEqual(texts, [
      `shared 1103 invalid NumBlocksPerSession: (0): ${param}`,
      `shared 1102 unsupported param "nosuch": ${invalidName}`,
      `shared 1102 unsupported param "toString": ${invalidName}`,
      `shared 1102 unsupported param "a\\"\\n\u{1f600}\\u200b": ${invalidName}`,
      `shared 1103 missing param AsType: ${param}`,
      `shared 1103 invalid type for param "num_blocks_per_session" expected *types.MsgUpdateParam_AsUint64, got *types.MsgUpdateParam_AsString: ${param}`,
      `shared 1103 invalid ComputeUnitCostGranularity: (0): ${param}`,
      `shared 1103 invalid GatewayUnbondingPeriodSessions: (0): ${param}`,
      "shared 1101 invalid authority address pokt1nosuch; (decoding bech32 failed: invalid character not part of charset: 111): invalid address",
      `${status} invalid authority; expected ${AUTHORITY}, got pokt1uv05fgvml8sxsjg296ktwp4z2q6puffu45jje8: ${signer}`,
      `${status} GracePeriodEndOffsetBlocks (1) must be less than NumBlocksPerSession (1): ${param}`,
      `shared 1103 ClaimWindowOpenOffsetBlocks (1) must be at least GracePeriodEndOffsetBlocks (2): ${param}`,
      `shared 1103 SupplierUnbondingPeriodSessions (1 session) (10 blocks) must be greater than the cumulative ProofWindowCloseOffsetBlocks (65): ${param}`,
      `shared 1103 ApplicationUnbondingPeriodSessions (1 session) (10 blocks) must be greater than the cumulative ProofWindowCloseOffsetBlocks (65): ${param}`,
      `shared 1103 SupplierUnbondingPeriodSessions (1 session) (-9223372036854775808 blocks) must be greater than the cumulative ProofWindowCloseOffsetBlocks (9): ${param}`,
      `shared 1103 the claim and proof window offsets yield 0 pending sessions; their sum (ClaimWindowOpenOffsetBlocks 0 + ClaimWindowCloseOffsetBlocks 0 + ProofWindowOpenOffsetBlocks 0 + ProofWindowCloseOffsetBlocks 0) must be greater than 0: ${param}`,
    ]);
  });

  test("another than the authority may not change all", () => {
    const authority = "pokt1uv05fgvml8sxsjg296ktwp4z2q6puffu45jje8";
    const init = { authority, params: DEFAULT_SHARED_PARAMS };
    const changed = runMessage(emptyState().ctx, shared.MsgUpdateParamsSchema, init);
    assert.ok(!changed.ok);
    assert.match(changed.fault.text, /^rpc error: code = PermissionDenied desc = invalid authority; expected/);
    const wrong = runMessage(emptyState().ctx, shared.MsgUpdateParamsSchema, { ...init, authority: "" });
    assert.ok(!wrong.ok);
    assert.deepEqual(wrong.fault, {
      codespace: "undefined",
      code: 1,
      text: "invalid authority address: empty address string is not allowed",
    });
  });

  test("another length of sessions waits for the next one, and its grid begins there", () => {
    const genesis = emptyState({ shared: GENESIS });
    const name = "num_blocks_per_session";
    const change = { authority: AUTHORITY, name, asType: number(7n) };
    const state = atHeight(genesis, 25n);
    assert.ok(runMessage(state.ctx, shared.MsgUpdateParamSchema, change).ok);
    assert.equal(getSharedParams(state.ctx).numBlocksPerSession, 10n);
    for (const height of [25n, 26n, 30n]) {
      endBlock(atHeight(state, height));
      assert.equal(getSharedParams(state.ctx).numBlocksPerSession, 10n);
    }
    endBlock(atHeight(state, 31n));
    const { numBlocksPerSession, sessionGridAnchorHeight, sessionNumberAtAnchor } = getSharedParams(state.ctx);
    assert.deepEqual([numBlocksPerSession, sessionGridAnchorHeight, sessionNumberAtAnchor], [7n, 31n, 4n]);
    const heights = [...sharedParamsHistory.entries(state.ctx)].map(([height]) => height);
    assert.deepEqual(heights, [1n, 31n]);
  });

  test("attack: a change whose block left out this step holds from the next block on", () => {
    const state = atHeight(emptyState({ shared: GENESIS }), 25n);
    const change = { authority: AUTHORITY, name: "num_blocks_per_session", asType: number(7n) };
    assert.ok(runMessage(state.ctx, shared.MsgUpdateParamSchema, change).ok);
    endBlock(atHeight(state, 32n));
    assert.equal(getSharedParams(state.ctx).numBlocksPerSession, 7n);
    // A price holds at once, while its entry waits for the next session.
    const price = { authority: AUTHORITY, name: "compute_units_to_tokens_multiplier", asType: number(5n) };
    assert.ok(runMessage(atHeight(state, 33n).ctx, shared.MsgUpdateParamSchema, price).ok);
    endBlock(atHeight(state, 33n));
    assert.equal(getSharedParams(state.ctx).computeUnitsToTokensMultiplier, 5n);
  });

  test("a change that waits is lost to the next one, as on the real chain; the other way round both stay", () => {
    const change = (name: string, value: bigint) => ({ authority: AUTHORITY, name, asType: number(value) });
    const changes = [change("num_blocks_per_session", 7n), change("compute_units_to_tokens_multiplier", 5n)];
    const held = [changes, changes.toReversed()].map((order) => {
      const state = atHeight(emptyState({ shared: GENESIS }), 25n);
      for (const init of order) assert.ok(runMessage(state.ctx, shared.MsgUpdateParamSchema, init).ok);
      endBlock(atHeight(state, 31n));
      const { numBlocksPerSession, computeUnitsToTokensMultiplier } = getSharedParams(state.ctx);
      return [numBlocksPerSession, computeUnitsToTokensMultiplier];
    });
    assert.deepEqual(held, [
      [10n, 5n],
      [7n, 5n],
    ]);
  });

  test("what held at a height that has passed never changes, and session numbers have no gap", () => {
    const field = fc.constantFrom(
      "num_blocks_per_session",
      "compute_units_to_tokens_multiplier",
      "claim_window_close_offset_blocks",
    );
    const step = fc.record({ name: field, value: fc.bigInt(2n, 9n), blocks: fc.bigInt(1n, 15n) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const state = emptyState({
          shared: {
            params: {
              ...GENESIS.params,
              supplier_unbonding_period_sessions: "20",
              application_unbonding_period_sessions: "20",
            },
          },
        });
        const past: shared.Params[] = [];
        let height = 0n;
        for (const { name, value, blocks } of steps) {
          for (let i = 0n; i < blocks; i++) {
            height++;
            const block = atHeight(state, height);
            if (i === 0n) {
              runMessage(block.ctx, shared.MsgUpdateParamSchema, { authority: AUTHORITY, name, asType: number(value) });
            }
            endBlock(block);
            past.push(getSharedParamsAt(block.ctx, height));
          }
        }
        let sessions = 0n;
        for (const [i, held] of past.entries()) {
          const at = BigInt(i) + 1n;
          assert.deepEqual(getSharedParamsAt(state.ctx, at), held);
          const span = sessionAt(held, at);
          assert.ok(span.number === sessions || (span.number === sessions + 1n && span.startHeight === at));
          sessions = span.number;
        }
      }),
      { numRuns: 60 },
    );
  });
});

suite("genesis of shared parameters", () => {
  test("goes round with its history, and none at all gives the defaults", () => {
    const state = atHeight(emptyState({ shared: GENESIS }), 25n);
    const change = { authority: AUTHORITY, name: "num_blocks_per_session", asType: number(7n) };
    assert.ok(runMessage(state.ctx, shared.MsgUpdateParamSchema, change).ok);
    const out = machine.exportGenesis(state.state, state.block);
    const again = emptyState({ shared: out.shared });
    assert.deepEqual(machine.exportGenesis(again.state, again.block).shared, out.shared);
    assert.deepEqual(getSharedParamsAt(again.ctx, 31n), getSharedParamsAt(state.ctx, 31n));
    assert.deepEqual(getSharedParams(emptyState().ctx), DEFAULT_SHARED_PARAMS);
  });

  test("parameters that are not right refuse", () => {
    const wrong = { ...GENESIS.params, num_blocks_per_session: "0" };
    assert.throws(() => emptyState({ shared: { params: wrong } }), /invalid NumBlocksPerSession: \(0\)/);
    const history = [{ effective_height: "5", params: wrong }];
    assert.throws(() => emptyState({ shared: { ...GENESIS, params_history: history } }), /the history at 5/);
    const early = [{ effective_height: "-5", params: GENESIS.params }];
    assert.throws(() => emptyState({ shared: { ...GENESIS, params_history: early } }), /a height that no block has/);
  });

  test("an entry of the history that is not right is never today's", () => {
    const state = atHeight(emptyState(), 31n);
    sharedParamsHistory.set(state.ctx, 31n, createMessage(shared.ParamsSchema));
    endBlock(state);
    assert.deepEqual(getSharedParams(state.ctx), DEFAULT_SHARED_PARAMS);
  });
});

test("texts are quoted as Go quotes them", () => {
  assert.equal(
    goQuoted('a\\b"c\t\x01\x7f\u00e9\u2028\u{e0001} z'),
    '"a\\\\b\\"c\\t\\x01\\x7f\u00e9\\u2028\\U000e0001 z"',
  );
});
