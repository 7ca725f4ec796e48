import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { LifeChain, type Party, Work } from "../../../test/session-life.ts";
import type { ChainEvent } from "../../state/context.ts";
import { hydrateSession } from "../session/hydrate.ts";
import { getApplication, stakeUpokt } from "./state.ts";

const BAIT_UPOKT = 2_000_000n;
const VICTIM_UPOKT = 1_000_000_000n;
const TRANSFER_AT = 9n;

/** A chain where a stranger begins the transfer of an application, with a gateway, to an address that has none. */
function begin() {
  const chain = new LifeChain();
  const add = (name: string): Party => chain.addParty(name);
  const parties = { victim: add("victim"), bait: add("bait"), gw: add("gateway"), sup: add("supplier") };
  const { victim, bait, gw, sup } = parties;
  chain.addService(add("owner 1"), "eth");
  chain.addService(add("owner 2"), "mine");
  assert.ok(chain.stakeSupplier(sup, "mine").ok && chain.stakeGateway(gw).ok);
  assert.ok(chain.stakeApplication(bait, "mine", BAIT_UPOKT).ok && chain.delegate(bait, gw).ok);
  chain.runTo(TRANSFER_AT);
  assert.ok(chain.transfer(bait, victim).ok);
  return { chain, ...parties };
}

/** Height of the block whose end moves the application. */
function transferHeight(): bigint {
  const { chain, victim } = begin();
  while (getApplication(chain.ctx, victim.address) === undefined) chain.runTo(chain.block.heightBlocks + 1n);
  return chain.block.heightBlocks - 1n;
}

/** Relays that the other owner's gateway signs in each session of the victim's application, claimed and proven. */
class StrangerWork {
  readonly #works = new Map<string, Work>();

  step({ chain, victim, gw, sup }: ReturnType<typeof begin>): void {
    const { heightBlocks } = chain.block;
    const drawn = hydrateSession(chain.ctx, victim.address, "mine", heightBlocks);
    const header = drawn.ok ? drawn.value.header : undefined;
    if (header !== undefined && !this.#works.has(header.sessionId)) {
      const ring = [gw.publicKey, victim.publicKey];
      this.#works.set(header.sessionId, new Work(header, sup).serve(60, ring, gw));
    }
    for (const work of this.#works.values()) {
      const { claimOpenHeight, proofOpenHeight } = chain.windowsOf(work.header);
      if (heightBlocks === claimOpenHeight) chain.claim(work);
      if (heightBlocks === proofOpenHeight) chain.prove(work);
    }
  }
}

const eventsOf = (events: readonly ChainEvent[], type: string): readonly ChainEvent[] =>
  events.filter((event) => event.type === `pocket.application.${type}`);
const attribute = (event: ChainEvent | undefined, name: string): string | undefined =>
  event?.attributes.find(({ key }) => key === name)?.value;

suite("applications that are transferred to an address without its consent", () => {
  test("attack: another owner's gateway spends nothing of a stake, whenever it is staked", () => {
    const movedAt = transferHeight();
    const heights = [TRANSFER_AT, movedAt, ...[1n, 3n, 4n, 5n, 8n, 11n].map((later) => movedAt + later)];
    for (const stakeAt of heights) {
      const game = begin();
      const { chain, victim } = game;
      const work = new StrangerWork();
      while (chain.block.heightBlocks < movedAt + 30n) {
        const { heightBlocks } = chain.block;
        if (heightBlocks === stakeAt) assert.ok(chain.stakeApplication(victim, "eth", VICTIM_UPOKT).ok, `${stakeAt}`);
        work.step(game);
        chain.runTo(heightBlocks + 1n);
      }
      const app = getApplication(chain.ctx, victim.address);
      assert.ok(app !== undefined);
      const services = app.serviceConfigs.map(({ serviceId }) => serviceId);
      const shown = [stakeUpokt(app), app.delegateeGatewayAddresses, app.pendingUndelegations, services];
      assert.deepEqual(shown, [VICTIM_UPOKT, [], {}, ["eth"]], `staked at ${stakeAt}, moved at ${movedAt}`);
    }
  });

  test("a transfer to an application that was staked in the meantime ends with an error, and its source serves on", () => {
    const { chain, victim, bait, gw, sup } = begin();
    assert.ok(chain.stakeApplication(victim, "eth", VICTIM_UPOKT).ok);
    const movedAt = transferHeight();
    const staked = getApplication(chain.ctx, victim.address);
    chain.runTo(movedAt + 1n);
    const text = `destination application (${victim.address}) exists: duplicate application address`;
    const [error, ...more] = eventsOf(chain.events, "EventTransferError");
    assert.deepEqual([attribute(error, "error"), more.length], [JSON.stringify(text), 0]);
    assert.deepEqual(eventsOf(chain.events, "EventTransferEnd"), []);
    assert.deepEqual(getApplication(chain.ctx, victim.address), staked);
    const source = getApplication(chain.ctx, bait.address);
    assert.deepEqual(
      [source?.pendingTransfer, source?.stake?.amount, source?.delegateeGatewayAddresses],
      [undefined, `${BAIT_UPOKT}`, [gw.address]],
    );
    const work = new Work(chain.header(bait, "mine"), sup).serve(2, [gw.publicKey, bait.publicKey], gw);
    assert.deepEqual(chain.finish(work), { end: "settled", settledUpokt: 200_000n });
    assert.ok(chain.transfer(bait, chain.addParty("heir")).ok);
  });

  test("of two transfers to one address the first moves, and the other's source keeps its stake", () => {
    const { chain, victim, bait } = begin();
    const other = chain.addParty("other bait");
    assert.ok(chain.stakeApplication(other, "eth", 3n * BAIT_UPOKT).ok);
    assert.ok(chain.transfer(other, victim).ok);
    chain.runTo(transferHeight() + 1n);
    const apps = [victim, bait, other].map(({ address }) => getApplication(chain.ctx, address));
    const source = apps[1] ?? apps[2];
    assert.deepEqual([apps[0] !== undefined, apps.filter((app) => app !== undefined).length], [true, 2]);
    assert.equal(source?.pendingTransfer, undefined);
    const stakes = apps.flatMap((app) => (app === undefined ? [] : [stakeUpokt(app)]));
    assert.equal(
      stakes.reduce((sum, stake) => sum + stake, 0n),
      4n * BAIT_UPOKT,
    );
    assert.equal(eventsOf(chain.events, "EventTransferError").length, 1);
  });

  test("an application that was moved is served under its new key, and by gateways that this key delegates to", () => {
    const { chain, victim: heir, gw, sup } = begin();
    chain.runTo(transferHeight() + 1n);
    const [end] = eventsOf(chain.events, "EventTransferEnd");
    const shown = JSON.parse(attribute(end, "destination_application") ?? "{}") as Record<string, unknown>;
    assert.deepEqual([shown["delegatee_gateway_addresses"], shown["pending_undelegations"]], [[], {}]);
    const before = chain.session(heir, "mine").header;
    assert.ok(before !== undefined);
    const direct = new Work(before, sup).serve(1, [heir.publicKey, heir.publicKey], heir);
    assert.deepEqual(chain.finish(direct), { end: "settled", settledUpokt: 100_000n });
    assert.ok(chain.delegate(heir, gw).ok);
    const work = new Work(chain.header(heir, "mine"), sup).serve(2, [gw.publicKey, heir.publicKey], gw);
    assert.deepEqual(chain.finish(work), { end: "settled", settledUpokt: 200_000n });
  });
});
