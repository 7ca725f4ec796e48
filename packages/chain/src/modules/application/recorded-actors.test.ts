import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { createMessage, proof, shared, typeUrlOf } from "@turnpike/proto";
import { readRecordedTx } from "@turnpike/testkit/fixtures";
import { AUTHORITY, actorsMachine, addModuleAccounts, useSharedParams } from "../../../test/actors.ts";
import { grantsOfType } from "../../../test/modules/authz/grants.ts";
import {
  addSigner,
  assertAsRecorded,
  assertRefusedAsRecorded,
  runRecorded,
  stateOf,
} from "../../../test/recorded-tx.ts";
import { addApplication, addGateway } from "../../../test/staked.ts";
import type { Context } from "../../state/context.ts";
import { type Module, messageHandler } from "../../state/module.ts";
import { done, fail } from "../../state/outcome.ts";
import { upokt } from "../../state/stakes.ts";
import { gatewayParams, getGatewayParams } from "../gateway/state.ts";
import { applicationParams, getApplicationParams } from "./state.ts";

const GATEWAY1 = "pokt1fxqmtx5vdjva6xtslcafahgvgfhhex83jwh3m3";
const GATEWAY2 = "pokt1pu59535ha83glfqyjxx2csqygwulylcj3nm5xe";
const GATEWAY3 = "pokt13g4k7257z8tls5z0z3kr24k78hyl9dmglhyefj";
const GATEWAY_G = "pokt1v6gsm5s2wwcp7yw548vctzjjxpekwpenhx26gu";
const APP1 = "pokt1uw9hdftn73yecsdkq2phsafse4xxxenny0pg5y";
const APP2 = "pokt1lsppdh30spgsaatnuvxmuyq78yl0yxm8szptv6";
const APP4 = "pokt1qccfftrnyrav3z03uusl5k3l2wc4euxtpr4jd4";
const APP6 = "pokt1cf7ej9eve6604q6acttenewfszryqh3unj0snc";
const APP_UNKNOWN = "pokt1dj35wuvhxrz4gum89htx4k9pufcv3z9kg4609p";
const GRANTEE = "pokt1dewupvyw40trspaeqwnc5mc0df7ntdzw0vfxd6";

const app4 = { address: APP4, stakeUpokt: 150_000_000n, serviceId: "anvil", gateways: [GATEWAY1] };
const app6 = { address: APP6, stakeUpokt: 110_000_000n, serviceId: "rest" };
const granted = (ctx: Context): void => grantsOfType(ctx, AUTHORITY, GRANTEE);

/** What the chain held when the transaction was run. */
const DELIVERED: Record<string, (ctx: Context) => void> = {
  "accepted-application-delegate-while-unstaking": (ctx) =>
    void addApplication(ctx, { ...app6, unstakeSessionEndHeight: 1550n }),
  "accepted-application-stake-unknown-service": () => undefined,
  "accepted-application-unstake-unknown": (ctx) =>
    void addApplication(ctx, { address: APP_UNKNOWN, stakeUpokt: 200_000_000n, serviceId: "nosuch" }),
  "application-delegate-app1-gateway1": (ctx) =>
    void addApplication(ctx, { address: APP1, stakeUpokt: 10_000_000_000n, serviceId: "anvil" }),
  "application-stake-and-delegate-app4": () => undefined,
  "application-stake-app1": () => undefined,
  "application-stake-app2-spend-limit": () => undefined,
  "application-stake-app6": () => undefined,
  "application-transfer-app4-app5": (ctx) => void addApplication(ctx, { ...app4, left: { "1530": [GATEWAY2] } }),
  "application-undelegate-app4-gateway2": (ctx) =>
    void addApplication(ctx, { ...app4, gateways: [GATEWAY1, GATEWAY2] }),
  "application-unstake-app6": (ctx) => void addApplication(ctx, app6),
  "fail-application-delegate-max": (ctx) => void addApplication(ctx, { ...app4, gateways: [GATEWAY1, GATEWAY2] }),
  "fail-application-delegate-unbonding-gateway": (ctx) => {
    addApplication(ctx, { address: APP1, stakeUpokt: 10_000_000_000n, serviceId: "anvil" });
    addGateway(ctx, GATEWAY3, 1_000_000n, 1560n);
  },
  "fail-application-delegate-unstaked-app": () => undefined,
  "fail-application-stake-equal": (ctx) =>
    void addApplication(ctx, { address: APP2, stakeUpokt: 300_000_001n, serviceId: "rest" }),
  "fail-application-stake-low": () => undefined,
  "fail-application-transfer-to-existing": (ctx) => {
    addApplication(ctx, app4);
    addApplication(ctx, { address: APP1, stakeUpokt: 10_000_000_000n, serviceId: "anvil" });
  },
  "fail-application-transfer-while-unstaking": (ctx) =>
    void addApplication(ctx, { ...app6, unstakeSessionEndHeight: 1550n }),
  "fail-application-unstake-twice": (ctx) => void addApplication(ctx, { ...app6, unstakeSessionEndHeight: 1550n }),
  "fail-gateway-stake-low": () => undefined,
  "fail-gateway-unstake-twice": (ctx) => addGateway(ctx, GATEWAY3, 1_000_000n, 1560n),
  "fail-gateway-unstake-unknown": () => undefined,
  "gateway-metadata-gateway1": (ctx) => addGateway(ctx, GATEWAY1, 2_500_000n),
  "gateway-stake-gateway1": () => undefined,
  "gateway-stake-gateway3": () => undefined,
  "gateway-unstake-gateway3": (ctx) => addGateway(ctx, GATEWAY3, 1_000_000n),
  "gateway-update-gateway1": (ctx) => addGateway(ctx, GATEWAY1, 2_000_000n),
  "params-application-min-stake": granted,
  "params-full-gateway": granted,
  "params-proof-probability-0": granted,
  "params-proof-probability-1": granted,
  "params-proof-request-probability": granted,
  "fail-params-no-grant": granted,
  "fail-params-shared-invalid": granted,
  "fail-params-unknown-name": granted,
};
const REFUSED = [
  "fail-application-stake-limit-low",
  "fail-application-stake-no-service",
  "fail-application-stake-wrong-denom",
  "fail-gateway-metadata-empty",
];
const NO_GATEWAYS = ["gateway-stake-gateway1"];

// Stand-ins for the messages of other modules that recorded parameter updates hold: this is about how grants run them.
const others: Module = {
  name: "others",
  messages: {
    [typeUrlOf(proof.MsgUpdateParamSchema)]: messageHandler(
      proof.MsgUpdateParamSchema,
      proof.MsgUpdateParamResponseSchema,
      {
        signers: (message) => [message.authority],
        validate: ({ name }) =>
          name === "nosuch"
            ? fail(
                { codespace: "proof", code: 1119, text: "the provided param name is invalid" },
                'unsupported param "nosuch"',
              ).fault
            : undefined,
        run: () => done(createMessage(proof.MsgUpdateParamResponseSchema)),
      },
    ),
    [typeUrlOf(shared.MsgUpdateParamSchema)]: messageHandler(
      shared.MsgUpdateParamSchema,
      shared.MsgUpdateParamResponseSchema,
      {
        signers: (message) => [message.authority],
        validate: () =>
          fail(
            { codespace: "shared", code: 1103, text: "the provided param is invalid" },
            "invalid NumBlocksPerSession: (0)",
          ).fault,
        run: () => done(createMessage(shared.MsgUpdateParamResponseSchema)),
      },
    ),
  },
};
const machine = actorsMachine([others]);

function prepared(name: string, tx = readRecordedTx(name)) {
  const at = stateOf(machine, tx);
  const { ctx } = at;
  addModuleAccounts(ctx);
  addSigner(ctx, tx);
  useSharedParams(ctx);
  gatewayParams.set(ctx, undefined, { ...getGatewayParams(ctx), minStake: upokt(1_000_000n) });
  applicationParams.set(ctx, undefined, {
    ...getApplicationParams(ctx),
    maxDelegatedGateways: 2n,
    minStake: upokt(100_000_000n),
  });
  DELIVERED[name]?.(ctx);
  if (!NO_GATEWAYS.includes(name) && !name.includes("gateway3") && !name.includes("gateway-")) {
    for (const address of [GATEWAY1, GATEWAY2, GATEWAY_G]) addGateway(ctx, address);
  }
  return { at, tx, ctx };
}

suite("recorded transactions of applications, gateways and parameters", () => {
  for (const name of Object.keys(DELIVERED)) {
    test(`${name}: the recorded code, text, data and events`, () => {
      const { at, tx } = prepared(name);
      assert.equal(runRecorded(machine, prepared(name).at, tx, "check").code, 0);
      assertAsRecorded(runRecorded(machine, at, tx, "deliver"), tx);
    });
  }
  for (const name of REFUSED) {
    test(`${name}: refused by the mempool with the recorded text`, () => {
      const { at, tx } = prepared(name);
      assertRefusedAsRecorded(runRecorded(machine, at, tx, "check"), tx);
    });
  }
  test("what a grant let change is changed", () => {
    const first = prepared("params-application-min-stake");
    runRecorded(machine, first.at, first.tx, "deliver");
    assert.equal(getApplicationParams(first.ctx).minStake?.amount, "100000001");
    assert.equal(getApplicationParams(first.ctx).maxDelegatedGateways, 2n);
    const second = prepared("params-full-gateway");
    gatewayParams.set(second.ctx, undefined, { ...getGatewayParams(second.ctx), minStake: upokt(5n) });
    runRecorded(machine, second.at, second.tx, "deliver");
    assert.equal(getGatewayParams(second.ctx).minStake?.amount, "1000000");
  });
});
