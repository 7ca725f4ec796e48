import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { authz, createMessage, gateway, packAny, shared, staking } from "@turnpike/proto";
import { CountedReads } from "../../test/counted-reads.ts";
import { planted } from "../../test/planted.ts";
import { bytesOfAddress } from "../../test/recorded-tx.ts";
import { LifeChain, type Party, party } from "../../test/session-life.ts";
import { newValidator, RATE_ONE } from "../../test/session-moves.ts";
import { addApplication } from "../../test/staked.ts";
import { addUnorderedNonce } from "../modules/auth/accounts.ts";
import { setGrant } from "../modules/authz/grants.ts";
import { setGateway } from "../modules/gateway/state.ts";
import { getStakingParams, POWER_REDUCTION, stakingParams } from "../modules/staking/state.ts";
import { setSupplier } from "../modules/supplier/state.ts";
import { Overlay } from "../state/overlay.ts";
import { upokt } from "../state/stakes.ts";

/** Last block of a session of four; unbonding that begins with it takes eight blocks. */
const SESSION_END = 12n;
const SESSION_BEFORE = 8n;
const STAKE = 1_000_000n;

/** A supplier that had one service from the first block on. */
function supplierOf(operatorAddress: string, unstakeSessionEndHeight: bigint) {
  const endpoints = [{ url: "https://a.example", rpcType: shared.RPCType.JSON_RPC }];
  const revShare = [{ address: operatorAddress, revSharePercentage: 100n }];
  const service = { serviceId: "svc", endpoints, revShare };
  return planted(
    createMessage(shared.SupplierSchema, {
      operatorAddress,
      ownerAddress: operatorAddress,
      stake: upokt(STAKE),
      unstakeSessionEndHeight,
      serviceConfigHistory: [{ operatorAddress, service, activationHeight: 1n }],
    }),
  );
}

/** Adds a record of one kind, whose time has not come. */
type Add = (chain: LifeChain, who: Party, i: number) => void;

const KINDS: Readonly<Record<string, Add>> = {
  applications: ({ ctx }, { address }) => void addApplication(ctx, { address, stakeUpokt: STAKE, serviceId: "svc" }),
  "applications that unbond": ({ ctx }, { address }) =>
    void addApplication(ctx, { address, stakeUpokt: STAKE, serviceId: "svc", unstakeSessionEndHeight: SESSION_END }),
  "applications that are transferred": ({ ctx }, { address }) => {
    const transfer = { destinationAddress: party("heir").address, sessionEndHeight: SESSION_END };
    addApplication(ctx, { address, stakeUpokt: STAKE, serviceId: "svc", transfer });
  },
  undelegations: ({ ctx }, { address }) =>
    void addApplication(ctx, {
      address,
      stakeUpokt: STAKE,
      serviceId: "svc",
      left: { [`${SESSION_END}`]: [party("gateway").address] },
    }),
  gateways: (chain, who) => assert.ok(chain.stakeGateway(who).ok),
  "gateways that unbond": ({ ctx }, { address }) => {
    // Their delegations end in the next block. Some of their stakes are due after the last height here.
    const record = { address, stake: upokt(STAKE), unstakeSessionEndHeight: SESSION_BEFORE };
    setGateway(ctx, planted(createMessage(gateway.GatewaySchema, record)));
  },
  suppliers: ({ ctx }, { address }) => setSupplier(ctx, supplierOf(address, 0n)),
  "suppliers that unbond": ({ ctx }, { address }) => setSupplier(ctx, supplierOf(address, SESSION_END)),
  services: (chain, who, i) => chain.addService(who, `service-${i}`),
  "validators that do not vote": (chain, who) => {
    stakingParams.set(chain.ctx, undefined, { ...getStakingParams(chain.ctx), maxValidators: 1 });
    assert.ok(chain.send(staking.MsgCreateValidatorSchema, newValidator(who, POWER_REDUCTION, RATE_ONE / 10n)).ok);
  },
  grants: ({ ctx }, { address }) => {
    const typeUrl = "/cosmos.bank.v1beta1.MsgSend";
    const authorization = packAny(
      authz.GenericAuthorizationSchema,
      createMessage(authz.GenericAuthorizationSchema, { msg: typeUrl }),
    );
    const expiration = { seconds: ctx.block.timeNanos / 1_000_000_000n + 1_000n, nanos: 0 };
    const [granter, grantee] = [bytesOfAddress(address), bytesOfAddress(party("agent").address)];
    setGrant(ctx, { granter, grantee, typeUrl }, createMessage(authz.GrantSchema, { authorization, expiration }));
  },
  "unordered transactions": ({ ctx }, { address }) =>
    void addUnorderedNonce(ctx, bytesOfAddress(address), ctx.block.timeNanos + 600_000_000_000n),
};

/** Entries that the begin and end of a block read of a state with a number of records. */
function readsOf(add: Add, count: number, height: bigint): number {
  const chain = new LifeChain();
  for (const name of ["gateway", "heir", "agent", "owner"]) chain.addParty(name);
  chain.addService(chain.addParty("service owner"), "svc");
  chain.runTo(9n);
  for (let i = 0; i < count; i++) add(chain, chain.addParty(`party ${i}`), i);
  chain.runTo(height);
  const counted = new CountedReads(chain.state);
  chain.machine.runBlock(new Overlay(counted), chain.block, []);
  return counted.reads;
}

suite("reads of a block without transactions", () => {
  for (const [name, add] of Object.entries(KINDS)) {
    test(`the begin and end of a block read no more of 40 ${name} than of 10, at a session's end, too`, () => {
      const heights = [SESSION_END - 1n, SESSION_END, SESSION_END + 1n, SESSION_END + 2n];
      const walked = heights.filter((height) => readsOf(add, 40, height) !== readsOf(add, 10, height));
      assert.deepEqual(walked, []);
    });
  }
});
