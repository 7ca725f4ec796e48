import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { accountAddress, cosmosPublicKey, privateKeyFromSecret } from "@turnpike/crypto";
import {
  application,
  authz,
  bank,
  createMessage,
  decodeMessage,
  encodeMessage,
  gateway,
  packAny,
  toApiJson,
  typeUrlOf,
} from "@turnpike/proto";
import { AUTHORITY, actorsChain } from "../../../test/actors.ts";
import { grantsOfType } from "../../../test/modules/authz/grants.ts";
import { bytesOfAddress, fund } from "../../../test/recorded-tx.ts";
import { getAccount } from "../auth/accounts.ts";
import { getBalance } from "../bank/balances.ts";
import { consensusModule, consensusParamsOfGenesis, getConsensusParams } from "../consensus/consensus-module.ts";
import { getGatewayParams } from "../gateway/state.ts";
import { expirations, grants, grantsByGrantee, MOST_EXPIRED_PER_BLOCK, setGrant } from "./grants.ts";

const GRANTEE = "pokt1dewupvyw40trspaeqwnc5mc0df7ntdzw0vfxd6";
const [A, B, C] = ["a", "b", "c"].map((name) =>
  accountAddress(cosmosPublicKey(privateKeyFromSecret(Buffer.from(name)))),
) as [string, string, string];

interface Question {
  readonly name: string;
  readonly request: { readonly path: string };
  readonly body: Record<string, unknown>;
}
const recorded = JSON.parse(
  readFileSync(new URL("../../../../../test/spec/recorded-chain/rest/other.json", import.meta.url), "utf8"),
) as readonly Question[];
const answerOf = (name: string): unknown => recorded.find((one) => one.name === name)?.body;

const generic = (typeUrl: string) =>
  packAny(authz.GenericAuthorizationSchema, createMessage(authz.GenericAuthorizationSchema, { msg: typeUrl }));
const SEND = typeUrlOf(bank.MsgSendSchema);
const sendOf = (from: string, to: string, amount: string) =>
  packAny(
    bank.MsgSendSchema,
    createMessage(bank.MsgSendSchema, { fromAddress: from, toAddress: to, amount: [{ denom: "upokt", amount }] }),
  );
const execOf = (grantee: string, msgs: Parameters<typeof packAny>[1][]) =>
  createMessage(authz.MsgExecSchema, { grantee, msgs: msgs as authz.MsgExec["msgs"] });

function ask(chain: ReturnType<typeof actorsChain>, method: string, request: object): unknown {
  const input = { Grants: authz.QueryGrantsRequestSchema, GranterGrants: authz.QueryGranterGrantsRequestSchema }[
    method
  ];
  const schema = input ?? authz.QueryGranteeGrantsRequestSchema;
  const bytes = encodeMessage(schema, createMessage(schema, request));
  const answer = chain.machine.query(chain.state, chain.block, `/cosmos.authz.v1beta1.Query/${method}`, bytes);
  if (!answer.ok) return answer;
  const output = {
    Grants: authz.QueryGrantsResponseSchema,
    GranterGrants: authz.QueryGranterGrantsResponseSchema,
  }[method];
  const shape = output ?? authz.QueryGranteeGrantsResponseSchema;
  const decoded = decodeMessage(shape, answer.value);
  assert.ok(decoded.ok);
  return toApiJson(shape, decoded.message);
}

suite("grants", () => {
  test("queries answer as recorded", () => {
    const chain = actorsChain(5n);
    grantsOfType(chain.ctx, AUTHORITY, GRANTEE);
    const asked = { granter: AUTHORITY, grantee: GRANTEE };
    assert.deepEqual(ask(chain, "Grants", { ...asked, pagination: { limit: 2n } }), answerOf("authz grants"));
    assert.deepEqual(ask(chain, "Grants", { granter: A, grantee: GRANTEE }), answerOf("authz grants none"));
    const all = ask(chain, "GranterGrants", { granter: AUTHORITY }) as { grants: unknown[] };
    assert.equal(all.grants.length, 16);
    assert.deepEqual((ask(chain, "GranteeGrants", { grantee: GRANTEE }) as { grants: unknown }).grants, all.grants);
    const one = ask(chain, "Grants", { ...asked, msgTypeUrl: "/pocket.gateway.MsgUpdateParam" });
    assert.equal((one as { grants: unknown[] }).grants.length, 1);
    assert.deepEqual(ask(chain, "Grants", { ...asked, msgTypeUrl: "/x.y" }), {
      ok: false,
      status: 2,
      text: "codespace authz code 2: authorization not found: authorization not found for /x.y type",
    });
    assert.deepEqual(ask(chain, "Grants", { granter: "bad", grantee: GRANTEE }), {
      ok: false,
      status: 2,
      text: "decoding bech32 failed: invalid bech32 string length 3",
    });
  });

  test("the consensus parameters answer as recorded, from a genesis document's own spelling", () => {
    const params = consensusParamsOfGenesis({
      block: { max_bytes: "22020096", max_gas: "-1" },
      evidence: { max_age_num_blocks: "100000", max_age_duration: "172800000000000", max_bytes: "1048576" },
      validator: { pub_key_types: ["ed25519"] },
      version: { app: "0" },
      abci: { vote_extensions_enable_height: "0" },
    });
    const message = consensusModule({ params }).genesis?.message;
    assert.ok(message);
    const { ctx } = actorsChain(5n);
    message.init(ctx, createMessage(message.schema));
    assert.deepEqual(getConsensusParams(ctx), params);
    assert.deepEqual(toApiJson(message.schema, message.export(ctx)), answerOf("consensus params"));
  });

  test("a genesis gives what it took, but not what ended before it", () => {
    const chain = actorsChain(5n);
    grantsOfType(chain.ctx, AUTHORITY, GRANTEE);
    const exported = chain.machine.exportGenesis(chain.state, chain.block);
    const again = actorsChain(5n, exported);
    assert.deepEqual(again.machine.exportGenesis(again.state, again.block), exported);
    const ended = {
      granter: A,
      grantee: B,
      authorization: { "@type": "/cosmos.authz.v1beta1.GenericAuthorization", msg: SEND },
    };
    const authorization = [{ ...ended, expiration: "2020-01-01T00:00:00Z" }];
    assert.deepEqual([...grants.entries(actorsChain(5n, { authz: { authorization } }).ctx)], []);
    assert.equal([...grants.entries(actorsChain(5n, { authz: { authorization: [ended] } }).ctx)].length, 1);
    const foreign = { ...ended, authorization: { "@type": "/cosmos.bank.v1beta1.SendAuthorization", spend_limit: [] } };
    for (const bad of [foreign, { ...ended, granter: "zzz" }]) {
      assert.throws(() => actorsChain(5n, { authz: { authorization: [bad] } }), { code: "CONFIG_INVALID" });
    }
  });

  test("one account spends for another as long as the grant lasts; a fault of one message undoes all", () => {
    const chain = actorsChain(5n);
    fund(chain.ctx, A, 100n);
    const exec = (...amounts: string[]) =>
      chain.sendMessage(
        typeUrlOf(authz.MsgExecSchema),
        execOf(
          B,
          amounts.map((amount) => sendOf(A, C, amount)),
        ),
      );
    const held = (address: string): bigint => getBalance(chain.ctx, bytesOfAddress(address), "upokt");
    const refused = exec("1");
    assert.ok(!refused.ok);
    assert.equal(refused.fault.code, 2);
    const expiration = { seconds: 1_800_000_007n, nanos: 0 };
    const grant = { authorization: generic(SEND), expiration };
    assert.ok(chain.send(authz.MsgGrantSchema, { granter: A, grantee: B, grant }).ok);
    assert.ok(getAccount(chain.ctx, bytesOfAddress(B)));
    const done = exec("1", "2");
    assert.ok(done.ok);
    assert.deepEqual(
      (done.value as authz.MsgExecResponse).results.map((one) => one.length),
      [0, 0],
    );
    const failed = exec("90", "90");
    assert.ok(!failed.ok);
    const text = `failed to execute message; message from_address:"${A}" to_address:"${C}" amount:<denom:"upokt" amount:"90" > : spendable balance 7upokt is smaller than 90upokt: insufficient funds`;
    assert.deepEqual(failed.fault, { codespace: "sdk", code: 5, text });
    assert.equal(held(C), 3n);
    chain.endBlock();
    assert.ok(exec("1").ok);
    chain.endBlock();
    chain.endBlock();
    assert.ok(!exec("1").ok);
    assert.deepEqual([...expirations.entries(chain.ctx)].concat([...grantsByGrantee.entries(chain.ctx)] as never), []);
    assert.equal(held(C), 4n);
  });

  test("messages run for oneself need no grant, and may stand inside each other", () => {
    const chain = actorsChain(5n);
    fund(chain.ctx, A, 100n);
    const inner = packAny(authz.MsgExecSchema, execOf(A, [sendOf(A, C, "5")]));
    const ctx = chain.ctx;
    const handler = chain.handlers.get(typeUrlOf(authz.MsgExecSchema));
    const done = handler?.run(ctx, execOf(A, [inner, sendOf(A, C, "6")]));
    assert.ok(done?.ok);
    assert.equal(getBalance(chain.ctx, bytesOfAddress(C), "upokt"), 11n);
    const transfers = ctx.events.filter(({ type }) => type === "transfer");
    assert.deepEqual(
      transfers.map(({ attributes }) => attributes.slice(3).map(({ key, value }) => `${key}=${value}`)),
      [["authz_msg_index=0", "authz_msg_index=0"], ["authz_msg_index=1"]],
    );
  });

  test("a grant can be changed and taken back; what this chain does not know is refused", () => {
    const chain = actorsChain(5n);
    const give = (given: object, to = B) => chain.send(authz.MsgGrantSchema, { granter: A, grantee: to, grant: given });
    const fault = (answer: ReturnType<typeof give>) =>
      answer.ok ? undefined : [answer.fault.codespace, answer.fault.code];
    assert.ok(give({ authorization: generic(SEND) }).ok);
    assert.ok(give({ authorization: generic(SEND), expiration: { seconds: 1_900_000_000n } }).ok);
    assert.equal([...expirations.entries(chain.ctx)].length, 1);
    assert.ok(give({ authorization: generic(SEND) }).ok);
    assert.equal([...expirations.entries(chain.ctx)].length, 0);
    assert.deepEqual(fault(give({ authorization: generic("/no.such.Msg") })), ["sdk", 29]);
    assert.deepEqual(fault(give({})), ["sdk", 29]);
    assert.deepEqual(fault(give({ authorization: generic(SEND) }, A)), ["authz", 7]);
    assert.deepEqual(fault(give({ authorization: generic(SEND) }, "zzz")), ["sdk", 7]);
    assert.deepEqual(fault(give({ authorization: generic(SEND), expiration: { seconds: 1n } })), ["authz", 3]);
    assert.deepEqual(fault(give({ authorization: generic(SEND), expiration: { seconds: 1n << 62n } })), ["sdk", 2]);
    const send = packAny(bank.SendAuthorizationSchema, createMessage(bank.SendAuthorizationSchema));
    assert.deepEqual(fault(give({ authorization: send })), ["authz", 4]);
    const revoke = () => chain.send(authz.MsgRevokeSchema, { granter: A, grantee: B, msgTypeUrl: SEND });
    assert.ok(revoke().ok);
    assert.deepEqual(fault(revoke()), ["authz", 2]);
    assert.deepEqual([...grantsByGrantee.entries(chain.ctx)], []);
  });

  test("parameters change by the authority's grant, and by no one else", () => {
    const chain = actorsChain(5n);
    const minStake = { denom: "upokt", amount: "77" };
    const update = (authority: string) =>
      packAny(
        gateway.MsgUpdateParamSchema,
        createMessage(gateway.MsgUpdateParamSchema, {
          authority,
          name: "min_stake",
          asType: { case: "asCoin", value: { $typeName: "cosmos.base.v1beta1.Coin", ...minStake } },
        }),
      );
    const exec = (authority: string) =>
      chain.sendMessage(typeUrlOf(authz.MsgExecSchema), execOf(A, [update(authority)]));
    const own = exec(A);
    assert.ok(!own.ok);
    assert.match(
      own.fault.text,
      /code = InvalidArgument desc = invalid authority; expected pokt10d07y265gmmuvt4z0w9aw880jnsr700j8yv32t, got /,
    );
    assert.equal(exec(AUTHORITY).ok, false);
    grantsOfType(chain.ctx, AUTHORITY, A);
    assert.ok(exec(AUTHORITY).ok);
    assert.equal(getGatewayParams(chain.ctx).minStake?.amount, "77");
    const wrong = createMessage(application.MsgUpdateParamSchema, {
      authority: AUTHORITY,
      name: "min_stake",
      asType: { case: "asUint64", value: 3n },
    });
    const answer = chain.sendMessage(
      typeUrlOf(authz.MsgExecSchema),
      execOf(A, [packAny(application.MsgUpdateParamSchema, wrong)]),
    );
    assert.ok(!answer.ok);
    assert.deepEqual(answer.fault, {
      codespace: "application",
      code: 1115,
      text: 'msg 0: invalid type for param "min_stake"; expected *types.MsgUpdateParam_AsCoin, got *types.MsgUpdateParam_AsUint64: the provided param is invalid',
    });
  });

  test("a block forgets a bounded number of ended grants, and none that is ended is of use", () => {
    const chain = actorsChain(5n);
    const grant = createMessage(authz.GrantSchema, {
      authorization: generic(SEND),
      expiration: { seconds: 1_700_000_000n },
    });
    const who = { granter: bytesOfAddress(A), grantee: bytesOfAddress(B) };
    for (let i = 0; i < MOST_EXPIRED_PER_BLOCK + 3; i++) setGrant(chain.ctx, { ...who, typeUrl: `/x.${i}` }, grant);
    setGrant(chain.ctx, { ...who, typeUrl: SEND }, grant);
    const answer = chain.sendMessage(typeUrlOf(authz.MsgExecSchema), execOf(B, [sendOf(A, C, "1")]));
    assert.deepEqual(answer, { ok: false, fault: { codespace: "authz", code: 6, text: "authorization expired" } });
    chain.endBlock();
    assert.equal([...grants.entries(chain.ctx)].length, 4);
    chain.endBlock();
    assert.deepEqual([...grants.entries(chain.ctx)], []);
  });
});
