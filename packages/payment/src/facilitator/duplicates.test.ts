import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, type Clock, silentLog, systemClock } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import {
  ASSET,
  type FacilitatorBench,
  type FacilitatorBend,
  MERCHANTS,
  NETWORK,
  newNonce,
  newPayer,
  openFacilitator,
  postTo,
  type Reply,
  type Sender,
  type StandInSettler,
  settleBody,
} from "../../test/facilitator-fixtures.ts";
import { newEvidence, openLedger, sql, testServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { createFacilitatorServer } from "./server.ts";

const databases = testServer();
let database: Promise<string> | undefined;

interface Instance {
  readonly ledger: Ledger;
  readonly bench: FacilitatorBench;
  readonly settler: StandInSettler;
  readonly url: string;
}

/** Two facilitators, each with a ledger of its own on one database, as two processes have. */
async function openTwo(
  stack: AsyncDisposableStack,
  bend: FacilitatorBend = {},
): Promise<readonly [Instance, Instance]> {
  database ??= databases().database();
  const url = await database;
  return [await openOn(stack, url, bend), await openOn(stack, url, bend)];
}

async function openOn(
  stack: AsyncDisposableStack,
  url: string,
  bend: FacilitatorBend,
  ledgerOptions: Parameters<typeof openLedger>[1] = {},
): Promise<Instance> {
  const ledger = stack.use(await openLedger(url, ledgerOptions));
  const bench = openFacilitator(ledger, bend);
  const { facilitator, settler } = bench;
  const opts = { host: "127.0.0.1", port: 0, trustedProxies: [], maxBodyBytes: 65_536, maxConcurrentRequests: 256 };
  const server = stack.use(await createFacilitatorServer(opts, { facilitator, log: silentLog }));
  return { ledger, bench, settler, url: server.url };
}

/** A payment, and what asks the facilitators for its settlement. */
function newPayment({ identifier }: { readonly identifier?: string } = {}) {
  const [from, nonce] = [newPayer(), newNonce()];
  const body = settleBody(from, nonce, MERCHANTS[0], identifier);
  const key = { network: NETWORK, asset: ASSET.toLowerCase() as Address, from, nonce };
  return {
    nonce,
    key,
    body,
    settle: (at: Instance, sender: Sender = {}): Promise<Reply> => postTo(at.url, "settle", body, sender),
    verify: (at: Instance, sender: Sender = {}): Promise<Reply> => postTo(at.url, "verify", body, sender),
    record: async (at: Instance): Promise<PaymentRecord> => {
      const record = await at.ledger.find(key);
      assert.ok(record !== undefined);
      return record;
    },
    /** Once one of them waits for its settlement: that one, and the payment. */
    pending: (all: readonly Instance[]) =>
      eventually("it is pending", async () => {
        const record = await all[0]?.ledger.find(key);
        const at = record && all.find(({ settler }) => settler.waiting(record) > 0);
        return at && { at, record };
      }),
  };
}

const saidBy = (replies: readonly Reply[]): readonly string[] => replies.map(({ said }) => said).toSorted();
const duplicates = (count: number): string[] => Array.from({ length: count }, () => "duplicate_settlement");

test("attack: of ten copies at once and spread, over two processes, one has the success", async () => {
  await using stack = new AsyncDisposableStack();
  const both = await openTwo(stack);
  const payment = newPayment();
  for (const { settler } of both) settler.held.add(payment.nonce);
  const atOnce = Array.from({ length: 10 }, (_, index) => payment.settle(both[index % 2 === 0 ? 0 : 1]));
  const { at: winner, record } = await payment.pending(both);
  assert.deepEqual(saidBy(await Promise.all(both.map((one) => payment.settle(one)))), duplicates(2));
  await winner.settler.finish(record);
  assert.deepEqual(saidBy(await Promise.all(atOnce)), [...duplicates(9), "good"]);
  const { transaction } = await payment.record(both[0]);
  for (const one of both) {
    const reply = await payment.settle(one);
    assert.deepEqual([reply.status, reply.said, reply.transaction], [200, "duplicate_settlement", transaction]);
  }
});

test("the key of the first caller has the success as often as it asks, in every process; no other key has it", async () => {
  await using stack = new AsyncDisposableStack();
  const both = await openTwo(stack);
  const payment = newPayment();
  const first = await payment.settle(both[0], { key: "first" });
  assert.equal(first.said, "good");
  for (const one of both) {
    for (const localAddress of ["127.0.0.1", "127.0.0.2"]) {
      assert.deepEqual(await payment.settle(one, { key: "first", localAddress }), first);
    }
    assert.equal((await payment.settle(one, { key: "other" })).said, "duplicate_settlement");
    assert.equal((await payment.settle(one)).said, "duplicate_settlement");
  }
});

test("attack: the first caller's connection ends before its answer: its key gets it, and nothing else does", async () => {
  await using stack = new AsyncDisposableStack();
  const both = await openTwo(stack);
  const payment = newPayment();
  both[0].settler.held.add(payment.nonce);
  const leave = new AbortController();
  const first = payment.settle(both[0], { key: "first", signal: leave.signal });
  const { record } = await payment.pending(both);
  leave.abort();
  await assert.rejects(first);
  const others = [{}, { key: "other" }, { localAddress: "127.0.0.2" }];
  assert.deepEqual(saidBy(await Promise.all(others.map((sender) => payment.settle(both[1], sender)))), duplicates(3));
  await both[0].settler.finish(record);
  assert.deepEqual(saidBy(await Promise.all(others.map((sender) => payment.settle(both[0], sender)))), duplicates(3));
  assert.equal((await payment.settle(both[1], { key: "first" })).said, "good");
});

test("attack: a caller without a key leaves before its answer: one copy of the same client gets it", async () => {
  await using stack = new AsyncDisposableStack();
  const both = await openTwo(stack);
  const payment = newPayment();
  both[0].settler.held.add(payment.nonce);
  const leave = new AbortController();
  const first = payment.settle(both[0], { signal: leave.signal });
  const { record } = await payment.pending(both);
  leave.abort();
  await assert.rejects(first);
  await both[0].settler.finish(record);
  assert.equal((await payment.settle(both[1], { localAddress: "127.0.0.2" })).said, "duplicate_settlement");
  assert.equal((await payment.settle(both[1], { key: "a-stranger" })).said, "duplicate_settlement");
  const got: Reply[] = [];
  await eventually("a copy gets it", async () => {
    const copies = await Promise.all(both.map((one) => payment.settle(one)));
    got.push(...copies.filter(({ said }) => said === "good"));
    return got.length > 0;
  });
  assert.equal(got.length, 1);
  assert.deepEqual(saidBy(await Promise.all(both.map((one) => payment.settle(one)))), duplicates(2));
});

test("attack: who was told that a settlement is pending asks again, and so do ten copies: one has the success", async () => {
  await using stack = new AsyncDisposableStack();
  const both = await openTwo(stack, { settleWaitMs: 50 });
  const payment = newPayment();
  for (const { settler } of both) settler.held.add(payment.nonce);
  assert.equal((await payment.settle(both[0])).said, "settlement_pending");
  assert.equal((await payment.settle(both[1])).said, "settlement_pending", "and again, by the other process");
  await both[0].settler.finish(await payment.record(both[0]));
  assert.equal((await payment.settle(both[0], { localAddress: "127.0.0.2" })).said, "duplicate_settlement");
  const copies = Array.from({ length: 10 }, (_, at) => payment.settle(both[at % 2 === 0 ? 0 : 1]));
  assert.deepEqual(saidBy(await Promise.all(copies)), [...duplicates(9), "good"]);
});

test("attack: copies with the buyer's payment identifier have one success; the same request may have what was not received", async () => {
  await using stack = new AsyncDisposableStack();
  const both = await openTwo(stack);
  const bought = newPayment({ identifier: "pay_1234567890abcdef" });
  const copies = Array.from({ length: 10 }, (_, at) => bought.settle(both[at % 2 === 0 ? 0 : 1]));
  assert.deepEqual(saidBy(await Promise.all(copies)), [...duplicates(9), "good"]);
  const payment = newPayment({ identifier: "pay_fedcba0987654321" });
  both[0].settler.held.add(payment.nonce);
  const leave = new AbortController();
  const first = payment.settle(both[0], { signal: leave.signal });
  const { record } = await payment.pending(both);
  leave.abort();
  await assert.rejects(first);
  await both[0].settler.finish(record);
  // A stranger knows what is on the chain: the authorization and its signature.
  const { paymentPayload, ...more } = JSON.parse(payment.body) as { paymentPayload: Record<string, unknown> };
  const { extensions: _, ...publicPayload } = paymentPayload;
  const rebuilt = JSON.stringify({ ...more, paymentPayload: publicPayload });
  assert.equal((await postTo(both[1].url, "settle", rebuilt)).said, "duplicate_settlement");
  const got = await eventually("the same request gets it", async () => {
    const reply = await payment.settle(both[1], { localAddress: "127.0.0.2" });
    return reply.said === "good" && reply;
  });
  assert.equal(typeof got.transaction, "string");
  assert.equal((await payment.settle(both[1])).said, "duplicate_settlement");
});

/** The holder of a ledger, opened on a database that has no other. */
async function onlyHolder(url: string): Promise<string> {
  const [row] = await sql<{ id: string }>(url, "select id from holders where expires_at > clock_timestamp()");
  assert.ok(row !== undefined);
  return row.id;
}

/** Two facilitators on a database of their own, and what makes the first one's process dead to the ledger. */
async function openMortal(stack: AsyncDisposableStack, heartbeatMs = 50) {
  const url = await databases().database();
  const first = await openOn(stack, url, {}, { heartbeatMs });
  const holder = await onlyHolder(url);
  const second = await openOn(stack, url, {});
  const rows = async ({ id }: PaymentRecord): Promise<number> =>
    (await sql(url, "select 1 from open_results where settlement = $1", [id])).length;
  const living = async (): Promise<number> => (await sql(url, "select 1 from holders")).length;
  return {
    both: [first, second] as const,
    rows,
    living,
    kill: () => sql(url, "delete from holders where id = $1", [holder]),
  };
}

test("attack: a process that dies before its answer leaves the result to one copy of its client", async () => {
  await using stack = new AsyncDisposableStack();
  const { both, rows, living, kill } = await openMortal(stack);
  const [dead, next] = both;
  const payment = newPayment();
  dead.settler.held.add(payment.nonce);
  const lost = payment.settle(dead);
  const { record } = await payment.pending(both);
  await eventually("its right is recorded", async () => (await rows(record)) === 1);
  assert.equal((await payment.settle(next)).said, "duplicate_settlement", "its process lives");
  await kill();
  await next.settler.finish(record);
  assert.equal((await payment.settle(next, { localAddress: "127.0.0.2" })).said, "duplicate_settlement");
  const copies = await Promise.all(Array.from({ length: 5 }, () => payment.settle(next)));
  assert.deepEqual(saidBy(copies), [...duplicates(4), "good"]);
  // Its process was late, and is not dead: the copy has the success.
  await eventually("it sees that it was late", async () => (await living()) === 2);
  await dead.settler.finish(record).catch(() => undefined);
  assert.equal((await lost).said, "duplicate_settlement");
});

test("attack: a process that is late, and does not see it yet, gives the result to no copy", async () => {
  await using stack = new AsyncDisposableStack();
  const { both, rows, kill } = await openMortal(stack, 60_000);
  const [late, next] = both;
  const payment = newPayment();
  late.settler.held.add(payment.nonce);
  const first = payment.settle(late);
  const { record } = await payment.pending(both);
  await eventually("its right is recorded", async () => (await rows(record)) === 1);
  await kill();
  await next.settler.finish(record);
  const copies = await Promise.all(Array.from({ length: 5 }, () => payment.settle(late)));
  assert.deepEqual(saidBy(copies), duplicates(5));
  await late.settler.finish(record).catch(() => undefined);
  assert.equal((await first).said, "good");
});

test("attack: a process that dies after its answer leaves the result to no copy", async () => {
  await using stack = new AsyncDisposableStack();
  const { both, rows, kill } = await openMortal(stack);
  const payment = newPayment();
  assert.equal((await payment.settle(both[0])).said, "good");
  const record = await payment.record(both[1]);
  await eventually("the answer is noted", async () => (await rows(record)) === 0);
  await kill();
  assert.equal((await payment.settle(both[1])).said, "duplicate_settlement");
});

test("a pending payment is valid at /verify for its client until one request has its result, and for no other client", async () => {
  await using stack = new AsyncDisposableStack();
  const both = await openTwo(stack, { settleWaitMs: 50 });
  const payment = newPayment();
  for (const { settler } of both) settler.held.add(payment.nonce);
  assert.equal((await payment.settle(both[0])).said, "settlement_pending");
  const other = { localAddress: "127.0.0.2" };
  for (const one of both) {
    await eventually("its client may ask again", async () => (await payment.verify(one)).said === "good");
    assert.equal((await payment.verify(one, other)).said, "duplicate_settlement");
    one.bench.refusal = { ok: false, code: "PAYMENT_NONCE_USED" };
  }
  await both[0].settler.finish(await payment.record(both[0]));
  assert.equal((await payment.verify(both[1])).said, "good", "a seller asks here before it asks for the settlement");
  const stranger = await payment.verify(both[1], other);
  assert.notEqual(stranger.said, "good");
  assert.equal((await payment.settle(both[1])).said, "good");
  assert.notEqual((await payment.verify(both[1])).said, "good");
});

test("a payment that is claimed is not valid any more at /verify", async () => {
  await using stack = new AsyncDisposableStack();
  const both = await openTwo(stack);
  const payment = newPayment();
  assert.equal((await payment.verify(both[1])).said, "good");
  both[0].settler.held.add(payment.nonce);
  const settling = payment.settle(both[0]);
  const { record } = await payment.pending(both);
  for (const one of both) {
    const reply = await payment.verify(one);
    assert.deepEqual([reply.status, reply.said], [200, "duplicate_settlement"]);
  }
  await both[0].settler.finish(record);
  assert.equal((await settling).said, "good");
  assert.equal((await payment.verify(both[0])).said, "duplicate_settlement");
});

/** Rows of the shared database about the right to a settlement's result. */
async function openRows(id: string): Promise<number> {
  const url = await database;
  assert.ok(url !== undefined);
  return (await sql(url, "select 1 from open_results where settlement = $1", [id])).length;
}

test("attack: what its claimant was told to have failed, and was paid after all, has one success", async () => {
  await using stack = new AsyncDisposableStack();
  const both = await openTwo(stack);
  const payment = newPayment();
  both[0].settler.instead = () => Promise.reject(new TypeError("no settlement"));
  assert.equal((await payment.settle(both[0])).said, "SETTLEMENT_UNAVAILABLE");
  const { id } = await payment.record(both[0]);
  // Until the claimant's answer is noted as sent, its process may still be about to send it.
  await eventually("its answer is noted", async () => (await openRows(id)) === 0);
  await both[0].ledger.owed(id, newEvidence());
  const copies = Array.from({ length: 10 }, (_, at) => payment.settle(both[at % 2 === 0 ? 0 : 1]));
  assert.deepEqual(saidBy(await Promise.all(copies)), [...duplicates(9), "good"]);
});

test("a day after the claim its key has no success any more", async () => {
  await using stack = new AsyncDisposableStack();
  const later: Clock = { ...systemClock, nowMs: () => Date.now() + 86_400_001 };
  const [today] = await openTwo(stack);
  const [tomorrow] = await openTwo(stack, { clock: later });
  const payment = newPayment();
  assert.equal((await payment.settle(today, { key: "first" })).said, "good");
  assert.equal((await payment.settle(tomorrow, { key: "first" })).said, "duplicate_settlement");
});

test("what is kept of results that were not received is deleted after a week", async () => {
  await using stack = new AsyncDisposableStack();
  const [one] = await openTwo(stack, { settleWaitMs: 50 });
  const payment = newPayment();
  one.settler.held.add(payment.nonce);
  assert.equal((await payment.settle(one)).said, "settlement_pending");
  const { id } = await payment.record(one);
  const url = await database;
  assert.ok(url !== undefined);
  const count = (): Promise<number> => openRows(id);
  assert.equal(await count(), 1);
  await sql(url, "update open_results set at = now() - interval '8 days' where settlement = $1", [id]);
  const next = newPayment();
  one.settler.held.add(next.nonce);
  assert.equal((await next.settle(one)).said, "settlement_pending");
  assert.equal(await count(), 0);
});

test("a key that is none is refused", async () => {
  await using stack = new AsyncDisposableStack();
  const [one] = await openTwo(stack);
  for (const key of ["", "x".repeat(256), "two, values", "with space"]) {
    const { status, said } = await newPayment().settle(one, { key });
    assert.deepEqual([status, said], [400, "MALFORMED_REQUEST"], key);
  }
});
