import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { accountAddress, cosmosPublicKey, moduleAddress, privateKeyFromSecret } from "@turnpike/crypto";
import { application, gateway } from "@turnpike/proto";
import { fc } from "@turnpike/testkit/property";
import { actorsChain, useSharedParams } from "../../../test/actors.ts";
import { bytesOfAddress, fund } from "../../../test/recorded-tx.ts";
import type { Context } from "../../state/context.ts";
import { Overlay } from "../../state/overlay.ts";
import { balances, getBalance, getSupply } from "../bank/balances.ts";
import { gateways, getGateway, undelegatingGateways, unstakingGateways } from "../gateway/state.ts";
import {
  applications,
  delegations,
  getApplication,
  setApplication,
  transferringApplications,
  undelegations,
  unstakingApplications,
} from "./state.ts";

const addresses = ["a", "b", "c", "d", "e"].map((name) =>
  accountAddress(cosmosPublicKey(privateKeyFromSecret(Buffer.from(name)))),
);
type Chain = ReturnType<typeof actorsChain>;
const at = (i: number): string => addresses[i] ?? "";
const coin = (amount: number) => ({ denom: "upokt", amount: `${amount}` });

interface Wish {
  readonly kind: number;
  readonly from: number;
  readonly to: number;
  readonly amount: number;
}
const STEPS: readonly ((chain: Chain, wish: Wish) => unknown)[] = [
  (chain, { from, to, amount }) =>
    chain.send(application.MsgStakeApplicationSchema, {
      address: at(from),
      stake: coin(amount),
      services: [{ serviceId: `s${to}` }],
      ...(to === 0 ? { perSessionSpendLimit: coin(to) } : {}),
    }),
  (chain, { from }) => chain.send(application.MsgUnstakeApplicationSchema, { address: at(from) }),
  (chain, { from, to }) =>
    chain.send(application.MsgDelegateToGatewaySchema, { appAddress: at(from), gatewayAddress: at(to) }),
  (chain, { from, to }) =>
    chain.send(application.MsgUndelegateFromGatewaySchema, { appAddress: at(from), gatewayAddress: at(to) }),
  (chain, { from, to }) =>
    chain.send(application.MsgTransferApplicationSchema, { sourceAddress: at(from), destinationAddress: at(to) }),
  (chain, { from, amount }) => chain.send(gateway.MsgStakeGatewaySchema, { address: at(from), stake: coin(amount) }),
  (chain, { from }) => chain.send(gateway.MsgUnstakeGatewaySchema, { address: at(from) }),
  (chain, { from, amount }) =>
    chain.send(gateway.MsgUpdateGatewayMetadataSchema, {
      address: at(from),
      metadata: { card: Buffer.from(`${amount}`) },
    }),
  // What a settlement may do: an application that unbonds although it is being transferred.
  (chain, { from }) => {
    const app = applications.get(chain.ctx, at(from));
    if (app === undefined || app.unstakeSessionEndHeight !== 0n) return;
    setApplication(chain.ctx, { ...app, unstakeSessionEndHeight: chain.block.heightBlocks });
  },
  (chain) => chain.endBlock(),
  (chain) => chain.endBlocksTo(chain.block.heightBlocks + 7n),
];
const wishes = fc.array(
  fc.record({
    kind: fc.nat(STEPS.length - 1),
    from: fc.nat(addresses.length - 1),
    to: fc.nat(addresses.length - 1),
    amount: fc.integer({ min: 900_000, max: 9_000_000 }),
  }),
  { minLength: 20, maxLength: 120, size: "max" },
);

const sumOf = (stakes: Iterable<{ readonly stake?: { readonly amount: string } | undefined }>): bigint =>
  [...stakes].reduce((sum, { stake }) => sum + BigInt(stake?.amount ?? 0), 0n);

function checkMoney(ctx: Context): void {
  const held = (name: string): bigint => getBalance(ctx, bytesOfAddress(moduleAddress(name)), "upokt");
  assert.equal(sumOf([...applications.entries(ctx)].map(([, app]) => app)), held("application"));
  assert.equal(sumOf([...gateways.entries(ctx)].map(([, one]) => one)), held("gateway"));
  const all = [...balances.entries(ctx)].reduce((sum, [, amount]) => sum + amount, 0n);
  assert.equal(all, getSupply(ctx, "upokt"));
}

const keys = <K>(entries: Iterable<readonly [K, unknown]>): string[] => [...entries].map(([key]) => String(key)).sort();

function checkIndexes(ctx: Context): void {
  const apps = [...applications.entries(ctx)].map(([, app]) => app);
  const bySession = (records: readonly { address: string }[], sinceOf: (address: string) => bigint | undefined) =>
    records.flatMap(({ address }) => (sinceOf(address) ? [`${sinceOf(address)},${address}`] : [])).sort();
  assert.deepEqual(
    keys(unstakingApplications.entries(ctx)),
    bySession(apps, (address) => getApplication(ctx, address)?.unstakeSessionEndHeight),
  );
  assert.deepEqual(
    keys(transferringApplications.entries(ctx)),
    bySession(apps, (address) => getApplication(ctx, address)?.pendingTransfer?.sessionEndHeight),
  );
  const delegated = apps.flatMap((app) => app.delegateeGatewayAddresses.map((one) => `${one},${app.address}`));
  assert.deepEqual(keys(delegations.entries(ctx)), delegated.sort());
  const left = apps.flatMap((app) => Object.keys(app.pendingUndelegations).map((height) => `${height},${app.address}`));
  assert.deepEqual(keys(undelegations.entries(ctx)), left.sort());
  const staked = [...gateways.entries(ctx)].map(([, one]) => one);
  const unstaking = bySession(staked, (address) => getGateway(ctx, address)?.unstakeSessionEndHeight);
  assert.deepEqual(keys(unstakingGateways.entries(ctx)), unstaking);
}

function checkRoundTrip(chain: Chain): void {
  const exported = chain.machine.exportGenesis(new Overlay(chain.state), chain.block);
  const again = actorsChain(chain.block.heightBlocks, exported);
  useSharedParams(again.ctx);
  assert.deepEqual(again.machine.exportGenesis(again.state, again.block), exported);
  assert.deepEqual(keys(delegations.entries(again.ctx)), keys(delegations.entries(chain.ctx)));
  assert.deepEqual(keys(undelegations.entries(again.ctx)), keys(undelegations.entries(chain.ctx)));
}

suite("random histories of applications and gateways", () => {
  test("stakes are what the modules hold, indexes say what the records do, and an export begins the same chain", () => {
    const accepted = new Map<number, number>();
    fc.assert(
      fc.property(wishes, (list) => {
        const chain = actorsChain(1n);
        for (const address of addresses) fund(chain.ctx, address, 20_000_000n);
        for (const wish of list) {
          const before = chain.state.changes().length;
          const answer = STEPS[wish.kind]?.(chain, wish) as { ok?: boolean } | undefined;
          if (answer?.ok === true) accepted.set(wish.kind, (accepted.get(wish.kind) ?? 0) + 1);
          if (answer?.ok === false) assert.equal(chain.state.changes().length, before);
          checkMoney(chain.ctx);
          checkIndexes(chain.ctx);
        }
        checkRoundTrip(chain);
        for (let i = 0; i < 6; i++) chain.endBlocksTo(chain.block.heightBlocks + 10n);
        checkMoney(chain.ctx);
        checkIndexes(chain.ctx);
        assert.deepEqual([...transferringApplications.entries(chain.ctx)], []);
        assert.deepEqual([...unstakingApplications.entries(chain.ctx)], []);
        assert.deepEqual([...undelegations.entries(chain.ctx)], []);
        assert.deepEqual([...unstakingGateways.entries(chain.ctx)], []);
        assert.deepEqual([...undelegatingGateways.entries(chain.ctx)], []);
      }),
      { numRuns: 30, seed: 20_260_821 },
    );
    assert.deepEqual(
      [...accepted.keys()].sort((a, b) => a - b),
      [0, 1, 2, 3, 4, 5, 6, 7],
    );
  });
});
