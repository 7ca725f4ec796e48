import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, type FaultPoints, isRecord, noFaults } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { devRpc, setCode, setTokenBalance, smartWallet } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { delegateCode, deploySwitchWallet, parityWallet, sendMined } from "@turnpike/testkit/servers";
import { encodeDeployData, parseAbi } from "viem";
import {
  ANSWER,
  type Bed,
  claim,
  NETWORK,
  newPayer,
  openOwnBed,
  type Payer,
  PRICE,
  stateOf,
  timeLimit,
} from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord, PaymentRefusal } from "../types.ts";
import { createEngine } from "./engine.ts";

const server = testServer();

/** A signature that only a wallet without a check of its own accepts. */
const ANY_SIGNATURE = { kind: "erc1271", signature: () => new Uint8Array(70) } as const;
/** Maximum gas that an attack may cost: one transaction of one payment by itself, with its margin. */
const ONE_LOSS = 130_000;

interface Gas {
  /** Gas of transactions that settled nothing. */
  readonly lost: number;
  readonly transactions: number;
}

const record = (value: unknown): Readonly<Record<string, unknown>> => (isRecord(value) ? value : {});

/** Gas that a relayer lost, by its receipts: a transaction without events settled nothing. */
async function gasOf(bed: Bed, relayer: Address): Promise<Gas> {
  let lost = 0;
  let transactions = 0;
  const head = Number(await devRpc(bed.anvil.url, "eth_blockNumber", []));
  for (let number = 0; number <= head; number++) {
    const receipts = await devRpc(bed.anvil.url, "eth_getBlockReceipts", [`0x${number.toString(16)}`]);
    for (const receipt of Array.isArray(receipts) ? receipts.map(record) : []) {
      if (String(receipt.from).toLowerCase() !== relayer.toLowerCase()) continue;
      transactions++;
      if (Array.isArray(receipt.logs) && receipt.logs.length === 0) lost += Number(receipt.gasUsed);
    }
  }
  return { lost, transactions };
}

/** Payers that delegated to this contract, each with a payment. */
function delegates(bed: Bed, ledger: Ledger, wallet: Address, count: number): Promise<PaymentRecord[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const payer = await bed.payer(PRICE);
      await delegateCode(bed.anvil.url, payer.address, wallet);
      return claim(ledger, payer, ANY_SIGNATURE);
    }),
  );
}

/** A contract wallet of a common kind, which only its owner can pay from. */
async function honestWallet(bed: Bed, ledger: Ledger): Promise<PaymentRecord> {
  const owner: Payer = newPayer();
  const data = encodeDeployData({
    abi: parseAbi(["constructor(address)"]),
    bytecode: smartWallet.bytecode,
    args: [owner.address],
  });
  const { contractAddress } = await sendMined(bed.anvil.url, { data });
  await setTokenBalance(bed.anvil.url, { address: contractAddress, units: PRICE });
  return claim(ledger, owner, { from: contractAddress, kind: "erc1271" });
}

const mine = (bed: Bed): Promise<unknown> => devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);

/** Mines while `work` goes on; `around` runs before and after each block. */
async function mineWhile(
  bed: Bed,
  work: Promise<unknown>,
  around: (isMining: boolean) => Promise<void>,
): Promise<void> {
  let hasEnded = false;
  work.then(
    () => {
      hasEnded = true;
    },
    () => {
      hasEnded = true;
    },
  );
  await eventually("the work ends while blocks are mined", async () => {
    await around(true);
    await mine(bed);
    await around(false);
    return hasEnded;
  });
}

test("16 accounts delegated to one switch cost one lost transaction, and their neighbours settle at an honest price", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const attacker = await deploySwitchWallet(bed.anvil.url);
  const attacks = await delegates(bed, ledger, attacker.wallet, 16);
  const wallets = [await honestWallet(bed, ledger), await honestWallet(bed, ledger), await honestWallet(bed, ledger)];
  const payments = await Promise.all(Array.from({ length: 27 }, async () => claim(ledger, await bed.payer(PRICE))));
  await devRpc(bed.anvil.url, "evm_setAutomine", [false]);
  const key = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  const patience = new AbortController();
  const attacking = attacks.map((payment) => engine.settle(payment, ANSWER, patience.signal).catch(() => undefined));
  const honest = [...payments, ...wallets].map((payment) => engine.settle(payment, ANSWER, timeLimit()));
  // Simulations see it off, blocks see it on.
  await mineWhile(bed, Promise.all(honest), (isMining) => attacker.turn(isMining));
  // Retries are tried now.
  for (let block = 0; block < 10; block++) {
    await attacker.turn(true);
    await mine(bed);
    await attacker.turn(false);
  }
  patience.abort();
  await Promise.all(attacking);
  const ends = await Promise.all([...payments, ...wallets].map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(new Set(ends.map(({ state }) => state)), new Set(["settled"]));
  const gas = await gasOf(bed, privateKeyToAddress(key));
  assert.ok(gas.lost <= ONE_LOSS, `${gas.lost} gas lost in ${gas.transactions} transactions`);
  const shared = new Set(ends.slice(0, 27).map(({ evidence }) => evidence?.transaction));
  let used = 0;
  for (const hash of shared) {
    used += Number(record(await devRpc(bed.anvil.url, "eth_getTransactionReceipt", [hash])).gasUsed);
  }
  assert.ok(used / 27 <= 57_000, `${used / 27} gas for each of 27 honest payments`);
});

test("a wallet that burns gas in blocks of one parity is refused before anything is signed", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  for (let block = 0; block < 2; block++) {
    for (const accepts of ["even", "odd"] as const) {
      const payer = await bed.payer(PRICE);
      await setCode(bed.anvil.url, payer.address, parityWallet(accepts));
      const payment = await claim(ledger, payer, ANY_SIGNATURE);
      const settling = assert.rejects(engine.settle(payment, ANSWER, timeLimit()), {
        code: "PAYMENT_SIMULATION_FAILED",
      });
      await mineWhile(bed, settling, async () => undefined);
      await settling;
      // As the payment stage does: its place is free then.
      await ledger.release(payment.id, "PAYMENT_SIMULATION_FAILED");
    }
    await mine(bed);
  }
  assert.deepEqual(await gasOf(bed, privateKeyToAddress(key)), { lost: 0, transactions: 0 });
});

test("a wallet payment that failed on the chain is not sent again, by any process", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const attacker = await deploySwitchWallet(bed.anvil.url);
  const [attack] = await delegates(bed, ledger, attacker.wallet, 1);
  assert.ok(attack !== undefined);
  const key = await bed.relayerKey();
  const patience = new AbortController();
  const faults: FaultPoints = {
    reach: (name) => (name === "engine.journal.after" ? attacker.turn(true) : undefined),
  };
  {
    await using engine = await createEngine(bed.options([key]), bed.modules(ledger, faults));
    const settling = engine.settle(attack, ANSWER, patience.signal).catch(() => undefined);
    await eventually("it is lost", async () => {
      await mine(bed);
      return (await ledger.walletPauseSeconds(NETWORK, { payer: attack.key.from, classes: [] })) > 0;
    });
    await attacker.turn(false);
    patience.abort();
    await settling;
  }
  // As after a crash: another process, with other keys, that shares the ledger.
  await using second = await bed.openLedger();
  const otherKey = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key, otherKey]), bed.modules(second, noFaults));
  for (const payment of await delegates(bed, second, attacker.wallet, 2)) {
    await assert.rejects(engine.settle(payment, ANSWER, timeLimit()), { code: "PAYMENT_SIMULATION_FAILED" });
  }
  await engine
    .settle(await claim(second, await bed.payer(PRICE)), ANSWER, AbortSignal.timeout(1))
    .catch(() => undefined);
  for (let block = 0; block < 20; block++) await mine(bed);
  assert.equal((await stateOf(second, attack)).state, "signed");
  const gas = await gasOf(bed, privateKeyToAddress(key));
  assert.ok(gas.lost <= ONE_LOSS, `${gas.lost} gas lost in ${gas.transactions} transactions`);
});

/** Refusal of a reservation, or that it was made. */
const codeOf = (refusal: PaymentRefusal | undefined): string => refusal?.code ?? "reserved";

test("attack: of six accounts with one new code one is served, two wait, and the others are refused at once", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const attacker = await deploySwitchWallet(bed.anvil.url);
  const attacks = await delegates(bed, ledger, attacker.wallet, 6);
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  const patience = new AbortController();
  const results: string[] = [];
  const reserving = attacks.map(async (payment) => {
    const code = codeOf(await engine.reserve(payment, 60_000, patience.signal));
    results.push(code);
    return { payment, code };
  });
  await eventually("all but those that wait have an answer", () => results.length === 4);
  assert.deepEqual(results.toSorted(), [...Array(3).fill("PAYMENT_RATE_LIMITED"), "reserved"]);
  const served = await Promise.any(
    reserving.map(async (one) => ((await one).code === "reserved" ? (await one).payment : assert.fail())),
  );
  // As the payment stage does when no supplier had an answer.
  await ledger.release(served.id, "SUPPLIERS_FAILED");
  await eventually("the next one has the place", () => results.length === 5);
  patience.abort();
  const all = await Promise.all(reserving);
  assert.deepEqual(results.toSorted(), [...Array(4).fill("PAYMENT_RATE_LIMITED"), ...Array(2).fill("reserved")]);
  const next = all.find(({ payment, code }) => code === "reserved" && payment !== served)?.payment ?? assert.fail();
  await mineWhile(bed, engine.settle(next, ANSWER, timeLimit()), async () => undefined);
  assert.equal((await stateOf(ledger, next)).state, "settled", "it settles by the place that it has");
});

test("attack: code that is changed to one which lost gas, while its payment is served, is not settled", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const [attacker, common] = [await deploySwitchWallet(bed.anvil.url), await deploySwitchWallet(bed.anvil.url)];
  const [burner, attack] = [
    await delegates(bed, ledger, attacker.wallet, 1),
    await delegates(bed, ledger, common.wallet, 1),
  ].flat();
  assert.ok(burner !== undefined && attack !== undefined);
  const key = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  const classes = [`delegate:${attacker.wallet.toLowerCase()}`];
  await ledger.endWallet(burner.id, NETWORK, { payer: burner.key.from, classes }, { gas: 100_000n, isLost: true });
  assert.equal(codeOf(await engine.reserve(attack, 60_000, timeLimit())), "reserved");
  await delegateCode(bed.anvil.url, attack.key.from, attacker.wallet);
  await assert.rejects(engine.settle(attack, ANSWER, timeLimit()), { code: "PAYMENT_SIMULATION_FAILED" });
  const refusal = await engine.reserve(burner, 60_000, timeLimit());
  assert.equal(codeOf(refusal), "PAYMENT_SIMULATION_FAILED", "a payment that is lost gets no place either");
  assert.ok((refusal?.retryAfterSeconds ?? 0) > 50);
  assert.deepEqual(await gasOf(bed, privateKeyToAddress(key)), { lost: 0, transactions: 0 });
});

test("an account without code takes no place, and no question to the chain", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  const payments = await Promise.all(Array.from({ length: 20 }, async () => claim(ledger, await bed.payer(PRICE))));
  const refusals = await Promise.all(payments.map((payment) => engine.reserve(payment, 0, AbortSignal.abort())));
  assert.deepEqual(new Set(refusals), new Set([undefined]));
});
