import assert from "node:assert/strict";
import { test } from "node:test";
import { noFaults, type SettlementId, systemClock } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { devRpc, fundGas, setCode, setTokenBalance } from "@turnpike/localnet";
import { eventually, virtualClock } from "@turnpike/testkit";
import {
  ANSWER,
  type Bed,
  claim,
  mineUntil,
  NETWORK,
  newKey,
  newPayer,
  openBed,
  openOwnBed,
  PRICE,
  stateOf,
  timeLimit,
  untilState,
} from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { BackOff } from "../verify/back-off.ts";
import { createEngine } from "./engine.ts";
import type { EngineNetwork, EngineOptions } from "./options.ts";

const server = testServer();

function changed(bed: Bed, keys: readonly Uint8Array[], changes: Partial<EngineNetwork>): EngineOptions {
  const options = bed.options(keys);
  return { ...options, networks: options.networks.map((one) => ({ ...one, ...changes })) };
}

/** Runtime code that says yes to every signature, or fails. */
const YES = "0x631626ba7e60e01b60005260206000f3";
const FAILS = "0xfe";

async function walletClaim(bed: Bed, ledger: Ledger, code: string): Promise<PaymentRecord> {
  const wallet = newPayer();
  await setCode(bed.anvil.url, wallet.address, code as `0x${string}`);
  await setTokenBalance(bed.anvil.url, { address: wallet.address, units: PRICE });
  return claim(ledger, wallet, { kind: "erc1271", signature: () => new Uint8Array(70) });
}

test("a base fee over the cap is missing with the next block, and payments are refused until it falls", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const keys = [await bed.relayerKey()];
  const options = changed(bed, keys, { maxFeePerGasWei: 10_000_000_000n });
  await using engine = await createEngine(options, bed.modules(ledger));
  assert.deepEqual(engine.missing(), []);
  const mineAt = async (gwei: bigint): Promise<void> => {
    await devRpc(bed.anvil.url, "anvil_setNextBlockBaseFeePerGas", [`0x${(gwei * 1_000_000_000n).toString(16)}`]);
    await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  };
  await mineAt(20n);
  await eventually("something is missing", () => engine.missing(NETWORK).length > 0);
  assert.deepEqual(engine.missing(NETWORK), ["base fee over the cap (eip155:84532)"]);
  await mineAt(1n);
  await eventually("nothing is missing", () => engine.missing(NETWORK).length === 0);
});

test("a relayer whose balance does not pay one transaction is missing, whatever the configured least is", async () => {
  await using bed = await openBed(server());
  await using ledger = await bed.openLedger();
  const key = newKey();
  await fundGas(bed.anvil.url, privateKeyToAddress(key), 1_000_000n);
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  assert.deepEqual(engine.missing(), ["relayer gas (eip155:84532)"]);
  await fundGas(bed.anvil.url, privateKeyToAddress(key), 10n ** 18n);
  await eventually("nothing is missing", () => engine.missing().length === 0);
});

test("gas that runs out under way is missing at once, and no payment is taken until there is more", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const clock = virtualClock();
  // Nothing but the broadcast itself can tell. A clock that the test owns does not end a batch's window by itself.
  const options = bed.options([key], { reconcileMs: 600_000, batchWindowMs: 0, maxQueueMs: 1_000_000_000 });
  await using engine = await createEngine(options, bed.modules(ledger, noFaults, clock));
  await fundGas(bed.anvil.url, privateKeyToAddress(key), 1_000_000n);
  const payment = await claim(ledger, await bed.payer(PRICE));
  const settling = engine.settle(payment, ANSWER, timeLimit());
  await eventually("gas is missing", () => engine.missing().includes("relayer gas (eip155:84532)"));
  await fundGas(bed.anvil.url, privateKeyToAddress(key), 10n ** 18n);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  await eventually("it is sent again", async () => {
    clock.advance(2_000);
    return (await stateOf(ledger, payment)).state === "settled";
  });
  await settling;
  assert.equal((await stateOf(ledger, payment)).state, "settled");
  await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  await eventually("nothing is missing", () => engine.missing().length === 0);
});

test("a wallet that changed its mind after its verification costs no gas, and is backed off", async () => {
  await using bed = await openBed(server());
  await using ledger = await bed.openLedger();
  const backOff = new BackOff({}, { clock: systemClock });
  const key = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key]), { ...bed.modules(ledger), backOff });
  const payment = await walletClaim(bed, ledger, FAILS);
  for (let round = 0; round < 3; round++) {
    assert.equal(backOff.refuses(payment.key), false);
    // The same authorization, presented again after its release, is another claim.
    const again = { ...payment, id: `stl_${round}` as SettlementId };
    await assert.rejects(engine.settle(again, ANSWER, timeLimit()), { code: "PAYMENT_SIMULATION_FAILED" });
  }
  assert.equal((await stateOf(ledger, payment)).state, "claimed");
  assert.equal(backOff.refuses(payment.key), true);
  assert.equal(await devRpc(bed.anvil.url, "eth_getTransactionCount", [privateKeyToAddress(key), "pending"]), "0x0");
  const good = await walletClaim(bed, ledger, YES);
  await engine.settle(good, ANSWER, timeLimit());
  assert.equal((await stateOf(ledger, good)).state, "settled");
});

test("a wallet that changes its mind behind the signed transaction is refused from then on", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  const wallet = newPayer();
  await setTokenBalance(bed.anvil.url, { address: wallet.address, units: 10n * PRICE });
  const payer = { payer: wallet.address, classes: [] };
  assert.equal(await ledger.walletPauseSeconds(NETWORK, payer), 0);
  await setCode(bed.anvil.url, wallet.address, YES);
  const claimOf = (): Promise<PaymentRecord> =>
    claim(ledger, wallet, { kind: "erc1271", signature: () => new Uint8Array(70) });
  const payment = await claimOf();
  const ending = new AbortController();
  const settling = engine.settle(payment, ANSWER, ending.signal);
  await untilState(ledger, payment, "signed");
  await setCode(bed.anvil.url, wallet.address, FAILS);
  await eventually("its batch is closed", async () => {
    // Signed is not sent yet: the first of these blocks may be too early for it.
    await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
    return (await ledger.openBatches(NETWORK, privateKeyToAddress(key))).length === 0;
  });
  ending.abort();
  await settling;
  assert.ok((await ledger.walletPauseSeconds(NETWORK, payer)) > 0);
  await setCode(bed.anvil.url, wallet.address, YES);
  await assert.rejects(engine.settle(await claimOf(), ANSWER, timeLimit()), { code: "PAYMENT_SIMULATION_FAILED" });
  assert.equal(await devRpc(bed.anvil.url, "eth_getTransactionCount", [privateKeyToAddress(key), "pending"]), "0x1");
});

test("wallets take half of a key's open batches, and plain accounts behind them go first", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const options = bed.options([await bed.relayerKey()], { maxOpenBatches: 2 });
  await using engine = await createEngine(options, bed.modules(ledger));
  const wallets = [await walletClaim(bed, ledger, YES), await walletClaim(bed, ledger, YES)];
  const settling = wallets.map((payment) => engine.settle(payment, ANSWER, timeLimit()));
  // Either may be admitted first.
  const walletStates = async (): Promise<readonly string[]> =>
    (await Promise.all(wallets.map((payment) => stateOf(ledger, payment)))).map(({ state }) => state).toSorted();
  await eventually("a wallet's payment is signed", async () => (await walletStates()).includes("signed"));
  const plain = await claim(ledger, await bed.payer(PRICE));
  settling.push(engine.settle(plain, ANSWER, timeLimit()));
  await untilState(ledger, plain, "signed");
  assert.deepEqual(await walletStates(), ["claimed", "signed"]);
  await mineUntil(bed, Promise.all(settling));
  for (const payment of [...wallets, plain]) assert.equal((await stateOf(ledger, payment)).state, "settled");
});

test("two gateways with the same two keys have one each, and the one that is left has both", async () => {
  await using bed = await openBed(server());
  await using ledgerA = await bed.openLedger();
  const keys = [await bed.relayerKey(), await bed.relayerKey()];
  await using a = await createEngine(bed.options(keys), bed.modules(ledgerA));
  assert.deepEqual(a.missing(), []);
  await using other = new AsyncDisposableStack();
  const ledgerB = other.use(await bed.openLedger());
  assert.equal(await ledgerA.livingHolders(), 2);
  const b = other.use(await createEngine(bed.options(keys), bed.modules(ledgerB)));
  await eventually("the second one has a key", () => b.missing().length === 0);
  assert.deepEqual(a.missing(), []);
  const payments = [await claim(ledgerA, await bed.payer(PRICE)), await claim(ledgerB, await bed.payer(PRICE))];
  const [first, second] = payments;
  await Promise.all([
    a.settle(first ?? assert.fail(), ANSWER, timeLimit()),
    b.settle(second ?? assert.fail(), ANSWER, timeLimit()),
  ]);
  for (const payment of payments) assert.equal((await stateOf(ledgerA, payment)).state, "settled");
  const counts = (): Promise<readonly unknown[]> =>
    Promise.all(
      keys.map((key) => devRpc(bed.anvil.url, "eth_getTransactionCount", [privateKeyToAddress(key), "latest"])),
    );
  assert.deepEqual(await counts(), ["0x1", "0x1"]);
  await other.disposeAsync();
  await eventually("both keys are used", async () => {
    await a.settle(await claim(ledgerA, await bed.payer(PRICE)), ANSWER, timeLimit());
    return (await counts()).every((count) => Number(count) >= 2);
  });
});

test("a window that closes before the next block is not settled", async () => {
  await using bed = await openBed(server());
  await using ledger = await bed.openLedger();
  const keys = [await bed.relayerKey()];
  const options = changed(bed, keys, { blockTimeSeconds: 12 });
  await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  const validBefore = BigInt((await bed.chainTime()) + 11);
  // After that: the block that the engine knows must be no older than the one that the window is counted from.
  await using engine = await createEngine(options, bed.modules(ledger));
  const payment = await claim(ledger, await bed.payer(PRICE), { validBefore });
  await assert.rejects(engine.settle(payment, ANSWER, timeLimit()), { code: "PAYMENT_EXPIRED" });
});
