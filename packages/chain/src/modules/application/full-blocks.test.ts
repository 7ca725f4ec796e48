import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { actorsChain } from "../../../test/actors.ts";
import { bytesOfAddress } from "../../../test/recorded-tx.ts";
import { addApplication, addGateway } from "../../../test/staked.ts";
import { addressText } from "../../state/addresses.ts";
import type { ChainEvent } from "../../state/context.ts";
import { MAX_UNBONDING_BYTES, sumOfEventBytes } from "../../state/event-bytes.ts";
import { getBalance } from "../bank/balances.ts";

const [FIRST, SECOND] = [1570n, 1580n];

function addressAt(n: number, length = 20): string {
  const bytes = Buffer.alloc(length, 3);
  bytes.writeUInt32BE(n);
  return addressText(bytes);
}

function assertInTwoBlocks(chain: ReturnType<typeof actorsChain>, type: string, count: number): void {
  const ended = (events: readonly ChainEvent[] | undefined): number =>
    (events ?? []).filter((event) => event.type === type).length;
  const events = chain.endBlocksTo(SECOND);
  const counts = [FIRST, SECOND].map((height) => ended(events.get(height)));
  assert.equal((counts[0] ?? 0) + (counts[1] ?? 0), count, counts.join(" "));
  assert.ok((counts[1] ?? 0) > 0, "all in one block");
  for (const [height, list] of events) {
    const bytes = sumOfEventBytes(list);
    assert.ok(bytes < 1.1 * MAX_UNBONDING_BYTES, `${bytes} bytes at ${height}`);
  }
}

suite("events of what ends with a session", () => {
  test("attack: applications with long records that unbond together are paid at the ends of as many sessions as their events need", () => {
    const chain = actorsChain(1569n);
    const gateways = Array.from({ length: 60 }, (_, i) => addressAt(i, 255));
    for (let i = 0; i < 250; i++) {
      addApplication(chain.ctx, {
        address: addressAt(i),
        stakeUpokt: 2_000_000n,
        serviceId: "rest",
        unstakeSessionEndHeight: 1550n,
        gateways,
      });
    }
    assertInTwoBlocks(chain, "pocket.application.EventApplicationUnbondingEnd", 250);
    assert.equal(getBalance(chain.ctx, bytesOfAddress(moduleAddress("application")), "upokt"), 0n);
  });

  test("attack: thousands of gateways that unbond together are paid at the ends of as many sessions as their events need", () => {
    const chain = actorsChain(1569n);
    for (let i = 0; i < 6_000; i++) addGateway(chain.ctx, addressAt(i), 1_000_000n, 1560n);
    assertInTwoBlocks(chain, "pocket.gateway.EventGatewayUnbondingEnd", 6_000);
    assert.equal(getBalance(chain.ctx, bytesOfAddress(moduleAddress("gateway")), "upokt"), 0n);
  });
});
