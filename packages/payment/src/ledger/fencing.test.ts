import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, isAppError, type SettlementId } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import {
  claimed,
  journaled,
  leased,
  NETWORK,
  newAnswer,
  newClaim,
  newEvidence,
  newKey,
  newLedger,
  newTransaction,
  openLedger,
  RELAYER,
  sql,
  testServer,
} from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";

const server = testServer();

/** A ledger that does not renew by itself: its process stalls. */
const openStalled = (url: string): Promise<Ledger> => openLedger(url, { heartbeatMs: 3_600_000 });

/** A ledger that outlives {@link letTimePass}. */
const openLiving = (url: string): Promise<Ledger> => openLedger(url, { holderTtlMs: 36_000_000 });

/** Moves the time of all holders by an hour: the database's time decides who is dead. */
const letTimePass = (url: string): Promise<unknown> =>
  sql(url, "update holders set expires_at = expires_at - interval '1 hour'");

const fencedWith = (detail: Readonly<Record<string, unknown>>) => (error: unknown) => {
  assert.ok(isAppError(error, "LEDGER_FENCED"), String(error));
  for (const [name, value] of Object.entries(detail)) assert.deepEqual(error.detail[name], value, name);
  return true;
};

test("claims of a dead process are released, those of living ones are not", async () => {
  const url = await server().database();
  await using living = await openLiving(url);
  await using stalled = await openStalled(url);
  const key = newKey();
  const lost = await claimed(stalled, { key });
  const kept = await claimed(living);
  await letTimePass(url);
  assert.equal(await living.releaseOrphans(), 1);
  assert.equal(await living.releaseOrphans(), 0);
  assert.deepEqual([(await living.get(lost))?.state, (await living.get(kept))?.state], ["released", "claimed"]);
  assert.equal((await living.get(lost))?.reason, "SERVICE_UNAVAILABLE");

  // the stalled process comes back
  const lease = await leased(stalled);
  await assert.rejects(journaled(stalled, lease, 0, [lost]), fencedWith({ lost: [lost], lease: false, nextNonce: 0 }));
  assert.equal(await stalled.release(lost, "SERVICE_UNAVAILABLE"), false);
  // and starts over, as somebody else
  const again = await claimed(stalled, { key });
  await journaled(stalled, lease, 0, [again]);
});

test("a claim of a gone process is released", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const id = await claimed(ledger);
  await sql(url, "delete from holders");
  assert.equal(await ledger.releaseOrphans(), 1);
  assert.equal((await ledger.get(id))?.state, "released");
});

test("more orphans than one page are released in one call", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  await sql(
    url,
    `insert into payments (id, network, asset, payer, nonce, pay_to, value, valid_after, valid_before, signature, kind,
      service_id, payload_digest, request_hash, state, holder)
    select i::text, 'n', 'a', 'p', sha256(i::text::bytea), 't', 1, 0, 9, '', 'eoa', 's', sha256(''), sha256(''),
      'claimed', 'gone' from generate_series(1, 600) i`,
  );
  assert.equal(await ledger.releaseOrphans(), 600);
});

test("a process that stops frees its claims and leases at once", async () => {
  const url = await server().database();
  await using next = await openLedger(url);
  let id: SettlementId;
  {
    await using first = await openLedger(url);
    id = await claimed(first);
    assert.equal((await leased(first)).epoch, 1n);
    assert.equal(await next.leaseRelayer(NETWORK, RELAYER, 0), undefined);
  }
  assert.deepEqual([(await next.get(id))?.state, (await next.get(id))?.reason], ["released", "SHUTTING_DOWN"]);
  assert.equal((await leased(next)).epoch, 2n);
});

test("a stale holder can neither journal nor replace, and learns that its lease is lost", async () => {
  const url = await server().database();
  await using stalled = await openStalled(url);
  await using next = await openLiving(url);
  const old = await leased(stalled);
  const id = await claimed(stalled);
  const mine = await claimed(next);
  const { batchId } = await journaled(stalled, old, 0, [await claimed(stalled)]);
  assert.equal(await next.leaseRelayer(NETWORK, RELAYER, 0), undefined, "held");
  await letTimePass(url);

  // dead, although nobody has taken over yet
  await assert.rejects(journaled(stalled, old, 1, [id]), fencedWith({ lease: true }));
  await assert.rejects(stalled.journalReplacement(old, batchId, newTransaction()), fencedWith({ lease: true }));
  await assert.rejects(stalled.journalSubmission(id, newAnswer()), fencedWith({ lost: [id] }));
  assert.deepEqual(await stalled.openBatches(NETWORK, RELAYER), []);

  const lease = await leased(next);
  assert.deepEqual([lease.epoch, lease.nextNonce], [2n, 1]);
  const [open] = await next.openBatches(NETWORK, RELAYER);
  assert.equal(open?.id, batchId, "the new holder finishes what the old one journaled");
  await journaled(next, lease, 1, [mine]);

  // a claim is not taken over with the lease
  await assert.rejects(journaled(next, lease, 2, [id]), fencedWith({ lost: [id], lease: false }));
  // the old lease is refused, whoever names it
  await assert.rejects(journaled(next, old, 2, [await claimed(next)]), fencedWith({ lease: true }));
  assert.deepEqual(await stalled.renewLeases(), [{ network: NETWORK, relayer: RELAYER }]);
  assert.deepEqual(await stalled.renewLeases(), []);
  assert.deepEqual(await next.renewLeases(), []);
  assert.equal((await next.get(id))?.state, "claimed", "an orphan, until it is released");
});

test("a holder is renewed on a timer", async (context) => {
  const url = await server().database();
  context.mock.timers.enable({ apis: ["setTimeout"] });
  await using ledger = await openLedger(url, { heartbeatMs: 30_000 });
  const expiry = async () => (await sql<{ at: string }>(url, "select expires_at::text as at from holders"))[0]?.at;
  const first = await expiry();
  context.mock.timers.tick(29_999);
  assert.deepEqual(await ledger.renewLeases(), []);
  const second = await expiry();
  assert.ok(second !== undefined && first !== undefined && second > first, "renewed by hand");
  context.mock.timers.tick(1);
  context.mock.timers.reset();
  await eventually("it is renewed", async () => ((await expiry()) ?? "") > second);
  assert.deepEqual(await ledger.renewLeases(), []);
  await journaled(ledger, await leased(ledger), 0, [await claimed(ledger)]);
});

test("one lost claim refuses the whole batch and names it", async () => {
  await using ledger = await newLedger(server());
  const lease = await leased(ledger);
  const [good, lost] = [await claimed(ledger), await claimed(ledger)];
  await ledger.release(lost, "SERVICE_UNAVAILABLE");
  const unknown = "stl_unknown" as SettlementId;
  await assert.rejects(
    journaled(ledger, lease, 0, [good, lost, unknown]),
    fencedWith({ lost: [lost, unknown], lease: false, nextNonce: 0 }),
  );
  assert.equal((await ledger.get(good))?.state, "claimed");
  assert.deepEqual(await ledger.openBatches(NETWORK, RELAYER), []);
  await journaled(ledger, lease, 0, [good]);
});

test("nonces are contiguous, and a journal that is repeated is the same", async () => {
  await using ledger = await newLedger(server());
  const lease = await leased(ledger);
  const ids = [await claimed(ledger), await claimed(ledger)] as const;
  const transaction = newTransaction();
  const first = await journaled(ledger, lease, 0, [ids[0]], transaction);
  assert.deepEqual(await journaled(ledger, lease, 0, [ids[0]], transaction), first);
  for (const nonce of [0, 2]) {
    await assert.rejects(journaled(ledger, lease, nonce, [ids[1]]), fencedWith({ nextNonce: 1, lost: [] }));
  }
  await journaled(ledger, lease, 1, [ids[1]]);
  // the chain knows more: the key was used elsewhere
  assert.deepEqual(await ledger.leaseRelayer(NETWORK, RELAYER, 9), { ...lease, nextNonce: 9 });
  assert.deepEqual(await ledger.leaseRelayer(NETWORK, RELAYER, 3), { ...lease, nextNonce: 9 });
  await assert.rejects(
    ledger.journal({
      lease,
      nonce: 9,
      gasLimit: 1n,
      transaction: newTransaction(),
      items: [
        { id: ids[1], answer: newAnswer() },
        { id: ids[1], answer: newAnswer() },
      ],
    }),
    (error) => isAppError(error, "INTERNAL"),
  );
});

test("two processes that race for one lease leave no gap and no nonce twice", async () => {
  const url = await server().database();
  const work = async (): Promise<number> => {
    await using ledger = await openLedger(url);
    let done = 0;
    while (done < 15) {
      const lease = await ledger.leaseRelayer(NETWORK, RELAYER, 0);
      if (lease === undefined) continue;
      for (let nonce = lease.nextNonce; done < 15; nonce++) {
        try {
          await journaled(ledger, lease, nonce, [await claimed(ledger)]);
          done++;
        } catch (error) {
          if (!isAppError(error, "LEDGER_FENCED")) throw error;
          break;
        }
        // the lease is taken away now and then, as after a stall
        if (done % 4 === 0) await sql(url, "update relayers set holder = null");
      }
    }
    return done;
  };
  await Promise.all([work(), work()]);
  const rows = await sql<{ nonce: string }>(url, "select nonce from batches order by nonce");
  assert.deepEqual(
    rows.map((row) => Number(row.nonce)),
    Array.from({ length: 30 }, (_, i) => i),
  );
  const [relayer] = await sql<{ next_nonce: string; epoch: string }>(url, "select next_nonce, epoch from relayers");
  assert.equal(relayer?.next_nonce, "30");
  assert.ok(Number(relayer?.epoch) > 2);
});

test("an orphan's release and its journal cannot both happen", async () => {
  const url = await server().database();
  await using other = await openLiving(url);
  for (let round = 0; round < 8; round++) {
    await using stalled = await openStalled(url);
    const ids = await Promise.all(Array.from({ length: 5 }, () => claimed(stalled)));
    const lease = await leased(stalled);
    const [, , batch] = await Promise.all([
      letTimePass(url).then(() => other.releaseOrphans()),
      other.releaseOrphans(),
      journaled(stalled, lease, lease.nextNonce, ids).catch((error: unknown) => {
        if (!isAppError(error, "LEDGER_FENCED")) throw error;
        return undefined;
      }),
    ]);
    await other.releaseOrphans();
    const states = await Promise.all(ids.map(async (id) => (await other.get(id))?.state));
    assert.deepEqual(new Set(states), new Set([batch === undefined ? "released" : "signed"]));
  }
});

test("a transaction that cancels a batch is one of it, and none of its payments", async () => {
  await using ledger = await newLedger(server());
  const lease = await leased(ledger);
  const id = await claimed(ledger);
  const original = newTransaction();
  const { batchId } = await journaled(ledger, lease, 0, [id], original);
  await ledger.journalReplacement(lease, batchId, { ...newTransaction(), cancels: true });
  const [batch] = await ledger.openBatches(NETWORK, RELAYER);
  assert.deepEqual(
    batch?.transactions.map(({ cancels }) => cancels),
    [false, true],
  );
  assert.equal((await ledger.get(id))?.transaction, original.hash);
});

test("replacements and closing of a batch", async () => {
  await using ledger = await newLedger(server());
  const lease = await leased(ledger);
  const ids = [await claimed(ledger), await claimed(ledger)] as const;
  const [original, replacement] = [newTransaction(), newTransaction()];
  const { batchId } = await journaled(ledger, lease, 0, ids, original);
  await ledger.journalReplacement(lease, batchId, replacement);
  await ledger.journalReplacement(lease, batchId, replacement);

  const [batch] = await ledger.openBatches(NETWORK, RELAYER);
  assert.deepEqual([batch?.relayer, batch?.nonce, batch?.gasLimit, batch?.state], [RELAYER, 0, 500_000n, "open"]);
  assert.deepEqual(
    batch?.transactions.map((tx) => ({ ...tx, raw: Buffer.from(tx.raw) })),
    [original, replacement],
  );
  assert.deepEqual(
    batch?.payments.map((payment) => payment.id),
    ids,
  );
  assert.equal((await ledger.get(ids[0]))?.transaction, replacement.hash);

  await ledger.closeBatch(batchId, original.hash);
  await ledger.closeBatch(batchId, original.hash);
  assert.deepEqual(await ledger.openBatches(NETWORK, RELAYER), []);
  await assert.rejects(ledger.journalReplacement(lease, batchId, newTransaction()), fencedWith({ lease: false }));

  await ledger.settled(ids[0], { ...newEvidence(), transaction: original.hash });
  await ledger.reorganised(ids[0]);
  await ledger.reorganised(ids[0]);
  assert.deepEqual(
    (await ledger.openBatches(NETWORK, RELAYER)).map((open) => open.id),
    [batchId],
    "open again",
  );
  assert.equal((await ledger.get(ids[0]))?.transaction, replacement.hash);
});

test("a batch of 100 keeps each answer with its payment", async () => {
  await using ledger = await newLedger(server());
  const lease = await leased(ledger);
  const ids = await Promise.all(Array.from({ length: 100 }, () => claimed(ledger)));
  const items = ids.map((id, i) => ({
    id,
    answer: { contentType: `text/x-${i}`, body: new Uint8Array(Buffer.from(i === 50 ? "" : `é${id}`.repeat(i * 7))) },
  }));
  await ledger.journal({ lease, nonce: 0, gasLimit: 1n, transaction: newTransaction(), items });
  for (const { id, answer } of items) {
    const kept = await ledger.answer(id);
    assert.ok(kept !== undefined);
    assert.equal(kept.contentType, answer.contentType);
    assert.ok(Buffer.compare(kept.body, answer.body) === 0);
  }
  const [batch] = await ledger.openBatches(NETWORK, RELAYER);
  assert.equal(batch?.payments.length, 100);
});

test("a journal that fails after its claim check leaves nothing behind", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const lease = await leased(ledger);
  const id = await claimed(ledger);
  const transaction = newTransaction();
  await journaled(ledger, lease, 0, [await claimed(ledger)], transaction);
  // the same hash at another nonce: the unique index stops it in the middle
  await assert.rejects(journaled(ledger, lease, 1, [id], transaction), (error) => error instanceof AppError);
  assert.equal((await ledger.get(id))?.state, "claimed");
  assert.equal(await ledger.answer(id), undefined);
  await journaled(ledger, lease, 1, [id]);
  assert.equal((await ledger.claim(newClaim())).kind, "claimed");
});
