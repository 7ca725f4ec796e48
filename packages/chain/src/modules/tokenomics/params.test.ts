import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { moduleAddress } from "@turnpike/crypto";
import { proof, tokenomics } from "@turnpike/proto";
import {
  blockAt,
  contextAt,
  fromJson,
  readChain,
  runRecordedTxs,
  settlementMachine,
  stateBefore,
} from "../../../test/modules/tokenomics/recorded.ts";
import { LifeChain, party } from "../../../test/session-life.ts";
import { Overlay } from "../../state/overlay.ts";
import { proofParamMessages } from "../proof/params.ts";
import { getProofParams } from "../proof/state.ts";
import { tokenomicsMessages } from "./params.ts";
import { getTokenomicsParams } from "./state.ts";

const GOV = moduleAddress("gov");
const STRANGER = "pokt173r2dgg0jce84fq60sc7wmasvrpesfjdf93pqz";
const EMPTY = { get: () => undefined, range: () => [] };
const HANDLERS = { ...proofParamMessages(GOV), ...tokenomicsMessages(GOV) };

/** Code, codespace and text of a parameter message before it runs. */
function refused(type: "proof" | "tokenomics", json: Record<string, unknown>): string {
  const schema = type === "proof" ? proof.MsgUpdateParamSchema : tokenomics.MsgUpdateParamSchema;
  const message = fromJson(schema, { authority: GOV, ...json });
  const fault = HANDLERS[`/pocket.${type}.MsgUpdateParam`]?.validate(message);
  return fault === undefined ? "" : `${fault.codespace} ${fault.code} ${fault.text}`;
}

const shares = (supplier: number) => ({ dao: 0.1, proposer: 0.05, supplier, source_owner: 0.15, application: 0 });

suite("parameters", () => {
  const CASES = [
    [
      "proof",
      { name: "proof_request_probability", as_float: 1.5 },
      "proof 1120 invalid ProofRequestProbability: (1.5): the provided param is invalid",
    ],
    [
      "proof",
      { name: "proof_request_probability", as_float: -1e-7 },
      "proof 1120 invalid ProofRequestProbability: (-1e-07): the provided param is invalid",
    ],
    [
      "proof",
      { name: "proof_missing_penalty", as_float: 1 },
      'proof 1120 invalid type for param "proof_missing_penalty" expected *types.MsgUpdateParam_AsCoin, got *types.MsgUpdateParam_AsFloat: the provided param is invalid',
    ],
    ["proof", { name: "proof_missing_penalty" }, "proof 1120 missing param AsType: the provided param is invalid"],
    [
      "proof",
      { name: "proof_submission_fee", as_coin: { denom: "mact", amount: "1" } },
      "proof 1120 invalid proof_submission_fee denom: mact: the provided param is invalid",
    ],
    [
      "tokenomics",
      { name: "mint_ratio", as_float: 0 },
      "tokenomics 1112 mint_ratio must be in range (0, 1]: got 0.000000: the provided param is invalid",
    ],
    ["tokenomics", { name: "mint_ratio", as_float: 1 }, ""],
    [
      "tokenomics",
      { name: "nosuch", as_float: 1 },
      'tokenomics 1111 unsupported param "nosuch": the provided param name is invalid',
    ],
    ["tokenomics", { name: "mint_ratio" }, "tokenomics 1108 missing param AsType: provided params are invalid"],
    [
      "tokenomics",
      { name: "global_inflation_per_claim", as_float: -0.5 },
      "tokenomics 1112 GlobalInflationPerClaim must be greater than or equal to 0: -0.500000: the provided param is invalid",
    ],
    [
      "tokenomics",
      { name: "mint_allocation_percentages", as_mint_allocation_percentages: shares(0.6) },
      "tokenomics 1112 mint allocation percentages do not add to 1.0: got 0.900000 instead. This is greater than the acceptable epsilon of 0.000000: the provided param is invalid",
    ],
    // In basis points these add up, but they are more than there is to share.
    [
      "tokenomics",
      { name: "mint_equals_burn_claim_distribution", as_mint_equals_burn_claim_distribution: shares(0.70004) },
      "tokenomics 1112 mint equals burn claim distribution percentages do not add to 1.0: got 1.000000: the provided param is invalid",
    ],
    [
      "tokenomics",
      { name: "mint_equals_burn_claim_distribution", as_mint_equals_burn_claim_distribution: shares(0.7) },
      "",
    ],
    ["tokenomics", { name: "overservicing_bonus_multiplier", as_uint64: "1000" }, ""],
  ] as const;
  for (const [type, json, text] of CASES) {
    test(`${type} ${JSON.stringify(json)}`, () => {
      assert.equal(refused(type, json), text);
    });
  }

  test("a number that is none is refused, though it fails no comparison", () => {
    const message = fromJson(tokenomics.MsgUpdateParamSchema, { authority: GOV, name: "mint_ratio", as_float: 1 });
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
      for (const name of ["mint_ratio", "global_inflation_per_claim"]) {
        const wild = { ...message, name, asType: { case: "asFloat" as const, value } };
        assert.equal(HANDLERS["/pocket.tokenomics.MsgUpdateParam"]?.validate(wild)?.code, 1112);
      }
    }
  });

  test("attack: the DAO's address in capitals, by itself and among all parameters, is kept as the account that it is", () => {
    const chain = new LifeChain();
    const dao = party("dao").address;
    const capitals = dao.toUpperCase();
    const daoOf = (): string => getTokenomicsParams(chain.ctx).daoRewardAddress;
    const alone = { name: "dao_reward_address", asType: { case: "asString" as const, value: capitals } };
    assert.ok(chain.send(tokenomics.MsgUpdateParamSchema, { authority: GOV, ...alone }).ok);
    assert.equal(daoOf(), dao);
    const other = party("other dao").address;
    const params = { ...getTokenomicsParams(chain.ctx), daoRewardAddress: other.toUpperCase() };
    assert.ok(chain.send(tokenomics.MsgUpdateParamsSchema, { authority: GOV, params }).ok);
    assert.equal(daoOf(), other);
    const refusedText = { ...alone, asType: { case: "asString" as const, value: `${capitals}Q` } };
    const refusal = chain.send(tokenomics.MsgUpdateParamSchema, { authority: GOV, ...refusedText });
    assert.match(refusal.ok ? "" : refusal.fault.text, /^invalid dao reward address "POKT1/);
  });

  test("only the authority changes them, all at once too", () => {
    const ctx = contextAt(new Overlay(EMPTY), 1n);
    const record = readChain("e2e-7");
    for (const [type, schema] of [
      ["proof", proof.MsgUpdateParamsSchema],
      ["tokenomics", tokenomics.MsgUpdateParamsSchema],
    ] as const) {
      const params = record.params_at_settlement[type];
      const handler = HANDLERS[`/pocket.${type}.MsgUpdateParams`];
      assert.ok(handler);
      const stranger = handler.run(ctx, fromJson(schema, { authority: STRANGER, params }));
      assert.match(
        stranger.ok ? "" : stranger.fault.text,
        /^rpc error: code = PermissionDenied desc = invalid authority; expected/,
      );
      assert.ok(handler.run(ctx, fromJson(schema, { authority: GOV, params })).ok);
      const empty = handler.validate(fromJson(schema, { authority: GOV }));
      assert.equal(empty?.codespace, type);
    }
    assert.deepEqual(getProofParams(ctx), fromJson(proof.ParamsSchema, record.params_at_settlement.proof));
    assert.deepEqual(
      getTokenomicsParams(ctx),
      fromJson(tokenomics.ParamsSchema, record.params_at_settlement.tokenomics),
    );
  });
});

suite("genesis of claims, proofs and settlement", () => {
  const machine = settlementMachine();

  test("what is exported makes the same state again", () => {
    const record = readChain("e2e-1");
    const state = stateBefore(record);
    runRecordedTxs(machine, record, state);
    const exported = machine.exportGenesis(state, blockAt(1221n));
    // Of the recorded accounts only some are known, so that the bank's part does not add up.
    const parts = Object.fromEntries(["proof", "tokenomics"].map((name) => [name, exported[name]]));
    const { changes } = machine.initGenesis(EMPTY, blockAt(0n), parts);
    const keys = (prefix: string) =>
      [...state.range({ prefix: Buffer.from(prefix) })].map(([key, value]) => [key, value].map(hex));
    const again = changes.flatMap(([key, value]) => (value === undefined ? [] : [[key, value].map(hex)]));
    again.sort(([a = ""], [b = ""]) => (a < b ? -1 : 1));
    for (const module of ["proof/", "tokenomics/"]) {
      assert.deepEqual(
        again.filter(([key]) => key?.startsWith(hex(Buffer.from(module)))),
        keys(module),
      );
    }
  });

  test("a part that is not valid is refused", () => {
    const bad = [
      { proof: { params: { proof_request_probability: 2 } } },
      { proof: { claim_list: [{ supplier_operator_address: STRANGER, root_hash: "" }] } },
      { tokenomics: { params: { mint_ratio: 0.5 } } },
    ];
    for (const appState of bad) {
      assert.throws(
        () => machine.initGenesis(EMPTY, blockAt(0n), appState),
        (error) => isAppError(error, "CONFIG_INVALID"),
      );
    }
  });
});

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
