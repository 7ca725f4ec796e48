import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  application,
  authz,
  bank,
  cometTypes,
  createMessage,
  encodeMessage,
  gateway,
  packAny,
  proof,
  service,
  session,
  shared,
  staking,
  supplier,
  tokenomics,
  upgrade,
} from "@turnpike/proto";
import { declaredCollections, entriesOf } from "../../test/collections.ts";
import { bytesOfAddress } from "../../test/recorded-tx.ts";
import { GOV, LifeChain, type Party, Work } from "../../test/session-life.ts";
import { newValidator, RATE_ONE } from "../../test/session-moves.ts";
import { unfinishedUnbonding as unfinishedApplications, unfinishedTransfers } from "../modules/application/state.ts";
import { addUnorderedNonce } from "../modules/auth/accounts.ts";
import { denomMetadata } from "../modules/bank/balances.ts";
import { undelegatingGateways, unfinishedUnbonding as unfinishedGateways } from "../modules/gateway/state.ts";
import { holdClaim } from "../modules/proof/held-claims.ts";
import { getProofParams } from "../modules/proof/state.ts";
import { sessionEnd } from "../modules/shared/state.ts";
import { getStakingParams } from "../modules/staking/state.ts";
import {
  configsByActivation,
  lastActivated,
  unfinishedUnbonding as unfinishedSuppliers,
  unstakingSuppliers,
} from "../modules/supplier/state.ts";
import { dueDifficulties, endUnderWay, getTokenomicsParams, relaysOfPart } from "../modules/tokenomics/state.ts";
import type { Outcome } from "../state/outcome.ts";
import { upokt } from "../state/stakes.ts";

/** Collections that an export does not have as they are, with the reason. */
const LEFT_OUT: ReadonlyMap<string, string> = new Map([
  ["session/blockHashes", "only those that unsettled sessions need: see session/genesis.test.ts"],
  ["session/drawnSessions", "a session is drawn again when it is asked for, to the same suppliers"],
  ["session/formerDrawnSessions", "only an earlier build writes it: blocks remove it"],
  [
    "application/formerUnstaking",
    "only an earlier version writes it: the next block moves it to unstakingApplications",
  ],
  ["application/formerTransferring", "as formerUnstaking, to transferringApplications"],
  ["gateway/formerUnstaking", "as formerUnstaking, to unstakingGateways"],
  ["supplier/formerUnstaking", "as formerUnstaking, to unstakingSuppliers"],
  ["supplier/serviceEnds", "an export applies it to the configurations: see supplier/service-ends.test.ts"],
  ["staking/setIsStale", "the end of every block removes it"],
]);

const UNFINISHED = [unfinishedApplications, unfinishedTransfers, unfinishedGateways, unfinishedSuppliers] as const;

const accept = (outcome: Outcome<unknown>): void => assert.ok(outcome.ok, outcome.ok ? "" : outcome.fault.text);

function grantToAgent(chain: LifeChain, granter: Party, agent: Party): void {
  const msg = "/cosmos.bank.v1beta1.MsgSend";
  const authorization = packAny(
    authz.GenericAuthorizationSchema,
    createMessage(authz.GenericAuthorizationSchema, { msg }),
  );
  const expiration = { seconds: chain.block.timeNanos / 1_000_000_000n + 1_000n, nanos: 0 };
  const grant = { authorization, expiration };
  accept(chain.send(authz.MsgGrantSchema, { granter: granter.address, grantee: agent.address, grant }));
}

/** Changes of the authority. */
function changeParams(chain: LifeChain): void {
  const authority = GOV;
  accept(
    chain.send(shared.MsgUpdateParamSchema, {
      authority,
      name: "compute_units_to_tokens_multiplier",
      asType: { case: "asUint64", value: 2_000_000n },
    }),
  );
  accept(
    chain.send(session.MsgUpdateParamSchema, {
      authority,
      name: "num_suppliers_per_session",
      asType: { case: "asUint64", value: 14n },
    }),
  );
  accept(
    chain.send(proof.MsgUpdateParamsSchema, {
      authority,
      params: { ...getProofParams(chain.ctx), proofMissingPenalty: upokt(5n) },
    }),
  );
  accept(
    chain.send(tokenomics.MsgUpdateParamsSchema, {
      authority,
      params: { ...getTokenomicsParams(chain.ctx), mintRatio: 0.9 },
    }),
  );
  accept(
    chain.send(staking.MsgUpdateParamsSchema, {
      authority,
      params: { ...getStakingParams(chain.ctx), maxValidators: 1 },
    }),
  );
  accept(chain.send(bank.MsgSetSendEnabledSchema, { authority, sendEnabled: [{ denom: "other", enabled: true }] }));
  const plan = { name: "later", height: 1_000n, info: "" };
  accept(chain.send(upgrade.MsgSoftwareUpgradeSchema, { authority, plan }));
}

/** Entries that only a fault, an engine or more records than a block takes would make. */
function addRareEntries(chain: LifeChain, work: Work, signer: Party): void {
  const { ctx } = chain;
  denomMetadata.set(ctx, "upokt", createMessage(bank.MetadataSchema, { base: "upokt", display: "pokt" }));
  addUnorderedNonce(ctx, bytesOfAddress(signer.address), ctx.block.timeNanos + 60_000_000_000n);
  holdClaim(ctx, [work.header.sessionId, work.supplier.address]);
  relaysOfPart.set(ctx, "svc", 7n);
  dueDifficulties.set(ctx, [ctx.block.heightBlocks, "svc"], 7n);
  endUnderWay.set(ctx, undefined, 4n);
  undelegatingGateways.set(ctx, [4n, signer.address], new Uint8Array(0));
  for (const [key] of configsByActivation.rawEntries(ctx)) {
    lastActivated.set(ctx, undefined, key);
    break;
  }
  const sessionEndHeight = sessionEnd(ctx) - 4n;
  const lastKey = unstakingSuppliers.keyBytes([sessionEndHeight - 8n, signer.address]);
  for (const unfinished of UNFINISHED) unfinished.set(ctx, undefined, { sessionEndHeight, lastKey });
  const params = createMessage(cometTypes.ConsensusParamsSchema, { block: { maxBytes: 1n, maxGas: 2n } });
  chain.state.set(Buffer.from("consensus/\0"), encodeMessage(cometTypes.ConsensusParamsSchema, params));
}

/** A chain whose state has entries in every collection. */
function busyChain(): LifeChain {
  const chain = new LifeChain({ hasValidator: false });
  const add = (name: string): Party => chain.addParty(name);
  const [app, leaving, moving, owner, agent] = [add("app"), add("app 2"), add("app 3"), add("owner"), add("agent")];
  const [gw, left, sup, idle] = [add("gateway"), add("gateway 2"), add("supplier"), add("idle supplier")];
  for (const id of ["svc", "svc2"]) chain.addService(owner, id);
  for (const who of [app, leaving, moving]) accept(chain.stakeApplication(who, "svc", 100_000_000n));
  for (const who of [gw, left]) accept(chain.stakeGateway(who));
  accept(chain.stakeSupplier(sup, "svc"));
  const parties = { signer: idle.address, ownerAddress: idle.address, operatorAddress: idle.address };
  accept(chain.send(supplier.MsgStakeSupplierSchema, { ...parties, stake: upokt(100_000_000n), services: [] }));
  for (const [i, tokens] of [3_000_000n, 4_000_000n].entries()) {
    const validator = newValidator(add(`validator ${i}`), tokens, RATE_ONE / 10n);
    accept(chain.send(staking.MsgCreateValidatorSchema, validator));
  }
  for (const to of [gw, left]) accept(chain.delegate(app, to));
  const serve = (): Work => new Work(chain.header(app, "svc"), sup).serve(2, [gw.publicKey, app.publicKey], gw);
  chain.runTo(9n);
  assert.equal(chain.finish(serve()).end, "settled");
  const work = serve();
  const { claimOpenHeight, proofOpenHeight } = chain.windowsOf(work.header);
  chain.runTo(claimOpenHeight);
  accept(chain.claim(work));
  chain.runTo(proofOpenHeight - 1n);
  changeParams(chain);
  chain.runTo(proofOpenHeight);
  accept(chain.undelegate(app, left));
  accept(chain.send(gateway.MsgUnstakeGatewaySchema, { address: left.address }));
  accept(chain.transfer(moving, add("heir")));
  accept(chain.stakeSupplier(sup, "svc2"));
  accept(chain.send(supplier.MsgUnstakeSupplierSchema, { signer: idle.address, operatorAddress: idle.address }));
  grantToAgent(chain, owner, agent);
  const changed = { id: "svc2", name: "svc2", computeUnitsPerRelay: 5n, ownerAddress: owner.address };
  accept(chain.send(service.MsgAddServiceSchema, { ownerAddress: owner.address, service: changed }));
  const sold = { ownerAddress: owner.address, serviceId: "svc", newOwnerAddress: agent.address };
  accept(chain.send(service.MsgTransferServiceSchema, sold));
  accept(chain.send(application.MsgUnstakeApplicationSchema, { address: leaving.address }));
  accept(chain.prove(work));
  addRareEntries(chain, work, agent);
  return chain;
}

suite("state that an export has", () => {
  test("every collection is exported and imported, or named with the reason that it is not", () => {
    const chain = busyChain();
    const collections = declaredCollections();
    const prefixes = collections.map(({ prefix }) => prefix.toString("hex"));
    assert.equal(new Set(prefixes).size, prefixes.length, "two collections of one prefix");
    const foreign = [...chain.state.range({ prefix: new Uint8Array(0) })]
      .map(([key]) => Buffer.from(key))
      .filter((key) => !prefixes.some((prefix) => key.toString("hex").startsWith(prefix)));
    assert.deepEqual(foreign.map(String), []);
    const exported = chain.machine.exportGenesis(chain.state, chain.block);
    const appState = JSON.parse(JSON.stringify(exported)) as Record<string, unknown>;
    const again = new LifeChain({ appState, heightBlocks: chain.block.heightBlocks });
    const carried = collections.filter(({ name }) => !LEFT_OUT.has(name));
    assert.equal(carried.length, collections.length - LEFT_OUT.size, "names of no collection");
    const empty = carried.filter((one) => entriesOf(chain.state, one).length === 0).map(({ name }) => name);
    assert.deepEqual(empty, [], "collections without an entry: add one to the state of this test");
    const differ = carried.filter(
      (one) => entriesOf(again.state, one).join("\n") !== entriesOf(chain.state, one).join("\n"),
    );
    assert.deepEqual(
      differ.map(({ name }) => name),
      [],
    );
    assert.deepEqual(JSON.parse(JSON.stringify(again.machine.exportGenesis(again.state, again.block))), appState);
  });

  test("what a block left to the next ones is refused when it is there twice, and dropped by a chain that begins anew", () => {
    const end = { session_end_height: "8", since_height: "4", address: GOV };
    const relays = { service_id: "svc", num_relays: "7" };
    const due = { settled_height: "8", ...relays };
    const left = { since_height: "4", address: GOV };
    for (const appState of [
      { tokenomics: { relays_of_part: [relays, relays] } },
      { tokenomics: { end_under_way: ["4", "8"] } },
      { tokenomics: { relays_of_part: [{ ...relays, num_relays: `${2n ** 64n}` }] } },
      { tokenomics: { due_difficulties: [due, due] } },
      { supplier: { unfinished_unbonding: [end, end] } },
      { application: { unfinished_unbonding: [{ ...end, since_height: "-1" }] } },
      { application: { unfinished_transfers: [{ ...end, address: "" }] } },
      { gateway: { unfinished_unbonding: [end, end] } },
      { gateway: { undelegating_gateways: [left, left] } },
      { supplier: { last_activated: [{ activation_height: "1", service_id: "a b", operator_address: GOV }] } },
    ]) {
      assert.throws(() => new LifeChain({ appState }), { code: "CONFIG_INVALID" });
    }
    const activated = { activation_height: "9", service_id: "svc", operator_address: GOV };
    const appState = {
      application: { unfinished_unbonding: [end], unfinished_transfers: [end] },
      gateway: { unfinished_unbonding: [end] },
      supplier: { unfinished_unbonding: [end], last_activated: [activated] },
    };
    for (const [heightBlocks, count] of [
      [8n, 4],
      [9n, 5],
      [1n, 0],
    ] as const) {
      const { ctx } = new LifeChain({ appState, heightBlocks });
      const entries = [...UNFINISHED, lastActivated].map((collection) => collection.get(ctx, undefined));
      assert.equal(entries.filter((entry) => entry !== undefined).length, count, `${heightBlocks}`);
    }
  });
});
