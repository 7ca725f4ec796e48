import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { application, gateway } from "@turnpike/proto";
import { actorsChain } from "../../../test/actors.ts";
import { CountedReads } from "../../../test/counted-reads.ts";
import { bytesOfAddress, fund } from "../../../test/recorded-tx.ts";
import { addApplication, addGateway } from "../../../test/staked.ts";
import { failedParts } from "../../state/block-parts.ts";
import type { ChainEvent } from "../../state/context.ts";
import { Overlay, type StateReads } from "../../state/overlay.ts";
import { getBalance } from "../bank/balances.ts";
import {
  formerUnstaking as formerGateways,
  getGateway,
  undelegatingGateways,
  unstakingGateways,
} from "../gateway/state.ts";
import { MAX_UNDELEGATIONS_PER_BLOCK } from "./end-block.ts";
import {
  delegations,
  formerTransferring,
  formerUnstaking,
  getApplication,
  setApplication,
  transferringApplications,
  undelegations,
  unstakingApplications,
} from "./state.ts";

const GATEWAY1 = "pokt1fxqmtx5vdjva6xtslcafahgvgfhhex83jwh3m3";
const GATEWAY2 = "pokt1pu59535ha83glfqyjxx2csqygwulylcj3nm5xe";
const GATEWAY3 = "pokt13g4k7257z8tls5z0z3kr24k78hyl9dmglhyefj";
const APP4 = "pokt1qccfftrnyrav3z03uusl5k3l2wc4euxtpr4jd4";
const APP5 = "pokt1fqzt0j6rzvuju70tr9z3dts5p268agg2lqnpsc";
const APP6 = "pokt1cf7ej9eve6604q6acttenewfszryqh3unj0snc";

interface Recorded {
  readonly examples: readonly { readonly height: string; readonly event: ChainEvent }[];
}
const recorded = JSON.parse(
  readFileSync(new URL("../../../../../test/spec/recorded-chain/events.json", import.meta.url), "utf8"),
) as Record<string, Recorded>;

/** Asserts that an event is the recorded one, but for a text that is intended to differ. */
function assertRecorded(
  events: Map<bigint, readonly ChainEvent[]>,
  type: string,
  [realText, text]: readonly [string, string] = ["", ""],
): void {
  const example = recorded[type]?.examples[0];
  assert.ok(example);
  const attributes = example.event.attributes.map((one) => ({ ...one, value: one.value.replace(realText, text) }));
  const found = [...events].flatMap(([at, all]) =>
    all.filter((e) => e.type === type).map((e) => [`${at}`, e] as const),
  );
  assert.deepEqual(found, [[example.height, { ...example.event, attributes }]]);
}
const held = (chain: ReturnType<typeof actorsChain>, address: string): bigint =>
  getBalance(chain.ctx, bytesOfAddress(address), "upokt");

suite("blocks of applications and gateways", () => {
  test("unbonding ends at the recorded height, with the recorded event, and pays out", () => {
    const chain = actorsChain(1551n);
    addApplication(chain.ctx, {
      address: APP6,
      stakeUpokt: 110_000_000n,
      serviceId: "rest",
      gateways: [GATEWAY1],
      unstakeSessionEndHeight: 1550n,
    });
    addGateway(chain.ctx, GATEWAY1);
    addGateway(chain.ctx, GATEWAY3, 1_000_000n, 1560n);
    const before = chain.endBlocksTo(1569n);
    assert.equal(before.size, 0);
    assert.ok(getApplication(chain.ctx, APP6));
    const events = chain.endBlocksTo(1570n);
    assertRecorded(events, "pocket.application.EventApplicationUnbondingEnd");
    assertRecorded(events, "pocket.gateway.EventGatewayUnbondingEnd");
    assert.deepEqual([held(chain, APP6), held(chain, GATEWAY3)], [110_000_000n, 1_000_000n]);
    assert.deepEqual(
      [held(chain, moduleAddress("application")), held(chain, moduleAddress("gateway"))],
      [0n, 2_000_000n],
    );
    assert.equal(getApplication(chain.ctx, APP6), undefined);
    assert.equal(getGateway(chain.ctx, GATEWAY3), undefined);
  });

  test("a transfer ends at the recorded height with the recorded event", () => {
    const chain = actorsChain(1551n);
    addGateway(chain.ctx, GATEWAY1);
    addApplication(chain.ctx, {
      address: APP4,
      stakeUpokt: 150_000_000n,
      serviceId: "anvil",
      gateways: [GATEWAY1],
      left: { "1530": [GATEWAY2] },
    });
    const sent = chain.send(application.MsgTransferApplicationSchema, {
      sourceAddress: APP4,
      destinationAddress: APP5,
    });
    assert.ok(sent.ok);
    // The real chain moves the source's gateways with it: see docs/decisions/0009-chain-differences.md.
    assertRecorded(chain.endBlocksTo(1600n), "pocket.application.EventTransferEnd", [
      `"delegatee_gateway_addresses":["${GATEWAY1}"]`,
      '"delegatee_gateway_addresses":[]',
    ]);
    assert.equal(getApplication(chain.ctx, APP4), undefined);
  });

  test("a source that unbonds by then keeps its stake, and says why", () => {
    const chain = actorsChain(1n);
    const transfer = { destinationAddress: APP5, sessionEndHeight: 10n };
    const app = addApplication(chain.ctx, { address: APP4, stakeUpokt: 5n, serviceId: "a", transfer });
    setApplication(chain.ctx, { ...app, unstakeSessionEndHeight: 20n });
    const [event, ...more] = chain.endBlocksTo(30n).get(30n) ?? [];
    assert.deepEqual([event?.type, more.length], ["pocket.application.EventTransferError", 0]);
    const error = event?.attributes.find(({ key }) => key === "error")?.value;
    const text = `cannot transfer stake of unbonding source application (${APP4}): application is in unbonding period`;
    assert.equal(error, JSON.stringify(text));
    assert.equal(getApplication(chain.ctx, APP4)?.pendingTransfer, undefined);
  });

  test("a stake that settlement used up is told to be stuck, and the application goes", () => {
    const chain = actorsChain(21n);
    addApplication(chain.ctx, { address: APP4, stakeUpokt: 0n, serviceId: "a", unstakeSessionEndHeight: 10n });
    const types = chain
      .endBlocksTo(30n)
      .get(30n)
      ?.map(({ type }) => type);
    assert.deepEqual(types, [
      "pocket.application.EventApplicationStakeStuckInModulePool",
      "pocket.application.EventApplicationUnbondingEnd",
    ]);
    assert.equal(getApplication(chain.ctx, APP4), undefined);
  });

  test("a gateway's last session over, its delegations end; they are forgotten after grace and two sessions", () => {
    const chain = actorsChain(5n);
    addGateway(chain.ctx, GATEWAY1);
    addApplication(chain.ctx, { address: APP4, stakeUpokt: 5n, serviceId: "a", gateways: [GATEWAY1] });
    assert.ok(chain.send(gateway.MsgUnstakeGatewaySchema, { address: GATEWAY1 }).ok);
    chain.endBlocksTo(10n);
    assert.deepEqual(getApplication(chain.ctx, APP4)?.delegateeGatewayAddresses, [GATEWAY1]);
    chain.endBlock();
    assert.deepEqual(getApplication(chain.ctx, APP4)?.delegateeGatewayAddresses, []);
    assert.deepEqual(getApplication(chain.ctx, APP4)?.pendingUndelegations["20"]?.gatewayAddresses, [GATEWAY1]);
    chain.endBlocksTo(41n);
    assert.deepEqual(Object.keys(getApplication(chain.ctx, APP4)?.pendingUndelegations ?? {}), ["20"]);
    chain.endBlock();
    assert.deepEqual(Object.keys(getApplication(chain.ctx, APP4)?.pendingUndelegations ?? {}), []);
  });

  test("of two undelegations only the one whose time has come is forgotten", () => {
    const chain = actorsChain(42n);
    const left = { "20": [GATEWAY1], "21": [GATEWAY2] };
    addApplication(chain.ctx, { address: APP4, stakeUpokt: 5n, serviceId: "a", left });
    chain.endBlock();
    assert.deepEqual(Object.keys(getApplication(chain.ctx, APP4)?.pendingUndelegations ?? {}), ["21"]);
    chain.endBlock();
    assert.deepEqual(Object.keys(getApplication(chain.ctx, APP4)?.pendingUndelegations ?? {}), []);
  });

  test("staking again stops the unbonding; other services hold from the next session on", () => {
    const chain = actorsChain(5n);
    fund(chain.ctx, APP4, 10_000_000n);
    const stake = (amount: string, serviceId: string) =>
      chain.send(application.MsgStakeApplicationSchema, {
        address: APP4,
        stake: { denom: "upokt", amount },
        services: [{ serviceId }],
      });
    assert.ok(stake("1000000", "a").ok);
    assert.ok(chain.send(application.MsgUnstakeApplicationSchema, { address: APP4 }).ok);
    assert.ok(stake("1000001", "b").ok);
    assert.ok(stake("1000002", "c").ok);
    const app = getApplication(chain.ctx, APP4);
    assert.equal(app?.unstakeSessionEndHeight, 0n);
    assert.deepEqual(
      app?.serviceConfigHistory.map((one) => [one.service?.serviceId, one.activationHeight, one.deactivationHeight]),
      [
        ["a", 1n, 11n],
        ["c", 11n, 0n],
      ],
    );
    assert.equal(held(chain, APP4), 10_000_000n - 1_000_002n);
    chain.endBlocksTo(60n);
    assert.ok(getApplication(chain.ctx, APP4));
  });

  test("a state of an earlier version, whose indexes have no heights, pays out and moves at the same heights", () => {
    const chain = actorsChain(1551n);
    const { ctx } = chain;
    addApplication(ctx, { address: APP6, stakeUpokt: 7n, serviceId: "a", unstakeSessionEndHeight: 1550n });
    const transfer = { destinationAddress: APP5, sessionEndHeight: 1550n };
    addApplication(ctx, { address: APP4, stakeUpokt: 5n, serviceId: "a", transfer, gateways: [GATEWAY3] });
    addGateway(ctx, GATEWAY3, 1_000_000n, 1560n);
    for (const index of [unstakingApplications, transferringApplications, unstakingGateways, undelegatingGateways]) {
      for (const [key] of index.entries(ctx)) index.remove(ctx, key);
    }
    const nothing = new Uint8Array(0);
    formerUnstaking.set(ctx, APP6, nothing);
    formerTransferring.set(ctx, APP4, nothing);
    formerGateways.set(ctx, GATEWAY3, nothing);
    chain.endBlock();
    const former = [formerUnstaking, formerTransferring, formerGateways].flatMap((index) => [...index.entries(ctx)]);
    assert.deepEqual(former, []);
    const ends = [...chain.endBlocksTo(1570n)].flatMap(([height, events]) =>
      events.filter(({ type }) => type.startsWith("pocket.")).map(({ type }) => [height, type]),
    );
    assert.deepEqual(ends, [
      [1570n, "pocket.gateway.EventGatewayUnbondingEnd"],
      [1570n, "pocket.application.EventApplicationUnbondingEnd"],
      [1570n, "pocket.application.EventTransferEnd"],
    ]);
  });

  test("a delegation that could not be ended is ended in a later session, also when the gateway is gone", () => {
    const chain = actorsChain(5n);
    const { ctx } = chain;
    addGateway(ctx, GATEWAY1, 1_000_000n, 10n);
    const app = addApplication(ctx, { address: APP4, stakeUpokt: 5n, serviceId: "a", gateways: [GATEWAY1] });
    chain.endBlocksTo(10n);
    const record = Buffer.from(`application/\x01${APP4}/`);
    const faulty: StateReads = {
      get(key) {
        if (record.equals(key)) throw new TypeError("a fault of the program");
        return chain.state.get(key);
      },
      range: (options) => chain.state.range(options),
    };
    const { changes, events } = chain.machine.runBlock(new Overlay(faulty), chain.block, []);
    const failed = failedParts(events).map(({ part, item }) => [part, item]);
    assert.deepEqual(failed, [["undelegation", `${APP4}/${GATEWAY1}`]]);
    for (const [key, value] of changes) {
      if (value === undefined) chain.state.delete(key);
      else chain.state.set(key, value);
    }
    chain.endBlocksTo(20n);
    assert.equal(getGateway(ctx, GATEWAY1), undefined);
    assert.deepEqual(getApplication(ctx, APP4)?.delegateeGatewayAddresses, app.delegateeGatewayAddresses);
    chain.endBlock();
    assert.deepEqual(getApplication(ctx, APP4)?.delegateeGatewayAddresses, []);
    assert.deepEqual([...undelegatingGateways.entries(ctx)], []);
  });

  test("attack: the delegations of a gateway with thousands of applications end, and are pruned, in several blocks", () => {
    const chain = actorsChain(5n);
    const { ctx } = chain;
    const count = 2 * MAX_UNDELEGATIONS_PER_BLOCK + 1;
    addGateway(ctx, GATEWAY1, 1_000_000n, 10n);
    for (let i = 0; i < count; i++) {
      addApplication(ctx, { address: `${APP4}${i}`, stakeUpokt: 5n, serviceId: "a", gateways: [GATEWAY1] });
    }
    const lengthsAt = (heights: readonly bigint[]): [number, number][] =>
      heights.map((height) => {
        chain.endBlocksTo(height);
        return [[...delegations.entries(ctx)].length, [...undelegations.entries(ctx)].length];
      });
    assert.deepEqual(lengthsAt([10n, 11n, 12n, 13n]), [
      [count, 0],
      [count - MAX_UNDELEGATIONS_PER_BLOCK, MAX_UNDELEGATIONS_PER_BLOCK],
      [1, count - 1],
      [0, count],
    ]);
    assert.deepEqual(lengthsAt([41n, 42n, 43n, 44n]), [
      [0, count],
      [0, count - MAX_UNDELEGATIONS_PER_BLOCK],
      [0, 1],
      [0, 0],
    ]);
    assert.deepEqual([...undelegatingGateways.entries(ctx)], []);
  });

  test("the end of a block reads no more when there are more applications", () => {
    const readsWith = (count: number): number => {
      const chain = actorsChain(10n);
      addGateway(chain.ctx, GATEWAY1);
      for (let i = 0; i < count; i++) {
        addApplication(chain.ctx, { address: `${APP4}${i}`, stakeUpokt: 5n, serviceId: "a", gateways: [GATEWAY1] });
      }
      const counted = new CountedReads(chain.state);
      chain.machine.runBlock(new Overlay(counted), chain.block, []);
      return counted.reads;
    };
    assert.equal(readsWith(300), readsWith(3));
  });
});
