import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { accountAddress, cosmosPublicKey, privateKeyFromSecret } from "@turnpike/crypto";
import {
  type Any,
  AnySchema,
  application,
  authz,
  bank,
  createMessage,
  decodeMessage,
  encodeMessage,
  gateway,
  packAny,
  schemaOfTypeUrl,
  tx,
} from "@turnpike/proto";
import { fc } from "@turnpike/testkit/property";
import { AUTHORITY, actorsChain } from "../../../test/actors.ts";
import { grantsOfType } from "../../../test/modules/authz/grants.ts";
import { fund } from "../../../test/recorded-tx.ts";
import { addApplication, addGateway } from "../../../test/staked.ts";
import { Overlay } from "../../state/overlay.ts";

const [A, B, C] = ["a", "b", "c"].map((name) =>
  accountAddress(cosmosPublicKey(privateKeyFromSecret(Buffer.from(name)))),
) as [string, string, string];
const ANYTHING = [A, B, C, AUTHORITY, "", "zzz", "\0", '"', "pokt1", "min_stake", "max_delegated_gateways", "é/\n"];
const AMOUNTS = [
  "2000000",
  "1500000",
  "0",
  "1000000",
  "-1",
  "",
  "+5",
  "1e9",
  "9".repeat(77),
  "9".repeat(78),
  "9".repeat(5000),
  "007",
  "0x10",
];

const text = fc.oneof({ weight: 3, arbitrary: fc.constantFrom(A, B) }, fc.constantFrom(...ANYTHING));
const coin = fc.record({
  denom: fc.constantFrom("upokt", "", "mact", "UPOKT", "u"),
  amount: fc.constantFrom(...AMOUNTS),
});
const maybeCoin = fc.option(coin, { nil: undefined });
const u64 = fc.constantFrom(0n, 1n, 7n, (1n << 64n) - 1n);
const param = (asCoin: fc.Arbitrary<unknown>) =>
  fc.oneof(
    fc.constant({ case: undefined }),
    fc.record({ case: fc.constant("asUint64"), value: u64 }),
    fc.record({ case: fc.constant("asCoin"), value: asCoin }),
  );
const services = fc.array(fc.record({ serviceId: fc.constantFrom("a", "", "!", "x".repeat(43), "svc_1") }), {
  maxLength: 3,
});
const expiration = fc.option(
  fc.record({
    seconds: fc.constantFrom(-1n, 0n, 1_900_000_000n, -(1n << 63n), (1n << 63n) - 1n, 253_402_300_799n),
    nanos: fc.constantFrom(0, -1, 999_999_999, 2_000_000_000),
  }),
  { nil: undefined },
);

type Make = (init: object) => Any;
const any =
  (schema: Parameters<typeof createMessage>[0]): Make =>
  (init) => {
    const clean = Object.fromEntries(Object.entries(init).filter(([, value]) => value !== undefined));
    return packAny(schema, createMessage(schema, clean));
  };
const of = (schema: Parameters<typeof createMessage>[0], shape: Record<string, fc.Arbitrary<unknown>>) =>
  fc.record(shape).map(any(schema));

const plain = fc.oneof(
  of(application.MsgStakeApplicationSchema, {
    address: text,
    stake: maybeCoin,
    services,
    perSessionSpendLimit: maybeCoin,
  }),
  of(application.MsgUnstakeApplicationSchema, { address: text }),
  of(application.MsgDelegateToGatewaySchema, { appAddress: text, gatewayAddress: text }),
  of(application.MsgUndelegateFromGatewaySchema, { appAddress: text, gatewayAddress: text }),
  of(application.MsgTransferApplicationSchema, { sourceAddress: text, destinationAddress: text }),
  of(application.MsgUpdateParamsSchema, {
    authority: text,
    params: fc.record({ maxDelegatedGateways: u64, minStake: coin }),
  }),
  of(application.MsgUpdateParamSchema, { authority: text, name: text, asType: param(coin) }),
  of(gateway.MsgStakeGatewaySchema, { address: text, stake: maybeCoin }),
  of(gateway.MsgUnstakeGatewaySchema, { address: text }),
  of(gateway.MsgUpdateGatewayMetadataSchema, {
    address: text,
    metadata: fc.constantFrom(undefined, { card: new Uint8Array(0) }, { card: new Uint8Array(262_145) }),
  }),
  of(gateway.MsgUpdateParamsSchema, { authority: text, params: fc.constantFrom(undefined, {}) }),
  of(bank.MsgSendSchema, { fromAddress: text, toAddress: text, amount: fc.array(coin, { maxLength: 2 }) }),
  of(authz.MsgRevokeSchema, { granter: text, grantee: text, msgTypeUrl: text }),
);
const grant = fc
  .record({
    granter: text,
    grantee: text,
    expiration,
    typeUrl: fc.constantFrom("/cosmos.bank.v1beta1.MsgSend", "", "\0"),
  })
  .map(({ granter, grantee, expiration: ends, typeUrl }) =>
    any(authz.MsgGrantSchema)({
      granter,
      grantee,
      grant: {
        authorization: any(authz.GenericAuthorizationSchema)({ msg: typeUrl }),
        ...(ends === undefined ? {} : { expiration: ends }),
      },
    }),
  );
const foreign = fc.constantFrom(
  createMessage(AnySchema, { typeUrl: "/no.such.Message", value: new Uint8Array(3) }),
  createMessage(AnySchema, { typeUrl: "", value: new Uint8Array(0) }),
  createMessage(AnySchema, { typeUrl: "/cosmos.bank.v1beta1.MsgSend", value: Uint8Array.of(255, 255) }),
);
const inside = fc.oneof({ weight: 8, arbitrary: plain }, grant, foreign);
const exec = (items: fc.Arbitrary<Any>) =>
  of(authz.MsgExecSchema, { grantee: text, msgs: fc.array(items, { maxLength: 3 }) });
const message = fc.oneof({ weight: 4, arbitrary: plain }, grant, exec(inside), exec(exec(exec(inside))));
// Two of three keep their bytes, so that most of what is bent is the meaning.
const bent = fc.record({
  any: message,
  changes: fc.oneof(
    { weight: 2, arbitrary: fc.constant([]) },
    fc.array(fc.tuple(fc.nat(120), fc.nat(255)), { minLength: 1, maxLength: 2 }),
  ),
  cut: fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, fc.integer({ min: 1, max: 60 })),
});

function chainUnderTest() {
  const chain = actorsChain(1_550n);
  for (const address of [A, B]) fund(chain.ctx, address, 10_000_000n);
  addGateway(chain.ctx, B);
  addApplication(chain.ctx, { address: A, stakeUpokt: 1_000_000n, serviceId: "a", gateways: [B] });
  grantsOfType(chain.ctx, AUTHORITY, C);
  return chain;
}

suite("hostile messages and questions", () => {
  test("10,000 bent messages are run or refused with a code and a text, and none throws", () => {
    const chain = chainUnderTest();
    const seen = { run: 0, refused: 0, unread: 0 };
    fc.assert(
      fc.property(bent, ({ any: { typeUrl, value }, changes, cut }) => {
        const bytes = Uint8Array.from(cut === undefined ? value : value.subarray(0, -cut));
        for (const [at, byte] of changes) if (at < bytes.length) bytes[at] = byte;
        const schema = schemaOfTypeUrl(typeUrl);
        const handler = chain.handlers.get(typeUrl);
        assert.ok(schema && handler);
        const decoded = decodeMessage(schema, bytes);
        if (!decoded.ok) {
          seen.unread++;
          return;
        }
        handler.signers(decoded.message);
        const fault = handler.validate(decoded.message);
        const ctx = { ...chain.ctx, state: new Overlay(chain.state) };
        const ran = fault === undefined ? handler.run(ctx, decoded.message) : ({ ok: false, fault } as const);
        if (ran.ok) {
          seen.run++;
          encodeMessage(handler.response, ran.value as never);
          return;
        }
        seen.refused++;
        assert.ok(ran.fault.code > 0 && ran.fault.codespace !== "" && ran.fault.text !== "");
      }),
      { numRuns: 10_000, seed: 7 },
    );
    assert.ok(seen.run > 300 && seen.refused > 4_000, JSON.stringify(seen));
  });

  test("messages that stand inside each other are refused where they get too deep, before anything is run", () => {
    const chain = chainUnderTest();
    const resultAt = (depth: number) => {
      let inner = any(application.MsgUnstakeApplicationSchema)({ address: A });
      for (let i = 0; i < depth; i++) inner = any(authz.MsgExecSchema)({ grantee: A, msgs: [inner] });
      const body = createMessage(tx.TxBodySchema, { messages: [inner] });
      const raw = createMessage(tx.TxRawSchema, {
        bodyBytes: encodeMessage(tx.TxBodySchema, body),
        authInfoBytes: encodeMessage(tx.AuthInfoSchema, createMessage(tx.AuthInfoSchema, { fee: { gasLimit: 1n } })),
      });
      const { code, log } = chain.machine.runTx(
        new Overlay(chain.state),
        chain.block,
        "check",
        encodeMessage(tx.TxRawSchema, raw),
      );
      return { code, deep: log.includes("nested too deeply") };
    };
    assert.equal(resultAt(3).deep, false);
    for (const depth of [20, 200]) assert.deepEqual(resultAt(depth), { code: 2, deep: true });
  });

  test("an error shows the beginning of what is long, however often it stands inside another", () => {
    const chain = chainUnderTest();
    let inner = any(gateway.MsgUpdateGatewayMetadataSchema)({
      address: C,
      metadata: { card: new Uint8Array(262_144) },
    });
    for (let i = 0; i < 5; i++) inner = any(authz.MsgExecSchema)({ grantee: C, msgs: [inner] });
    const message = decodeMessage(authz.MsgExecSchema, inner.value);
    assert.ok(message.ok);
    const ran = chain.sendMessage(inner.typeUrl, message.message);
    assert.ok(!ran.ok);
    assert.match(ran.fault.text, /gateway not found$/);
    assert.ok(Buffer.byteLength(ran.fault.text) <= 2_048, `${ran.fault.text.length}`);
  });

  test("bent questions are answered or refused with a status", () => {
    const chain = chainUnderTest();
    const paths = [
      ...["Params", "Application", "AllApplications"].map((name) => `/pocket.application.Query/${name}`),
      ...["Params", "Gateway", "AllGateways"].map((name) => `/pocket.gateway.Query/${name}`),
      ...["Grants", "GranterGrants", "GranteeGrants"].map((name) => `/cosmos.authz.v1beta1.Query/${name}`),
      "/cosmos.consensus.v1.Query/Params",
    ];
    const address = [0x0a, A.length, ...Buffer.from(A)];
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.uint8Array({ maxLength: 30 }).map((more) => Uint8Array.from([...address, 0x12, more.length, ...more])),
      fc.uint8Array({ maxLength: 30 }).map((more) => Uint8Array.from([0x0a, more.length, ...more, ...address])),
    );
    fc.assert(
      fc.property(fc.constantFrom(...paths), bytes, (path, request) => {
        const answer = chain.machine.query(chain.state, chain.block, path, request);
        if (!answer.ok) assert.ok(answer.status > 0 && answer.text !== "");
      }),
      { numRuns: 3_000, seed: 7 },
    );
  });
});
