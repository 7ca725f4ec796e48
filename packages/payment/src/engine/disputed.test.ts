import assert from "node:assert/strict";
import { test } from "node:test";
import { devRpc } from "@turnpike/localnet";
import {
  ANSWER,
  claim,
  NETWORK,
  openOwnBed,
  PAY_TO,
  PRICE,
  stateOf,
  timeLimit,
  untilState,
} from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import { createEngine } from "./engine.ts";

const server = testServer();

test("a disputed payment that the chain shows after all is settled again, and one that it does not stays disputed", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const options = bed.options([await bed.relayerKey()]);
  const validBefore = BigInt((await bed.chainTime()) + 600);
  const paid = await claim(ledger, await bed.payer(PRICE), { validBefore });
  const unpaid = await claim(ledger, await bed.payer(PRICE), { validBefore });
  {
    await using engine = await createEngine(options, bed.modules(ledger));
    await engine.settle(paid, ANSWER, timeLimit());
  }
  const { evidence } = await stateOf(ledger, paid);
  assert.ok(evidence !== undefined);
  // As when a re-organisation took the settlement, and the next one brought it back after it was given up.
  await ledger.reorganised(paid.id);
  await ledger.disputed(paid.id, "PAYMENT_EXPIRED");
  await ledger.journalSubmission(unpaid.id, ANSWER);
  await ledger.disputed(unpaid.id, "PAYMENT_EXPIRED");
  await using engine = await createEngine(options, bed.modules(ledger));
  assert.deepEqual(engine.missing(), []);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x6", "0x12c"]);
  const end = await untilState(ledger, paid, "settled");
  assert.deepEqual(end.evidence, evidence);
  assert.equal(await bed.balance(PAY_TO), PRICE);
  assert.equal((await stateOf(ledger, unpaid)).state, "disputed");
  const left = await ledger.unswept(NETWORK, Number(validBefore), 10);
  assert.deepEqual(
    left.filter(({ id }) => id === paid.id),
    [],
    "it is not looked at for ever",
  );
});
