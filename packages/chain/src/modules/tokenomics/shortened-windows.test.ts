import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { application, createMessage, gateway, shared, supplier } from "@turnpike/proto";
import { addressOf } from "../../../test/modules/tokenomics/economy.ts";
import { HistoryChain } from "../../../test/modules/tokenomics/histories.ts";
import { LIFE_PARAMS, LifeChain, type Party, RELAY_UPOKT, Work } from "../../../test/session-life.ts";
import { upokt } from "../../state/stakes.ts";
import { getApplication } from "../application/state.ts";
import { getSharedParams } from "../shared/state.ts";

const AUTHORITY = moduleAddress("gov");
const [APP, OTHER] = [addressOf("a"), addressOf("gateway")];
// The session from 23 to 26 settles at 31, whatever holds from 27 on.
const [LAST, SETTLED] = [26n, 31n];

/** Sessions and windows as short as can be, from the next session on. */
function shorten(chain: HistoryChain, numBlocksPerSession: bigint): void {
  const params = {
    ...getSharedParams(chain.ctx),
    numBlocksPerSession,
    claimWindowCloseOffsetBlocks: 0n,
    proofWindowOpenOffsetBlocks: 0n,
    proofWindowCloseOffsetBlocks: 1n,
  };
  assert.ok(chain.send(shared.MsgUpdateParamsSchema, { authority: AUTHORITY, params }).ok);
}

suite("windows that are made shorter while a session waits for its settlement", () => {
  test("an application's transfer waits for the session's own settlement", () => {
    const chain = new HistoryChain();
    assert.equal(chain.block.heightBlocks, 25n);
    const transfer = { sourceAddress: APP, destinationAddress: OTHER };
    assert.ok(chain.send(application.MsgTransferApplicationSchema, transfer).ok);
    shorten(chain, 4n);
    while (chain.block.heightBlocks <= SETTLED) {
      assert.ok(getApplication(chain.ctx, APP), `gone at ${chain.block.heightBlocks}`);
      chain.endCheckedBlock();
    }
    chain.endBlocksTo(40n);
    assert.equal(getApplication(chain.ctx, APP), undefined);
    assert.ok(getApplication(chain.ctx, OTHER));
  });

  test("a gateway that was left stays in the session's ring", () => {
    const chain = new HistoryChain();
    chain.send(gateway.MsgStakeGatewaySchema, { address: addressOf("e"), stake: upokt(10n ** 9n) });
    const parties = { appAddress: APP, gatewayAddress: addressOf("e") };
    assert.ok(chain.send(application.MsgDelegateToGatewaySchema, parties).ok);
    assert.ok(chain.send(application.MsgUndelegateFromGatewaySchema, parties).ok);
    shorten(chain, 1n);
    while (chain.block.heightBlocks <= SETTLED) {
      const left = Object.keys(getApplication(chain.ctx, APP)?.pendingUndelegations ?? {});
      assert.deepEqual(left, [`${LAST}`], `at ${chain.block.heightBlocks}`);
      chain.endCheckedBlock();
    }
    chain.endBlocksTo(60n);
    assert.deepEqual(getApplication(chain.ctx, APP)?.pendingUndelegations, {});
  });
});

const LONG = createMessage(shared.ParamsSchema, {
  ...LIFE_PARAMS,
  claimWindowCloseOffsetBlocks: 9n,
  proofWindowCloseOffsetBlocks: 6n,
  supplierUnbondingPeriodSessions: 5n,
  applicationUnbondingPeriodSessions: 5n,
});
const SHORT = {
  numBlocksPerSession: 3n,
  claimWindowCloseOffsetBlocks: 1n,
  proofWindowOpenOffsetBlocks: 0n,
  proofWindowCloseOffsetBlocks: 1n,
  supplierUnbondingPeriodSessions: 1n,
  applicationUnbondingPeriodSessions: 1n,
};
// The session from 5 to 8 is claimed until 19 and settled at 26; the next one, from 9 to 11, is settled at 15 by its own windows.
const [SERVED_AT, NEXT_SESSION, CLAIMED_AT, PROVEN_AT] = [6n, 9n, 19n, 20n];
const NUM_RELAYS = 12;
const WORTH = BigInt(NUM_RELAYS) * RELAY_UPOKT;

interface Parties {
  readonly chain: LifeChain;
  readonly app: Party;
  readonly away: Party;
  readonly gateway: Party;
  readonly supplier: Party;
  readonly owner: Party;
}

/** A chain with work of the last session whose windows are long, in the first block of the next one. */
function workBeforeShorterWindows(proveAll: boolean): Parties & { readonly work: Work } {
  const chain = new LifeChain({ params: LONG, proveAll });
  const [owner, app, away, through, by] = ["owner", "app", "away", "gateway", "supplier"].map((name) =>
    chain.addParty(name),
  ) as [Party, Party, Party, Party, Party];
  for (const id of ["svc", "svc2"]) chain.addService(owner, id);
  chain.stakeGateway(through);
  chain.stakeApplication(app, "svc", 100_000_000n);
  chain.delegate(app, through);
  chain.stakeSupplier(by, "svc");
  chain.runTo(SERVED_AT);
  const work = new Work(chain.header(app, "svc"), by);
  if (proveAll) work.serve(NUM_RELAYS, [app.publicKey, through.publicKey], through);
  else work.invent(NUM_RELAYS, RELAY_UPOKT);
  const params = { ...getSharedParams(chain.ctx), ...SHORT };
  assert.ok(chain.send(shared.MsgUpdateParamsSchema, { authority: AUTHORITY, params }).ok);
  chain.runTo(NEXT_SESSION);
  return { chain, app, away, gateway: through, supplier: by, owner, work };
}

const CHANGES: readonly (readonly [what: string, change: (parties: Parties) => { readonly ok: boolean }])[] = [
  [
    "its application unstakes",
    ({ chain, app }) => chain.send(application.MsgUnstakeApplicationSchema, { address: app.address }),
  ],
  ["its application is transferred", ({ chain, app, away }) => chain.transfer(app, away)],
  ["its application undelegates", ({ chain, app, gateway: from }) => chain.undelegate(app, from)],
  [
    "its application lowers its spend limit",
    ({ chain, app }) => chain.stakeApplication(app, "svc", 100_000_001n, 1_000_000n),
  ],
  [
    "its supplier unstakes",
    ({ chain, supplier: { address } }) =>
      chain.send(supplier.MsgUnstakeSupplierSchema, { signer: address, operatorAddress: address }),
  ],
  ["its supplier leaves the service", ({ chain, supplier: by }) => chain.stakeSupplier(by, "svc2")],
];

suite("a session whose windows are longer than those of the next one", () => {
  for (const [what, change] of CHANGES) {
    test(`is paid in full when ${what} in the next one`, () => {
      const parties = workBeforeShorterWindows(true);
      const { chain, work } = parties;
      // The second block: what is noted before it belongs to the next session.
      chain.runTo(NEXT_SESSION + 1n);
      assert.ok(change(parties).ok);
      chain.runTo(CLAIMED_AT);
      const claimed = chain.claim(work);
      assert.ok(claimed.ok, claimed.ok ? "" : claimed.fault.text);
      chain.runTo(PROVEN_AT);
      const proven = chain.prove(work);
      assert.ok(proven.ok, proven.ok ? "" : proven.fault.text);
      chain.settle(work.header);
      assert.deepEqual(chain.outcomeOf(work), { end: "settled", settledUpokt: WORTH });
    });
  }

  test("is settled before the next one, which takes what it leaves of the stake", () => {
    const { chain, app, supplier: by, work } = workBeforeShorterWindows(false);
    const later = new Work(chain.header(app, "svc"), by).invent(5_000, RELAY_UPOKT);
    chain.runTo(chain.windowsOf(later.header).claimOpenHeight);
    assert.ok(chain.claim(work).ok);
    assert.ok(chain.claim(later).ok);
    chain.settle(work.header);
    assert.deepEqual(chain.outcomeOf(work), { end: "settled", settledUpokt: WORTH });
    const { end, settledUpokt } = chain.outcomeOf(later);
    assert.equal(end, "settled");
    assert.ok(settledUpokt > 10n * WORTH, `only ${settledUpokt} upokt`);
  });
});
