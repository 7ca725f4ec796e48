import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { ACCOUNT_PREFIX, encodeBech32 } from "@turnpike/crypto";
import {
  application,
  authz,
  bank,
  createMessage,
  encodeMessage,
  gateway,
  packAny,
  service,
  session,
  shared,
  staking,
  supplier,
  tokenomics,
  upgrade,
} from "@turnpike/proto";
import { bytesOfAddress } from "../../test/recorded-tx.ts";
import { GOV, LIFE_PARAMS, LifeChain, type Party, party, RELAY_UPOKT, Work } from "../../test/session-life.ts";
import { newValidator, RATE_ONE } from "../../test/session-moves.ts";
import { getApplication, setApplication } from "../modules/application/state.ts";
import {
  getDelegation,
  getStakingParams,
  getValidator,
  setDelegation,
  setValidator,
} from "../modules/staking/state.ts";
import { getDehydratedSupplier, getSupplier, setSupplier } from "../modules/supplier/state.ts";
import { getTokenomicsParams } from "../modules/tokenomics/state.ts";
import type { Outcome } from "../state/outcome.ts";
import { parsedRecord } from "../state/parsed.ts";
import { upokt } from "../state/stakes.ts";

const accept = (outcome: Outcome<unknown>): void => assert.ok(outcome.ok, outcome.ok ? "" : outcome.fault.text);

/** Address of so many bytes: a message takes 1 to 255, though a key or a module has 20 or 32. */
const addressOf = (numBytes: number, fill: number): string =>
  encodeBech32(ACCOUNT_PREFIX, new Uint8Array(numBytes).fill(fill));

/** A chain with a validator that a message made, as an export has it. */
function startedChain(): LifeChain {
  const chain = new LifeChain({ hasValidator: false });
  const validator = newValidator(chain.addParty("voter"), 7_000_003n, RATE_ONE / 10n);
  accept(chain.send(staking.MsgCreateValidatorSchema, validator));
  chain.endBlock();
  return chain;
}

type Json = Record<string, unknown>;
const exportOf = (chain: LifeChain): Json =>
  JSON.parse(JSON.stringify(chain.machine.exportGenesis(chain.state, chain.block))) as Json;

/** Asserts that an export starts a chain that exports the same, and that both go on to the same state. */
function assertImportable(chain: LifeChain): LifeChain {
  const appState = exportOf(chain);
  const again = new LifeChain({ appState, heightBlocks: chain.block.heightBlocks });
  assert.deepEqual(exportOf(again), appState, "the export of the imported state");
  const heightBlocks = chain.block.heightBlocks + 30n;
  for (const one of [chain, again]) one.runTo(heightBlocks);
  assert.deepEqual(exportOf(again), exportOf(chain), "the state some sessions later");
  return again;
}

const ENDPOINT = { url: "https://a.example", rpcType: shared.RPCType.JSON_RPC };

function configOf(serviceId: string, receivers: readonly string[]): shared.SupplierServiceConfig {
  const share = 100n / BigInt(receivers.length);
  return createMessage(shared.SupplierServiceConfigSchema, {
    serviceId,
    endpoints: [ENDPOINT],
    revShare: receivers.map((address) => ({ address, revSharePercentage: share })),
  });
}

function updateOf(
  operatorAddress: string,
  service: shared.SupplierServiceConfig,
  heights: Partial<Pick<shared.ServiceConfigUpdate, "activationHeight" | "deactivationHeight">>,
) {
  return parsedRecord(createMessage(shared.ServiceConfigUpdateSchema, { operatorAddress, service, ...heights }));
}

function stakeOf(signer: Party, more: Partial<supplier.MsgStakeSupplier>) {
  const { address } = signer;
  const parties = { signer: address, ownerAddress: address, operatorAddress: address };
  return { ...parties, stake: upokt(1_000_000n), services: [], ...more };
}

/** Records of each message of actors at its limits. */
function stakeAtLimits(chain: LifeChain): void {
  const [owner, operator, app, moving, gw, validator] = ["owner", "sup", "app", "moving", "gateway", "validator"].map(
    (name) => chain.addParty(name),
  ) as [Party, Party, Party, Party, Party, Party];
  const longId = "s".repeat(42);
  chain.addService(owner, "svc");
  const added = { id: longId, name: "n".repeat(169), computeUnitsPerRelay: 2n << 20n, ownerAddress: owner.address };
  const card = new Uint8Array(256 * 1024).fill(7);
  const metadata = { card };
  accept(chain.send(service.MsgAddServiceSchema, { ownerAddress: owner.address, service: { ...added, metadata } }));
  const newOwnerAddress = addressOf(255, 1);
  const sold = { ownerAddress: owner.address, serviceId: longId, newOwnerAddress };
  accept(chain.send(service.MsgTransferServiceSchema, sold));
  // An owner stakes for operators that cannot sign, of the shortest and the longest address.
  for (const numBytes of [1, 255]) {
    const operatorAddress = addressOf(numBytes, 2).toUpperCase();
    accept(chain.send(supplier.MsgStakeSupplierSchema, stakeOf(owner, { operatorAddress })));
  }
  const receivers = Array.from({ length: 100 }, (_, at) => addressOf(32, at + 1));
  const services = [configOf("svc", receivers), configOf(longId, receivers)];
  const url = `https://${"a".repeat(60)}.example/${"%41".repeat(20)}`;
  const [first] = services;
  assert.ok(first !== undefined);
  const spare = 65_536 - encodeMessage(shared.SupplierServiceConfigSchema, first).length;
  const configs = Array.from({ length: Math.floor(spare / 200) }, () =>
    createMessage(shared.SupplierEndpointSchema, { ...ENDPOINT, url }),
  );
  services[0] = createMessage(shared.SupplierServiceConfigSchema, {
    ...first,
    endpoints: [...first.endpoints, ...configs],
  });
  accept(chain.send(supplier.MsgStakeSupplierSchema, stakeOf(operator, { services, ownerAddress: addressOf(255, 3) })));
  accept(chain.stakeApplication(app, longId, 1_000_000n, 1_000_000n));
  accept(chain.stakeApplication(moving, "svc", 5_000_000n));
  accept(chain.transfer(moving, { ...owner, address: addressOf(255, 4) }));
  accept(chain.stakeGateway(gw));
  accept(chain.send(gateway.MsgUpdateGatewayMetadataSchema, { address: gw.address, metadata }));
  const description = createMessage(staking.DescriptionSchema, {
    moniker: "m".repeat(70),
    identity: "i".repeat(3_000),
    website: "w".repeat(140),
    securityContact: "c".repeat(140),
    details: `\u0000\u2028"<&>${"é".repeat(100)}`,
  });
  const created = { ...newValidator(validator, 1_000_000n, RATE_ONE), description, minSelfDelegation: "1000000" };
  accept(chain.send(staking.MsgCreateValidatorSchema, created));
  const idle = newValidator(chain.addParty("idle validator"), 1_000_001n, 0n);
  accept(chain.send(staking.MsgCreateValidatorSchema, idle));
}

/** Messages about money, grants and parameters at their limits. */
function changeAtLimits(chain: LifeChain): void {
  const sender = chain.addParty("sender");
  const [toAddress, grantee] = [addressOf(255, 5), addressOf(255, 6)];
  accept(chain.send(bank.MsgSendSchema, { fromAddress: sender.address, toAddress, amount: [upokt(1n)] }));
  const output = { address: addressOf(1, 5), coins: [upokt(1n)] };
  const inputs = [{ address: sender.address, coins: [upokt(1n)] }];
  accept(chain.send(bank.MsgMultiSendSchema, { inputs, outputs: [output] }));
  const generic = createMessage(authz.GenericAuthorizationSchema, { msg: "/cosmos.bank.v1beta1.MsgSend" });
  const authorization = packAny(authz.GenericAuthorizationSchema, generic);
  const expiration = { seconds: 253_402_300_799n, nanos: 999_999_999 };
  accept(chain.send(authz.MsgGrantSchema, { granter: sender.address, grantee, grant: { authorization, expiration } }));
  const authority = GOV;
  const daoRewardAddress = addressOf(255, 7);
  accept(
    chain.send(tokenomics.MsgUpdateParamsSchema, {
      authority,
      params: { ...getTokenomicsParams(chain.ctx), daoRewardAddress, overservicingBonusMultiplier: 0n },
    }),
  );
  const params = { ...LIFE_PARAMS, supplierUnbondingPeriodSessions: 2n ** 31n - 1n, numBlocksPerSession: 5n };
  accept(chain.send(shared.MsgUpdateParamsSchema, { authority, params }));
  accept(
    chain.send(supplier.MsgUpdateParamsSchema, { authority, params: { minStake: upokt(1n), stakingFee: upokt(0n) } }),
  );
  accept(
    chain.send(application.MsgUpdateParamsSchema, {
      authority,
      params: { minStake: upokt(1n), maxDelegatedGateways: 2n ** 64n - 1n },
    }),
  );
  accept(chain.send(session.MsgUpdateParamsSchema, { authority, params: { numSuppliersPerSession: 1n } }));
  const denom = `a${"/".repeat(127)}`;
  accept(chain.send(bank.MsgSetSendEnabledSchema, { authority, sendEnabled: [{ denom, enabled: true }] }));
  const plan = { name: "n".repeat(128), height: 2n ** 40n, info: "i".repeat(8_192) };
  accept(chain.send(upgrade.MsgSoftwareUpgradeSchema, { authority, plan }));
}

suite("exports of what messages accept", () => {
  test("records at the limits of every message are imported again", () => {
    const chain = startedChain();
    stakeAtLimits(chain);
    changeAtLimits(chain);
    chain.runTo(3n);
    assertImportable(chain);
    const destination = addressOf(255, 4);
    assert.ok(getApplication(chain.ctx, destination) !== undefined, "the transfer came to its end");
    assertImportable(chain);
  });

  test("a supplier that a penalty used up, and what its claims left, are imported again", () => {
    const chain = startedChain();
    const [owner, app, sup] = [chain.addParty("owner"), chain.addParty("app"), chain.addParty("sup")];
    chain.addService(owner, "svc");
    accept(
      chain.send(supplier.MsgUpdateParamsSchema, {
        authority: GOV,
        params: { minStake: upokt(1n), stakingFee: upokt(1n) },
      }),
    );
    accept(chain.stakeApplication(app, "svc", 100_000_000n));
    const services = [configOf("svc", [sup.address])];
    accept(chain.send(supplier.MsgStakeSupplierSchema, stakeOf(sup, { services, stake: upokt(1n) })));
    chain.runTo(5n);
    const work = new Work(chain.header(app, "svc"), sup).invent(2, RELAY_UPOKT);
    chain.runTo(chain.windowsOf(work.header).claimOpenHeight);
    accept(chain.claim(work));
    assertImportable(chain);
    assert.equal(getDehydratedSupplier(chain.ctx, sup.address), undefined, "it is slashed, and leaves");
  });

  test("a supplier without a stake that leaves is imported again", () => {
    const chain = startedChain();
    const [owner, app, sup] = [chain.addParty("owner"), chain.addParty("app"), chain.addParty("sup")];
    chain.addService(owner, "svc");
    accept(chain.stakeApplication(app, "svc", 100_000_000n));
    const services = [configOf("svc", [sup.address])];
    accept(chain.send(supplier.MsgStakeSupplierSchema, stakeOf(sup, { services })));
    chain.runTo(5n);
    const work = new Work(chain.header(app, "svc"), sup).invent(2, RELAY_UPOKT);
    chain.runTo(chain.windowsOf(work.header).claimOpenHeight);
    accept(chain.claim(work));
    chain.settle(work.header);
    assert.equal(getDehydratedSupplier(chain.ctx, sup.address)?.stake?.amount, "0");
    assertImportable(chain);
  });
});

suite("exports of what an earlier version or the real chain accepted", () => {
  test("a supplier with shares of other lengths, and with two configurations that hold at once", () => {
    const chain = startedChain();
    const [owner, sup] = [chain.addParty("owner"), chain.addParty("sup")];
    chain.addService(owner, "svc");
    accept(chain.stakeSupplier(sup, "svc"));
    const found = getSupplier(chain.ctx, sup.address);
    assert.ok(found !== undefined);
    const operatorAddress = sup.address;
    const serviceConfigHistory = [
      { activationHeight: 1n, deactivationHeight: 0n },
      { activationHeight: 2n, deactivationHeight: 0n },
      { activationHeight: 9n, deactivationHeight: 9n },
    ].map((heights) => {
      const config = configOf("svc", [addressOf(21, 8), addressOf(255, 9)]);
      return updateOf(operatorAddress, config, heights);
    });
    setSupplier(chain.ctx, { ...found, serviceConfigHistory });
    chain.runTo(3n);
    assertImportable(chain);
    const again = stakeOf(sup, { services: [configOf("svc", [addressOf(21, 8)])], stake: upokt(200_000_000n) });
    const refused = chain.send(supplier.MsgStakeSupplierSchema, again);
    assert.match(refused.ok ? "" : refused.fault.text, /address length must be 20 or 32, got 21/);
  });

  test("a genesis has services of an operator with the longest address, and its sessions are drawn", () => {
    const first = startedChain();
    const [owner, app] = [first.addParty("owner"), first.addParty("app")];
    first.addService(owner, "svc");
    accept(first.stakeApplication(app, "svc", 100_000_000n));
    const operatorAddress = addressOf(255, 2);
    accept(first.send(supplier.MsgStakeSupplierSchema, stakeOf(owner, { operatorAddress })));
    const found = getSupplier(first.ctx, operatorAddress);
    assert.ok(found !== undefined);
    const serviceConfigHistory = [
      updateOf(operatorAddress, configOf("svc", [owner.address]), { activationHeight: 1n }),
    ];
    setSupplier(first.ctx, { ...found, serviceConfigHistory });
    first.send(supplier.MsgStakeSupplierSchema, stakeOf(owner, { operatorAddress, stake: upokt(2_000_000n) }));
    const chain = new LifeChain({ appState: withoutList(exportOf(first), "never_served_operators"), heightBlocks: 1n });
    chain.runTo(5n);
    const work = new Work(chain.header(app, "svc"), { ...owner, address: operatorAddress }).invent(2, RELAY_UPOKT);
    chain.runTo(chain.windowsOf(work.header).claimOpenHeight);
    accept(chain.claim(work));
    assertImportable(chain);
  });

  test("an application that left more gateways than one may now, with services of a merge and a history out of order", () => {
    const chain = startedChain();
    const [owner, app] = [chain.addParty("owner"), chain.addParty("app")];
    chain.addService(owner, "svc");
    chain.addService(owner, "svc2");
    accept(chain.stakeApplication(app, "svc", 100_000_000n));
    const found = getApplication(chain.ctx, app.address);
    assert.ok(found !== undefined);
    const gatewayAddresses = Array.from({ length: 80 }, (_, at) => addressOf(20, at + 1));
    const applicationAddress = app.address;
    setApplication(chain.ctx, {
      ...found,
      serviceConfigs: ["svc", "svc2"].map((serviceId) =>
        createMessage(shared.ApplicationServiceConfigSchema, { serviceId }),
      ),
      pendingUndelegations: { 4: createMessage(application.UndelegatingGatewayListSchema, { gatewayAddresses }) },
      serviceConfigHistory: [
        createMessage(application.ApplicationServiceConfigUpdateSchema, {
          applicationAddress,
          service: { serviceId: "svc" },
          activationHeight: 901n,
          deactivationHeight: 5n,
        }),
      ],
    });
    assertImportable(chain);
  });

  test("an application of a chain that begins anew at block 1 changes its service, and is imported again", () => {
    const first = startedChain();
    const [owner, app] = [first.addParty("owner"), first.addParty("app")];
    first.addService(owner, "svc");
    first.addService(owner, "svc2");
    accept(first.stakeApplication(app, "svc", 100_000_000n));
    first.runTo(40n);
    accept(first.stakeApplication(app, "svc2", 100_000_001n));
    const chain = new LifeChain({ appState: exportOf(first), heightBlocks: 1n });
    accept(chain.stakeApplication(app, "svc", 100_000_002n));
    assertImportable(chain);
    const history = getApplication(chain.ctx, app.address)?.serviceConfigHistory ?? [];
    assert.ok(history.every(({ activationHeight: from, deactivationHeight: to }) => to === 0n || to > from));
  });

  test("a validator whose bond is below today's minimum", () => {
    const chain = startedChain();
    const created = newValidator(chain.addParty("weak"), 1_000_000n, RATE_ONE / 10n);
    accept(chain.send(staking.MsgCreateValidatorSchema, created));
    const params = { ...getStakingParams(chain.ctx), maxValidators: 1 };
    accept(chain.send(staking.MsgUpdateParamsSchema, { authority: GOV, params }));
    chain.runTo(3n);
    const operator = bytesOfAddress(party("weak").address);
    const [validator, delegation] = [getValidator(chain.ctx, operator), getDelegation(chain.ctx, operator, operator)];
    assert.ok(validator !== undefined && delegation !== undefined);
    const shares = { delegatorShares: `${999_999n * RATE_ONE}` };
    setValidator(chain.ctx, { ...validator, tokens: "999999", ...shares });
    setDelegation(chain.ctx, operator, operator, { ...delegation, shares: shares.delegatorShares });
    assertImportable(chain);
  });
});

function withoutList(appState: Json, list: string): Json {
  const { [list]: _, ...supplierState } = appState["supplier"] as Json;
  return { ...appState, supplier: supplierState };
}
