import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type Address, type NetworkId, noFaults } from "@turnpike/base";
import { leaseName } from "./holder.ts";
import { Leases } from "./leases.ts";
import type { LedgerParts } from "./parts.ts";

const NETWORK = "eip155:84532" as NetworkId;
const [FIRST, SECOND]: readonly [Address, Address] = ["0x0A", "0x0b"];

/** Leases whose database grants what is asked for, and whose renewals end when the test says so. */
function rig() {
  const granted = new Map<string, bigint>();
  let renewal = Promise.withResolvers<ReadonlyMap<string, bigint> | undefined>();
  const parts = {
    database: {
      run: async (_statement: unknown, [, network, relayer]: readonly unknown[]) => {
        granted.set(leaseName(network as NetworkId, relayer as Address), 1n);
        return [{ outcome: "leased", epoch: "1", next_nonce: "0" }];
      },
    },
    statements: { leaseRelayer: {} },
    holder: { current: () => "us", renew: () => renewal.promise, replace: async () => "anew" },
    faults: noFaults,
  } as unknown as LedgerParts;
  return {
    leases: new Leases(parts),
    granted,
    /** Ends the renewal that is under way, with what the ledger granted when it was asked. */
    renewed: async (seen: ReadonlyMap<string, bigint> | undefined): Promise<void> => {
      // It has been asked for by then.
      await nextTurn();
      renewal.resolve(seen);
      renewal = Promise.withResolvers();
    },
  };
}

test("a lease that the ledger does not grant any more is lost, once", async () => {
  const { leases, renewed } = rig();
  await leases.leaseRelayer(NETWORK, FIRST, 0);
  for (const lost of [[{ network: NETWORK, relayer: FIRST }], []]) {
    const renewing = leases.renewLeases();
    await renewed(new Map());
    assert.deepEqual(await renewing, lost);
  }
});

test("a key that is leased while a renewal is under way is not lost by what the renewal saw before", async () => {
  for (const isDead of [false, true]) {
    const { leases, granted, renewed } = rig();
    await leases.leaseRelayer(NETWORK, FIRST, 0);
    const seen = new Map(granted);
    const renewing = leases.renewLeases();
    await leases.leaseRelayer(NETWORK, SECOND, 0);
    await renewed(isDead ? undefined : seen);
    assert.deepEqual(await renewing, isDead ? [{ network: NETWORK, relayer: FIRST }] : []);
    const again = leases.renewLeases();
    await renewed(new Map());
    const lost = (await again).map(({ relayer }) => relayer);
    assert.deepEqual(lost, isDead ? [SECOND] : [FIRST, SECOND], "it is held until a later renewal says otherwise");
  }
});
