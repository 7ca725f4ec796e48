import assert from "node:assert/strict";
import { test } from "node:test";
import { type FaultPoints, noFaults } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { devRpc } from "@turnpike/localnet";
import { eventually, virtualClock } from "@turnpike/testkit";
import { parseTransaction } from "viem";
import {
  ANSWER,
  AT_ONCE,
  type Bed,
  claim,
  countingBackOff,
  mineUntil,
  NETWORK,
  openOwnBed,
  PAY_TO,
  PRICE,
  stateOf,
  timeLimit,
  untilState,
} from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import { overrideRpc } from "../../test/override-rpc.ts";
import type { EvmRpc } from "../evm/rpc.ts";
import { SETTLEMENT_BATCH_ADDRESS } from "../evm/settlement-batch.ts";
import { LedgerOperator } from "../ledger/operator.ts";
import type { PaymentRecord } from "../types.ts";
import { createEngine } from "./engine.ts";

const server = testServer();

interface Sent {
  readonly to: string;
  readonly isEmpty: boolean;
  /** Its call's data; empty without. */
  readonly data: string;
}

function sentOf(raw: unknown): Sent {
  const { to, data } = parseTransaction(raw as `0x02${string}`);
  return { to: String(to).toLowerCase(), isEmpty: data === undefined, data: data ?? "" };
}

/** The bed's node behind a provider that refuses some transactions, each time with the same error. */
function refusing(bed: Bed, refuses: (sent: Sent) => boolean, message = "exceeds block gas limit"): EvmRpc {
  const { rpc } = bed;
  return overrideRpc(rpc, {
    call(method, params, signal) {
      if (method === "eth_sendRawTransaction") {
        if (refuses(sentOf(params[0]))) return Promise.resolve({ ok: false, code: -32_000, message });
      }
      return rpc.call(method, params, signal);
    },
  });
}

/** Length of the settlement contract's calldata for one payment, in hex: a selector, three words, and ten for each payment. */
const ONE_PAYMENT_LENGTH = 2 + 2 * (4 + 32 * 13);
const isShared = ({ to, data }: Pick<Sent, "to" | "data">): boolean =>
  to === SETTLEMENT_BATCH_ADDRESS && data.length > ONE_PAYMENT_LENGTH;
const REFUSED = `settlement transactions refused (${NETWORK})`;
const OPTIONS = { ...AT_ONCE, cancelAfterMs: 20_000 };

/** Calls `count` when a node's answer to a transaction has had its effect. */
const countBroadcasts = (count: () => void): FaultPoints => ({
  reach(name) {
    if (name === "engine.broadcast.after") count();
    return undefined;
  },
});

const nonceOf = async (bed: Bed, key: Uint8Array): Promise<number> =>
  Number(await devRpc(bed.anvil.url, "eth_getTransactionCount", [privateKeyToAddress(key), "latest"]));

test("a shared transaction that nodes refuse for good is cancelled, and its payments settle by themselves", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const clock = virtualClock();
  const modules = {
    ...bed.modules(ledger, noFaults, clock),
    rpc: new Map([[NETWORK, refusing(bed, isShared)]]),
  };
  // Only what the watcher sees counts here.
  const together = { ...OPTIONS, batchWindowMs: 1_000_000_000, maxBatch: 2, reconcileMs: 1_000_000_000 };
  await using engine = await createEngine(bed.options([key], together), modules);
  const payers = await Promise.all([bed.payer(PRICE), bed.payer(PRICE)]);
  const payments = await Promise.all(payers.map((payer) => claim(ledger, payer)));
  const settling = Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit())));
  // While the clock stands still they wait for each other.
  await Promise.all(payments.map((payment) => untilState(ledger, payment, "signed")));
  await eventually("it is cancelled", async () => {
    clock.advance(1_000);
    return (await nonceOf(bed, key)) >= 1;
  });
  await eventually("both are settled", async () => {
    clock.advance(1_000);
    const states = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
    return states.every(({ state }) => state === "settled");
  });
  await settling;
  assert.equal(await bed.balance(PAY_TO), 2n * PRICE);
  assert.equal(await nonceOf(bed, key), 3);
  assert.deepEqual(engine.missing(), []);
  // Two that come now do not share a transaction: the one that was refused may have been too large.
  const next = await Promise.all([claim(ledger, await bed.payer(PRICE)), claim(ledger, await bed.payer(PRICE))]);
  await Promise.all(next.map((payment) => engine.settle(payment, ANSWER, timeLimit())));
  assert.equal(await nonceOf(bed, key), 5);
});

test("a refused transaction is sent once more after half a second and then cancelled, and meanwhile payments wait", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const clock = virtualClock();
  let isRefusing = true;
  const rpc = refusing(bed, () => isRefusing);
  let broadcasts = 0;
  const modules = {
    ...bed.modules(
      ledger,
      countBroadcasts(() => broadcasts++),
      clock,
    ),
    rpc: new Map([[NETWORK, rpc]]),
  };
  const { cancelAfterMs: _, ...defaults } = OPTIONS;
  await using engine = await createEngine(bed.options([key], defaults), modules);
  const first = await claim(ledger, await bed.payer(PRICE));
  const settling = [engine.settle(first, ANSWER, timeLimit())];
  await eventually("refusal 1", () => broadcasts === 1);
  const second = await claim(ledger, await bed.payer(PRICE));
  settling.push(engine.settle(second, ANSWER, timeLimit()));
  assert.deepEqual(engine.missing(), []);
  clock.advance(500);
  await eventually("refusal 2, and that of the cancellation", () => broadcasts === 3);
  assert.deepEqual(engine.missing(), []);
  assert.equal((await stateOf(ledger, second)).state, "claimed", "nothing is put behind what is refused");
  isRefusing = false;
  clock.advance(2_000);
  await eventually("it is cancelled", async () => (await nonceOf(bed, key)) >= 1);
  await untilState(ledger, second, "settled");
  await eventually("the first one is settled", async () => {
    clock.advance(1_000);
    return (await stateOf(ledger, first)).state === "settled";
  });
  await Promise.all(settling);
  assert.equal(await nonceOf(bed, key), 3);
});

test("an account that nodes refuse: others settle by themselves, it is sent once more, and it is backed off", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const clock = virtualClock();
  const unwelcome = await bed.payer(PRICE);
  const refused: boolean[] = [];
  const rpc = refusing(
    bed,
    ({ to, data }) => {
      const isRefused = data.includes(unwelcome.address.slice(2).toLowerCase());
      if (isRefused) refused.push(isShared({ to, data }));
      return isRefused;
    },
    "rejected by policy",
  );
  const backOff = countingBackOff();
  let broadcasts = 0;
  const modules = {
    ...bed.modules(
      ledger,
      countBroadcasts(() => broadcasts++),
      clock,
    ),
    rpc: new Map([[NETWORK, rpc]]),
    backOff,
  };
  const together = { ...OPTIONS, cancelAfterMs: 500, batchWindowMs: 3, maxBatch: 2 };
  await using engine = await createEngine(bed.options([key], together), modules);
  /** Settles a payment, whose batch waits for a moment of the engine's clock. */
  const settled = async (payment: PaymentRecord): Promise<void> => {
    const settling = engine.settle(payment, ANSWER, timeLimit());
    await eventually("it is settled", async () => {
      clock.advance(5);
      return (await stateOf(ledger, payment)).state === "settled";
    });
    await settling;
  };
  const patience = new AbortController();
  const attack = await claim(ledger, unwelcome);
  const honest = await claim(ledger, await bed.payer(PRICE));
  const attacking = engine.settle(attack, ANSWER, patience.signal);
  const settling = engine.settle(honest, ANSWER, timeLimit());
  for (const count of [1, 2]) {
    // The cancellation may follow the second refusal at once.
    await eventually(`refusal ${count}`, () => broadcasts >= count);
    clock.advance(500);
  }
  await settling;
  assert.equal((await stateOf(ledger, honest)).state, "settled", "by itself");
  // The other one may have been refused by itself before a node took anything, and waits for another try then.
  while (backOff.blamed.size === 0) {
    await settled(await claim(ledger, await bed.payer(PRICE)));
    clock.advance(5_000);
  }
  assert.deepEqual([...backOff.blamed], [unwelcome.address.toLowerCase()]);
  const nonce = await nonceOf(bed, key);
  for (let count = 0; count < 2; count++) await settled(await claim(ledger, await bed.payer(PRICE)));
  assert.equal(await nonceOf(bed, key), nonce + 2, "the account that is refused was not sent again");
  assert.equal((await stateOf(ledger, attack)).state, "signed");
  assert.deepEqual(refused.slice(0, 2), [true, true], "with the other one");
  assert.deepEqual(new Set(refused.slice(2)), new Set([false]), "by itself");
  patience.abort();
  await attacking;
});

test("a payment whose transaction was refused is sent with nothing behind it until a node has answered", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const clock = virtualClock();
  const unwelcome = await bed.payer(PRICE);
  const answer = Promise.withResolvers<void>();
  let isSentAlone = false;
  let looks = 0;
  const refuses = ({ data }: Sent): boolean => data.includes(unwelcome.address.slice(2).toLowerCase());
  const answering = refusing(bed, refuses, "rejected by policy");
  const rpc: EvmRpc = {
    ...answering,
    async call(method, params, signal) {
      const sent = method === "eth_sendRawTransaction" ? sentOf(params[0]) : undefined;
      if (sent !== undefined && refuses(sent) && !isShared(sent)) {
        isSentAlone = true;
        await answer.promise;
      }
      return answering.call(method, params, signal);
    },
    batch(calls, signal) {
      looks++;
      return bed.rpc.batch(calls, signal);
    },
  };
  const modules = { ...bed.modules(ledger, noFaults, clock), rpc: new Map([[NETWORK, rpc]]) };
  const together = {
    ...OPTIONS,
    cancelAfterMs: 500,
    batchWindowMs: 1_000_000_000,
    maxBatch: 2,
    reconcileMs: 1_000_000_000,
  };
  await using engine = await createEngine(bed.options([key], together), modules);
  const patience = new AbortController();
  const payments = [await claim(ledger, unwelcome), await claim(ledger, await bed.payer(PRICE))];
  const settling = payments.map((payment) => engine.settle(payment, ANSWER, patience.signal));
  // While the clock stands still they wait for each other.
  await Promise.all(payments.map((payment) => untilState(ledger, payment, "signed")));
  await eventually("the refused one is sent by itself", () => {
    clock.advance(500);
    return isSentAlone;
  });
  const next = await claim(ledger, await bed.payer(PRICE));
  settling.push(engine.settle(next, ANSWER, timeLimit()));
  const seen = looks;
  await eventually("the engine looks for a key again and again", () => looks >= seen + 10);
  assert.equal((await stateOf(ledger, next)).state, "claimed");
  answer.resolve();
  await eventually("the next one is settled", async () => {
    clock.advance(500);
    return (await stateOf(ledger, next)).state === "settled";
  });
  patience.abort();
  await Promise.all(settling);
  assert.equal(engine.missing().includes(REFUSED), false);
});

test("a transaction that is refused until its payments' windows close is cancelled, and the key goes on", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const clock = virtualClock();
  // The provider has a cap on fees that everything but an empty transaction is over.
  let capped = true;
  const rpc = refusing(bed, ({ isEmpty }) => capped && !isEmpty, "tx fee (1.20 ether) exceeds the configured cap");
  const modules = { ...bed.modules(ledger, noFaults, clock), rpc: new Map([[NETWORK, rpc]]) };
  await using engine = await createEngine(bed.options([key], { ...OPTIONS, cancelAfterMs: 1_000_000_000 }), modules);
  const validBefore = BigInt((await bed.chainTime()) + 600);
  const payment = await claim(ledger, await bed.payer(PRICE), { validBefore });
  const settling = engine.settle(payment, ANSWER, timeLimit());
  await untilState(ledger, payment, "signed");
  await devRpc(bed.anvil.url, "anvil_mine", ["0x3", "0x2bc"]);
  await settling;
  assert.equal((await stateOf(ledger, payment)).reason, "PAYMENT_EXPIRED");
  await eventually("its nonce is used up", async () => {
    clock.advance(1_000_000_000);
    return (await nonceOf(bed, key)) === 1;
  });
  capped = false;
  const next = await claim(ledger, await bed.payer(PRICE));
  const second = engine.settle(next, ANSWER, timeLimit());
  await eventually("the next one is settled", async () => {
    clock.advance(1_000);
    return (await stateOf(ledger, next)).state === "settled";
  });
  await second;
  assert.equal(await bed.balance(PAY_TO), PRICE);
});

test("a cancellation that was journaled and not sent is sent by the next process, and its payment settles", async () => {
  await using bed = await openOwnBed(server());
  const key = await bed.relayerKey();
  const ledger = await bed.openLedger();
  const clock = virtualClock();
  const modules = {
    ...bed.modules(ledger, noFaults, clock),
    rpc: new Map([[NETWORK, refusing(bed, () => true, "rejected by policy")]]),
  };
  const dead = await createEngine(bed.options([key], { ...OPTIONS, graceMs: 20 }), modules);
  const payment = await claim(ledger, await bed.payer(PRICE));
  const patience = new AbortController();
  const settling = dead.settle(payment, ANSWER, patience.signal);
  await untilState(ledger, payment, "signed");
  const transactions = async () =>
    (await ledger.openBatches(NETWORK, privateKeyToAddress(key))).flatMap((batch) => batch.transactions);
  await eventually("the cancellation is journaled", async () => {
    clock.advance(1_000);
    return (await transactions()).at(-1)?.cancels === true;
  });
  await eventually("the cancellation is refused, too, and the engine says so", () => {
    clock.advance(1_000);
    return dead.missing().includes(REFUSED);
  });
  patience.abort();
  await settling;
  await dead[Symbol.asyncDispose]();
  await ledger[Symbol.asyncDispose]();

  await using again = await bed.openLedger();
  await using engine = await createEngine(bed.options([key]), bed.modules(again));
  await engine.wait(payment, timeLimit());
  const end = await stateOf(again, payment);
  assert.equal(end.state, "settled");
  assert.equal(await bed.balance(PAY_TO), PRICE);
  assert.equal(await nonceOf(bed, key), 2);
});

test("a transaction is cancelled when an operator asks for it, and its payment settles by another", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  const payment = await claim(ledger, await bed.payer(PRICE));
  const settling = engine.settle(payment, ANSWER, timeLimit());
  await untilState(ledger, payment, "signed");
  const operator = new LedgerOperator(bed.databaseUrl, { schema: "ledger" });
  assert.equal(await operator.cancel(NETWORK, privateKeyToAddress(key), 0), true);
  await eventually("it is cancelled", async () => {
    const [open] = await operator.openTransactions(1);
    return open?.cancellation === "sent";
  });
  await mineUntil(bed, settling);
  assert.equal((await stateOf(ledger, payment)).state, "settled");
  assert.equal(await bed.balance(PAY_TO), PRICE);
  assert.equal(await nonceOf(bed, key), 2);
});

test("a cancellation that came too late is not sent when a re-organisation takes the settlement away", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  await devRpc(bed.anvil.url, "anvil_mine", ["0x5"]);
  let refusesEmpty = true;
  const rpc = refusing(bed, ({ isEmpty }) => refusesEmpty && isEmpty);
  const modules = { ...bed.modules(ledger), rpc: new Map([[NETWORK, rpc]]) };
  const options = bed.options([key]);
  const deep = { ...options, networks: options.networks.map((net) => ({ ...net, finalityBlocks: 50 })) };
  await using engine = await createEngine(deep, modules);
  const payment = await claim(ledger, await bed.payer(PRICE));
  const settling = engine.settle(payment, ANSWER, timeLimit());
  await untilState(ledger, payment, "signed");
  const operator = new LedgerOperator(bed.databaseUrl, { schema: "ledger" });
  assert.equal(await operator.cancel(NETWORK, privateKeyToAddress(key), 0), true);
  await eventually("the cancellation is journaled", async () => {
    const [open] = await operator.openTransactions(1);
    return open?.cancellation === "sent";
  });
  await mineUntil(bed, settling);
  const before = (await stateOf(ledger, payment)).evidence;
  assert.ok(before !== undefined);
  refusesEmpty = false;
  const height = Number(await devRpc(bed.anvil.url, "eth_blockNumber", []));
  await devRpc(bed.anvil.url, "anvil_rollback", [height - Number(before.blockNumber) + 1]);
  await eventually("it is settled again", async () => {
    await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
    const { state, evidence } = await stateOf(ledger, payment);
    return state === "settled" && evidence?.blockHash !== before.blockHash;
  });
  assert.equal(await bed.balance(PAY_TO), PRICE);
  assert.equal(await nonceOf(bed, key), 1, "by the same nonce");
});
