import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { actorsChain } from "../../../test/actors.ts";
import { bytesOfAddress } from "../../../test/recorded-tx.ts";
import { addApplication, addGateway } from "../../../test/staked.ts";
import { addressText } from "../../state/addresses.ts";
import type { ChainEvent, Context } from "../../state/context.ts";
import { MAX_UNBONDING_BYTES, sumOfEventBytes } from "../../state/event-bytes.ts";
import { getBalance } from "../bank/balances.ts";
import { getGateway } from "../gateway/state.ts";
import { getApplication } from "./state.ts";

const FIRST = 1570n;
const SECOND = FIRST + 1n;
const HEIR = addressText(Buffer.alloc(20, 0xfe));

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

/** Stakes that leave, or move, at a session's end, by the session in which that began. */
type Begin = (ctx: Context, address: string, since: bigint) => void;

const LONG_GATEWAYS = Array.from({ length: 60 }, (_, i) => addressAt(i, 255));
const beginUnbonding: Begin = (ctx, address, unstakeSessionEndHeight) =>
  void addApplication(ctx, {
    address,
    stakeUpokt: 2_000_000n,
    serviceId: "rest",
    gateways: LONG_GATEWAYS,
    unstakeSessionEndHeight,
  });
const LONG_LIVED: Readonly<
  Record<string, readonly [begin: Begin, isThere: (ctx: Context, address: string) => boolean]>
> = {
  "unbonding applications": [beginUnbonding, (ctx, address) => getApplication(ctx, address) !== undefined],
  "transfers of applications": [
    (ctx, address, sessionEndHeight) =>
      void addApplication(ctx, {
        address,
        stakeUpokt: 2_000_000n,
        serviceId: "rest",
        left: { [`${FIRST}`]: LONG_GATEWAYS },
        // It exists, so that the event has the source's whole record.
        transfer: { destinationAddress: HEIR, sessionEndHeight },
      }),
    (ctx, address) => getApplication(ctx, address)?.pendingTransfer !== undefined,
  ],
  "unbonding gateways": [
    (ctx, address, since) => addGateway(ctx, address, 1_000_000n, since),
    (ctx, address) => getGateway(ctx, address) !== undefined,
  ],
};

suite("events of what ends with a session", () => {
  test("attack: applications with long records that unbond together are paid in as many blocks as their events need", () => {
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

  test("attack: thousands of gateways that unbond together are paid in as many blocks as their events need", () => {
    const chain = actorsChain(1569n);
    for (let i = 0; i < 6_000; i++) addGateway(chain.ctx, addressAt(i), 1_000_000n, 1560n);
    assertInTwoBlocks(chain, "pocket.gateway.EventGatewayUnbondingEnd", 6_000);
    assert.equal(getBalance(chain.ctx, bytesOfAddress(moduleAddress("gateway")), "upokt"), 0n);
  });

  for (const [name, [begin, isThere]] of Object.entries(LONG_LIVED)) {
    test(`attack: ${name} of low addresses that fill the end of each session delay those of others by blocks, not for good`, () => {
      const chain = actorsChain(1569n);
      addApplication(chain.ctx, { address: HEIR, stakeUpokt: 2_000_000n, serviceId: "rest" });
      // The last in order: pokt1zzz…; the attacker's begin with pokt1qqq.
      const honest = addressText(Buffer.from("1084210842".repeat(4), "hex"));
      const isGateway = name === "unbonding gateways";
      const numAttackers = isGateway ? 2_500 : 300;
      const attack = (since: bigint): void => {
        for (let i = 0; i < numAttackers; i++) {
          const address = addressAt(i + Number(since) * 10_000, isGateway ? 255 : 20);
          begin(chain.ctx, address, since);
        }
      };
      const [firstSince, delay] = isGateway ? [1560n, 10n] : [1550n, 20n];
      begin(chain.ctx, honest, firstSince);
      for (let session = 0n; session < 2n; session++) {
        attack(firstSince + 10n * session);
        const end = firstSince + delay + 10n * session;
        chain.endBlocksTo(end + 3n);
        assert.ok(!isThere(chain.ctx, honest), `it waits at ${end + 3n}`);
      }
    });
  }
});
