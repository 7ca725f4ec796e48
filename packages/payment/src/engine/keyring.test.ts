import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, type Log, type NetworkId, noFaults, noMetrics, silentLog } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { virtualClock } from "@turnpike/testkit";
import type { Ledger, RelayerLease } from "../ledger-types.ts";
import type { SettlementChain } from "./chain.ts";
import { Keyring } from "./keyring.ts";
import { RelayerAccount, type RelayerAccountOptions } from "./relayer-account.ts";

const NETWORK = "eip155:84532" as NetworkId;
const KEY = new Uint8Array(32).fill(7);
const RELAYER = privateKeyToAddress(KEY);

/** A keyring of one key over a ledger that grants what the test says, and that keeps what was returned. */
function rig(log: Log = silentLog) {
  const clock = virtualClock();
  const { signal } = new AbortController();
  const granted = { epoch: 1n, isHeldElsewhere: false };
  const returned: bigint[] = [];
  const during: { leaseRelayer: () => void; openBatches: () => void } = {
    leaseRelayer: () => undefined,
    openBatches: () => undefined,
  };
  const ledger = {
    livingHolders: async () => 1,
    async leaseRelayer(network, relayer, chainNonce): Promise<RelayerLease | undefined> {
      during.leaseRelayer();
      return granted.isHeldElsewhere ? undefined : { network, relayer, epoch: granted.epoch, nextNonce: chainNonce };
    },
    async openBatches() {
      during.openBatches();
      return [];
    },
    async returnRelayer({ epoch }) {
      returned.push(epoch);
    },
  } as Partial<Ledger> as Ledger;
  const chain = {
    pendingNonce: async () => 5,
    balances: async () => [1n],
  } as Partial<SettlementChain> as SettlementChain;
  const ignore = (): void => undefined;
  const keyring = new Keyring(
    { network: NETWORK, relayerKeys: [KEY] },
    {
      ledger,
      chain,
      clock,
      log,
      signal,
      isIdle: () => true,
      open: (lease, { privateKey }) =>
        new RelayerAccount({} as RelayerAccountOptions, {
          lease,
          privateKey,
          ledger,
          chain,
          clock,
          log: silentLog,
          metrics: noMetrics,
          faults: noFaults,
          signal,
          onSent: ignore,
          onAccepted: ignore,
          onNoGas: ignore,
        }),
    },
  );
  const held = async (): Promise<RelayerAccount> => {
    await keyring.leaseShare();
    return keyring.held()[0] ?? assert.fail("no key is held");
  };
  return { keyring, granted, returned, during, held };
}

test("nonces that something else used are skipped", async () => {
  const { keyring, held, returned } = rig();
  const account = await held();
  await keyring.skipTo(account, 9);
  assert.equal(account.nextNonce, 9);
  assert.equal(account.held, true);
  await keyring.leaseShare();
  assert.deepEqual(returned, []);
});

test("an account whose lease is another one by now stops, and the key begins anew with that", async () => {
  const { keyring, granted, held, returned } = rig();
  const account = await held();
  // This process counted as dead, and was registered anew.
  granted.epoch = 2n;
  await keyring.skipTo(account, 9);
  assert.equal(account.held, false, "what it signs would be refused");
  assert.deepEqual(keyring.held(), []);
  assert.notEqual(await held(), account);
  assert.deepEqual(returned, [2n], "a lease that no account has is not kept");
});

test("an account whose key another process holds stops", async () => {
  const { keyring, granted, held } = rig();
  const account = await held();
  granted.isHeldElsewhere = true;
  await keyring.skipTo(account, 9);
  assert.equal(account.held, false);
});

test("an account that has lost its lease leases nothing, also when the loss is reported meanwhile", async () => {
  const { keyring, during, held, returned } = rig();
  const account = await held();
  during.leaseRelayer = () => keyring.lost(RELAYER);
  await keyring.skipTo(account, 9);
  assert.equal(account.held, false);
  during.leaseRelayer = () => assert.fail("it is stopped");
  await keyring.skipTo(account, 9);
  during.leaseRelayer = () => undefined;
  await held();
  assert.deepEqual(returned, [1n]);
});

test("a loss that is reported before the key has its account still stops the key", async () => {
  for (const when of ["leaseRelayer", "openBatches"] as const) {
    const { keyring, during, held, returned } = rig();
    during[when] = () => keyring.lost(RELAYER);
    await keyring.leaseShare();
    assert.deepEqual(keyring.held(), [], `${when}: it would settle without a lease`);
    during[when] = () => undefined;
    const account = await held();
    assert.deepEqual(returned, [1n]);
    keyring.lost(RELAYER.toUpperCase().replace("0X", "0x"));
    assert.equal(account.held, false);
  }
});

test("a key that a ledger in pieces does not lease is logged with the database's own text", async () => {
  const lines: object[] = [];
  const log: Log = { ...silentLog, warn: (fields) => void lines.push(fields) };
  const { keyring, during } = rig(log);
  const detail = { method: "leaseRelayer", sqlState: "42883", reason: "function ledger.lease_relayer does not exist" };
  during.leaseRelayer = () => {
    throw new AppError("LEDGER_SCHEMA", { detail });
  };
  await keyring.leaseShare();
  assert.deepEqual(lines, [{ relayer: RELAYER, code: "LEDGER_SCHEMA", ...detail }]);
});
