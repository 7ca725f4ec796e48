import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type DescMessage, fromJson, type MessageShape, type UnknownEnum } from "@bufbuild/protobuf";
import { bytesToHex, isAppError } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { packAny } from "./any.ts";
import { fromApiJson } from "./api-json-read.ts";
import { decimalFromJson, decimalToJson, durationToJson, timestampToJson } from "./api-json-scalars.ts";
import { jsonMemberTexts, toApiJson, toApiJsonText } from "./api-json-write.ts";
import { encodeMessage } from "./binary.ts";
import {
  AnySchema,
  application,
  authz,
  base,
  baseQuery,
  createMessage,
  DurationSchema,
  mint,
  proof,
  relayHttp,
  shared,
  signing,
  slashing,
  staking,
  TimestampSchema,
  tokenomics,
  tx,
} from "./index.ts";

function read<Desc extends DescMessage>(schema: Desc, json: unknown): MessageShape<Desc> {
  const result = fromApiJson(schema, json);
  return result.ok ? result.message : assert.fail(result.fault);
}

const timestamp = (seconds: bigint, nanos: number) =>
  timestampToJson(createMessage(TimestampSchema, { seconds, nanos }));
const duration = (seconds: bigint, nanos: number) => durationToJson(createMessage(DurationSchema, { seconds, nanos }));

suite("JSON of the API", () => {
  test("defaults are printed, under original names, in the order of declaration", () => {
    assert.equal(
      toApiJsonText(shared.ServiceSchema, createMessage(shared.ServiceSchema)),
      '{"id":"","name":"","compute_units_per_relay":"0","owner_address":"","metadata":null}',
    );
    assert.equal(
      toApiJsonText(tokenomics.ParamsSchema, createMessage(tokenomics.ParamsSchema)).slice(0, 60),
      '{"dao_reward_address":"","mint_allocation_percentages":null,',
    );
    assert.equal(
      toApiJsonText(application.ApplicationSchema, createMessage(application.ApplicationSchema)),
      '{"address":"","stake":null,"service_configs":[],"delegatee_gateway_addresses":[],"pending_undelegations":{},' +
        '"unstake_session_end_height":"0","pending_transfer":null,"per_session_spend_limit":null,' +
        '"service_config_history":[]}',
    );
  });

  test("absent bytes are null, bytes in a oneof or a list are not", () => {
    const page = createMessage(baseQuery.PageResponseSchema);
    assert.equal(toApiJsonText(baseQuery.PageResponseSchema, page), '{"next_key":null,"total":"0"}');
    const param = createMessage(shared.MsgUpdateParamSchema, { asType: { case: "asBytes", value: new Uint8Array() } });
    assert.equal(toApiJsonText(shared.MsgUpdateParamSchema, param), '{"authority":"","name":"","as_bytes":""}');
    const results = createMessage(authz.MsgExecResponseSchema, { results: [new Uint8Array(), Uint8Array.of(255)] });
    assert.equal(toApiJsonText(authz.MsgExecResponseSchema, results), '{"results":["","/w=="]}');
  });

  test("a oneof that is not set has no member", () => {
    const claims = createMessage(proof.QueryAllClaimsRequestSchema);
    assert.equal(toApiJsonText(proof.QueryAllClaimsRequestSchema, claims), '{"pagination":null}');
  });

  test("texts are quoted as Go quotes them", () => {
    const coin = createMessage(base.CoinSchema, {
      denom: '<a&b>\u2028\u2029"\\\u0001\b\f\n\u007f\u00e9\u{1f600}',
      amount: "1",
    });
    assert.equal(
      toApiJsonText(base.CoinSchema, coin),
      '{"denom":"\\u003ca\\u0026b\\u003e\\u2028\\u2029\\"\\\\\\u0001\\b\\f\\n\u007f\u00e9\u{1f600}","amount":"1"}',
    );
  });

  test("map keys are sorted as Go sorts them, also where JavaScript would not", () => {
    const header = { b: {}, "10": {}, "9": {}, A: {} };
    const made = createMessage(relayHttp.POKTHTTPResponseSchema, {
      statusCode: 200,
      header: Object.fromEntries(Object.keys(header).map((key) => [key, createMessage(relayHttp.HeaderSchema)])),
    });
    const empty = '{"key":"","values":[]}';
    assert.equal(
      toApiJsonText(relayHttp.POKTHTTPResponseSchema, made),
      `{"status_code":200,"header":{"10":${empty},"9":${empty},"A":${empty},"b":${empty}},"body_bz":null}`,
    );
  });

  test("floating-point numbers are JSON numbers, and what JSON has no number for is a text", () => {
    const printed = (value: number) =>
      toApiJsonText(
        tokenomics.MsgUpdateParamSchema,
        createMessage(tokenomics.MsgUpdateParamSchema, { asType: { case: "asFloat", value } }),
      ).slice('{"authority":"","name":"","as_float":'.length, -1);
    assert.deepEqual(
      [0.975, 1e-6, 1e-7, 1e21, 0, -0, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].map(printed),
      ["0.975", "0.000001", "1e-7", "1e+21", "0", "-0", '"NaN"', '"Infinity"', '"-Infinity"'],
    );
  });

  test("an enum prints its name, and a number that it has no name for as that number", () => {
    const single = (mode: signing.SignMode) =>
      toApiJsonText(tx.ModeInfo_SingleSchema, createMessage(tx.ModeInfo_SingleSchema, { mode }));
    assert.equal(single(signing.SignMode.DIRECT), '{"mode":"SIGN_MODE_DIRECT"}');
    assert.equal(single(55 as UnknownEnum), '{"mode":55}');
  });

  test("times have 0, 3, 6 or 9 digits", () => {
    assert.equal(timestamp(0n, 0), "1970-01-01T00:00:00Z");
    assert.equal(timestamp(1_000_000_000n, 500_000_000), "2001-09-09T01:46:40.500Z");
    assert.equal(timestamp(0n, 1000), "1970-01-01T00:00:00.000001Z");
    assert.equal(timestamp(0n, 770), "1970-01-01T00:00:00.000000770Z");
    assert.equal(timestamp(-62_135_596_800n, 0), "0001-01-01T00:00:00Z");
    assert.equal(timestamp(253_402_300_799n, 999_999_999), "9999-12-31T23:59:59.999999999Z");
    assert.equal(duration(1_814_400n, 0), "1814400s");
    assert.equal(duration(0n, 500_000_000), "0.500s");
    assert.equal(duration(-1n, -1), "-1.000000001s");
    assert.equal(duration(0n, -20_000_000), "-0.020s");
  });

  test("times out of range are refused", () => {
    const refused = (make: () => string) =>
      assert.throws(make, (error) => isAppError(error) && error.code === "INTERNAL");
    refused(() => timestamp(253_402_300_800n, 0));
    refused(() => timestamp(-62_135_596_801n, 0));
    refused(() => timestamp(0n, 1_000_000_000));
    refused(() => timestamp(0n, -1));
    refused(() => duration(1n, -1));
    refused(() => duration(0n, 1_000_000_000));
  });

  test("our times are those of protobuf's own JSON", () => {
    fc.assert(
      fc.property(fc.bigInt(-62_135_596_800n, 253_402_300_799n), fc.nat(999_999_999), (seconds, nanos) => {
        const back = fromJson(TimestampSchema, timestamp(seconds, nanos));
        assert.deepEqual([back.seconds, back.nanos], [seconds, nanos]);
        const sign = seconds < 0n ? -1 : 1;
        const span = fromJson(DurationSchema, duration(seconds, sign * nanos));
        assert.deepEqual([span.seconds, Math.abs(span.nanos)], [seconds, nanos]);
      }),
    );
  });

  test("decimals have 18 places, whether the wire has a text or bytes of one", () => {
    assert.equal(decimalToJson("2260340000000000000000"), "2260.340000000000000000");
    assert.equal(decimalToJson("1"), "0.000000000000000001");
    assert.equal(decimalToJson("-5"), "-0.000000000000000005");
    assert.equal(decimalToJson(""), "0.000000000000000000");
    assert.equal(decimalToJson("junk"), "junk");
    assert.equal(decimalFromJson("0.1"), "100000000000000000");
    assert.equal(decimalFromJson("-0.0"), "0");
    assert.equal(decimalFromJson("1.0000000000000000001"), undefined);
    assert.equal(decimalFromJson("1e3"), undefined);
    const inflation = { inflation: "0.130000000000000000" };
    assert.deepEqual(
      toApiJson(mint.QueryInflationResponseSchema, read(mint.QueryInflationResponseSchema, inflation)),
      inflation,
    );
    const bytes = createMessage(slashing.ParamsSchema, { minSignedPerWindow: Buffer.from("500000000000000000") });
    assert.match(toApiJsonText(slashing.ParamsSchema, bytes), /"min_signed_per_window":"0.500000000000000000"/);
    const pool = createMessage(staking.PoolSchema);
    assert.equal(toApiJsonText(staking.PoolSchema, pool), '{"not_bonded_tokens":"0","bonded_tokens":"0"}');
  });

  test("decimals read back to what was stored", () => {
    fc.assert(
      fc.property(fc.bigInt(-(10n ** 40n), 10n ** 40n), (stored) => {
        assert.equal(decimalFromJson(decimalToJson(String(stored))), String(stored));
      }),
    );
  });

  test("Any prints its type and the members of what it holds, well-known types a value", () => {
    const exec = createMessage(authz.MsgExecSchema, {
      grantee: "g",
      msgs: [
        packAny(authz.GenericAuthorizationSchema, createMessage(authz.GenericAuthorizationSchema, { msg: "/x" })),
        packAny(DurationSchema, createMessage(DurationSchema, { seconds: 5n })),
      ],
    });
    const text =
      '{"grantee":"g","msgs":[{"@type":"/cosmos.authz.v1beta1.GenericAuthorization","msg":"/x"},' +
      '{"@type":"/google.protobuf.Duration","value":"5s"}]}';
    assert.equal(toApiJsonText(authz.MsgExecSchema, exec), text);
    const back = read(authz.MsgExecSchema, JSON.parse(text));
    assert.equal(
      bytesToHex(encodeMessage(authz.MsgExecSchema, back)),
      bytesToHex(encodeMessage(authz.MsgExecSchema, exec)),
    );
  });

  test("an Any of an unknown type is refused, in both directions", () => {
    const unknown = createMessage(AnySchema, { typeUrl: "/nosuch.Type" });
    assert.throws(() => toApiJsonText(AnySchema, unknown), /unable to resolve type URL \/nosuch.Type/);
    assert.equal(fromApiJson(AnySchema, { "@type": "/nosuch.Type" }).ok, false);
  });

  test("Anys inside of Anys read with the chain's type URLs", () => {
    const create = (minSelfDelegation: string) => ({
      "@type": "/cosmos.staking.v1beta1.MsgCreateValidator",
      description: null,
      commission: {
        rate: "0.100000000000000000",
        max_rate: "0.200000000000000000",
        max_change_rate: "0.010000000000000000",
      },
      min_self_delegation: minSelfDelegation,
      delegator_address: "",
      validator_address: "v",
      pubkey: { "@type": "/cosmos.crypto.ed25519.PubKey", key: "AQI=" },
      value: { denom: "upokt", amount: "900000000" },
    });
    const json = {
      grantee: "g",
      msgs: [create("1"), { "@type": "/cosmos.authz.v1beta1.MsgExec", grantee: "h", msgs: [create("2")] }],
    };
    const message = read(authz.MsgExecSchema, json);
    assert.deepEqual(
      message.msgs.map(({ typeUrl }) => typeUrl),
      ["/cosmos.staking.v1beta1.MsgCreateValidator", "/cosmos.authz.v1beta1.MsgExec"],
    );
    assert.ok(Buffer.from(message.msgs[0]?.value ?? []).includes("100000000000000000"));
    assert.ok(!Buffer.from(message.msgs[1]?.value ?? []).includes("googleapis"));
    assert.equal(toApiJsonText(authz.MsgExecSchema, message), JSON.stringify(json));
  });

  test("JSON that is not of the type is a fault", () => {
    for (const json of [null, [], "x", 5, { nosuch: 1 }, { amount: 5 }, { denom: {} }, { denom: "a", Denom: "b" }]) {
      assert.equal(fromApiJson(base.CoinSchema, json).ok, false, JSON.stringify(json));
    }
    for (const json of [{ total: "x" }, { total: "-1" }, { next_key: "*" }, { total: 1.5 }]) {
      assert.equal(fromApiJson(baseQuery.PageResponseSchema, json).ok, false, JSON.stringify(json));
    }
    let deep: unknown = { "@type": "/cosmos.authz.v1beta1.MsgExec", grantee: "", msgs: [] };
    for (let depth = 0; depth < 5000; depth++) deep = { "@type": "/cosmos.authz.v1beta1.MsgExec", msgs: [deep] };
    assert.equal(fromApiJson(AnySchema, deep).ok, false);
  });

  test("64-bit integers read from texts and numbers, members from original and JSON names", () => {
    const wanted = createMessage(baseQuery.PageRequestSchema, { limit: 18446744073709551615n, countTotal: true });
    assert.deepEqual(read(baseQuery.PageRequestSchema, { limit: "18446744073709551615", count_total: true }), wanted);
    assert.deepEqual(read(baseQuery.PageRequestSchema, { limit: "18446744073709551615", countTotal: true }), wanted);
    assert.equal(read(baseQuery.PageRequestSchema, { limit: 7 }).limit, 7n);
  });

  test("attributes of a typed event are sorted by name", () => {
    const settled = createMessage(tokenomics.EventClaimSettledSchema, {
      rewardDistribution: { b: "2upokt", a: "1upokt" },
    });
    const members = jsonMemberTexts(tokenomics.EventClaimSettledSchema, settled);
    assert.deepEqual(
      members.map(({ name }) => name),
      members.map(({ name }) => name).sort(),
    );
    assert.equal(members.length, 20);
    assert.equal(members.find(({ name }) => name === "reward_distribution")?.json, '{"a":"1upokt","b":"2upokt"}');
  });
});
