import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { type Address, silentLog } from "@turnpike/base";
import {
  type FacilitatorBench,
  type FacilitatorBend,
  failing,
  newNonce,
  newPayer,
  openFacilitator,
  postTo,
  type Reply,
  type Sender,
  settleBody,
} from "../../test/facilitator-fixtures.ts";
import { newAnswer, openLedger, testServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import type { KeylessBudgets, Seller } from "./sellers.ts";
import { createFacilitatorServer } from "./server.ts";

const server = testServer();

const newReceiver = newPayer;
const ROOMY = { settlementsPerDay: 1_000, settlementsPerPayer: 1_000, settlementsPerReceiver: 1_000 };

function sellerOf(change: Partial<Seller> = {}): { readonly seller: Seller; readonly sender: Sender } {
  const key = randomBytes(32).toString("hex");
  const seller = {
    name: "shop",
    keySha256: createHash("sha256").update(key).digest("hex"),
    receivers: [],
    settlementsPerDay: 1_000,
    settlementsPerPayer: 1_000,
    ...change,
  };
  return { seller, sender: { authorization: `Bearer ${key}` } };
}

interface Bend {
  readonly keyless?: Partial<KeylessBudgets>;
  readonly sellers?: readonly Seller[];
  readonly own?: readonly Address[];
  readonly facilitator?: FacilitatorBend;
}

interface Stand extends AsyncDisposable {
  readonly benches: readonly FacilitatorBench[];
  readonly ledgers: readonly Ledger[];
  /** Sends to the facilitators in turn. */
  post(path: "verify" | "settle", body: string, sender?: Sender): Promise<Reply>;
  settle(from: Address, payTo: Address, sender?: Sender): Promise<string>;
}

/** Two facilitators of one ledger that settle for any receiver. */
async function open({ keyless = {}, sellers = [], own = [], facilitator = {} }: Bend = {}): Promise<Stand> {
  await using owned = new AsyncDisposableStack();
  const url = await server().database();
  const benches: FacilitatorBench[] = [];
  const ledgers: Ledger[] = [];
  const urls: string[] = [];
  for (let count = 0; count < 2; count++) {
    const ledger = owned.use(await openLedger(url, { poolSize: 4 }));
    const bench = openFacilitator(ledger, {
      sellers: { ownReceivers: own, sellers, keyless: { ...ROOMY, ...keyless } },
      ...facilitator,
    });
    const opts = { host: "127.0.0.1", port: 0, trustedProxies: [], maxBodyBytes: 65_536, maxConcurrentRequests: 256 };
    const listening = owned.use(
      await createFacilitatorServer(opts, { facilitator: bench.facilitator, log: silentLog }),
    );
    benches.push(bench);
    ledgers.push(ledger);
    urls.push(listening.url);
  }
  const resources = owned.move();
  let turn = 0;
  const post: Stand["post"] = (path, body, sender) => postTo(urls[turn++ % urls.length] ?? "", path, body, sender);
  return {
    benches,
    ledgers,
    post,
    settle: async (from, payTo, sender) => (await post("settle", settleBody(from, newNonce(), payTo), sender)).said,
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

async function each<T>(count: number, work: () => Promise<T>): Promise<T[]> {
  const all: T[] = [];
  for (let at = 0; at < count; at++) all.push(await work());
  return all;
}

const goodOf = (results: readonly string[]): number => results.filter((result) => result === "good").length;

test("attack: a payer that pays accounts of its own is settled for so often a day, over all processes", async () => {
  await using to = await open({ keyless: { settlementsPerPayer: 5 } });
  const payer = newPayer();
  const results = await each(12, () => to.settle(payer, newReceiver()));
  assert.deepEqual([goodOf(results), new Set(results.slice(5))], [5, new Set(["PAYMENT_RATE_LIMITED"])]);
  const refused = await to.post("verify", settleBody(payer, newNonce(), newReceiver()));
  assert.deepEqual([refused.status, refused.said], [429, "PAYMENT_RATE_LIMITED"], "before the seller works");
  assert.ok(Number(refused.retryAfter) > 0 && Number(refused.retryAfter) <= 86_400);
  assert.equal(await to.settle(newPayer(), newReceiver()), "good", "another payer");
});

test("attack: many payers of one receiver, and many receivers, are bounded in total", async () => {
  await using to = await open({ keyless: { settlementsPerReceiver: 4, settlementsPerDay: 6 } });
  const receiver = newReceiver();
  const one = await Promise.all(Array.from({ length: 10 }, () => to.settle(newPayer(), receiver)));
  assert.equal(goodOf(one), 4, "of one receiver, at once");
  const others = await each(5, () => to.settle(newPayer(), newReceiver()));
  assert.equal(goodOf(others), 2, "of all");
});

test("the operator's own sales have no such bound, and a settlement that was not sent takes nothing", async () => {
  const operator = newReceiver();
  await using to = await open({ own: [operator], keyless: { settlementsPerDay: 2 } });
  assert.equal(goodOf(await each(5, () => to.settle(newPayer(), operator))), 5);
  for (const { settler } of to.benches) settler.instead = failing("SETTLEMENT_UNAVAILABLE");
  assert.equal(goodOf(await each(6, () => to.settle(newPayer(), newReceiver()))), 0);
  for (const { settler } of to.benches) settler.instead = undefined;
  assert.equal(goodOf(await each(4, () => to.settle(newPayer(), newReceiver()))), 2);
});

test("copies of a payment take one settlement", async () => {
  await using to = await open({ keyless: { settlementsPerDay: 2 } });
  const body = settleBody(newPayer(), newNonce(), newReceiver());
  const results = await Promise.all(Array.from({ length: 8 }, async () => (await to.post("settle", body)).said));
  assert.equal(goodOf(results), 1);
  assert.equal(goodOf(await each(3, () => to.settle(newPayer(), newReceiver()))), 1);
});

test("a seller has a key, receivers and budgets of its own, and its name in the ledger", async () => {
  const receiver = newReceiver();
  const { seller, sender } = sellerOf({ receivers: [receiver], settlementsPerDay: 4, settlementsPerPayer: 3 });
  const served = newReceiver();
  await using to = await open({
    sellers: [seller],
    own: [served],
    keyless: { settlementsPerDay: 1 },
    facilitator: { payToAllowed: [served] },
  });
  assert.equal(await to.settle(newPayer(), receiver), "invalid_exact_evm_recipient_mismatch", "without its key");
  assert.equal(await to.settle(newPayer(), newReceiver(), sender), "invalid_exact_evm_recipient_mismatch");
  const payer = newPayer();
  assert.equal(goodOf(await each(5, () => to.settle(payer, receiver, sender))), 3, "of one payer");
  assert.equal(goodOf(await each(3, () => to.settle(newPayer(), receiver, sender))), 1, "of all its payers");
  const sales = to.benches.flatMap(({ settler }) => settler.sales);
  assert.deepEqual(new Set(sales.map(({ serviceId }) => serviceId)), new Set(["seller:shop"]));
  assert.deepEqual(new Set(sales.map(({ payTo }) => payTo)), new Set([receiver]));
  const wrong = await to.post("settle", settleBody(payer, newNonce(), receiver), { authorization: "Bearer other" });
  assert.deepEqual([wrong.status, wrong.said], [401, "SELLER_KEY_UNKNOWN"]);
});

test("attack: one payer uses up a tenth of a seller's day, unless the seller says otherwise", async () => {
  const { seller, sender } = sellerOf({ settlementsPerDay: 40, settlementsPerPayer: undefined });
  await using to = await open({ sellers: [seller] });
  const payer = newPayer();
  assert.equal(goodOf(await each(6, () => to.settle(payer, newReceiver(), sender))), 4);
  assert.equal(await to.settle(newPayer(), newReceiver(), sender), "good", "another payer");
});

test("attack: the settlement of a contract wallet counts as one for each 60,000 gas", async () => {
  const { seller, sender } = sellerOf({ settlementsPerDay: 100, settlementsPerPayer: 13 });
  await using to = await open({ sellers: [seller] });
  const wallet = newPayer();
  for (const bench of to.benches) bench.gas = 360_000n;
  assert.equal(goodOf(await each(4, () => to.settle(wallet, newReceiver(), sender))), 2);
  const refused = await to.post("verify", settleBody(wallet, newNonce(), newReceiver()), sender);
  assert.equal(refused.said, "PAYMENT_RATE_LIMITED");
  for (const bench of to.benches) bench.gas = 60_000n;
  assert.equal(goodOf(await each(3, () => to.settle(wallet, newReceiver(), sender))), 1, "one is left");
});

test("a settlement that its payer made fail counts for the payer, and not for the seller", async () => {
  const { seller, sender } = sellerOf({ settlementsPerDay: 3, settlementsPerPayer: 2 });
  await using to = await open({ sellers: [seller] });
  const attacker = newPayer();
  for (const [at, { settler }] of to.benches.entries()) {
    settler.instead = async ({ id }) => {
      await to.ledgers[at]?.journalSubmission(id, newAnswer());
      await to.ledgers[at]?.failed(id, "PAYMENT_NONCE_USED");
    };
  }
  const results = await each(4, () => to.settle(attacker, newReceiver(), sender));
  assert.equal(goodOf(results), 0);
  assert.deepEqual(results.slice(2), ["PAYMENT_RATE_LIMITED", "PAYMENT_RATE_LIMITED"]);
  for (const { settler } of to.benches) settler.instead = undefined;
  assert.equal(goodOf(await each(4, () => to.settle(newPayer(), newReceiver(), sender))), 3);
});

test("a header of clients of other facilitators means nothing where there are no sellers", async () => {
  await using to = await open();
  assert.equal(await to.settle(newPayer(), newReceiver(), { authorization: "Bearer a-token" }), "good");
});

test("clients of one address do not share a seller's places, and a retry key is its seller's own", async () => {
  const [shop, other] = [sellerOf(), sellerOf({ name: "other" })];
  await using to = await open({
    sellers: [shop.seller, other.seller],
    facilitator: { unpaidPerClient: () => ({ burst: 2, perSecond: 0.001 }) },
  });
  await each(8, () => to.post("settle", "{}"));
  assert.equal(await to.settle(newPayer(), newReceiver()), "PAYMENT_RATE_LIMITED");
  const body = settleBody(newPayer(), newNonce(), newReceiver());
  const key = "retry-1";
  assert.equal((await to.post("settle", body, { ...shop.sender, key })).said, "good");
  assert.equal((await to.post("settle", body, { ...other.sender, key })).said, "duplicate_settlement");
  assert.equal((await to.post("settle", body, { ...shop.sender, key })).said, "good");
});
