import assert from "node:assert/strict";
import { test } from "node:test";
import {
  AppError,
  type ErrorCode,
  isAppError,
  type Log,
  noFaults,
  noMetrics,
  type SettlementId,
  silentLog,
} from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import {
  ASSET,
  claimed,
  journaled,
  LEDGER,
  leased,
  NETWORK,
  newAnswer,
  newClaim,
  newEvidence,
  newKey,
  newLedger,
  newPayer,
  openLedger,
  sql,
  testServer,
} from "../../test/ledger-fixtures.ts";
import type { ClaimResult } from "../ledger-types.ts";
import { Claims } from "./claims.ts";
import { ledgerError } from "./database-errors.ts";
import { createLedger } from "./ledger.ts";
import { migrate } from "./migrate.ts";
import { ledgerStatements } from "./statements.ts";

const server = testServer();

const count = (results: readonly ClaimResult[], kind: ClaimResult["kind"]): number =>
  results.filter((result) => result.kind === kind).length;

test("a payment reads back as it was claimed", async () => {
  await using ledger = await newLedger(server());
  const claim = newClaim({
    value: 2n ** 256n - 1n,
    balance: 2n ** 256n - 1n,
    validBefore: 2n ** 256n - 1n,
    identifier: "order-1",
    kind: "erc6492",
  });
  const shouted = { ...claim.key, from: claim.key.from.toUpperCase().replace("0X", "0x") as `0x${string}` };
  const result = await ledger.claim({ ...claim, key: shouted });
  assert.equal(result.kind, "claimed");
  const record = await ledger.find(shouted);
  assert.ok(record !== undefined && result.kind === "claimed");
  const { balance: _balance, balanceBlock: _block, ...kept } = claim;
  const { id, state, reason, transaction, evidence, answerExpiresAtMs, createdAtMs, updatedAtMs, ...terms } = record;
  assert.deepEqual(
    { ...terms, signature: new Uint8Array(terms.signature) },
    { ...terms, ...kept, signature: new Uint8Array(kept.signature) },
  );
  assert.deepEqual([id, state], [result.id, "claimed"]);
  assert.deepEqual([reason, transaction, evidence, answerExpiresAtMs], [undefined, undefined, undefined, undefined]);
  assert.ok(Math.abs(createdAtMs - Date.now()) < 60_000 && updatedAtMs >= createdAtMs);
  assert.deepEqual(await ledger.get(result.id), record);
  assert.deepEqual(await ledger.findByIdentifier(NETWORK, shouted.from, "order-1"), record);
  assert.equal(await ledger.get("stl_none" as SettlementId), undefined);
  assert.equal(await ledger.answer(result.id), undefined);
});

test("ids cannot be guessed", async () => {
  await using ledger = await newLedger(server());
  const ids = await Promise.all(Array.from({ length: 50 }, () => claimed(ledger)));
  assert.equal(new Set(ids).size, 50);
  for (const id of ids) assert.match(id, /^stl_[A-Za-z0-9_-]{27}$/);
});

test("of 10 copies of one claim at once exactly one is claimed", async () => {
  const url = await server().database();
  await using one = await openLedger(url);
  await using two = await openLedger(url);
  const claim = newClaim({ identifier: "same" });
  const results = await Promise.all(Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? one : two).claim(claim)));
  assert.deepEqual([count(results, "claimed"), count(results, "exists")], [1, 9]);
});

test("a balance for 1 and 10 fresh nonces: 1 claimed, 9 insufficient", async () => {
  const url = await server().database();
  await using one = await openLedger(url);
  await using two = await openLedger(url);
  const from = newPayer();
  const results = await Promise.all(
    Array.from({ length: 10 }, (_, i) =>
      (i % 2 === 0 ? one : two).claim(newClaim({ key: newKey(from), value: 5_000n, balance: 9_999n })),
    ),
  );
  assert.deepEqual([count(results, "claimed"), count(results, "insufficient")], [1, 9]);
});

test("200 random claims from two ledgers never reserve more than a balance", async () => {
  const url = await server().database();
  await using one = await openLedger(url);
  await using two = await openLedger(url);
  const payers = Array.from({ length: 5 }, newPayer);
  const balance = 20_000n;
  const keys = payers.flatMap((from) => Array.from({ length: 20 }, () => newKey(from)));
  const claims = [...keys, ...keys].map((key, i) =>
    newClaim({
      key,
      value: BigInt((Number.parseInt(key.nonce.slice(2, 6), 16) % 3_000) + 1),
      balance,
      serviceId: `s${i}` as never,
    }),
  );
  const results = await Promise.all(claims.map((claim, i) => (i % 2 === 0 ? one : two).claim(claim)));
  for (const from of payers) {
    const won = claims.filter((claim, i) => claim.key.from === from && results[i]?.kind === "claimed");
    const sum = won.reduce((total, claim) => total + claim.value, 0n);
    assert.ok(sum <= balance && sum > 0n, `${sum}`);
    assert.equal(new Set(won.map((claim) => claim.key.nonce)).size, won.length);
    // nothing that fits was refused: each refused key is larger than what was left
    for (const [i, claim] of claims.entries()) {
      if (claim.key.from === from && results[i]?.kind === "insufficient" && !won.some((w) => w.key === claim.key)) {
        assert.ok(sum + claim.value > balance);
      }
    }
  }
});

test("claims that share a statement each get their own result", async () => {
  await using ledger = await newLedger(server());
  const taken = newClaim();
  assert.equal((await ledger.claim(taken)).kind, "claimed");
  const wanted = [
    ...Array.from({ length: 12 }, () => newClaim()),
    taken,
    newClaim({ value: 5_000n, balance: 4_999n }),
    ...Array.from({ length: 12 }, () => newClaim()),
  ];
  const results = await Promise.all(wanted.map((claim) => ledger.claim(claim)));
  const kinds = results.map(({ kind }) => kind);
  assert.deepEqual([kinds[12], kinds[13], count(results, "claimed")], ["exists", "insufficient", 24]);
  const exists = results[12];
  assert.ok(exists?.kind === "exists");
  assert.equal(exists.record.key.nonce, taken.key.nonce);
  const records = await Promise.all(
    results.map(async (result) => (result.kind === "claimed" ? await ledger.get(result.id) : undefined)),
  );
  const found = await Promise.all(wanted.map(({ key }) => ledger.find(key)));
  for (const [at, { key }] of wanted.entries()) {
    if (at === 13) assert.equal(found[at], undefined);
    else assert.deepEqual(found[at]?.key, key);
    if (kinds[at] === "claimed") assert.deepEqual(records[at]?.key, key);
  }
});

test("what counts as in flight", async () => {
  await using ledger = await newLedger(server());
  const from = newPayer();
  const tryAt = async (balanceBlock: bigint): Promise<ClaimResult["kind"] | "unsettled"> => {
    const result = await ledger.claim(newClaim({ key: newKey(from), balance: 5_000n, balanceBlock }));
    if (result.kind === "claimed") assert.equal(await ledger.release(result.id, "SERVICE_UNAVAILABLE"), true);
    return result.kind === "insufficient" && result.unsettled ? "unsettled" : result.kind;
  };
  const lease = await leased(ledger);
  const id = await claimed(ledger, { key: newKey(from) });
  assert.equal(await tryAt(100n), "insufficient");
  await journaled(ledger, lease, 0, [id]);
  assert.equal(await tryAt(100n), "unsettled", "the balance may have it already");
  await ledger.settled(id, newEvidence(101n));
  assert.equal(await tryAt(100n), "insufficient", "the balance was read before the settlement");
  assert.equal(await tryAt(101n), "claimed", "the balance has it");
  await ledger.reorganised(id);
  assert.equal(await tryAt(101n), "unsettled");
  await ledger.failed(id, "PAYMENT_SETTLEMENT_FAILED");
  assert.equal(await tryAt(101n), "claimed");
  const lost = await claimed(ledger, { key: newKey(from) });
  assert.equal(await ledger.release(lost, "SERVICE_UNAVAILABLE"), true);
  await ledger.owed(lost, newEvidence(102n));
  assert.equal(await tryAt(101n), "insufficient");
  assert.equal(await tryAt(102n), "claimed");
  // another asset has a balance of its own
  const other = { ...newKey(from), asset: newPayer() };
  assert.equal((await ledger.claim(newClaim({ key: other, balance: 5_000n }))).kind, "claimed");
});

test("a released payment may be claimed anew, with other terms and another id", async () => {
  await using ledger = await newLedger(server());
  const first = newClaim();
  const old = await claimed(ledger, first);
  assert.equal(await ledger.release(old, "SERVICE_UNAVAILABLE"), true);
  assert.equal(await ledger.release(old, "SERVICE_UNAVAILABLE"), false);
  assert.equal((await ledger.get(old))?.reason, "SERVICE_UNAVAILABLE");

  const second = newClaim({ key: first.key, value: 7n });
  const id = await claimed(ledger, second);
  assert.notEqual(id, old);
  const record = await ledger.get(id);
  assert.deepEqual(record?.requestHash, second.requestHash);
  assert.deepEqual([record?.value, record?.state, record?.reason], [7n, "claimed", undefined]);
  assert.equal(await ledger.get(old), undefined, "the old id is a claim no more");
  assert.equal((await ledger.newest(old))?.id, id, "and still leads to the payment");

  // work that was begun under the old id ends with it
  assert.equal(await ledger.release(old, "SERVICE_UNAVAILABLE"), false);
  const lease = await leased(ledger);
  await assert.rejects(journaled(ledger, lease, 0, [old]), (error) => isAppError(error, "LEDGER_FENCED"));
  await assert.rejects(ledger.journalSubmission(old, newAnswer()), (error) => isAppError(error, "LEDGER_FENCED"));
  await journaled(ledger, lease, 0, [id]);
});

test("a payment identifier is bound to its payment until that is released", async () => {
  await using ledger = await newLedger(server());
  const from = newPayer();
  const first = newClaim({ key: newKey(from), identifier: "order" });
  const id = await claimed(ledger, first);
  const again = await ledger.claim(newClaim({ key: newKey(from), identifier: "order" }));
  assert.ok(again.kind === "identifier" && again.record.id === id);
  assert.equal((await ledger.claim(first)).kind, "exists", "the key goes before the identifier");
  await claimed(ledger, { identifier: "order" }); // another payer

  await ledger.release(id, "SERVICE_UNAVAILABLE");
  assert.equal(await ledger.findByIdentifier(NETWORK, from, "order"), undefined);
  const next = await claimed(ledger, { key: newKey(from), identifier: "order" });
  assert.equal((await ledger.claim(first)).kind, "identifier", "the first one comes too late");
  await ledger.owed(id, newEvidence());
  assert.equal((await ledger.findByIdentifier(NETWORK, from, "order"))?.id, next);
});

test("attack: a payment that failed binds its identifier no more, and late evidence for it is still taken", async () => {
  for (const end of ["failed", "disputed"] as const) {
    await using ledger = await newLedger(server());
    const from = newPayer();
    const id = await claimed(ledger, { key: newKey(from), identifier: "order" });
    await ledger.journalSubmission(id, newAnswer());
    assert.equal((await ledger.claim(newClaim({ key: newKey(from), identifier: "order" }))).kind, "identifier");
    await ledger[end](id, "PAYMENT_NONCE_USED");
    assert.equal(await ledger.findByIdentifier(NETWORK, from, "order"), undefined);
    const next = await claimed(ledger, { key: newKey(from), identifier: "order" });
    await ledger.settled(id, newEvidence());
    assert.equal((await ledger.findByIdentifier(NETWORK, from, "order"))?.id, next);
    await ledger.reorganised(id);
    await ledger.journalSubmission(next, newAnswer());
    await ledger.settled(next, newEvidence());
    assert.equal((await ledger.claim(newClaim({ key: newKey(from), identifier: "order" }))).kind, "identifier");
  }
});

test("one identifier for 10 nonces at once: one is claimed", async () => {
  const url = await server().database();
  await using one = await openLedger(url);
  await using two = await openLedger(url);
  const from = newPayer();
  const results = await Promise.all(
    Array.from({ length: 10 }, (_, i) =>
      (i % 2 === 0 ? one : two).claim(
        newClaim({ key: { ...newKey(from), asset: i % 3 === 0 ? newPayer() : newKey().asset }, identifier: "x" }),
      ),
    ),
  );
  assert.deepEqual([count(results, "claimed"), count(results, "identifier")], [1, 9]);
});

test("a claim whose outcome its caller never learns is released", async (context) => {
  const url = await server().database();
  const claim = newClaim();
  context.mock.timers.enable({ apis: ["setTimeout"] });
  await using ledger = await openLedger(
    url,
    { heartbeatMs: 30_000 },
    {
      reach(name) {
        if (name === "ledger.claim.after") throw new TypeError("the connection is gone");
      },
    },
  );
  await assert.rejects(ledger.claim(claim), TypeError);
  context.mock.timers.tick(30_000);
  context.mock.timers.reset();
  const end = await eventually("it is claimed no more", async () => {
    const [row] = await sql<{ state: string; reason: string }>(url, "select state, reason from payments");
    return row?.state !== "claimed" && row;
  });
  assert.deepEqual(end, { state: "released", reason: "LEDGER_UNAVAILABLE" });
});

test("attack: 10,000 refused claims of each kind do not keep a lost one from its release, and log no error each", async (context) => {
  const url = await server().database();
  await migrate(url, { ...LEDGER, schema: "second" });
  const receivers = [{ network: NETWORK, asset: ASSET, payTo: newPayer() }];
  const errors: string[] = [];
  const log: Log = { ...silentLog, error: (_fields, message) => void errors.push(message), child: () => log };
  let lost = false;
  const faults = {
    reach(name: string) {
      if (lost && name === "ledger.claim.after") throw new TypeError("the connection is gone");
    },
  };
  context.mock.timers.enable({ apis: ["setTimeout"] });
  await using late = await createLedger(
    { url, ...LEDGER, heartbeatMs: 30_000, queueLimit: 1, receivers },
    { log, metrics: noMetrics, faults },
  );
  await sql(url, "update holders set expires_at = clock_timestamp() - interval '1 second'");
  {
    await using _other = await openLedger(url, { schema: "second", receivers });
    for (let times = 0; times < 10_001; times++) {
      await assert.rejects(late.claim(newClaim()), { code: "LEDGER_UNAVAILABLE" });
    }
  }
  await late.renewLeases();
  const ends = await Promise.allSettled(Array.from({ length: 10_001 }, () => late.claim(newClaim())));
  assert.equal(ends.filter(({ status }) => status === "rejected").length, 10_000, "one may wait");
  assert.deepEqual([...new Set(errors)], ["payments are refused: another ledger may sell for a receiver"]);
  assert.equal(errors.length, 1);

  lost = true;
  const claim = newClaim();
  await assert.rejects(late.claim(claim), TypeError);
  context.mock.timers.tick(30_000);
  context.mock.timers.reset();
  await eventually("it is claimed no more", async () => (await late.find(claim.key))?.state === "released");
});

test("a failed claim is released if and only if its statement may have reached the database", async () => {
  const row = (outcome: string) => async () => [{ outcome }];
  const fails = (error: Error) => () => Promise.reject(error);
  const call = { method: "claim", sent: true, writes: true };
  const unsent = fails(ledgerError(new Error("connect ECONNREFUSED"), { ...call, sent: false }));
  const unanswered = fails(ledgerError(new Error("the connection is gone"), call));
  const cancelled = Object.assign(new Error("canceling statement"), { code: "57014", severity: "ERROR" });
  const cases: readonly {
    readonly what: string;
    /** What the database answers, one after another. */
    readonly answers: readonly (() => Promise<readonly object[]>)[];
    readonly fault?: "before" | "after";
    readonly maySell?: boolean;
    readonly replacement?: "refused" | "sells";
    readonly queueLimit?: number;
    readonly nonce?: `0x${string}`;
    /** The holder under which it is released. */
    readonly expected: string | undefined;
  }[] = [
    { what: "not a seller", answers: [], maySell: false, expected: undefined },
    { what: "the queue is full", answers: [], queueLimit: 0, expected: undefined },
    { what: "no nonce", answers: [], nonce: "0x1", expected: undefined },
    { what: "a fault before", answers: [], fault: "before", expected: undefined },
    { what: "no connection", answers: [unsent], expected: undefined },
    { what: "no answer", answers: [unanswered], expected: "first" },
    { what: "cancelled", answers: [fails(ledgerError(cancelled, call))], expected: "first" },
    { what: "no result", answers: [async () => []], expected: "first" },
    { what: "a fault after", answers: [row("claimed")], fault: "after", expected: "first" },
    { what: "not enough", answers: [row("insufficient")], fault: "after", expected: undefined },
    { what: "late, and then no seller", answers: [row("fenced")], replacement: "refused", expected: undefined },
    { what: "late, then no answer", answers: [row("fenced"), unanswered], expected: "second" },
    { what: "late, then no connection", answers: [row("fenced"), unsent], expected: undefined },
    { what: "late, then a fault after", answers: [row("fenced"), row("claimed")], fault: "after", expected: "second" },
    { what: "late twice", answers: [row("fenced"), row("fenced")], expected: undefined },
  ];
  for (const { what, answers, fault, maySell, replacement, queueLimit, nonce, expected } of cases) {
    const left = [...answers];
    const abandoned: (readonly [string, ErrorCode])[] = [];
    let holder = "first";
    let sells = maySell ?? true;
    const claims = new Claims({
      database: {
        async run<Row extends object>() {
          const answer = left.shift();
          if (answer === undefined) throw new TypeError(`${what}: no statement was expected`);
          return (await answer()) as readonly Row[];
        },
      },
      statements: ledgerStatements("ledger"),
      holder: {
        current: () => holder,
        maySell: () => sells,
        async replace() {
          holder = "second";
          sells = replacement !== "refused";
          return holder;
        },
        renew: async () => undefined,
        abandon: (_id, name, reason) => void abandoned.push([name, reason]),
      },
      sells: [],
      answerRetentionMs: 0,
      releasedRetentionMs: 0,
      queueLimit: queueLimit ?? 10,
      log: silentLog,
      metrics: noMetrics,
      faults: {
        ...noFaults,
        reach(name) {
          if (name === `ledger.claim.${fault}`) throw new AppError("LEDGER_UNAVAILABLE");
        },
      },
    });
    await assert.rejects(claims.claim(newClaim(nonce === undefined ? {} : { key: { ...newKey(), nonce } })), what);
    assert.deepEqual(abandoned, expected === undefined ? [] : [[expected, "LEDGER_UNAVAILABLE"]], what);
    assert.equal(left.length, 0, what);
  }
});
