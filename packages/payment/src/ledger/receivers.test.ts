import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ASSET,
  claimed,
  NETWORK,
  newClaim,
  newPayer,
  openLedger,
  PATIENT,
  sql,
  testServer,
} from "../../test/ledger-fixtures.ts";
import { migrate } from "./migrate.ts";

const server = testServer();

test("attack: a second ledger of the database that sells for one receiver is refused; other ones are not", async () => {
  const url = await server().database();
  for (const schema of ["second", "ledger_facilitator"]) await migrate(url, { ...PATIENT, schema });
  const [shared, own] = [newPayer(), newPayer()];
  const receiver = { network: NETWORK, asset: ASSET, payTo: shared };
  const receivers = [receiver];
  {
    await using first = await openLedger(url, { receivers });
    await using worker = await openLedger(url, { receivers });
    assert.equal(await worker.livingHolders(), 2, "many processes have one ledger");
    const spelled = { ...receiver, payTo: shared.toUpperCase().replace("0X", "0x") as typeof shared };
    const both = [{ ...receiver, payTo: own }, spelled];
    await assert.rejects(openLedger(url, { schema: "second", receivers: both }), {
      code: "CONFIG_INVALID",
      message: new RegExp(
        `the ledger ledger of this database, sells for ${shared} on ${NETWORK}\\. .*payTo of its own`,
      ),
    });
    await using _other = await openLedger(url, { schema: "second", receivers: [{ ...receiver, payTo: own }] });
    await using _facilitator = await openLedger(url, { schema: "ledger_facilitator" });
    assert.equal(await first.ready(), true);
  }
  await using moved = await openLedger(url, { schema: "second", receivers });
  assert.equal(await moved.livingHolders(), 1, "the first one has ended, and the refused one left nothing");
});

test("attack: of two ledgers that begin to sell for one receiver at once, at most one does", async () => {
  const url = await server().database();
  await migrate(url, { ...PATIENT, schema: "second" });
  for (let round = 0; round < 8; round++) {
    const receivers = [{ network: NETWORK, asset: ASSET, payTo: newPayer() }];
    const opened = await Promise.allSettled([
      openLedger(url, { receivers }),
      openLedger(url, { schema: "second", receivers }),
    ]);
    const sellers = opened.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    assert.ok(sellers.length <= 1, `round ${round}`);
    for (const seller of sellers) await seller[Symbol.asyncDispose]();
  }
});

test("attack: a process that was late claims nothing while another ledger has begun to sell for its receiver", async () => {
  const url = await server().database();
  await migrate(url, { ...PATIENT, schema: "second" });
  const receivers = [{ network: NETWORK, asset: ASSET, payTo: newPayer() }];
  await using late = await openLedger(url, { receivers });
  await claimed(late);
  // As after a pause of the whole process: it counts as dead, and the other one starts.
  await sql(url, "update holders set expires_at = clock_timestamp() - interval '1 second'");
  {
    await using other = await openLedger(url, { schema: "second", receivers });
    for (let times = 0; times < 2; times++) {
      await assert.rejects(late.claim(newClaim()), { code: "LEDGER_UNAVAILABLE" });
    }
    assert.equal(await late.ready(), false);
    assert.ok((await late.leaseRelayer(NETWORK, newPayer(), 0)) !== undefined, "what it has signed is still settled");
    await claimed(other);
    await using worker = await openLedger(url, { schema: "second", receivers });
    await claimed(worker);
  }
  await late.renewLeases();
  await claimed(late);
  assert.equal(await late.ready(), true);
});

test("of the processes of a ledger one looks for foreign payments at a time, and the next goes on where the last one ended", async () => {
  const url = await server().database();
  await using first = await openLedger(url);
  await using second = await openLedger(url);
  const begun = await Promise.all([first, second, first, second].map((ledger) => ledger.beginLook(NETWORK, 600_000)));
  assert.deepEqual(
    begun.filter((look) => look !== undefined),
    [{ lookedTo: undefined }],
  );
  await first.endLook(NETWORK, 12n);
  await second.endLook(NETWORK, 7n);
  assert.equal(await second.beginLook(NETWORK, 600_000), undefined, "not due");
  await sql(url, "update looks set due_at = clock_timestamp() - interval '1 second'");
  assert.deepEqual(await second.beginLook(NETWORK, 0), { lookedTo: 12n });
});
