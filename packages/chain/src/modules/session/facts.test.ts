import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { PLACEHOLDER_RING_KEY } from "@turnpike/crypto";
import { application, createMessage, proof, service, shared, supplier, tokenomics } from "@turnpike/proto";
import { activeApplicationConfigs } from "@turnpike/protocol";
import { bytesOfAddress } from "../../../test/recorded-tx.ts";
import { GOV, LifeChain, multisigKey, type Party, party, Work } from "../../../test/session-life.ts";
import type { Outcome } from "../../state/outcome.ts";
import { Overlay } from "../../state/overlay.ts";
import { upokt } from "../../state/stakes.ts";
import { getApplication, setApplication } from "../application/state.ts";
import { addUnorderedNonce } from "../auth/accounts.ts";
import { holdClaim } from "../proof/held-claims.ts";
import { ringAddresses, ringKeys } from "../proof/ring-keys.ts";
import { pastApplications } from "./history.ts";
import { hydrateSession } from "./hydrate.ts";

const PROVEN = 1;

const refusal = (outcome: Outcome<unknown>): string => (outcome.ok ? "" : outcome.fault.text);

/** A chain with one application, gateway, supplier and service, in the first block of a session. */
function begin(opts: ConstructorParameters<typeof LifeChain>[0] = {}, stake = 100_000_000n, limit?: bigint) {
  const chain = new LifeChain(opts);
  const [app, gw, sup, owner] = ["app", "gateway", "supplier", "owner"].map((name) => chain.addParty(name)) as [
    Party,
    Party,
    Party,
    Party,
  ];
  chain.addService(owner, "svc");
  assert.ok(chain.stakeApplication(app, "svc", stake, limit).ok);
  assert.ok(chain.stakeGateway(gw).ok);
  assert.ok(chain.stakeSupplier(sup, "svc").ok);
  assert.ok(chain.delegate(app, gw).ok);
  chain.runTo(9n);
  const serve = (relays: number, by = sup): Work =>
    new Work(chain.header(app, "svc"), by).serve(relays, [app.publicKey, gw.publicKey], gw);
  return { chain, app, gw, sup, owner, serve };
}

suite("a session is settled by what was true in it", () => {
  test("served work is proven and paid", () => {
    const { chain, serve } = begin();
    assert.deepEqual(chain.finish(serve(3)), { end: "settled", settledUpokt: 300_000n });
  });

  for (const [kind, key] of [
    ["a multisignature", multisigKey("gateway 2")],
    ["no", "none"],
  ] as const) {
    test(`a gateway with ${kind} key that is delegated to in the proof window leaves the session's ring as it was`, () => {
      const { chain, app, serve } = begin();
      const bad = chain.addParty("gateway 2", key);
      assert.ok(chain.stakeGateway(bad).ok);
      const work = serve(3);
      const { claimOpenHeight, proofOpenHeight } = chain.windowsOf(work.header);
      chain.runTo(claimOpenHeight);
      assert.ok(chain.claim(work).ok);
      chain.runTo(proofOpenHeight);
      chain.delegate(app, bad);
      assert.ok(chain.prove(work).ok);
      chain.runTo(proofOpenHeight + 1n);
      assert.equal(chain.statusOf(work), PROVEN);
      chain.settle(work.header);
      assert.deepEqual(chain.outcomeOf(work), { end: "settled", settledUpokt: 300_000n });
    });
  }

  test("a gateway whose key cannot sign relays is refused at delegation; one without a key yet is in no ring", () => {
    const { chain, app, gw } = begin();
    const [other, keyless] = [
      chain.addParty("gateway 2", multisigKey("gateway 2")),
      chain.addParty("gateway 3", "none"),
    ];
    assert.ok(chain.stakeGateway(other).ok && chain.stakeGateway(keyless).ok);
    const refused = chain.delegate(app, other);
    assert.match(
      refused.ok ? "" : refused.fault.text,
      /cannot sign relays: .*not a secp256k1 key: invalid gateway address$/,
    );
    assert.ok(chain.delegate(app, keyless).ok);
    const addresses = ringAddresses(chain.ctx, chain.header(app, "svc"));
    assert.ok(addresses.ok);
    const keys = [gw, keyless, app, other, app].map(({ publicKey }) => publicKey);
    assert.deepEqual(ringKeys(chain.ctx, addresses.value, keys), [gw.publicKey, app.publicKey]);
  });

  test("an application whose own key cannot sign relays is served by its gateway", () => {
    const { chain, gw, sup } = begin();
    const app = chain.addParty("app 2", multisigKey("app 2"));
    assert.ok(chain.stakeApplication(app, "svc", 100_000_000n).ok);
    assert.ok(chain.delegate(app, gw).ok);
    const work = new Work(chain.header(app, "svc"), sup).serve(2, [gw.publicKey, gw.publicKey], gw);
    assert.deepEqual(chain.finish(work), { end: "settled", settledUpokt: 200_000n });
  });

  test("a gateway that joins after a session signs for none of it; one that leaves does", () => {
    for (const [when, end] of [
      ["in it", "settled"],
      ["after it", "expired"],
    ] as const) {
      const { chain, app, sup } = begin();
      const late = chain.addParty("gateway 2");
      assert.ok(chain.stakeGateway(late).ok);
      const header = chain.header(app, "svc");
      if (when === "after it") chain.runTo(header.sessionEndBlockHeight + 1n);
      assert.ok(chain.delegate(app, late).ok);
      const work = new Work(header, sup).serve(2, [app.publicKey, late.publicKey], late);
      chain.runTo(header.sessionEndBlockHeight + 1n);
      assert.ok(chain.undelegate(app, late).ok);
      assert.equal(chain.finish(work).end, end, when);
    }
  });

  test("an application that is transferred is in no later session, whatever else it begins to do", () => {
    const { chain, app, sup } = begin();
    const header = chain.header(app, "svc");
    assert.ok(chain.transfer(app, chain.addParty("heir")).ok);
    // Settlement lets an application unbond that is being transferred.
    chain.runTo(13n);
    const record = getApplication(chain.ctx, app.address);
    assert.ok(record);
    setApplication(chain.ctx, { ...record, unstakeSessionEndHeight: 16n });
    assert.match(refusal(hydrateSession(chain.ctx, app.address, "svc", 13n)), /is not active for session/);
    assert.ok(chain.stakeApplication(app, "svc", 100_000_001n).ok);
    assert.match(refusal(hydrateSession(chain.ctx, app.address, "svc", 13n)), /is not active for session/);
    const work = new Work(header, sup).serve(4, [app.publicKey, app.publicKey], app);
    assert.deepEqual(chain.finish(work), { end: "settled", settledUpokt: 400_000n });
  });

  test("attack: the placeholder's key, which is public, signs for no application", () => {
    const { chain, sup } = begin();
    const app = chain.addParty("app 2");
    assert.ok(chain.stakeApplication(app, "svc", 100_000_000n).ok);
    const forger = party("placeholder_ring_key_for_apps_without_gateways");
    assert.deepEqual(Buffer.from(forger.publicKey), Buffer.from(PLACEHOLDER_RING_KEY));
    const forged = new Work(chain.header(app, "svc"), sup).serve(9, [app.publicKey, forger.publicKey], forger);
    assert.deepEqual(chain.finish(forged), { end: "expired", settledUpokt: 0n });
    const honest = new Work(chain.header(app, "svc"), sup).serve(9, [app.publicKey, app.publicKey], app);
    assert.deepEqual(chain.finish(honest), { end: "settled", settledUpokt: 900_000n });
  });

  test("a session keeps its application when it unbonds, stays after all, or is transferred twice", () => {
    const { chain, app, serve } = begin();
    const work = serve(4);
    assert.ok(chain.send(application.MsgUnstakeApplicationSchema, { address: app.address }).ok);
    chain.runTo(13n);
    assert.match(refusal(hydrateSession(chain.ctx, app.address, "svc", 13n)), /is not active for session/);
    chain.runTo(14n);
    assert.ok(chain.stakeApplication(app, "svc", 100_000_001n).ok);
    const next = serve(5);
    assert.ok(chain.transfer(app, chain.addParty("heir")).ok);
    assert.ok(chain.claim(work).ok);
    chain.runTo(17n);
    assert.match(refusal(hydrateSession(chain.ctx, app.address, "svc", 17n)), /is not active for session/);
    assert.ok(chain.prove(work).ok);
    chain.runTo(18n);
    assert.ok(chain.claim(next).ok);
    chain.runTo(21n);
    assert.ok(chain.transfer(app, chain.addParty("other heir")).ok);
    assert.match(refusal(hydrateSession(chain.ctx, app.address, "svc", 17n)), /is not active for session/);
    assert.ok(chain.prove(next).ok);
    chain.settle(next.header);
    assert.equal(chain.outcomeOf(work).settledUpokt + chain.outcomeOf(next).settledUpokt, 900_000n);
  });

  test("a spend limit that is raised in a session, or set for the first time, holds for it as the higher one", () => {
    const { chain, app, serve } = begin({}, 100_000_000n, 1_000_000n);
    assert.ok(chain.stakeApplication(app, "svc", 100_000_001n, 5_000_000n).ok);
    chain.runTo(11n);
    assert.ok(chain.stakeApplication(app, "svc", 100_000_002n, 2_000_000n).ok);
    assert.equal(chain.finish(serve(60)).settledUpokt, 4_545_454n);
    const later = begin();
    later.chain.runTo(10n);
    assert.ok(later.chain.stakeApplication(later.app, "svc", 100_000_001n, 1_000_000n).ok);
    assert.equal(later.chain.finish(later.serve(60)).settledUpokt, 6_000_000n);
  });

  test("an export in the proof window begins a chain that settles as this one", () => {
    const { chain, app, serve } = begin({}, 100_000_000n, 30_000_000n);
    const work = serve(20);
    chain.runTo(13n);
    assert.ok(chain.stakeApplication(app, "svc", 100_000_001n, 1_000_000n).ok);
    chain.runTo(chain.windowsOf(work.header).claimOpenHeight);
    assert.ok(chain.claim(work).ok);
    const exported = chain.machine.exportGenesis(new Overlay(chain.state), chain.block);
    const history = (exported.session as { readonly records_history?: readonly unknown[] }).records_history ?? [];
    assert.ok(history.length > 0);
    // The validator of these tests has no key of consensus, which a genesis needs.
    const { staking: _, ...rest } = exported;
    const again = new LifeChain({ appState: rest, heightBlocks: chain.block.heightBlocks });
    const { staking: __, ...exportedAgain } = again.machine.exportGenesis(again.state, again.block);
    assert.deepEqual(exportedAgain, rest);
    for (const one of [chain, again]) {
      one.runTo(one.windowsOf(work.header).proofOpenHeight);
      assert.ok(one.prove(work).ok);
      one.settle(work.header);
      assert.deepEqual(one.outcomeOf(work), { end: "settled", settledUpokt: 2_000_000n });
    }
    for (const damaged of [{ record: "other" }, { record: "application", key: app.address, last_height: "x" }]) {
      const session = { ...(exported.session as object), records_history: [damaged] };
      assert.throws(
        () => new LifeChain({ appState: { ...rest, session }, heightBlocks: chain.block.heightBlocks }),
        /records_history: entry 0/,
      );
    }
  });

  test("attack: an export with its addresses in capitals, which are the same accounts, begins the same chain", () => {
    const { chain, app, gw, sup, owner, serve } = begin({}, 100_000_000n, 30_000_000n);
    const [buyer, idle] = [chain.addParty("buyer"), chain.addParty("idle")];
    const work = serve(20);
    chain.runTo(13n);
    assert.ok(chain.stakeApplication(app, "svc", 100_000_001n, 1_000_000n).ok);
    assert.ok(chain.undelegate(app, gw).ok);
    const sold = { ownerAddress: owner.address, serviceId: "svc", newOwnerAddress: buyer.address };
    assert.ok(chain.send(service.MsgTransferServiceSchema, sold).ok);
    const parties = { signer: owner.address, ownerAddress: owner.address, operatorAddress: idle.address };
    assert.ok(chain.send(supplier.MsgStakeSupplierSchema, { ...parties, stake: upokt(100_000_000n), services: [] }).ok);
    const { claimOpenHeight, proofOpenHeight } = chain.windowsOf(work.header);
    chain.runTo(claimOpenHeight);
    assert.ok(chain.claim(work).ok);
    chain.runTo(proofOpenHeight);
    assert.ok(chain.prove(work).ok);
    holdClaim(chain.ctx, [work.header.sessionId, sup.address]);
    addUnorderedNonce(chain.ctx, bytesOfAddress(app.address), chain.block.timeNanos);
    const { staking: _, ...exported } = chain.machine.exportGenesis(new Overlay(chain.state), chain.block);
    const lists = { auth: "unordered_nonces", proof: "held_claims", supplier: "never_served_operators" } as const;
    for (const [name, list] of Object.entries({ ...lists, session: "records_history" })) {
      assert.ok(list in (exported[name] as object), list);
    }
    const capitals = JSON.stringify(exported).replaceAll(/"pokt1[0-9a-z]+"/g, (text) => text.toUpperCase());
    const appState = JSON.parse(capitals) as Record<string, unknown>;
    const again = new LifeChain({ appState, heightBlocks: chain.block.heightBlocks });
    const { staking: __, ...exportedAgain } = again.machine.exportGenesis(again.state, again.block);
    assert.deepEqual(exportedAgain, exported);
    const back = { serviceId: sold.serviceId, ownerAddress: buyer.address, newOwnerAddress: owner.address };
    assert.ok(again.send(service.MsgTransferServiceSchema, back).ok);
  });

  test("attack: another owner of the service, and other shares, get what is worked for after them", () => {
    const { chain, app, sup, owner, serve } = begin();
    const [buyer, partner] = [chain.addParty("buyer"), chain.addParty("partner")];
    const work = serve(30);
    chain.runTo(10n);
    const sold = { ownerAddress: owner.address, serviceId: "svc", newOwnerAddress: buyer.address };
    assert.ok(chain.send(service.MsgTransferServiceSchema, sold).ok);
    assert.ok(chain.stakeSupplier(sup, "svc", [[partner, 100n]]).ok);
    const oldBalances = [owner, buyer, partner].map((one) => chain.balanceOf(one));
    assert.equal(chain.finish(work).settledUpokt, 3_000_000n);
    const gained = [owner, buyer, partner].map((one, i) => chain.balanceOf(one) - (oldBalances[i] ?? 0n));
    assert.deepEqual(
      gained.map((amount) => amount > 0n),
      [true, false, false],
    );
    const next = new Work(chain.header(app, "svc"), sup).serve(30, [app.publicKey, app.publicKey], app);
    assert.equal(chain.finish(next).settledUpokt, 3_000_000n);
    assert.ok(chain.balanceOf(buyer) > (oldBalances[1] ?? 0n) && chain.balanceOf(partner) > (oldBalances[2] ?? 0n));
  });

  test("attack: parameters of settlement that change after the work change nothing for it", () => {
    const [same, changed] = [false, true].map((changes) => {
      const { chain, sup, serve } = begin();
      const work = serve(30);
      chain.runTo(10n);
      const set = (name: string, value: number) =>
        chain.send(tokenomics.MsgUpdateParamSchema, { authority: GOV, name, asType: { case: "asFloat", value } });
      if (changes) assert.ok(set("mint_ratio", 0.1).ok && set("global_inflation_per_claim", 0.5).ok);
      const oldBalance = chain.balanceOf(sup);
      const outcome = chain.finish(work);
      return { outcome, gained: chain.balanceOf(sup) - oldBalance };
    });
    assert.deepEqual(changed, same);
  });

  test("attack: a proof that is asked for only after its window opened does not slash, and one that was missing does", () => {
    for (const proveAll of [false, true]) {
      const { chain, serve } = begin({ proveAll });
      const work = serve(3);
      const { claimOpenHeight, proofOpenHeight } = chain.windowsOf(work.header);
      chain.runTo(claimOpenHeight);
      assert.ok(chain.claim(work).ok);
      chain.runTo(proofOpenHeight);
      const params = {
        proofRequestProbability: proveAll ? 0 : 1,
        proofRequirementThreshold: upokt(proveAll ? 10n ** 12n : 1n),
        proofMissingPenalty: upokt(100_000_000n),
        proofSubmissionFee: upokt(1n),
      };
      assert.ok(chain.send(proof.MsgUpdateParamsSchema, { authority: GOV, params }).ok);
      chain.settle(work.header);
      assert.equal(chain.outcomeOf(work).end, proveAll ? "expired" : "settled");
      const slashed = chain.events.find(({ type }) => type.endsWith("EventSupplierSlashed"));
      const penalty = slashed?.attributes.find(({ key }) => key === "proof_missing_penalty")?.value;
      assert.equal(penalty, proveAll ? '"5000000upokt"' : undefined);
    }
  });

  test("attack: two services of one application are two sessions for one stake, which share it", () => {
    const { chain, app: rich, gw, sup } = begin();
    const other = chain.addParty("supplier 2");
    chain.addService(chain.addParty("owner 2"), "svc2");
    assert.ok(chain.stakeSupplier(other, "svc2").ok);
    // The genesis of a real chain has such ones: a transfer joins services there.
    const one = getApplication(chain.ctx, rich.address);
    assert.ok(one !== undefined);
    const serviceConfigs = ["svc", "svc2"].map((serviceId) =>
      createMessage(shared.ApplicationServiceConfigSchema, { serviceId }),
    );
    setApplication(chain.ctx, { ...one, serviceConfigs });
    chain.runTo(33n);
    const ring = [rich.publicKey, gw.publicKey];
    const works = [
      new Work(chain.header(rich, "svc"), sup).serve(400, ring, rich),
      new Work(chain.header(rich, "svc2"), other).serve(400, ring, rich),
    ];
    const { claimOpenHeight, proofOpenHeight } = chain.windowsOf(chain.header(rich, "svc"));
    chain.runTo(claimOpenHeight);
    for (const work of works) assert.ok(chain.claim(work).ok);
    chain.runTo(proofOpenHeight);
    for (const work of works) assert.ok(chain.prove(work).ok);
    for (const work of works) chain.settle(work.header);
    // 100 POKT, two sessions at a time, two services.
    const paid = works.map((work) => chain.outcomeOf(work).settledUpokt);
    assert.ok((paid[0] ?? 0n) > 20_000_000n && (paid[1] ?? 0n) > 20_000_000n, paid.join());
  });

  test("attack: an application that changes in every block of a session makes its claims and proofs pay for what they read", () => {
    const gasOf = (blocks: bigint): readonly [claim: bigint, proof: bigint] => {
      const { chain, app, gw, serve } = begin();
      const others = Array.from({ length: 20 }, (_, i) => chain.addParty(`gateway ${i + 2}`));
      for (const other of others) {
        assert.ok(chain.stakeGateway(other).ok && chain.delegate(app, other).ok && chain.undelegate(app, other).ok);
      }
      const work = serve(1);
      const end = work.header.sessionStartBlockHeight + blocks;
      for (; chain.block.heightBlocks < end; chain.runTo(chain.block.heightBlocks + 1n)) {
        assert.ok(chain.undelegate(app, gw).ok && chain.delegate(app, gw).ok);
      }
      const { claimOpenHeight, proofOpenHeight } = chain.windowsOf(work.header);
      chain.runTo(claimOpenHeight);
      assert.equal(refusal(chain.claim(work)), "");
      const claimGas = chain.lastGas;
      chain.runTo(proofOpenHeight);
      assert.equal(refusal(chain.prove(work)), "");
      return [claimGas, chain.lastGas];
    };
    const [[claim, proof], [busyClaim, busyProof]] = [gasOf(1n), gasOf(4n)];
    // Three more records of 21 addresses, read twice, at the price of a store's read.
    const bytes = 3n * 21n * 43n;
    assert.ok(busyClaim - claim >= 2n * 3n * bytes, `${claim} ${busyClaim}`);
    assert.ok(busyProof - proof >= 2n * 3n * bytes, `${proof} ${busyProof}`);
  });

  test("attack: the keys of a ring are read for the members of a signature, however many gateways the application left", () => {
    const { chain, app, gw } = begin();
    for (let i = 0; i < 20; i++) {
      const other = chain.addParty(`gateway ${i + 2}`);
      assert.ok(chain.stakeGateway(other).ok && chain.delegate(app, other).ok && chain.undelegate(app, other).ok);
    }
    const addresses = ringAddresses(chain.ctx, chain.header(app, "svc"));
    assert.ok(addresses.ok && addresses.value.size === 22);
    const keys = [app.publicKey, gw.publicKey, app.publicKey, party("stranger").publicKey];
    let reads = 0;
    const state = new Overlay({
      get(key) {
        reads++;
        return chain.state.get(key);
      },
      range: (options) => chain.state.range(options),
    });
    assert.deepEqual(ringKeys({ ...chain.ctx, state }, addresses.value, keys), [app.publicKey, gw.publicKey]);
    assert.ok(reads <= 4, `${reads} reads`);
  });

  test("the history goes when no session needs it", () => {
    const { chain, app } = begin({}, 100_000_000n, 30_000_000n);
    const count = (): number => [...pastApplications.entries(chain.ctx)].length;
    for (let i = 1n; i <= 10n; i++) {
      assert.ok(chain.stakeApplication(app, "svc", 100_000_000n + i, 30_000_000n + i).ok);
      chain.runTo(chain.block.heightBlocks + 1n);
    }
    assert.ok(count() >= 8);
    chain.runTo(chain.block.heightBlocks + 20n);
    assert.equal(count(), 0);
  });

  test("attack: what a held claim was earned by stays until it is settled, also over an export", () => {
    const { chain, app, gw, sup } = begin({}, 100_000_000n, 30_000_000n);
    const partner = chain.addParty("partner");
    const oldBalance = chain.balanceOf(partner);
    assert.ok(chain.stakeSupplier(sup, "svc", [[partner, 100n]]).ok);
    chain.runTo(13n);
    const work = new Work(chain.header(app, "svc"), sup).serve(11, [app.publicKey, gw.publicKey], gw);
    const { claimOpenHeight, proofOpenHeight } = chain.windowsOf(work.header);
    chain.runTo(claimOpenHeight);
    assert.ok(chain.claim(work).ok);
    chain.runTo(proofOpenHeight);
    assert.ok(chain.prove(work).ok);
    chain.runTo(proofOpenHeight + 1n);
    holdClaim(chain.ctx, [work.header.sessionId, sup.address]);
    assert.ok(chain.stakeApplication(app, "svc", 100_000_001n, 1_000_000n).ok);
    assert.ok(chain.stakeSupplier(sup, "svc").ok);
    chain.runTo(120n);
    const exported = chain.machine.exportGenesis(new Overlay(chain.state), chain.block);
    const { block_hashes: hashes } = exported.session as {
      readonly block_hashes: readonly { readonly height: string }[];
    };
    assert.ok(hashes.some(({ height }) => height === `${work.header.sessionStartBlockHeight}`));
    chain.runTo(240n);
    assert.deepEqual(chain.outcomeOf(work), { end: "settled", settledUpokt: 1_100_000n });
    assert.ok(chain.balanceOf(partner) > oldBalance, "the shares of the session");
    chain.runTo(260n);
    assert.deepEqual([...pastApplications.entries(chain.ctx)], []);
  });

  test("attack: another service each session does not grow the record that claims read, and all sessions are paid", () => {
    const { chain, app, owner, sup, gw } = begin();
    chain.addService(owner, "other");
    const other = chain.addParty("supplier 2");
    assert.ok(chain.stakeSupplier(other, "other").ok);
    const lengths: number[] = [];
    const served: Work[] = [];
    const runSession = (): void => {
      for (const end = chain.block.heightBlocks + 4n; chain.block.heightBlocks < end; ) {
        const height = chain.block.heightBlocks;
        for (const work of served) {
          const { claimOpenHeight, proofOpenHeight } = chain.windowsOf(work.header);
          if (height === claimOpenHeight) assert.ok(chain.claim(work).ok);
          if (height === proofOpenHeight) assert.ok(chain.prove(work).ok);
        }
        chain.runTo(height + 1n);
      }
    };
    let serviceId = "svc";
    for (let at = 0n; at < 30n; at++) {
      const next = serviceId === "svc" ? "other" : "svc";
      assert.ok(chain.stakeApplication(app, next, 100_000_001n + at).ok);
      lengths.push(getApplication(chain.ctx, app.address)?.serviceConfigHistory.length ?? 0);
      const by = serviceId === "svc" ? sup : other;
      served.push(new Work(chain.header(app, serviceId), by).serve(1, [app.publicKey, gw.publicKey], gw));
      runSession();
      serviceId = next;
    }
    for (let at = 0; at < 4; at++) runSession();
    for (const work of served) assert.equal(chain.outcomeOf(work).end, "settled");
    assert.ok(Math.max(...lengths) <= 6, lengths.join());
  });

  test("a claim that is held keeps the services of its session in the record", () => {
    const { chain, app, sup, owner, serve } = begin();
    chain.addService(owner, "other");
    const work = serve(3);
    chain.runTo(chain.windowsOf(work.header).claimOpenHeight);
    assert.ok(chain.claim(work).ok);
    holdClaim(chain.ctx, [work.header.sessionId, sup.address]);
    for (let at = 0; at < 10; at++) {
      const { heightBlocks } = chain.block;
      assert.ok(chain.stakeApplication(app, at % 2 === 0 ? "other" : "svc", 100_000_001n + BigInt(at)).ok);
      chain.runTo(heightBlocks + 4n);
    }
    const record = getApplication(chain.ctx, app.address) ?? assert.fail();
    const { serviceConfigs, serviceConfigHistory } = record;
    const start = work.header.sessionStartBlockHeight;
    assert.deepEqual(
      activeApplicationConfigs(serviceConfigs, serviceConfigHistory, start).map(({ serviceId }) => serviceId),
      ["svc"],
    );
  });

  test("a spend limit that is lowered after the work does not lower its pay", () => {
    const { chain, app, serve } = begin({}, 100_000_000n, 30_000_000n);
    const work = serve(126);
    chain.runTo(13n);
    assert.ok(chain.stakeApplication(app, "svc", 100_000_001n, 1_000_000n).ok);
    assert.deepEqual(chain.finish(work), { end: "settled", settledUpokt: 12_600_000n });
  });

  test("attack: an application that is staked after a session, or that a transfer makes after it, is not in it", () => {
    const chain = new LifeChain({ proveAll: false });
    const [app, sup, heir] = [chain.addParty("app"), chain.addParty("supplier"), chain.addParty("heir")];
    chain.addService(chain.addParty("owner"), "svc");
    assert.ok(chain.stakeSupplier(sup, "svc").ok);
    chain.runTo(13n);
    assert.ok(chain.stakeApplication(app, "svc", 100_000_000n, 1_000_000n).ok);
    chain.runTo(14n);
    const now = chain.header(app, "svc");
    const refused = /could not find app with address .* at height 9/;
    assert.match(refusal(hydrateSession(chain.ctx, app.address, "svc", 10n)), refused);
    // The id of an earlier session is public: its block's hash, the service and the address make it.
    const early = chain.sessionHeader(app, "svc", 9n);
    assert.match(refusal(chain.claim(new Work(early, sup).invent(400, 100_000n))), refused);
    const honest = new Work(now, sup).serve(9, [app.publicKey, app.publicKey], app);
    assert.deepEqual(chain.finish(honest), { end: "settled", settledUpokt: 900_000n });
    assert.ok(chain.transfer(app, heir).ok);
    const { heightBlocks } = chain.block;
    while (getApplication(chain.ctx, heir.address) === undefined) chain.runTo(chain.block.heightBlocks + 1n);
    const claimed = new Work(chain.sessionHeader(heir, "svc", heightBlocks), sup).invent(400, 100_000n);
    assert.match(refusal(chain.claim(claimed)), /could not find app with address/);
  });
});
