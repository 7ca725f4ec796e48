import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, noFaults, noMetrics, type SettlementId, silentLog } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import pg from "pg";
import {
  claimed,
  journaled,
  LEDGER,
  leased,
  NETWORK,
  newClaim,
  newEvidence,
  newKey,
  newPayer,
  newTransaction,
  openLedger,
  sql,
  testServer,
} from "../../test/ledger-fixtures.ts";
import type { Ledger, WalletAdmission, WalletSubjects } from "../ledger-types.ts";
import { createLedger } from "./ledger.ts";

const server = testServer();

const GAS = 100_000n;
const walletOf = (code: string): WalletSubjects => ({ payer: newPayer(), classes: [`code:${code}`] });
const admit = (ledger: Ledger, id: SettlementId, wallet: WalletSubjects): Promise<WalletAdmission> =>
  ledger.admitWallet(id, NETWORK, wallet);
const end = (ledger: Ledger, id: SettlementId, wallet: WalletSubjects, isLost: boolean): Promise<void> =>
  ledger.endWallet(id, NETWORK, wallet, { gas: GAS, isLost });

/** Admits a new payment and ends it. */
async function run(ledger: Ledger, wallet: WalletSubjects, isLost: boolean): Promise<SettlementId> {
  const id = await claimed(ledger);
  assert.equal(await admit(ledger, id, wallet), "admitted");
  await end(ledger, id, wallet, isLost);
  return id;
}

test("new payers of one code have one place, and twice as many with as many successes; processes share them", async () => {
  const url = await server().database();
  await using one = await openLedger(url);
  await using two = await openLedger(url);
  const [first, second] = [await claimed(one), await claimed(two)];
  const wallets = [walletOf("a"), walletOf("a")] as const;
  assert.equal(await admit(one, first, wallets[0]), "admitted");
  assert.equal(await admit(one, first, wallets[0]), "admitted", "its own place");
  assert.equal(await admit(two, second, wallets[1]), "wait");
  assert.equal(await admit(two, await claimed(two), walletOf("b")), "admitted", "another code");
  await end(one, first, wallets[0], false);
  assert.equal(await admit(two, second, wallets[1]), "admitted");
  await end(two, second, wallets[1], false);
  const admissions: WalletAdmission[] = [];
  for (let count = 0; count < 3; count++) admissions.push(await admit(one, await claimed(one), walletOf("a")));
  assert.deepEqual(admissions, ["admitted", "admitted", "wait"]);
});

test("the place of a claim that was released is free", async () => {
  await using ledger = await openLedger(await server().database());
  const id = await claimed(ledger);
  assert.equal(await admit(ledger, id, walletOf("a")), "admitted");
  const other = await claimed(ledger);
  assert.equal(await admit(ledger, other, walletOf("a")), "wait");
  await ledger.release(id, "PAYMENT_SIMULATION_FAILED");
  assert.equal(await admit(ledger, other, walletOf("a")), "admitted");
});

test("a loss pauses its payer and a code that settled less; the pause grows, and the payment is never admitted again", async () => {
  await using ledger = await openLedger(await server().database());
  const wallet = walletOf("a");
  const id = await run(ledger, wallet, true);
  await end(ledger, id, wallet, true);
  assert.equal(await admit(ledger, id, wallet), "lost");
  assert.equal(await admit(ledger, await claimed(ledger), wallet), "blocked");
  assert.equal(await admit(ledger, await claimed(ledger), walletOf("a")), "blocked");
  const pause = await ledger.walletPauseSeconds(NETWORK, walletOf("a"));
  assert.ok(pause > 50 && pause <= 60, `${pause}: counted once`);
  assert.equal(await ledger.walletPauseSeconds(NETWORK, walletOf("b")), 0);
  // One that was signed before the loss.
  await end(ledger, await claimed(ledger), walletOf("a"), true);
  const longer = await ledger.walletPauseSeconds(NETWORK, walletOf("a"));
  assert.ok(longer > 110 && longer <= 120, String(longer));
});

test("attack: failing with a wallet that many use blocks neither those that settled before nor new ones", async () => {
  await using ledger = await openLedger(await server().database());
  const buyer = walletOf("common");
  for (let count = 0; count < 5; count++) await run(ledger, count === 0 ? buyer : walletOf("common"), false);
  const attackers = [walletOf("common"), walletOf("common"), walletOf("common")];
  for (const attacker of attackers) await run(ledger, attacker, true);
  for (const attacker of attackers) assert.equal(await admit(ledger, await claimed(ledger), attacker), "blocked");
  assert.equal(await admit(ledger, await claimed(ledger), buyer), "admitted");
  assert.equal(await admit(ledger, await claimed(ledger), walletOf("common")), "admitted");
  assert.equal(await ledger.walletPauseSeconds(NETWORK, walletOf("common")), 0);
});

test("attack: codes of their own have four places together, and after 1,000,000 gas was lost one a minute", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const open: (readonly [SettlementId, WalletSubjects])[] = [];
  const next = async (): Promise<WalletAdmission> => {
    const wallet = walletOf(`own ${open.length} ${newPayer()}`);
    const id = await claimed(ledger);
    const admission = await admit(ledger, id, wallet);
    if (admission === "admitted") open.push([id, wallet]);
    return admission;
  };
  const all: WalletAdmission[] = [];
  for (let count = 0; count < 5; count++) all.push(await next());
  assert.deepEqual(all, ["admitted", "admitted", "admitted", "admitted", "wait"]);
  for (const [id, wallet] of open.splice(0)) await end(ledger, id, wallet, true);
  for (let count = 0; count < 7; count++) await run(ledger, walletOf(`other ${count}`), true);
  assert.deepEqual([await next(), await next()], ["wait", "wait"], "within a minute of the last loss");
  assert.ok(
    (await ledger.walletPauseSeconds(NETWORK, walletOf("new"))) > 50,
    "they are refused before they are served",
  );
  await sql(url, "update wallet_risks set blocked_until = '-infinity' where subject = 'all'");
  assert.deepEqual([await next(), await next()], ["admitted", "wait"]);
  await sql(url, "update wallet_risks set at = at - interval '2 days' where subject = 'all'");
  assert.equal(await next(), "admitted", "losses of long ago are less");
});

test("an admission and the end of an earlier settlement, at once, do not lock each other out", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const wallet = walletOf("a");
  const first = await claimed(ledger);
  assert.equal(await admit(ledger, first, wallet), "admitted");
  // Its claim has ended, so that the next admission would end its run, too.
  await ledger.release(first, "PAYMENT_SIMULATION_FAILED");
  const second = await claimed(ledger);
  const locker = new pg.Client({ connectionString: url, options: "-c search_path=ledger" });
  await locker.connect();
  try {
    await locker.query("begin");
    await locker.query("select from wallet_risks where subject = 'all' for update");
    const waiting = async (count: number): Promise<void> => {
      await eventually(`${count} wait for the lock`, async () => {
        const rows = await sql(
          url,
          "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
        );
        return rows.length === count;
      });
    };
    const admitted = admit(ledger, second, walletOf("b"));
    await waiting(1);
    const ended = end(ledger, first, wallet, true);
    await waiting(2);
    await locker.query("commit");
    assert.equal(await admitted, "admitted");
    await ended;
    assert.equal(await admit(ledger, first, wallet), "lost");
  } finally {
    await locker.end();
  }
});

test("a payment that was settled and is sent again after a re-organisation needs no place, and counts once", async () => {
  await using ledger = await openLedger(await server().database());
  const wallet = walletOf("a");
  const id = await run(ledger, wallet, false);
  await run(ledger, wallet, true);
  assert.equal(await admit(ledger, await claimed(ledger), wallet), "blocked");
  assert.equal(await admit(ledger, id, wallet), "admitted");
});

test("an account without code takes no place, and a loss of one that was not admitted counts", async () => {
  await using ledger = await openLedger(await server().database());
  const plain: WalletSubjects = { payer: newPayer(), classes: [] };
  for (let count = 0; count < 10; count++) {
    const id = await claimed(ledger);
    assert.equal(await admit(ledger, id, plain), "admitted");
    await end(ledger, id, plain, false);
  }
  const id = await claimed(ledger);
  const delegated = { ...plain, classes: ["delegate:0x01", "code:a"] };
  await end(ledger, id, delegated, true);
  assert.equal(await admit(ledger, id, plain), "lost");
  assert.equal(await admit(ledger, await claimed(ledger), walletOf("a")), "blocked");
});

test("attack: code that changed while its payment was served is judged as new, and its loss is not counted under the former", async () => {
  await using ledger = await openLedger(await server().database());
  await run(ledger, walletOf("burner"), true);
  for (let count = 0; count < 3; count++) await run(ledger, walletOf("common"), false);
  for (let count = 0; count < 4; count++) await run(ledger, walletOf("third"), false);
  const payer = newPayer();
  const common: WalletSubjects = { payer, classes: ["code:common"] };
  const id = await claimed(ledger);
  assert.equal(await admit(ledger, id, common), "admitted", "before it is served");
  assert.equal(await admit(ledger, id, common), "admitted", "before it is settled");
  assert.equal(await admit(ledger, id, { payer, classes: ["code:burner"] }), "blocked");
  const other: WalletSubjects = { payer, classes: ["code:other"] };
  assert.equal(await admit(ledger, id, other), "admitted", "its own place is not in its way");
  assert.equal(await admit(ledger, await claimed(ledger), walletOf("other")), "wait", "it has the other code's place");
  for (let count = 0; count < 3; count++) {
    assert.equal(await admit(ledger, await claimed(ledger), walletOf("common")), "admitted", "and none of the former");
  }
  await end(ledger, id, other, true);
  assert.ok((await ledger.walletPauseSeconds(NETWORK, walletOf("other"))) > 0);
  assert.equal(await ledger.walletPauseSeconds(NETWORK, walletOf("common")), 0);
});

test("the place of a claim whose process was killed is free when another has released it", async () => {
  const url = await server().database();
  await using killed = await openLedger(url);
  const id = await claimed(killed);
  assert.equal(await admit(killed, id, walletOf("a")), "admitted");
  await using ledger = await openLedger(url);
  const other = await claimed(ledger);
  assert.equal(await admit(ledger, other, walletOf("a")), "wait");
  // Its lease ends.
  await sql(url, "delete from holders where id = (select holder from payments where id = $1)", [id]);
  assert.equal(await ledger.releaseOrphans(), 1);
  assert.equal(await admit(ledger, other, walletOf("a")), "admitted");
});

/** Claims so many payments of one payer at once; those without a place wait. */
async function claimMany(ledger: Ledger, payer: Address, count: number, identified = false) {
  const claims = await Promise.all(
    Array.from({ length: count }, (_, at) =>
      ledger.claim(newClaim({ key: newKey(payer), identifier: identified ? `${at} ${newPayer()}` : undefined })),
    ),
  );
  const ids: SettlementId[] = [];
  const waiting: SettlementId[] = [];
  for (const claim of claims) {
    assert.ok(claim.kind === "claimed", claim.kind);
    (claim.waits === true ? waiting : ids).push(claim.id);
  }
  return { ids, waiting };
}

const TRANSACTION = "0x0a" as const;

test("a payer that never paid has eight places, and one more for each payment that it settled; processes share them", async () => {
  const url = await server().database();
  await using one = await openLedger(url);
  await using two = await openLedger(url);
  for (const identified of [false, true]) {
    const payer = newPayer();
    const { ids, waiting } = await claimMany(one, payer, 10, identified);
    assert.deepEqual([ids.length, waiting.length], [8, 2]);
    const other = await claimMany(two, payer, 1, identified);
    assert.equal(other.ids.length, 0);
    const all = [...waiting, ...other.waiting];
    assert.deepEqual(new Set((await two.admitPlain(NETWORK, payer, all)).values()), new Set(["wait"]));
    const [first] = ids;
    assert.ok(first !== undefined);
    await one.release(first, "PAYMENT_SIMULATION_FAILED");
    assert.deepEqual([...(await two.admitPlain(NETWORK, payer, all)).values()], ["admitted", "wait", "wait"]);
    assert.equal((await claimMany(one, newPayer(), 1, identified)).waiting.length, 0, "another payer");
  }
});

test("a payer has one place more for each payment that it settled, and one alone after a failure until it settles again", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const payer = newPayer();
  const lease = await leased(ledger);
  const mined = async (ids: readonly SettlementId[], nonce: number): Promise<void> => {
    const transaction = newTransaction();
    const { batchId } = await journaled(ledger, lease, nonce, ids, transaction);
    await ledger.closeBatch(batchId, transaction.hash);
  };
  const settle = async (ids: readonly SettlementId[], nonce: number): Promise<void> => {
    await mined(ids, nonce);
    await ledger.settledAll(ids.map((id) => ({ id, evidence: newEvidence(50n) })));
  };
  const { ids } = await claimMany(ledger, payer, 8);
  await settle(ids, 0);
  const more = await claimMany(ledger, payer, 20);
  assert.deepEqual([more.ids.length, more.waiting.length], [16, 4]);

  const [failed, second, ...others] = more.ids;
  assert.ok(failed !== undefined && second !== undefined);
  await mined([failed, second], 1);
  const key = newKey(payer);
  for (const id of [failed, second]) {
    await ledger.failPlain({ id, key }, { transaction: TRANSACTION, gas: 40_000n, isLost: false });
  }
  assert.deepEqual([...(await ledger.failingPayers(NETWORK, [payer, newPayer()]))], [payer.toLowerCase()]);
  const pause = await ledger.walletPauseSeconds(NETWORK, { payer, classes: [] });
  assert.ok(pause > 50 && pause <= 60, `${pause}: one transaction counts once`);
  const after = await ledger.admitPlain(NETWORK, payer, [failed, second, ...others]);
  assert.deepEqual(
    [...after.values()],
    ["admitted", "wait", ...others.map(() => "blocked")],
    "what is signed is sent again, one at a time",
  );
  assert.equal((await claimMany(ledger, payer, 1)).ids.length, 0);

  await mined([failed], 2);
  await ledger.failPlain({ id: failed, key }, { transaction: "0x0b", gas: 60_000n, isLost: true });
  assert.deepEqual([...(await ledger.admitPlain(NETWORK, payer, [failed, second])).values()], ["lost", "wait"]);
  await sql(url, "update wallet_risks set blocked_until = '-infinity' where subject like 'payer:%'");
  assert.deepEqual([...(await ledger.admitPlain(NETWORK, payer, [second])).values()], ["admitted"]);
  await settle([second], 3);
  assert.equal((await ledger.failingPayers(NETWORK, [payer])).size, 0);
});

test("while new payers have lost more than 1,000,000 gas within the hour, each begins with one payment; those that have paid do not", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const buyer = newPayer();
  await sql(url, "insert into wallet_risks (network, subject, plain_credit) values ($1, $2, 10)", [
    NETWORK,
    `payer:${buyer}`,
  ]);
  for (let count = 0; count < 12; count++) {
    const key = newKey();
    const id = await claimed(ledger, { key });
    await ledger.failPlain({ id, key }, { transaction: TRANSACTION, gas: 100_000n, isLost: false });
  }
  assert.equal((await claimMany(ledger, newPayer(), 3)).ids.length, 1);
  assert.equal((await claimMany(ledger, buyer, 20)).ids.length, 18);
});

test("attack: gas that codes of their own lost closes no code that has settled twice what it lost", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  for (let count = 0; count < 10; count++) await run(ledger, walletOf("common"), false);
  for (let count = 0; count < 21; count++) {
    // Its pauses and the places of all are over.
    await sql(url, "update wallet_risks set blocked_until = '-infinity'");
    await run(ledger, walletOf(`own ${count}`), true);
  }
  assert.equal(await admit(ledger, await claimed(ledger), walletOf("another")), "wait");
  assert.ok((await ledger.walletPauseSeconds(NETWORK, walletOf("another"))) > 0);
  assert.equal(await ledger.walletPauseSeconds(NETWORK, walletOf("common")), 0);
  const admissions: WalletAdmission[] = [];
  for (let count = 0; count < 9; count++)
    admissions.push(await admit(ledger, await claimed(ledger), walletOf("common")));
  assert.deepEqual(admissions, [...Array<WalletAdmission>(8).fill("admitted"), "wait"]);
  await sql(url, "update wallet_risks set blocked_until = '-infinity'");
  assert.equal(
    await admit(ledger, await claimed(ledger), walletOf("another")),
    "admitted",
    "the places of all are free",
  );
});

test("attack: many payments that ask for a place at once are a few statements, one at a time, in their order", async () => {
  const url = await server().database();
  let statements = 0;
  const metrics = {
    ...noMetrics,
    observe: (_metric: unknown, _value: number, labels?: Readonly<Record<string, string>>) => {
      if (labels?.method === "admitWallets") statements++;
    },
  };
  await using ledger = await createLedger({ url, ...LEDGER }, { log: silentLog, metrics, faults: noFaults });
  const wallets = ["a", "b", "a"].map(walletOf);
  const ids = await Promise.all(Array.from({ length: 200 }, () => claimed(ledger)));
  const admissions = await Promise.all(
    ids.map((id, at) => admit(ledger, id, wallets[at % wallets.length] ?? assert.fail())),
  );
  assert.deepEqual(admissions, ["admitted", "admitted", ...Array(198).fill("wait")]);
  assert.ok(statements <= 7, `${statements} statements`);
});

test("statements of several processes that ask for the same new codes do not lock each other out", async () => {
  const url = await server().database();
  await using one = await openLedger(url);
  await using two = await openLedger(url);
  const codes = Array.from({ length: 30 }, (_, at) => `code ${at}`);
  for (let round = 0; round < 3; round++) {
    const asked = [one, two].flatMap((ledger, at) =>
      (at === 0 ? codes : codes.toReversed()).map(async (code) => {
        const id = await claimed(ledger);
        return admit(ledger, id, walletOf(`${code} ${round}`));
      }),
    );
    assert.ok((await Promise.all(asked)).every((admission) => admission === "admitted" || admission === "wait"));
  }
});

test("a wait is its payer's, or its code's, or of all", async () => {
  await using ledger = await openLedger(await server().database());
  const wallet = walletOf("a");
  assert.equal(await ledger.walletBound(NETWORK, wallet), undefined);
  await run(ledger, wallet, false);
  await run(ledger, wallet, false);
  for (let count = 0; count < 2; count++) await admit(ledger, await claimed(ledger), wallet);
  const payer = `payer:${wallet.payer.toLowerCase()}`;
  assert.deepEqual(await ledger.walletBound(NETWORK, wallet), { subject: payer, places: 2 });
  assert.equal(
    await ledger.walletBound(NETWORK, walletOf("a")),
    undefined,
    "a payer that has paid needs no place of its code",
  );
  await admit(ledger, await claimed(ledger), walletOf("b"));
  const both: WalletSubjects = { payer: newPayer(), classes: ["code:a", "code:b"] };
  assert.deepEqual(await ledger.walletBound(NETWORK, both), { subject: "code:b", places: 1 });
});
