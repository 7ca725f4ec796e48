import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { createMessage, session, shared, supplier } from "@turnpike/proto";
import { planted } from "../../../test/planted.ts";
import { GOV, LifeChain, type Party, party, RELAY_UPOKT, Work } from "../../../test/session-life.ts";
import { upokt } from "../../state/stakes.ts";
import { serviceConfigs, setSupplier } from "../supplier/state.ts";
import { SessionFacts } from "./facts.ts";
import { hydrateSession } from "./hydrate.ts";

const NUM_ATTACKERS = 9;

/** The session of a height as a query draws it: a block would fix its draw. */
function drawn(chain: LifeChain, app: Party, heightBlocks: bigint): session.Session {
  const read = hydrateSession({ ...chain.ctx, mode: "query" }, app.address, "svc", heightBlocks);
  assert.ok(read.ok, read.ok ? "" : read.fault.text);
  return read.value;
}

const drawnOperators = (...args: Parameters<typeof drawn>): string[] =>
  drawn(...args).suppliers.map(({ operatorAddress }) => operatorAddress);

function headerAt(chain: LifeChain, app: Party, heightBlocks: bigint): session.SessionHeader {
  const { header } = drawn(chain, app, heightBlocks);
  assert.ok(header);
  return header;
}

function unstake(chain: LifeChain, { address }: Party): void {
  const outcome = chain.send(supplier.MsgUnstakeSupplierSchema, { signer: address, operatorAddress: address });
  assert.ok(outcome.ok, outcome.ok ? "" : outcome.fault.text);
}

/** A chain with an application and an honest supplier of `svc`, and the suppliers of attackers. */
function begin(numAttackers: number, maxSuppliers?: bigint) {
  const chain = new LifeChain({ proveAll: false });
  const [app, honest, owner] = [chain.addParty("app"), chain.addParty("honest"), chain.addParty("owner")];
  const attackers = Array.from({ length: numAttackers }, (_, i) => chain.addParty(`attacker ${i}`));
  for (const id of ["svc", "other"]) chain.addService(owner, id);
  if (maxSuppliers !== undefined) {
    const params = createMessage(session.ParamsSchema, { numSuppliersPerSession: maxSuppliers });
    assert.ok(chain.send(session.MsgUpdateParamsSchema, { authority: GOV, params }).ok);
  }
  assert.ok(chain.stakeApplication(app, "svc", 100_000_000n).ok);
  for (const one of [honest, ...attackers]) assert.ok(chain.stakeSupplier(one, "svc").ok);
  return { chain, app, honest, attackers };
}

const claims = (chain: LifeChain, header: session.SessionHeader, by: Party): boolean =>
  chain.claim(new Work(header, by).invent(1, RELAY_UPOKT)).ok;

suite("nothing that a supplier does later changes the draw of a session that was served", () => {
  test("attack: suppliers that had left the service unstake after the work, and claim with those who did it", () => {
    const { chain, app, honest, attackers } = begin(NUM_ATTACKERS);
    chain.runTo(6n);
    for (const one of attackers) assert.ok(chain.stakeSupplier(one, "other").ok);
    chain.runTo(9n);
    assert.deepEqual(drawnOperators(chain, app, 9n), [honest.address]);
    const header = headerAt(chain, app, 9n);
    const work = new Work(header, honest).invent(400, RELAY_UPOKT);
    chain.runTo(header.sessionEndBlockHeight);
    for (const one of attackers) unstake(chain, one);
    chain.runTo(chain.windowsOf(header).claimOpenHeight);
    assert.ok(chain.claim(work).ok);
    assert.equal(attackers.filter((one) => claims(chain, header, one)).length, 0);
    chain.settle(header);
    assert.deepEqual(chain.outcomeOf(work), { end: "settled", settledUpokt: 400n * RELAY_UPOKT });
  });

  test("attack: an operator that restakes and unstakes in each session has one seat, and evicts nobody", () => {
    const { chain, app, honest, attackers } = begin(1, 2n);
    const [attacker] = attackers as [Party];
    chain.runTo(9n);
    for (let i = 0; i < 8; i++) {
      const header = headerAt(chain, app, chain.block.heightBlocks);
      const before = drawnOperators(chain, app, header.sessionStartBlockHeight);
      assert.equal(new Set(before).size, 2);
      chain.runTo(header.sessionEndBlockHeight);
      unstake(chain, attacker);
      assert.ok(chain.stakeSupplier(attacker, "svc").ok);
      assert.deepEqual(drawnOperators(chain, app, header.sessionStartBlockHeight), before, `session ${i}`);
      chain.runTo(chain.windowsOf(header).claimOpenHeight);
      assert.ok(claims(chain, header, honest));
    }
  });

  test("of two configurations of an operator that hold at once, as a genesis may have them, the newest has the seat and the shares", () => {
    const { chain, app, honest } = begin(0);
    const [old, newest] = [party("old"), party("newest")];
    const update = (to: Party, activationHeight: bigint, deactivationHeight: bigint) =>
      createMessage(shared.ServiceConfigUpdateSchema, {
        operatorAddress: honest.address,
        activationHeight,
        deactivationHeight,
        service: {
          serviceId: "svc",
          endpoints: [{ url: "https://a.example", rpcType: shared.RPCType.JSON_RPC }],
          revShare: [{ address: to.address, revSharePercentage: 100n }],
        },
      });
    setSupplier(
      chain.ctx,
      planted(
        createMessage(shared.SupplierSchema, {
          ownerAddress: honest.address,
          operatorAddress: honest.address,
          stake: upokt(100_000_000n),
          serviceConfigHistory: [update(old, 1n, 13n), update(newest, 5n, 0n)],
        }),
      ),
    );
    const sharesAt = (heightBlocks: bigint): unknown[] => {
      assert.deepEqual(drawnOperators(chain, app, heightBlocks), [honest.address]);
      const facts = new SessionFacts(chain.ctx, headerAt(chain, app, heightBlocks));
      const [shown] = drawn(chain, app, heightBlocks).suppliers;
      assert.deepEqual(shown?.services[0]?.revShare, facts.revenueShares(honest.address));
      return facts.revenueShares(honest.address).map(({ address }) => address);
    };
    chain.runTo(9n);
    assert.equal([...serviceConfigs.entries(chain.ctx)].length, 2);
    assert.deepEqual(sharesAt(4n), [old.address]);
    assert.deepEqual(sharesAt(9n), [newest.address]);
  });
});
