import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { undelegationRetentionBlocks } from "@turnpike/protocol";
import { LifeChain, type Party } from "../../../test/session-life.ts";
import type { Outcome } from "../../state/outcome.ts";
import { getSharedParams } from "../shared/state.ts";
import { getApplication } from "./state.ts";

const refusal = (outcome: Outcome<unknown>): string => (outcome.ok ? "" : outcome.fault.text);

/** A chain with one application and as many gateways. */
function begin(count: number) {
  const chain = new LifeChain();
  const app = chain.addParty("app");
  assert.ok(chain.stakeApplication(app, "svc", 100_000_000n).ok);
  const gateways = Array.from({ length: count }, (_, i): Party => {
    const one = chain.addParty(`gateway ${i}`);
    assert.ok(chain.stakeGateway(one).ok);
    return one;
  });
  chain.runTo(9n);
  const leftGateways = (): readonly string[] =>
    Object.values(getApplication(chain.ctx, app.address)?.pendingUndelegations ?? {}).flatMap(
      ({ gatewayAddresses }) => gatewayAddresses,
    );
  return { chain, app, gateways, leftGateways };
}

suite("delegations of an application", () => {
  test("attack: no record grows by undelegations, and each delegation can be ended at any time", () => {
    const { chain, app, gateways, leftGateways } = begin(80);
    const refused = new Set<string>();
    // Seven delegations, which is the maximum, of which the oldest ends before each further one.
    for (const [i, gateway] of gateways.entries()) {
      const text = refusal(chain.delegate(app, gateway));
      if (text !== "") refused.add(text);
      const oldest = gateways[i - 6];
      if (text === "" && oldest !== undefined) assert.ok(chain.undelegate(app, oldest).ok);
    }
    for (const address of getApplication(chain.ctx, app.address)?.delegateeGatewayAddresses ?? []) {
      const gateway = gateways.find((one) => one.address === address);
      assert.ok(gateway !== undefined && chain.undelegate(app, gateway).ok);
    }
    assert.deepEqual(
      [...refused],
      [
        `rpc error: code = FailedPrecondition desc = application with address "${app.address}" already undelegated from 64 (max) gateways ` +
          "in sessions that are not settled: maximum number of delegated gateways reached",
      ],
    );
    assert.equal(leftGateways().length, 70);
  });

  test("a gateway that was undelegated can be delegated to again when the list is full, others once it is pruned", () => {
    const { chain, app, gateways, leftGateways } = begin(65);
    for (const gateway of gateways.slice(0, 64)) {
      assert.ok(chain.delegate(app, gateway).ok && chain.undelegate(app, gateway).ok);
    }
    const [first, last] = [gateways[0], gateways[64]];
    assert.ok(first !== undefined && last !== undefined);
    assert.match(refusal(chain.delegate(app, last)), /64 \(max\)/);
    assert.equal(refusal(chain.delegate(app, first)), "");
    assert.ok(chain.undelegate(app, first).ok);
    assert.match(refusal(chain.delegate(app, last)), /64 \(max\)/);
    const { sessionEndBlockHeight: end } = chain.sessionHeader(app, "svc", chain.block.heightBlocks);
    const prunedAt = end + undelegationRetentionBlocks(getSharedParams(chain.ctx)) + 1n;
    chain.runTo(prunedAt);
    assert.equal(leftGateways().length, 64);
    chain.runTo(prunedAt + 1n);
    assert.deepEqual(leftGateways(), []);
    assert.equal(refusal(chain.delegate(app, last)), "");
  });
});
