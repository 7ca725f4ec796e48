import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { isAppError, type SettlementId } from "@turnpike/base";
import { superuserUrl } from "@turnpike/testkit/servers";
import {
  claimed,
  journaled,
  LEDGER,
  leased,
  NETWORK,
  newAnswer,
  newEvidence,
  newKey,
  newLedger,
  newTransaction,
  openLedger,
  sql,
  testServer,
} from "../../test/ledger-fixtures.ts";
import { auditLedger } from "./audit.ts";

const server = testServer();

const illegal = (error: unknown): boolean => isAppError(error, "INTERNAL") && error.detail.sqlState === "TP001";

test("a payment from its claim to its end, and back when its block goes", async () => {
  await using ledger = await newLedger(server());
  const id = await claimed(ledger);
  await ledger.journalSubmission(id, newAnswer("sold"));
  assert.deepEqual(
    (await ledger.submitted(NETWORK, 10)).map((payment) => payment.id),
    [id],
  );
  const evidence = newEvidence(120n);
  await ledger.settled(id, evidence);
  await ledger.settled(id, evidence);
  let record = await ledger.get(id);
  assert.deepEqual([record?.state, record?.evidence, record?.transaction], ["settled", evidence, evidence.transaction]);
  assert.equal(Buffer.from((await ledger.answer(id))?.body ?? []).toString(), "sold");

  await ledger.reorganised(id);
  record = await ledger.get(id);
  assert.deepEqual([record?.state, record?.evidence], ["submitted", undefined]);
  const later = newEvidence(121n);
  await ledger.settled(id, later);
  await ledger.settled(id, { ...later, blockNumber: 122n, blockHash: evidence.blockHash });
  assert.equal((await ledger.get(id))?.evidence?.blockNumber, 122n, "mined again in another block");

  await ledger.disputed(id, "PAYMENT_NONCE_USED");
  record = await ledger.get(id);
  assert.deepEqual([record?.state, record?.reason, record?.evidence], ["disputed", "PAYMENT_NONCE_USED", undefined]);
  await ledger.settled(id, later);
  record = await ledger.get(id);
  assert.deepEqual([record?.state, record?.reason, record?.evidence], ["settled", undefined, later]);
});

test("many payments are settled in one transaction, as one by one", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const lease = await leased(ledger);
  const ids = await Promise.all(Array.from({ length: 5 }, () => claimed(ledger)));
  const [first, second, third, fourth, fifth] = ids;
  assert.ok(first && second && third && fourth && fifth);
  await journaled(ledger, lease, 0, [first, second, third]);
  await ledger.journalSubmission(fourth, newAnswer("sold"));
  await ledger.journalSubmission(fifth, newAnswer("late"));
  await ledger.failed(fifth, "PAYMENT_EXPIRED");
  const items = ids.map((id) => ({ id, evidence: newEvidence(120n) }));
  await ledger.settledAll(items.slice(2, 3));
  await ledger.settledAll(items.toReversed());
  await ledger.settledAll(items);
  for (const { id, evidence } of items) {
    const record = await ledger.get(id);
    assert.deepEqual([record?.state, record?.reason, record?.evidence], ["settled", undefined, evidence]);
    assert.ok((record?.answerExpiresAtMs ?? 0) > Date.now() + 3_500_000);
  }
  const [events] = await sql<{ count: string }>(url, "select count(*) from events where to_state = 'settled'");
  assert.equal(events?.count, "5", "one for each");
  assert.deepEqual((await auditLedger(url, LEDGER)).differences, []);
  await ledger.settledAll([]);
});

test("one payment that cannot be settled stops all of its call; one that is unknown is named", async () => {
  await using ledger = await newLedger(server());
  const [good, released] = [await claimed(ledger), await claimed(ledger)];
  await ledger.journalSubmission(good, newAnswer("sold"));
  assert.equal(await ledger.release(released, "SERVICE_UNAVAILABLE"), true);
  const items = [good, released].map((id) => ({ id, evidence: newEvidence() }));
  await assert.rejects(ledger.settledAll(items), illegal);
  assert.equal((await ledger.get(good))?.state, "submitted");
  const stranger = { id: "stl_unknown" as SettlementId, evidence: newEvidence() };
  await assert.rejects(ledger.settledAll([stranger, ...items.slice(0, 1)]), (error) => {
    assert.ok(isAppError(error, "LEDGER_FENCED"));
    assert.deepEqual(error.detail.lost, [stranger.id]);
    return true;
  });
  assert.equal((await ledger.get(good))?.state, "settled");
});

test("payments are listed by state, newest first and bounded", async () => {
  await using ledger = await newLedger(server());
  const ids = [await claimed(ledger), await claimed(ledger), await claimed(ledger), await claimed(ledger)] as const;
  for (const id of ids.slice(0, 3)) await ledger.release(id, "SERVICE_UNAVAILABLE");
  const evidence = newEvidence(130n);
  await ledger.owed(ids[0], newEvidence(131n));
  await ledger.owed(ids[1], evidence);
  const listed = async (limit: number) => (await ledger.list(["owed", "released"], limit)).map(({ id }) => id);
  assert.deepEqual(await listed(10), ids.slice(0, 3).toReversed());
  assert.deepEqual(await listed(1), [ids[2]]);
  assert.deepEqual(await ledger.list(["disputed"], 10), []);
  const [owed] = await ledger.list(["owed"], 1);
  assert.deepEqual([owed?.id, owed?.state, owed?.transaction], [ids[1], "owed", evidence.transaction]);
});

test("an answer can be read within a time after its settlement alone, whatever is written of it later", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const lease = await leased(ledger);
  const id = await claimed(ledger);
  await journaled(ledger, lease, 0, [id]);
  assert.ok(await ledger.answer(id));
  assert.equal(await ledger.answer(id, 3_600_000), undefined, "not settled");
  await ledger.settled(id, newEvidence());
  assert.ok(await ledger.answer(id, 3_600_000));
  assert.equal(await ledger.answer(id, 0), undefined);
  await sql(url, "update payments set final = true");
  const record = await ledger.get(id);
  assert.ok(record !== undefined);
  const [row] = await sql<{ ms: number }>(
    url,
    "select extract(epoch from clock_timestamp() - max(at))::float8 * 1000 as ms from events where to_state = 'settled'",
  );
  assert.ok(row !== undefined);
  assert.equal(await ledger.answer(id, row.ms), undefined, "its block became final later");
  assert.ok(await ledger.answer(id));
});

test("a failed payment keeps its reason, and settles when evidence comes late", async () => {
  await using ledger = await newLedger(server());
  const lease = await leased(ledger);
  const [late, owed] = [await claimed(ledger), await claimed(ledger)];
  await journaled(ledger, lease, 0, [late, owed]);
  for (const id of [late, owed]) {
    await ledger.failed(id, "PAYMENT_NONCE_USED");
    await ledger.failed(id, "PAYMENT_SETTLEMENT_FAILED");
    assert.equal((await ledger.get(id))?.reason, "PAYMENT_NONCE_USED");
  }
  await ledger.settled(late, newEvidence());
  assert.equal((await ledger.get(late))?.state, "settled");
  assert.ok(await ledger.answer(late));
  await ledger.owed(owed, newEvidence(130n));
  const record = await ledger.get(owed);
  assert.deepEqual(
    [record?.state, record?.reason, record?.evidence?.blockNumber],
    ["owed", "PAYMENT_NONCE_USED", 130n],
  );
});

test("who did not see the evidence cannot take a settlement away", async () => {
  await using ledger = await newLedger(server());
  const id = await claimed(ledger);
  await ledger.journalSubmission(id, newAnswer("sold"));
  const evidence = newEvidence(120n);
  await ledger.settled(id, evidence);
  await assert.rejects(ledger.failed(id, "PAYMENT_NONCE_USED"), illegal);
  const record = await ledger.get(id);
  assert.deepEqual([record?.state, record?.evidence], ["settled", evidence]);
});

test("what was settled once and fails after a re-organisation is in dispute: its answer was given out", async () => {
  await using ledger = await newLedger(server());
  const id = await claimed(ledger);
  await ledger.journalSubmission(id, newAnswer("sold"));
  await ledger.settled(id, newEvidence(120n));
  await ledger.reorganised(id);
  await ledger.failed(id, "PAYMENT_NONCE_USED");
  assert.deepEqual((await ledger.get(id))?.state, "disputed");
  await ledger.failed(id, "PAYMENT_NONCE_USED");
  assert.deepEqual((await ledger.get(id))?.state, "disputed", "said twice, it stays");
});

test("a change that is not allowed is refused by the database, and changes nothing", async () => {
  await using ledger = await newLedger(server());
  const id = await claimed(ledger);
  await assert.rejects(ledger.settled(id, newEvidence()), illegal);
  await assert.rejects(ledger.failed(id, "INTERNAL"), illegal);
  await assert.rejects(ledger.disputed(id, "INTERNAL"), illegal);
  await assert.rejects(ledger.owed(id, newEvidence()), illegal);
  await assert.rejects(ledger.reorganised(id), illegal);
  assert.equal((await ledger.get(id))?.state, "claimed");
  await ledger.release(id, "SERVICE_UNAVAILABLE");
  await assert.rejects(ledger.settled(id, newEvidence()), illegal);
  const stranger = "stl_stranger" as SettlementId;
  await assert.rejects(ledger.settled(stranger, newEvidence()), (error) => isAppError(error, "LEDGER_FENCED"));
  await assert.rejects(ledger.reorganised(stranger), (error) => isAppError(error, "LEDGER_FENCED"));
});

test("the database refuses what an operator types", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const id = await claimed(ledger);
  const other = await claimed(ledger);
  await ledger.release(other, "SERVICE_UNAVAILABLE");
  const refused: readonly (readonly [text: string, code: string])[] = [
    [`update payments set state = 'settled', holder = null where id = '${id}'`, "TP001"],
    [`update payments set value = value + 1 where id = '${id}'`, "TP001"],
    [`update payments set holder = 'me' where id = '${id}'`, "TP001"],
    [`update payments set nonce = sha256('') where id = '${other}'`, "TP001"],
    [`update payments set id = 'stl_mine' where id = '${other}'`, "TP001"],
    [`update payments set state = 'owed' where id = '${other}'`, "23514"],
    [`update payments set state = 'signed', holder = null where id = '${id}'`, "23514"],
    [`update payments set state = 'lost', holder = null where id = '${id}'`, "TP001"],
    ["delete from payments", "TP002"],
    ["truncate payments cascade", "TP002"],
    ["update events set value = 0", "TP002"],
    ["delete from events", "TP002"],
    ["truncate events", "TP002"],
    ["delete from transactions", "TP002"],
    ["delete from former_ids", "TP002"],
  ];
  for (const [text, code] of refused) {
    await assert.rejects(sql(url, text), (error: Error & { code?: string }) => {
      assert.equal(error.code, code, `${text}: ${error.message}`);
      return true;
    });
  }
});

test("every change of state is one event", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const key = newKey();
  await ledger.release(await claimed(ledger, { key }), "SERVICE_UNAVAILABLE");
  const id = await claimed(ledger, { key, value: 7n });
  await journaled(ledger, await leased(ledger), 0, [id]);
  const evidence = newEvidence();
  await ledger.settled(id, evidence);
  await ledger.settled(id, evidence);
  await ledger.swept([id]);
  const events = await sql<{ from_state: string | null; to_state: string; value: string; from_value: string | null }>(
    url,
    "select from_state, from_value, to_state, value from events order by seq",
  );
  assert.deepEqual(
    events.map((event) => [event.from_state, event.from_value, event.to_state, event.value]),
    [
      [null, null, "claimed", "5000"],
      ["claimed", "5000", "released", "5000"],
      ["released", "5000", "claimed", "7"],
      ["claimed", "7", "signed", "7"],
      ["signed", "7", "settled", "7"],
    ],
  );
  const [last] = await sql<{ detail: unknown }>(url, "select detail from events order by seq desc limit 1");
  const [batch] = await sql<{ id: string }>(url, "select id from batches");
  assert.deepEqual(last?.detail, {
    id,
    batch: Number(batch?.id),
    transaction: evidence.transaction,
    block: 101,
    block_hash: evidence.blockHash,
    log_index: evidence.logIndex,
  });
});

test("one log is evidence for one payment", async () => {
  await using ledger = await newLedger(server());
  const ids = [await claimed(ledger), await claimed(ledger)] as const;
  for (const id of ids) await ledger.journalSubmission(id, newAnswer());
  const evidence = newEvidence();
  await ledger.settled(ids[0], evidence);
  const taken = (error: unknown): boolean => isAppError(error, "INTERNAL") && error.detail.sqlState === "23505";
  await assert.rejects(ledger.settled(ids[1], evidence), taken);
  await assert.rejects(ledger.settledAll([{ id: ids[1], evidence }]), taken);
  assert.equal((await ledger.get(ids[1]))?.state, "submitted");
  await ledger.settled(ids[1], { ...evidence, logIndex: evidence.logIndex + 2 });
});

test("what only a reconciler ends: a batch that was mined without settling, and windows that are closed", async () => {
  await using ledger = await newLedger(server());
  const lease = await leased(ledger);
  const [inVain, waiting, closed, settled] = [
    await claimed(ledger, { validBefore: 900n }),
    await claimed(ledger, { validBefore: 900n }),
    await claimed(ledger, { validBefore: 500n }),
    await claimed(ledger, { validBefore: 500n }),
  ];
  const mined = newTransaction();
  const { batchId } = await journaled(ledger, lease, 0, [inVain, settled], mined);
  await ledger.settled(settled, newEvidence());
  await journaled(ledger, lease, 1, [waiting]);
  await ledger.journalSubmission(closed, newAnswer());
  const unresolved = async (closedBySeconds: number, limit = 10): Promise<readonly SettlementId[]> =>
    (await ledger.unresolved({ network: NETWORK, closedBySeconds, limit })).map(({ id }) => id);
  assert.deepEqual(await unresolved(499), []);
  await ledger.closeBatch(batchId, mined.hash);
  assert.deepEqual(await unresolved(499), [inVain]);
  assert.deepEqual(await unresolved(500), [closed, inVain]);
  assert.deepEqual(await unresolved(900, 2), [closed, inVain]);
  assert.deepEqual(await unresolved(900), [closed, inVain, waiting]);

  // Three times more, each time by itself; never what is still in an open batch.
  const lost = (id: SettlementId) => (error: unknown) => {
    assert.ok(isAppError(error, "LEDGER_FENCED"));
    assert.deepEqual(error.detail.lost, [id]);
    return true;
  };
  await assert.rejects(journaled(ledger, lease, 2, [waiting]), lost(waiting));
  const second = newTransaction();
  const again = await journaled(ledger, lease, 2, [inVain], second);
  assert.deepEqual(await unresolved(499), []);
  assert.equal((await ledger.get(inVain))?.transaction, second.hash);
  assert.equal(Buffer.from((await ledger.answer(inVain))?.body ?? []).toString(), inVain, "the answer of the first");
  await ledger.closeBatch(again.batchId, second.hash);
  const other = await claimed(ledger);
  await assert.rejects(journaled(ledger, lease, 3, [inVain, other]), lost(inVain));
  for (const nonce of [3, 4]) {
    const { batchId: further } = await journaled(ledger, lease, nonce, [inVain]);
    await ledger.closeBatch(further, newTransaction().hash);
  }
  await assert.rejects(journaled(ledger, lease, 5, [inVain]), lost(inVain));
});

test("open batches of keys that nobody holds", async () => {
  const url = await server().database();
  const id = await (async () => {
    await using ledger = await openLedger(url);
    const one = await claimed(ledger);
    await journaled(ledger, await leased(ledger), 0, [one]);
    assert.deepEqual(await ledger.orphanBatches(NETWORK, 10), [], "it is held");
    return one;
  })();
  await using ledger = await openLedger(url);
  const [batch, ...others] = await ledger.orphanBatches(NETWORK, 10);
  assert.ok(batch !== undefined && others.length === 0);
  assert.deepEqual([batch.nonce, batch.transactions.length, batch.payments[0]?.id], [0, 1, id]);
  await ledger.settled(id, newEvidence());
  assert.deepEqual(await ledger.orphanBatches(NETWORK, 10), [], "nothing of it is unresolved");
});

test("what is to be looked at again: not final, not swept", async () => {
  await using ledger = await newLedger(server());
  const lease = await leased(ledger);
  const ids = await Promise.all(Array.from({ length: 4 }, () => claimed(ledger, { validBefore: 500n })));
  const [early, late, failed, released] = ids as [SettlementId, SettlementId, SettlementId, SettlementId];
  await ledger.release(released, "SERVICE_UNAVAILABLE");
  await journaled(ledger, lease, 0, [early, late, failed]);
  await ledger.settled(late, newEvidence(20n));
  await ledger.settled(early, newEvidence(10n));
  await ledger.failed(failed, "PAYMENT_NONCE_USED");
  const blockOf = async (id: SettlementId) => {
    const evidence = (await ledger.get(id))?.evidence;
    assert.ok(evidence !== undefined);
    return { blockNumber: evidence.blockNumber, blockHash: evidence.blockHash };
  };
  const [newer, older] = [await blockOf(late), await blockOf(early)];
  assert.deepEqual(await ledger.unfinalBlocks(NETWORK, 10), [newer, older]);
  assert.deepEqual(await ledger.unfinalBlocks(NETWORK, 1), [newer]);
  assert.deepEqual(await ledger.unfinalBlocks(NETWORK, 1, newer), [older]);
  const inBlock = async (block: typeof newer) => (await ledger.unfinalIn(NETWORK, block, 10)).map(({ id }) => id);
  assert.deepEqual(await inBlock(older), [early]);
  assert.deepEqual(await inBlock({ ...older, blockHash: newer.blockHash }), []);
  await ledger.finalise(NETWORK, [older, { ...newer, blockHash: older.blockHash }]);
  assert.deepEqual(await ledger.unfinalBlocks(NETWORK, 10), [newer]);
  await ledger.finalise(NETWORK, []);

  const unswept = async (time: number): Promise<readonly SettlementId[]> =>
    (await ledger.unswept(NETWORK, time, 10)).map((payment) => payment.id).sort();
  assert.deepEqual(await unswept(499), []);
  assert.deepEqual(await unswept(500), [failed, released].sort());
  await ledger.swept([failed, early]);
  assert.deepEqual(await unswept(500), [released]);
  await ledger.swept([]);
});

test("answers are kept for their retention after the settlement, and not deleted before it", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url, { answerRetentionSeconds: 10_000 });
  const lease = await leased(ledger);
  const [settled, waiting, failed] = [await claimed(ledger), await claimed(ledger), await claimed(ledger)];
  await journaled(ledger, lease, 0, [settled, waiting, failed]);
  const answers = (): Promise<readonly boolean[]> =>
    Promise.all([settled, waiting, failed].map(async (id) => (await ledger.answer(id)) !== undefined));
  const letTimePass = async (seconds: number): Promise<void> => {
    await sql(url, `update answers set expires_at = expires_at - interval '${seconds} seconds'`);
    await sql(url, `update payments set answer_expires_at = answer_expires_at - interval '${seconds} seconds'`);
  };
  assert.deepEqual(await answers(), [true, true, true]);
  await letTimePass(9_000);
  await ledger.failed(failed, "PAYMENT_NONCE_USED");
  // By the database's own clock, which the ledger counts from, and to the millisecond as the ledger gives it.
  const databaseMs = async (): Promise<number> => {
    const [row] = await sql<{ ms: number }>(
      url,
      "select floor(extract(epoch from clock_timestamp()) * 1000)::float8 as ms",
    );
    return row?.ms ?? Number.NaN;
  };
  const beforeMs = await databaseMs();
  await ledger.settled(settled, newEvidence());
  const retentionStartMs = ((await ledger.get(settled))?.answerExpiresAtMs ?? 0) - 10_000_000;
  const afterMs = await databaseMs();
  assert.ok(retentionStartMs >= beforeMs && retentionStartMs <= afterMs, `${retentionStartMs - beforeMs}`);
  assert.equal(await ledger.expireAnswers(), 0);
  await letTimePass(2_000);
  assert.deepEqual(await answers(), [true, true, false]);
  assert.equal(await ledger.expireAnswers(), 1);
  assert.equal(await ledger.expireAnswers(), 0);
  await letTimePass(9_000);
  assert.deepEqual(await answers(), [false, true, false]);
  assert.equal(await ledger.expireAnswers(), 1);
  assert.deepEqual(await answers(), [false, true, false], "one that is not settled is kept");
  await ledger.settled(waiting, newEvidence());
  assert.deepEqual(await answers(), [false, true, false]);
  await ledger.settled(failed, newEvidence());
  const late = await ledger.get(failed);
  assert.ok((late?.answerExpiresAtMs ?? Number.POSITIVE_INFINITY) < Date.now(), "gone is not said to be there");
});

test("the grants of docs/operate/ledger.md are enough for a gateway, and too few to bend the rules", async () => {
  const url = await server().database();
  // Roles are of the whole server, which other files may use.
  const role = `gateway_${randomBytes(6).toString("hex")}`;
  await using cleanup = new AsyncDisposableStack();
  await sql(superuserUrl(url), `create role ${role} login password 'g'`);
  cleanup.defer(async () => void (await sql(superuserUrl(url), `drop owned by ${role}; drop role ${role}`)));
  await sql(
    url,
    `grant usage on schema ledger to ${role};
    grant select, insert, update on all tables in schema ledger to ${role};
    grant delete on answers, holders to ${role};
    grant execute on all functions in schema ledger to ${role}`,
  );
  const asGateway = new URL(url);
  asGateway.username = role;
  asGateway.password = "g";
  {
    await using ledger = await openLedger(asGateway.href, { releasedRetentionSeconds: 0 });
    const unused = await claimed(ledger);
    await ledger.release(unused, "SERVICE_UNAVAILABLE");
    await ledger.swept([unused]);
    assert.equal(await ledger.pruneReleased(), 1);
    const key = newKey();
    await ledger.release(await claimed(ledger, { key }), "SERVICE_UNAVAILABLE");
    const [signed, sent] = [await claimed(ledger, { key }), await claimed(ledger)];
    const lease = await leased(ledger);
    const { batchId } = await journaled(ledger, lease, 0, [signed]);
    await ledger.journalReplacement(lease, batchId, newTransaction());
    await ledger.journalSubmission(sent, newAnswer());
    await ledger.settled(signed, newEvidence());
    await ledger.reorganised(signed);
    await ledger.failed(sent, "PAYMENT_NONCE_USED");
    await ledger.swept([sent]);
    await sql(url, "update payments set answer_expires_at = now()");
    await sql(url, "update answers set expires_at = now()");
    assert.equal(await ledger.expireAnswers(), 1);
    assert.equal(await ledger.releaseOrphans(), 0);
    assert.equal((await ledger.sums()).length, 1);
    assert.equal((await auditLedger(asGateway.href, LEDGER)).ok, true);
  }
  assert.deepEqual(await sql(url, "select 1 from holders"), [], "it could retire");
  for (const text of ["alter table events disable trigger all", "drop trigger payments_guard on payments"]) {
    await assert.rejects(sql(asGateway.href, text), /must be owner/);
  }
  await assert.rejects(sql(asGateway.href, "delete from payments"), /permission denied/);
});
