import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  ASSET,
  NETWORK,
  newPayer,
  openLedger,
  PATIENT,
  startTestServer,
  type TestServer,
} from "../../test/ledger-fixtures.ts";
import { migrate } from "./migrate.ts";

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server?.[Symbol.asyncDispose]());

test("attack: a second ledger of the database that sells for one receiver is refused; other ones are not", async () => {
  const url = await server.database();
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
