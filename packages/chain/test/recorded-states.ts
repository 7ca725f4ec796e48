import assert from "node:assert/strict";
import { moduleAddress, moduleAddressBytes } from "@turnpike/crypto";
import { createMessage, fromApiJson, shared } from "@turnpike/proto";
import { readRecordedTx } from "@turnpike/testkit/fixtures";
import { applicationParams, getApplicationParams } from "../src/modules/application/state.ts";
import {
  accountsByAddress,
  addressByNumber,
  createAccount,
  ensureModuleAccount,
  getAccount,
} from "../src/modules/auth/accounts.ts";
import { gatewayParams, getGatewayParams } from "../src/modules/gateway/state.ts";
import { computeUnitsHistory, getServiceParams, serviceParams, services } from "../src/modules/service/state.ts";
import { getSupplierParams, setSupplier, supplierParams } from "../src/modules/supplier/state.ts";
import type { Context } from "../src/state/context.ts";
import { upokt } from "../src/state/stakes.ts";
import { useSharedParams } from "./actors.ts";
import { grantsOfType } from "./modules/authz/grants.ts";
import { planted } from "./planted.ts";
import { bytesOfAddress, fund, type SignerState } from "./recorded-tx.ts";
import { addApplication, addGateway } from "./staked.ts";

/** What the recorded chain held when a transaction was run: its signer, and what else mattered to it. */
export interface RecordedState extends SignerState {
  readonly has?: (ctx: Context) => void;
}

const GATEWAY1 = "pokt1fxqmtx5vdjva6xtslcafahgvgfhhex83jwh3m3";
const GATEWAY2 = "pokt1pu59535ha83glfqyjxx2csqygwulylcj3nm5xe";
const GATEWAY_G = "pokt1v6gsm5s2wwcp7yw548vctzjjxpekwpenhx26gu";
const GATEWAY3 = "pokt13g4k7257z8tls5z0z3kr24k78hyl9dmglhyefj";
const APP1 = "pokt1uw9hdftn73yecsdkq2phsafse4xxxenny0pg5y";
const APP2 = "pokt1lsppdh30spgsaatnuvxmuyq78yl0yxm8szptv6";
const APP4 = "pokt1qccfftrnyrav3z03uusl5k3l2wc4euxtpr4jd4";
const APP6 = "pokt1cf7ej9eve6604q6acttenewfszryqh3unj0snc";
const APP_UNKNOWN = "pokt1dj35wuvhxrz4gum89htx4k9pufcv3z9kg4609p";
const GRANTEE = "pokt1dewupvyw40trspaeqwnc5mc0df7ntdzw0vfxd6";
const OPERATOR1 = "pokt1ujc9uxlulhjtnq84s55d9rm980waynn4rvrsun";
const OWNER1 = "pokt1zfcz8mjey59hldwwdvu7782cdhf2jj0sx524cp";
const OPERATOR4 = "pokt1xrvgpdwmyakpfqmhq6sx4pc6467r8ue6dkal9g";
const USERS = [
  "pokt1uv05fgvml8sxsjg296ktwp4z2q6puffu45jje8",
  "pokt1l420gpd6jag686mvr7pcw4xzfqphhg93lzwsym",
  "pokt1rl3gjgzexmplmds3tq3r3yk84zlwdl6djzgsvm",
  "pokt173r2dgg0jce84fq60sc7wmasvrpesfjdf93pqz",
] as const;
const [OWNER, THIRD, , OTHER] = USERS;

const app1 = { address: APP1, stakeUpokt: 10_000_000_000n, serviceId: "anvil" };
const app4 = { address: APP4, stakeUpokt: 150_000_000n, serviceId: "anvil", gateways: [GATEWAY1] };
const app6 = { address: APP6, stakeUpokt: 110_000_000n, serviceId: "rest" };
const unbonding6 = { ...app6, unstakeSessionEndHeight: 1550n };

const gateways = (ctx: Context): void => {
  for (const address of [GATEWAY1, GATEWAY2, GATEWAY_G]) addGateway(ctx, address);
};
const application =
  (...apps: readonly Parameters<typeof addApplication>[1][]) =>
  (ctx: Context): void => {
    gateways(ctx);
    for (const app of apps) addApplication(ctx, app);
  };
const gateway =
  (address: string, stakeUpokt: bigint, unstakeHeight = 0n) =>
  (ctx: Context): void =>
    addGateway(ctx, address, stakeUpokt, unstakeHeight);

const configOf = (operatorAddress: string, serviceId: string, rpcType: shared.RPCType) => ({
  operatorAddress,
  activationHeight: 1631n,
  service: {
    serviceId,
    endpoints: [{ url: "http://127.0.0.1:8545", rpcType }],
    revShare: [{ address: operatorAddress, revSharePercentage: 100n }],
  },
});

const supplier =
  (init: Parameters<typeof createMessage<typeof shared.SupplierSchema>>[1]) =>
  (ctx: Context): void => {
    const found = createMessage(shared.SupplierSchema, init);
    setSupplier(ctx, planted(found));
    fund(ctx, moduleAddress("supplier"), BigInt(found.stake?.amount ?? "0"));
  };
const servicesOf = (name: string): shared.SupplierServiceConfig[] => {
  const { tx_json: tx } = readRecordedTx(name);
  const [message] = tx.body.messages;
  return (message?.services ?? []).map((json) => {
    const read = fromApiJson(shared.SupplierServiceConfigSchema, json);
    assert.ok(read.ok);
    return read.message;
  });
};
const updatesOf = (name: string, activationHeight: bigint, deactivationHeight = 0n): shared.ServiceConfigUpdate[] =>
  servicesOf(name).map((service) =>
    createMessage(shared.ServiceConfigUpdateSchema, {
      operatorAddress: OPERATOR1,
      service,
      activationHeight,
      deactivationHeight,
    }),
  );
const supplier1 = (amount: string, serviceConfigHistory: readonly shared.ServiceConfigUpdate[]) =>
  supplier({
    ownerAddress: OWNER1,
    operatorAddress: OPERATOR1,
    stake: { denom: "upokt", amount },
    serviceConfigHistory: [...serviceConfigHistory],
  });
const FIRST_CONFIGS = updatesOf("supplier-stake-supplier1", 271n);
const CHANGED_CONFIGS = [
  ...updatesOf("supplier-update-by-operator-services", 1621n),
  ...updatesOf("supplier-stake-supplier1", 271n, 1621n),
];
const supplier4 = (amount: string, unstakeSessionEndHeight = 0n) =>
  supplier({
    ownerAddress: OPERATOR4,
    operatorAddress: OPERATOR4,
    stake: { denom: "upokt", amount },
    unstakeSessionEndHeight,
    serviceConfigHistory:
      amount === "5000000"
        ? [configOf(OPERATOR4, "anvil", shared.RPCType.JSON_RPC), configOf(OPERATOR4, "rest", shared.RPCType.REST)]
        : [],
  });

const service =
  (id: string, name: string, computeUnitsPerRelay: bigint, ownerAddress: string) =>
  (ctx: Context): void =>
    services.set(
      ctx,
      id,
      planted(createMessage(shared.ServiceSchema, { id, name, computeUnitsPerRelay, ownerAddress })),
    );

// The real chain makes a module's account when coins are first sent to it, not at the genesis.
function withoutModuleAccount(name: string): (ctx: Context) => void {
  return (ctx) => {
    const address = moduleAddressBytes(name);
    const account = getAccount(ctx, address);
    accountsByAddress.remove(ctx, address);
    if (account !== undefined) addressByNumber.remove(ctx, account.base.accountNumber);
  };
}

/** Recorded transactions that reached a block, each with what the chain held. */
export const IN_BLOCKS: Readonly<Record<string, RecordedState>> = {
  "accepted-ante-gas-low-deliver": {},
  "accepted-application-delegate-while-unstaking": { has: application(unbonding6) },
  "accepted-application-stake-unknown-service": { has: gateways },
  "accepted-application-unstake-unknown": {
    has: application({ address: APP_UNKNOWN, stakeUpokt: 200_000_000n, serviceId: "nosuch" }),
  },
  "accepted-bank-send-to-module": {},
  "application-delegate-app1-gateway1": { has: application(app1) },
  "application-stake-and-delegate-app4": { has: gateways },
  "application-stake-app1": { has: withoutModuleAccount("application") },
  "application-stake-app2-spend-limit": {},
  "application-stake-app6": {},
  "application-transfer-app4-app5": { has: application({ ...app4, left: { "1530": [GATEWAY2] } }) },
  "application-undelegate-app4-gateway2": { has: application({ ...app4, gateways: [GATEWAY1, GATEWAY2] }) },
  "application-unstake-app6": { has: application(app6) },
  "bank-multi-send": {},
  "bank-send-appg1": {},
  "bank-send-appg2": {},
  "bank-send-plain": {},
  "bank-send-sowner1": {},
  "fail-application-delegate-max": { has: application({ ...app4, gateways: [GATEWAY1, GATEWAY2] }) },
  "fail-application-delegate-unbonding-gateway": {
    has: (ctx) => {
      application(app1)(ctx);
      addGateway(ctx, GATEWAY3, 1_000_000n, 1560n);
    },
  },
  "fail-application-delegate-unstaked-app": { has: gateways },
  "fail-application-stake-equal": {
    has: application({ address: APP2, stakeUpokt: 300_000_001n, serviceId: "rest" }),
  },
  "fail-application-stake-low": {},
  "fail-application-transfer-to-existing": { has: application(app4, app1) },
  "fail-application-transfer-while-unstaking": { has: application(unbonding6) },
  "fail-application-unstake-twice": { has: application(unbonding6) },
  "fail-bank-send-bad-address": {},
  "fail-bank-send-funds": { balance: 3100n },
  "fail-gas-low-deliver": {},
  "fail-gateway-stake-low": {},
  "fail-gateway-unstake-twice": { has: gateway(GATEWAY3, 1_000_000n, 1560n) },
  "fail-gateway-unstake-unknown": {},
  "fail-params-no-grant": {},
  "fail-params-shared-invalid": {},
  "fail-params-unknown-name": {},
  "fail-service-fee-funds": { balance: 5100n },
  "fail-service-transfer-not-owner": { has: service("xfer", "To be transferred", 3n, THIRD) },
  "fail-supplier-funds": { balance: 4100n },
  "fail-supplier-low": {},
  "fail-supplier-operator-changes-owner": { has: supplier1("61000000", CHANGED_CONFIGS) },
  "fail-supplier-third-party": { has: supplier1("61000000", CHANGED_CONFIGS) },
  "fail-supplier-unstake-twice": { has: supplier4("5000000", 1630n) },
  "fail-supplier-unstake-unauthorized": { has: supplier4("5000000") },
  "gateway-metadata-gateway1": { has: gateway(GATEWAY1, 2_500_000n) },
  "gateway-stake-gateway1": { has: withoutModuleAccount("gateway") },
  "gateway-stake-gateway3": {},
  "gateway-unstake-gateway3": { has: gateway(GATEWAY3, 1_000_000n) },
  "gateway-update-gateway1": { has: gateway(GATEWAY1, 2_000_000n) },
  "params-application-min-stake": {},
  "params-full-gateway": {},
  "params-proof-probability-0": {},
  "params-proof-probability-1": {},
  "params-proof-request-probability": {},
  "params-service-target-num-relays": {},
  "params-shared-multiplier": {},
  "params-supplier-staking-fee": {},
  "params-tokenomics-inflation": {},
  "params-tokenomics-mint-ratio": {},
  "service-add-new": { has: withoutModuleAccount("service") },
  "service-add-xfer": {},
  "service-transfer": { has: service("xfer", "To be transferred", 3n, OTHER) },
  "service-update-cupr": {
    has(ctx) {
      service("svc-new", "A new service", 7n, OWNER)(ctx);
      computeUnitsHistory.set(ctx, ["svc-new", 261n], 7n);
    },
  },
  "supplier-stake-supplier1": { has: withoutModuleAccount("supplier") },
  "supplier-stake-supplier2": {},
  "supplier-stake-supplier4": { has: supplier4("2000000") },
  "supplier-unstake-supplier4": { has: supplier4("5000000") },
  "supplier-update-by-operator-services": { has: supplier1("61000000", FIRST_CONFIGS) },
  "supplier-update-by-owner": { has: supplier1("60000000", FIRST_CONFIGS) },
  "unordered-send": { sequence: 20n },
};

/** Recorded transactions that the mempool refused. */
export const REFUSED: Readonly<Record<string, RecordedState>> = {
  "fail-ante-account-number": { accountNumber: 28n },
  "fail-ante-fee-funds": { balance: 2100n },
  "fail-ante-fee-zero": {},
  "fail-ante-gas-low-check": {},
  "fail-ante-sequence-high": { sequence: 19n },
  "fail-ante-signature": {},
  "fail-ante-timeout-height": {},
  "fail-application-stake-limit-low": {},
  "fail-application-stake-no-service": {},
  "fail-application-stake-wrong-denom": {},
  "fail-gateway-metadata-empty": {},
  "fail-service-bad-id": {},
  "fail-service-cupr-zero": {},
  "fail-service-long-name": {},
  "fail-service-owner-mismatch": {},
  "fail-supplier-bad-url": {},
  "fail-supplier-rpc-type": {},
  "fail-supplier-share-duplicate": {},
  "fail-unordered-no-timeout": { sequence: 20n },
  "fail-unordered-too-long": { sequence: 20n },
};

/** Gives a fresh state the recorded parameters, grants and services, and the accounts that coins are sent to. */
export function addRecordedParams(ctx: Context): void {
  useSharedParams(ctx);
  for (const module of ["application", "gateway", "supplier", "service", "gov"]) ensureModuleAccount(ctx, module, []);
  gatewayParams.set(ctx, undefined, { ...getGatewayParams(ctx), minStake: upokt(1_000_000n) });
  const applications = { ...getApplicationParams(ctx), maxDelegatedGateways: 2n, minStake: upokt(100_000_000n) };
  applicationParams.set(ctx, undefined, applications);
  const suppliers = { ...getSupplierParams(ctx), minStake: upokt(1_000_000n), stakingFee: upokt(1_000_000n) };
  supplierParams.set(ctx, undefined, suppliers);
  serviceParams.set(ctx, undefined, { ...getServiceParams(ctx), addServiceFee: upokt(1_000_000_000n) });
  grantsOfType(ctx, moduleAddress("gov"), GRANTEE);
  for (const id of ["anvil", "anvilws", "rest", "ollama", "heavy"]) {
    services.set(ctx, id, planted(createMessage(shared.ServiceSchema, { id, computeUnitsPerRelay: 1n })));
  }
}

/** Makes the accounts of those who get coins, but for a signer's own. */
export function addUsers(ctx: Context, signer: string): void {
  for (const text of USERS) if (text !== signer) createAccount(ctx, bytesOfAddress(text));
}
